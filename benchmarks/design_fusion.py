#!/usr/bin/env python3
"""Fusion in the search of designs against designing for layers and fusing afterwards, under one limit of area.

    python benchmarks/design_fusion.py [--around DESIGN] [--network NAME ...] [--evaluations N] [--seeds N ...]
                                       [--area MM2] [--every-limit] [--jobs N] [--store FOLDER] [-o FILE]

Designs around `gemmini_large` or `gemmini_small` (side, scratchpad, accumulator; DRAM's bandwidth as in the file). Both
searches map equally many designs by the same method: the first one with every layer by itself, whose best design then
runs the network with fused groups; the second one with the fused network. A row has the EDP of the network on both
designs (pJ x cycles), the part that the second one gains, and what both designs are made of. Every EDP is that of the
planned network, whose additions between layers are charged alike: on the first design without a fused group and with
its best groups, on the second one with its best groups.

With `--every-limit` nothing is searched: all designs of the space are mapped, unfused and fused, and the two best ones
are compared under every limit of area at which a design comes in. A row says on how many designs fusing saves, how much
at most, and how much fusion in the loop gains at most under any limit.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, load_network, read_space
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.gradient.hardware_descent import descended_designs

SPACE = """
design_space:
  version: 0.1
  parameters:
    side: {path: PEColumns.spatial.meshX, powers_of_two: %s}
    scratchpad_kb: {values: %s}
    accumulator_kb: {values: %s}
  ties:
    PERows.spatial.meshY: side
    Scratchpad.attributes.width: 8 * side
    Scratchpad.attributes.depth: scratchpad_kb * 1024 // side
    Scratchpad.attributes.shared_bandwidth: 2 * side
    Accumulator.attributes.depth: accumulator_kb * 1024 * 8 // 32 // side
"""

RANGES = {"gemmini_large": ([8, 64], [32, 64, 96, 128, 192, 256, 384, 512, 768, 1024], [8, 16, 32, 64, 128, 256]),
          "gemmini_small": ([8, 32], [4, 6, 8, 12, 16, 24, 32, 48, 64], [2, 4, 6, 8, 12, 16, 24, 32])}
"""Sides, KB of scratchpad and KB of accumulator around each design."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--around", choices=[*RANGES], default="gemmini_large")
    parser.add_argument("--network", nargs="+", default=["mobilenet_v1", "gpt3_6b7_block", "resnet18"])
    parser.add_argument("--evaluations", type=int, default=12)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--area", type=float, default=2.0, help="mm2 at most")
    parser.add_argument("--every-limit", action="store_true")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "space.yaml"
        file.write_text(SPACE % RANGES[options.around], encoding="utf-8")
        limits = {} if options.every_limit else {"area_mm2": options.area}
        space = read_space(f"bundled:arch/{options.around}", file, limits=limits)
        store = options.store or Path(folder) / "store"
        if options.every_limit:
            write(heading("network", "designs", "fusing saves on", "most saved", "on", "limits of area",
                          "fusion in the loop gains under", "at most"))
            for name in options.network:
                compare_limits(space, name, options.jobs, store, write)
            return
        write(heading("network", "seed", "layers first: EDP unfused", "fused afterwards", "design",
                      "fusion in the loop: EDP", "design", "gain"))
        for name in options.network:
            for seed in options.seeds:
                measure(space, name, seed, options, store, write)


def measure(space: DesignSpace, name: str, seed: int, options: argparse.Namespace, store: Path, write: Write) -> None:
    """Writes the row of one network and one seed."""
    fused = DesignQuestion(space, (load_network(f"bundled:networks/{name}"),), (1.0,), seed=seed)
    effort = DesignOptions("gradient", options.evaluations, neighbours=False, jobs=options.jobs, store=store)
    layers = search_design(replace(fused, fuse=False), effort, descent=descended_designs).best
    afterwards = evaluate_design(DesignBench(fused, store), layers.point)
    inside = search_design(fused, effort, descent=descended_designs).best
    write(row(name, seed, f"{unfused_edp(afterwards):.4g}", f"{afterwards.edp:.4g}", described(afterwards),
              f"{inside.edp:.4g}", described(inside), f"{1 - inside.edp / afterwards.edp:.1%}"))


def compare_limits(space: DesignSpace, name: str, jobs: int | None, store: Path, write: Write) -> None:
    """Writes the row of one network on all designs of the space."""
    question = DesignQuestion(space, (load_network(f"bundled:networks/{name}"),), (1.0,))
    effort = DesignOptions("exhaustive", prune=False, neighbours=False, jobs=jobs, store=store)
    designs = [outcome for outcome in search_design(question, effort).outcomes if outcome.feasible]
    saved = {outcome.point: 1 - outcome.edp / unfused_edp(outcome) for outcome in designs}
    most = max(designs, key=lambda outcome: saved[outcome.point])
    limits = sorted({outcome.area_mm2 for outcome in designs})
    gains = []
    for limit in limits:
        within = [outcome for outcome in designs if outcome.area_mm2 <= limit]
        gains.append(1 - min(outcome.edp for outcome in within) / min(within, key=unfused_edp).edp)
    write(row(name, len(designs), sum(part > 0 for part in saved.values()), f"{saved[most.point]:.1%}",
              described(most), len(limits), sum(gain > 0 for gain in gains), f"{max(gains):.1%}"))


def unfused_edp(outcome: DesignOutcome) -> float:
    """The EDP of all networks on a design with every layer by itself, additions between layers included."""
    return sum(each.unfused_energy_pj for each in outcome.networks) * sum(
        each.unfused_cycles for each in outcome.networks)


def described(outcome: DesignOutcome) -> str:
    """The parameters of a design in the order of the space, its area and its fused groups."""
    values = " / ".join(str(value) for value in outcome.parameters.values())
    return f"{values}, {outcome.area_mm2:.2f} mm2, {sum(each.fused_groups for each in outcome.networks)} groups"


if __name__ == "__main__":
    main()
