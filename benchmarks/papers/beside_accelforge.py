"""Fusion beside AccelForge: chains, attention and blocks on the same design, with and without fusion.

AccelForge needs Python 3.12 and libraries of its own, so that it runs in a virtual environment beside this one, which
`python -m benchmarks.papers.install_accelforge FOLDER` makes. `ACCELFORGE_PYTHON` names that environment's Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
import yaml

from fadiff_mapper import map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.prepared_layer import prepare_layer, word_energy
from fadiff_mapper.network.options import NetworkOptions

from .install_accelforge import VARIABLE, VERSION
from .networks import DESIGNS, network_question
from .part import Cell, Job, Key, Part, Record, Shown, Table
from .partial_network import chain

FOLDER = Path(__file__).parent

MODES = ("unfused", "fused")

TIMEOUT = 180
"""Seconds after which AccelForge is ended. A plain limit."""

OURS, THEIRS = "ours", f"AccelForge {VERSION}"

TEXT = (
    f"AccelForge {VERSION} (from PyPI, fusion-aware mapper, one thread, objective EDP) and our plan of the same layers "
    "on the same Gemmini: array and what may lie on it, capacities in words, energies of a word and bandwidths are "
    "taken from our reading of the design, 1 ns a cycle. Without fusion every intermediate goes through DRAM.",
    "Not comparable: AccelForge counts energy and time per bit where Timeloop counts whole vector accesses, keeps "
    "outputs as 8-bit values, charges no leakage and no interconnect, and is not held to our design's loop orders. So "
    "savings compare, EDPs only roughly. Softmax and activations are left out on both sides.")


def workloads() -> dict[str, dict[str, Any]]:
    """The comparisons by name: their kind, our layers, and the workload for AccelForge."""
    content: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "accelforge_workloads.yaml").read_text("utf-8"))
    return content


def jobs(quick: bool) -> list[Job]:
    """Both mappers on every workload, in the quick run on one design; AccelForge where `ACCELFORGE_PYTHON` names it."""
    found = []
    for design in DESIGNS[:1] if quick else DESIGNS:
        for name in workloads():
            for mode in MODES:
                found.append(Job((name, design, OURS, mode), ours, (name, design, mode)))
                if os.environ.get(VARIABLE):
                    found.append(Job((name, design, THEIRS, mode), theirs, (name, design, mode)))
    return found


def ours(name: str, design: str, mode: str) -> Record:
    """Our plan of a workload."""
    start = time.process_time()
    result = map_network(chain(workloads()[name]["layers"]), bundled_files.find(f"arch/{design}"),
                         NetworkOptions(fuse=mode == "fused", threads=1))
    return {"edp": result.stats.edp, "cpu_s": time.process_time() - start, "computes": result.workload.macs}


def theirs(name: str, design: str, mode: str) -> Record:
    """AccelForge's mapping of a workload; with an error in place of numbers where it gives none."""
    with TemporaryDirectory() as place:
        source, target = Path(place, "input.yaml"), Path(place, "output.json")
        source.write_text(accelforge_input(name, design, mode == "fused"), encoding="utf-8")
        # -P: this folder, where the script lies, is not on the path.
        command = [os.environ[VARIABLE], "-P", str(FOLDER / "accelforge_run.py"), str(source), str(target)]
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=TIMEOUT, check=False,
                                  env={**os.environ, "PYTHONPATH": ""})
        except subprocess.TimeoutExpired:
            return {"error": f"no answer within {TIMEOUT} s"}
        if not target.exists():
            return {"error": (done.stderr.strip().splitlines() or ["no answer"])[-1]}
        record: Record = json.loads(target.read_text(encoding="utf-8"))
        return record


def accelforge_input(name: str, design: str, fused: bool) -> str:
    """A design and a workload in AccelForge's format."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER), trim_blocks=True,
                                     undefined=jinja2.StrictUndefined)
    spec = network_question("gpt3_6b7_block", design).specs[0]     # of any network: the machine alone counts
    text = environment.get_template("accelforge_design.yaml.jinja").render(
        fused=fused, windows=bool(workloads()[name].get("windows")), **machine_of(spec))
    return f"{text}\n{yaml.safe_dump({'workload': workloads()[name]['workload']}, sort_keys=False)}"


def machine_of(spec: Spec) -> dict[str, Any]:
    """The Gemmini's numbers: pJ of a word read and written, words of a level, words a cycle, columns and rows."""
    machine, names = prepare_layer(spec.arch, spec.problem, spec.tables).machine, [lev.name for lev in spec.arch.levels]
    energy = word_energy(machine)

    def level(name: str) -> dict[str, float | None]:
        index = names.index(name)
        return {"read": float(energy.read[index, 0]), "fill": float(energy.fill[index, 0]),
                "size": spec.arch.levels[index].size, "bandwidth": float(machine.shared_bandwidth[index, 0])}

    return {"dram": level("DRAM"), "scratchpad": level("Scratchpad"), "accumulator": level("Accumulator"),
            "register": level("WeightRegister"), "compute": float(machine.compute_energy),
            "columns": spec.arch.fanout(names.index("inter_PEColumns_spatial"))[0],
            "rows": spec.arch.fanout(names.index("inter_PERows_spatial"))[1]}


def shown(records: Mapping[Key, Record]) -> Shown:
    """Savings, EDPs and processor time of both."""
    kinds = {name: str(entry["kind"]) for name, entry in workloads().items()}
    rows: list[tuple[Cell, ...]] = []
    for name, design in dict.fromkeys(key[:2] for key in records):
        for who in (OURS, THEIRS):
            without, fused = (records.get((name, design, who, mode), {}) for mode in MODES)
            if not (without or fused):
                continue
            edps = [record.get("edp", record.get("error")) for record in (without, fused)]
            saved = 1 - edps[1] / edps[0] if all(isinstance(edp, float) for edp in edps) else None
            rows.append((kinds[name], design, who, *edps, saved, without.get("cpu_s"), fused.get("cpu_s")))
    return Shown(TEXT, (Table("accelforge", "Fusion beside AccelForge", (
        "layers", "design", "mapper", "EDP unfused, pJ x cycles", "EDP fused", "saved", "CPU s unfused", "CPU s fused"),
        tuple(rows), formats=("", "", "", ".4e", ".4e", ".1%", ".1f", ".1f")),))


PART = Part("accelforge", "Fusion beside AccelForge", jobs, shown)
