#!/usr/bin/env python3
"""How close the methods come to the true best design of spaces that are enumerated exactly.

    python benchmarks/design_truth.py [--seeds N] [--first N] [--share PERCENT] [--method NAME ...] [--case NAME ...]
                                      [--store FOLDER] [-o FILE]

Cases are a space of up to 2,000 designs with a network, whose layers run one by one. Every method maps as many designs
as the share of the space allows; then all other designs are gone through: each is mapped, or left out because its lower
bound proves that it is no better than one that was mapped. So the best of all is the true best. A row has the distance
to it: the median of all seeds, the worst, and how many end within 1 %. With a store a second run takes what the first
one mapped; `--first` goes on with further seeds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from design_methods import dosa_network
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, Workload, load_network, read_space
from fadiff_mapper.design.design_options import DesignOptions
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.proposers.random_designs import all_points
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.results.designed_machine import DesignedMachine

SPACES = {
    "gemmini_large": """
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, powers_of_two: [8, 64]}
    rows: {path: PERows.spatial.meshY, powers_of_two: [8, 64]}
    depth: {path: Scratchpad.attributes.depth, range: [1024, 32768], step: 1024}
    bandwidth: {path: DRAM.attributes.shared_bandwidth, values: [4, 8, 16]}
  limits: {columns * rows: 1024}
""",
    "eyeriss_like": """
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, values: [7, 8, 12, 14, 16]}
    rows: {path: PERows.spatial.meshY, values: [6, 8, 12, 16]}
    depth: {path: GlobalBuffer.attributes.depth, range: [2048, 16384], step: 2048}
    bandwidth: {path: DRAM.attributes.shared_bandwidth, values: [4, 8, 16]}
  limits: {columns * rows: 168}
""",
}
"""Spaces over bundled designs, in which some designs break a limit."""

MEMORIES = (8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)
COARSE = {"side": range(8, 129, 8), "accumulator_kb": MEMORIES, "scratchpad_kb": MEMORIES}
"""DOSA's space, with its energies, on a coarser grid."""

CASES = {"bert": "dosa_gemmini", "resnet18": "gemmini_large", "mobilenet_v1": "eyeriss_like"}
"""Networks, DOSA's or bundled ones, with the space that each is enumerated on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--share", type=float, default=3.0, help="designs mapped, in percent of the space")
    parser.add_argument("--method", nargs="+", default=["gradient", "random", "tpe", "nsga2"])
    parser.add_argument("--case", nargs="+", default=["bert", "resnet18"], choices=CASES)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        write(heading("space", "designs", "network", "method", "mapped", "above the best: median", "worst",
                      "within 1 %"))
        for case in options.case:
            measure(space_of(CASES[case], Path(folder)), network_of(case), options,
                    options.store or Path(folder) / "store", write)


def space_of(name: str, folder: Path) -> DesignSpace:
    """DOSA's space on the coarser grid, or one of `SPACES` by name."""
    if name == "dosa_gemmini":
        space = read_space("bundled:spaces/dosa_gemmini")
        return replace(space, parameters=tuple(replace(each, values=COARSE[each.name]) for each in space.parameters))
    file = folder / f"{name}.yaml"
    file.write_text(SPACES[name], encoding="utf-8")
    return read_space(f"bundled:arch/{name}", file)


def network_of(case: str) -> Workload:
    """One of DOSA's networks, or a bundled one."""
    return dosa_network(case) if case == "bert" else load_network(f"bundled:networks/{case}")


def measure(space: DesignSpace, network: Workload, options: argparse.Namespace, store: Path, write: Write) -> None:
    """Writes the rows of one network on one space."""
    question = DesignQuestion(space, (network,), (1.0,), fuse=False, energy=space.energy or "estimate")
    few = int(space.size * options.share / 100)
    machines = {method: [search_design(replace(question, seed=seed), DesignOptions(
        method, few, neighbours=False, jobs=options.jobs, store=store))
        for seed in range(options.first, options.first + options.seeds)] for method in options.method}
    best = min(machine.best.edp for runs in machines.values() for machine in runs)
    mapped = 0
    bench = DesignBench(question, store)
    for point in all_points(space):
        outcome = evaluate_design(bench, point, [(best,)])
        mapped += outcome.mapped
        best = min(best, outcome.edp) if outcome.feasible else best
    write(row(space.name, space.size, network.name, "every design", f"{mapped} more", "", "", f"{best:.6g}"))
    for method, runs in machines.items():
        write(machine_row(space, network, method, runs, best))


def machine_row(space: DesignSpace, network: Workload, method: str, runs: Sequence[DesignedMachine],
                best: float) -> str:
    """The row of one method."""
    above = [machine.best.edp / best - 1 for machine in runs]
    mapped = statistics.median(machine.evaluations for machine in runs)
    return row(space.name, space.size, network.name, method, f"{mapped:g}", f"{statistics.median(above):.2%}",
               f"{max(above):.2%}", f"{sum(value <= 0.01 for value in above)} of {len(above)}")


if __name__ == "__main__":
    main()
