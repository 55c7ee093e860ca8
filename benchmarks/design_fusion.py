#!/usr/bin/env python3
"""Fusion in the search of designs against designing for layers and fusing afterwards, under a limit of area.

    python benchmarks/design_fusion.py [--network NAME ...] [--evaluations N] [--seeds N ...] [--jobs N] [-o FILE]

Designs around `gemmini_large` (side, scratchpad, accumulator; DRAM's bandwidth as in the file). Both searches map
equally many designs by the same method: the first one with every layer by itself, whose best design then runs the
network with fused groups; the second one with the fused network. A row has the EDP of the network on both designs
(pJ x cycles), the part that the second one gains, and what both designs are made of: side / scratchpad KB /
accumulator KB, with the fused groups of the plan. Every EDP is that of the planned network, whose additions between
layers are charged alike.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, load_network, read_space
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.gradient.hardware_descent import descended_designs

SPACE = """
design_space:
  version: 0.1
  parameters:
    side: {path: PEColumns.spatial.meshX, powers_of_two: [8, 64]}
    scratchpad_kb: {values: [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024]}
    accumulator_kb: {values: [8, 16, 32, 64, 128, 256]}
  ties:
    PERows.spatial.meshY: side
    Scratchpad.attributes.width: 8 * side
    Scratchpad.attributes.depth: scratchpad_kb * 1024 // side
    Scratchpad.attributes.shared_bandwidth: 2 * side
    Accumulator.attributes.depth: accumulator_kb * 1024 * 8 // 32 // side
"""

AREAS = {"mobilenet_v1": 2.0, "resnet18": 1.0}
"""Networks, and the mm2 that their designs have at most: room for an array of 32 x 32 and some memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=AREAS, default=list(AREAS))
    parser.add_argument("--evaluations", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "space.yaml"
        file.write_text(SPACE, encoding="utf-8")
        write(heading("network", "mm2 at most", "seed", "layers first, fused afterwards", "its design",
                      "fusion in the loop", "its design", "gain"))
        for name in options.network:
            space = read_space("bundled:arch/gemmini_large", file, limits={"area_mm2": AREAS[name]})
            for seed in options.seeds:
                measure(space, name, seed, options, Path(folder) / "store", write)


def measure(space: DesignSpace, name: str, seed: int, options: argparse.Namespace, store: Path, write: Write) -> None:
    """Writes the row of one network and one seed."""
    asked = DesignOptions(seed=seed, method="gradient", evaluations=options.evaluations, neighbours=False)
    fused = DesignQuestion(space, (load_network(f"bundled:networks/{name}"),), (1.0,), asked)
    workers = DesignWorkers(options.jobs, store=store)
    layers = search_design(replace(fused, options=replace(asked, fuse=False)), workers, descent=descended_designs).best
    afterwards = evaluate_design(DesignBench(fused, store), layers.point)
    inside = search_design(fused, workers, descent=descended_designs).best
    write(row(name, AREAS[name], seed, f"{afterwards.edp:.4g}", described(afterwards), f"{inside.edp:.4g}",
              described(inside), f"{1 - inside.edp / afterwards.edp:.1%}"))


def described(outcome: DesignOutcome) -> str:
    """The parameters of a design in the order of the space, and its fused groups."""
    values = " / ".join(str(value) for value in outcome.parameters.values())
    return f"{values}, {sum(each.fused_groups for each in outcome.networks)} groups"


if __name__ == "__main__":
    main()
