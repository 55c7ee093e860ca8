"""Scripts that stand in for the `accelergy` command: real programs that behave as a broken or a slow one does."""

from __future__ import annotations

import sys
from pathlib import Path

FORMULA = '''
import json, zlib

def figure(kind, attributes, action="", arguments={}):
    """A number between 0 and 10 that any difference in what is asked changes."""
    given = [[(k, v) for k, v in dict(values).items() if v is not None] for values in (attributes, arguments)]
    return zlib.crc32(json.dumps([kind, given[0], action, sorted(given[1])]).encode()) / 2 ** 32 * 10
'''
"""Energies in pJ and areas in um^2 of primitive components; the real Accelergy can be given it as a plug-in."""

PLUG_IN = FORMULA + '''
from accelergy.plug_in_interface.interface import AccelergyPlugIn, AccuracyEstimation, Estimation

class Formula(AccelergyPlugIn):
    def __init__(self):
        super().__init__()

    def get_name(self):
        return "Formula"

    def primitive_action_supported(self, query):
        return AccuracyEstimation(90)

    primitive_area_supported = primitive_action_supported

    def estimate_energy(self, query):
        return Estimation(figure(query.class_name, query.class_attrs, query.action_name, query.action_args), "p")

    def estimate_area(self, query):
        return Estimation(figure(query.class_name, query.class_attrs), "u^2")
'''

GOOD_TABLES = """
import json, pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
asked = json.loads(pathlib.Path(sys.argv[1]).read_text())
root = asked["architecture"]["subtree"][0]
classes = {one["name"]: one for one in asked.get("compound_components", {}).get("classes", ())}
ert, art = [], []
for one in root["local"]:
    name = root["name"] + "." + one["name"]
    if one["class"] in classes:
        part = classes[one["class"]]["subcomponents"][0]
        called = [(action["name"], {}, inner["name"], inner["arguments"]) for action in classes[one["class"]]["actions"]
                  for step in action["subcomponents"] for inner in step["actions"]]
    else:
        part, seen = one, ("global_cycle_seconds", "action_latency_cycles")
        given = {key: one["attributes"][key] for key in seen if key in one["attributes"]}
        called = [(action, given, action, given) for action in one["required_actions"]]
    scales = one.get("area_scale", 1), one.get("energy_scale", 1)
    many = part["attributes"].get("n_instances", 1)
    ert.append({"name": name, "actions": [
        {"name": action, "arguments": listed,
         "energy": figure(part["class"], part["attributes"], verb, arguments) * scales[1]
         * (many if verb == "leak" else 1)}
        for action, listed, verb, arguments in called]})
    art.append({"name": name, "area": figure(part["class"], part["attributes"]) * scales[0] * many})
ert = [row for row in ert if row["actions"]]
def write(ert, art):
    (out / "ERT.yaml").write_text(json.dumps({"ERT": {"version": "0.4", "tables": ert}}))
    (out / "ART.yaml").write_text(json.dumps({"ART": {"version": "0.4", "tables": art}}))
"""
"""Reads the request and prepares the tables that answer it."""

CONSTANT = """
def figure(kind, attributes, action="", arguments={}):
    return 2.5 if action else 7.0
"""
"""Every action of every primitive component costs 2.5 pJ."""


def stand_in(folder: Path, script: str, figures: str = CONSTANT) -> str:
    """An executable `accelergy` in `folder` that runs `GOOD_TABLES` with `figures`, then `script`; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "accelergy"
    program.write_text(f"#!{sys.executable}\n{figures}\n{GOOD_TABLES}\n{script}\n")
    program.chmod(0o755)
    return str(program)
