#!/usr/bin/env python3
"""Proofs of the best design of a space: every other design is mapped, or its lower bound shows that it is no better.

    python benchmarks/design_proofs.py [CASE ...] [--jobs N] [-o FILE]

Each case is a space with a network, searched by the default method and then proved with a gap of 0, in a folder of its
own. "gap" is what better plans on any design could still change, "of pruned designs" the same of plans on designs
that were pruned for their bounds. "CPU s" are of all processes.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

from design_methods import dosa_network
from provenance import add_output, heading, markdown, row

from fadiff_mapper import (
    DesignOptions,
    DesignSpace,
    DesignWorkers,
    Workload,
    load_network,
    read_space,
    search_design,
)

MEMORIES = (8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024)
COARSE = {"side": range(8, 129, 8), "accumulator_kb": MEMORIES, "scratchpad_kb": MEMORIES}
"""DOSA's space on a grid of 1,936 designs."""


def dosa_space() -> DesignSpace:
    """DOSA's space, with its energies, on the coarser grid."""
    space = read_space("bundled:spaces/dosa_gemmini")
    return replace(space, parameters=tuple(replace(each, values=COARSE[each.name]) for each in space.parameters))


CASES: dict[str, tuple[str, Callable[[], DesignSpace], Callable[[], Workload], bool]] = {
    "dosa": ("DOSA's, coarser grid", dosa_space, lambda: dosa_network("bert"), False),
    "layers": ("`gemmini_large`", lambda: read_space("bundled:spaces/gemmini_large"),
               lambda: load_network("bundled:networks/resnet18"), False),
    "fused": ("`gemmini_large`", lambda: read_space("bundled:spaces/gemmini_large"),
              lambda: load_network("bundled:networks/mobilenet_v1"), True),
}
"""Name -> the space in words, the space, the network, and whether it is planned with fused layers."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[*CASES, []])
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("space", "designs", "network", "fused", "mapped", "best EDP, pJ x cycles", "gap",
                      "of pruned designs", "CPU s", "s"))
        for case in options.cases or CASES:
            words, space, network, fuse = CASES[case]
            with tempfile.TemporaryDirectory() as folder:
                begun, start = spent(), time.monotonic()
                result = search_design(space(), network(), DesignOptions(fuse=fuse, gap=0.0),
                                       workers=DesignWorkers(options.jobs, store=folder))
                write(row(words, f"{result.space_size:,}", result.mapped_networks[0].workload.name,
                          "yes" if fuse else "no", f"{result.evaluations:,}", f"{result.best.edp:.6g}",
                          *("unknown" if share is None else f"{share:.2%}" for share in (
                              result.gap, result.pruned_gap)),
                          f"{spent() - begun:.0f}", f"{time.monotonic() - start:.0f}"))


def spent() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


if __name__ == "__main__":
    main()
