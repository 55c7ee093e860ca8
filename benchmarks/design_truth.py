#!/usr/bin/env python3
"""How close the methods come to the true best design of spaces that are enumerated exactly.

    python benchmarks/design_truth.py [--records FILE] [--seeds N] [--share PERCENT] [--method NAME ...]
                                      [--case NAME ...] [--store FOLDER] [--seconds S] [-o FILE]

Cases are a space of up to 2,000 designs with a network, whose layers run one by one. Every method maps as many designs
as the share of the space allows at most; then all other designs are gone through: each is mapped, or left out because
its lower bound proves that it is no better than one that was mapped. So the best of all is the true best. A row has the
distance to it: the median of all seeds, the worst, and how many end within 1 %. With a store later runs take what
earlier ones mapped and bounded.

Each run that ends leaves a line in the records, and is not made again; `--seconds` begins no further run after so many.
The table is that of all records.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from design_methods import PJ_PER_UJ, dosa_network
from design_records import Record, Step, add_record, read_records, recorded
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, Workload, load_network, read_space
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.gradient import descent_for_designs

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

EVERY = "every design"
"""The run that goes through all designs, after all others."""

CASES = {"bert": "dosa_gemmini", "resnet18": "gemmini_large", "mobilenet_v1": "eyeriss_like"}
"""Networks, DOSA's or bundled ones, with the space that each is enumerated on."""


def main() -> None:
    """Makes the runs that are missing in the records, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=Path("design_truth.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--share", type=float, default=3.0, help="designs mapped at most, in percent of the space")
    parser.add_argument("--method", nargs="+", default=["gradient", "random", "tpe", "nsga2"])
    parser.add_argument("--case", nargs="+", default=["bert", "resnet18"], choices=CASES)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further run after so many; 0: table")
    add_output(parser)
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for case in options.case:
            question = question_of(case, Path(folder))
            for method, seed in [*((method, seed) for seed in range(options.seeds) for method in options.method),
                                 (EVERY, 0)]:
                done = [each for each in read_records(options.records) if each.network == case]
                if time.monotonic() - start < options.seconds and not any(
                        (each.method, each.seed) == (method, seed) for each in done):
                    run(replace(question, seed=seed), method, options, options.store or Path(folder) / "store",
                        case, done)
        with markdown(options.output) as write:
            write(heading("network", "designs", "method", "designs mapped", "CPU s", "above the best: median", "worst",
                          "within 1 %"))
            for case in options.case:
                write_rows(question_of(case, Path(folder)).space.size, case,
                           [each for each in read_records(options.records) if each.network == case], write)


def question_of(case: str, folder: Path) -> DesignQuestion:
    """The question of a case."""
    space = space_of(CASES[case], folder)
    return DesignQuestion(space, (network_of(case),), (1.0,), fuse=False, energy=space.energy or "estimate")


def run(question: DesignQuestion, method: str, options: argparse.Namespace, store: Path, case: str,
        done: list[Record]) -> None:
    """Makes a run and records it."""
    start = time.process_time()
    if method == EVERY:
        mapped, best = enumerated(question, min(each.steps[-1].edp for each in done) * PJ_PER_UJ, store)
    else:
        machine = search_design(question, DesignOptions(
            method, int(question.space.size * options.share / 100), neighbours=False, jobs=options.jobs, store=store),
                                descent=descent_for_designs(method))
        mapped, best = machine.evaluations, machine.best.edp
    add_record(options.records, recorded(case, method, question.seed, [
        Step(mapped, time.process_time() - start, best / PJ_PER_UJ)]))


def enumerated(question: DesignQuestion, best: float, store: Path) -> tuple[int, float]:
    """Goes through all designs: how many more had to be mapped, and the true best EDP in pJ x cycles."""
    mapped, bench = 0, DesignBench(question, store)
    for point in all_points(question.space):
        outcome = evaluate_design(bench, point, [(best,)])
        mapped += outcome.mapped
        best = min(best, outcome.edp) if outcome.feasible else best
    return mapped, best


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


def write_rows(size: int, case: str, done: list[Record], write: Write) -> None:
    """Writes the rows of one case, one for each method that was run and one for the enumeration where it ended."""
    best = min((each.steps[-1].edp for each in done), default=math.inf)
    for method in dict.fromkeys(each.method for each in done):
        ends = [each.steps[-1] for each in done if each.method == method]
        above = [end.edp / best - 1 for end in ends]
        mapped, seconds = [end.designs for end in ends], [end.cpu_s for end in ends]
        cells = ["", "", f"{best * PJ_PER_UJ:.6g}"] if method == EVERY else [
            f"{statistics.median(above):.2%}", f"{max(above):.2%}",
            f"{sum(value <= 0.01 for value in above)} of {len(above)}"]
        write(row(case, size, method, f"{min(mapped)} to {max(mapped)} ({max(mapped) / size:.1%})",
                  f"{statistics.median(seconds):.0f}", *cells))


if __name__ == "__main__":
    main()
