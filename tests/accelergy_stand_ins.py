"""Scripts that stand in for the `accelergy` command: real programs that behave as a broken or a slow one does."""

from __future__ import annotations

import sys
from pathlib import Path

GOOD_TABLES = """
import json, pathlib, sys, yaml
out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
asked = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
def components(node, path):
    path = path + [node["name"]] if "name" in node else path
    for one in node.get("local", ()):
        yield ".".join(path + [one["name"]]), one["class"]
    for inner in node.get("subtree", ()):
        yield from components(inner, path)
def actions(kind):
    return ["compute"] if "mac" in kind else ["read", "write", "update", "leak"]
found = [(name, kind) for name, kind in components(asked["architecture"], []) if kind != "dummy_storage"]
ert = [{"name": n, "actions": [{"name": a, "energy": 2.5, "arguments": {}} for a in actions(k)]} for n, k in found]
art = [{"name": n, "area": 7.0} for n, _ in found]
def write(ert, art):
    (out / "ERT.yaml").write_text(json.dumps({"ERT": {"version": "0.4", "tables": ert}}))
    (out / "ART.yaml").write_text(json.dumps({"ART": {"version": "0.4", "tables": art}}))
"""
"""Reads the request and prepares the tables that answer it: every action of every component costs 2.5 pJ."""


def stand_in(folder: Path, script: str) -> str:
    """An executable `accelergy` in `folder` that runs `GOOD_TABLES`, then `script`; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "accelergy"
    program.write_text(f"#!{sys.executable}\n{GOOD_TABLES}\n{script}\n")
    program.chmod(0o755)
    return str(program)
