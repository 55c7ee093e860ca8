#!/usr/bin/env python3
"""Fusion in the search of designs against designing for layers and fusing afterwards, under one limit of area.

    python benchmarks/design_fusion.py [--network NAME ...] [--evaluations N] [--seeds N] [--area MM2] [--store FOLDER]
                                       [-o FILE]

Designs around `gemmini_large` (side, scratchpad, accumulator; DRAM's bandwidth as in the file). Both searches map
equally many designs by the same method: the first one with every layer by itself, whose best design then runs the
network with fused groups; the second one with the fused network. A row has the EDP of the network on both designs
(pJ x cycles), the part that the second one gains, and what both designs are made of. Every EDP is that of the planned
network, whose additions between layers are charged alike: on the first design without a fused group and with its best
groups, on the second one with its best groups.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, load_network, read_space
from fadiff_mapper.design.design_options import DesignOptions
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.results.designed_machine import DesignOutcome

SPACE = """
design_space:
  version: 0.1
  parameters:
    side: {path: PEColumns.spatial.meshX, powers_of_two: [8, 64]}
    scratchpad_kb: {values: [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024]}
    accumulator_kb: {powers_of_two: [8, 256]}
  ties:
    PERows.spatial.meshY: side
    Scratchpad.attributes.width: 8 * side
    Scratchpad.attributes.depth: scratchpad_kb * 1024 // side
    Scratchpad.attributes.shared_bandwidth: 2 * side
    Accumulator.attributes.depth: accumulator_kb * 1024 * 8 // 32 // side
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", default=["mobilenet_v1", "gpt3_6b7_block", "resnet18"])
    parser.add_argument("--evaluations", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--area", type=float, default=2.0, help="mm2 at most")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "space.yaml"
        file.write_text(SPACE, encoding="utf-8")
        space = read_space("bundled:arch/gemmini_large", file, limits={"area_mm2": options.area})
        write(heading("network", "seed", "layers first: EDP unfused", "fused afterwards", "design",
                      "fusion in the loop: EDP", "design", "gain"))
        for name in options.network:
            for seed in range(options.seeds):
                measure(space, name, seed, options, options.store or Path(folder) / "store", write)


def measure(space: DesignSpace, name: str, seed: int, options: argparse.Namespace, store: Path, write: Write) -> None:
    """Writes the row of one network and one seed."""
    fused = DesignQuestion(space, (load_network(f"bundled:networks/{name}"),), (1.0,), seed=seed)
    effort = DesignOptions("gradient", options.evaluations, neighbours=False, jobs=options.jobs, store=store)
    layers = search_design(replace(fused, fuse=False), effort).best
    afterwards = evaluate_design(DesignBench(fused, store), layers.point)
    inside = search_design(fused, effort).best
    unfused = sum(each.unfused_energy_pj for each in afterwards.networks) * sum(
        each.unfused_cycles for each in afterwards.networks)
    write(row(name, seed, f"{unfused:.4g}", f"{afterwards.edp:.4g}", described(afterwards), f"{inside.edp:.4g}",
              described(inside), f"{1 - inside.edp / afterwards.edp:.1%}"))


def described(outcome: DesignOutcome) -> str:
    """The parameters of a design in the order of the space, its area and its fused groups."""
    values = " / ".join(str(value) for value in outcome.parameters.values())
    return f"{values}, {outcome.area_mm2:.2f} mm2, {sum(each.fused_groups for each in outcome.networks)} groups"


if __name__ == "__main__":
    main()
