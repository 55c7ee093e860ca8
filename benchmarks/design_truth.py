#!/usr/bin/env python3
"""How close the methods come to the true best design of spaces that are enumerated exactly.

    python benchmarks/design_truth.py [--seeds N] [--share PERCENT] [--method NAME ...] [--network NAME ...]
                                      [--store FOLDER] [-o FILE]

Two spaces of up to 2,000 designs, each with every network by itself; layers one by one. The true best comes from an
exhaustive search, in which designs are left out only where their lower bound proves that they are no better. Every
method then maps as many designs as the share of the space allows. A row has the distance to the true best: the median
of all seeds, the worst, and how many end within 1 %. With a store a second run takes what the first one mapped.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, Workload, load_network, read_space
from fadiff_mapper.design.design_options import DesignOptions
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.results.designed_machine import DesignedMachine

SPACES = {
    "gemmini_large": """
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, powers_of_two: [8, 64]}
    rows: {path: PERows.spatial.meshY, powers_of_two: [8, 64]}
    depth: {path: Scratchpad.attributes.depth, range: [2048, 32768], step: 2048}
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--share", type=float, default=3.0, help="designs mapped, in percent of the space")
    parser.add_argument("--method", nargs="+", default=["gradient", "random", "tpe", "nsga2"])
    parser.add_argument("--network", nargs="+", default=["resnet18", "mobilenet_v1"])
    parser.add_argument("--space", nargs="+", default=list(SPACES))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        write(heading("space", "designs", "network", "method", "mapped", "above the best: median", "worst",
                      "within 1 %"))
        for name in options.space:
            file = Path(folder) / f"{name}.yaml"
            file.write_text(SPACES[name], encoding="utf-8")
            space = read_space(f"bundled:arch/{name}", file)
            for network in options.network:
                measure(space, load_network(f"bundled:networks/{network}"), options,
                        options.store or Path(folder) / "store", write)


def measure(space: DesignSpace, network: Workload, options: argparse.Namespace, store: Path, write: Write) -> None:
    """Writes the rows of one network on one space."""
    def searched(method: str, seed: int, evaluations: int | None) -> DesignedMachine:
        return search_design(DesignQuestion(space, (network,), (1.0,), fuse=False, seed=seed), DesignOptions(
            method, evaluations, neighbours=False, jobs=options.jobs, store=store))

    truth = searched("exhaustive", 0, None)
    write(row(space.name, space.size, network.name, "exhaustive", truth.evaluations, "0", "0", ""))
    few = int(space.size * options.share / 100)
    for method in options.method:
        machines = [searched(method, seed, few) for seed in range(options.seeds)]
        above = [machine.best.edp / truth.best.edp - 1 for machine in machines]
        mapped = statistics.median(machine.evaluations for machine in machines)
        write(row(space.name, space.size, network.name, method, f"{mapped:g}", f"{statistics.median(above):.2%}",
                  f"{max(above):.2%}", f"{sum(value <= 0.01 for value in above)} of {len(above)}"))


if __name__ == "__main__":
    main()
