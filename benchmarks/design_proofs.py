#!/usr/bin/env python3
"""Proofs of the best design of a space: every other design is mapped, or its lower bound shows that it is no better.

    python benchmarks/design_proofs.py [CASE ...] [--jobs N] [-o FILE]
    python benchmarks/design_proofs.py --mutations N [--seed S] [-o FILE]   certificates with one number changed

Each case is a space with a network, searched by the default method and then proved with a gap of 0, in a folder of its
own. "gap" is what better plans on any design could still change, "of pruned designs" the same of plans on designs
that were pruned for their bounds. "CPU s" are of all processes. Then the certificate of the gap is written and checked.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from design_methods import dosa_network
from proofs import accepted_changes, numbers
from provenance import Write, add_output, heading, markdown, row

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


CHANGED = (False, True)
"""Whether layers are fused in the plans of the certificates that are changed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[*CASES, []])
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--mutations", type=int, default=0, metavar="N", help="change certificates instead")
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    with markdown(options.output) as write:
        if options.mutations:
            mutations(options.mutations, options.seed, write)
        else:
            proofs(options.cases or list(CASES), options.jobs, write)


def proofs(cases: list[str], jobs: int | None, write: Write) -> None:
    """Writes a row per case."""
    from validation.check_designs import check
    write(heading("space", "designs", "network", "fused", "mapped", "best EDP, pJ x cycles", "gap",
                  "of pruned designs", "CPU s", "s", "gap certified", "MB", "CPU s to certify", "CPU s to check"))
    for case in cases:
        words, space_of, network_of, fuse = CASES[case]
        space, network = space_of(), network_of()
        with tempfile.TemporaryDirectory() as folder:
            begun, start = spent(), time.monotonic()
            result = search_design(space, network, DesignOptions(fuse=fuse, gap=0.0),
                                   workers=DesignWorkers(jobs, store=folder))
            searched, seconds = spent(), time.monotonic() - start
        text = json.dumps(result.certificate())
        written, content = spent(), json.loads(text)
        check(content, space, [network], [1.0])
        write(row(words, f"{result.space_size:,}", network.name, "yes" if fuse else "no", f"{result.evaluations:,}",
                  f"{result.best.edp:.6g}",
                  *("unknown" if share is None else f"{share:.2%}" for share in (result.gap, result.pruned_gap)),
                  f"{searched - begun:.0f}", f"{seconds:.0f}", f"{content['value'] / content['bound'] - 1:.2%}",
                  f"{len(text) / 1e6:.1f}", f"{written - searched:.0f}", f"{spent() - written:.0f}"))


def mutations(count: int, seed: int, write: Write) -> None:
    """Writes how many changed certificates are rejected, and the places of those that are not."""
    from validation.check_certificate import Rejected
    from validation.check_designs import check
    network = load_network(Path(__file__).parent / "small_network.yaml")
    space = read_space("bundled:spaces/gemmini_small")
    space = replace(space, parameters=tuple(replace(each, values=each.values[:2]) for each in space.parameters))
    rng, accepted = random.Random(seed), list[str]()
    write(heading("fused", "numbers", "changed", "rejected"))
    for share, fuse in enumerate(CHANGED):
        result = search_design(space, network, DesignOptions(fuse=fuse, gap=0.0), workers=DesignWorkers(1))
        content = json.loads(json.dumps(result.certificate()))
        checked = partial(check, space=space, networks=[network], weights=[1.0])
        checked(content)
        own = count // len(CHANGED) + (share < count % len(CHANGED))
        places = accepted_changes(content, own, rng, checked, Rejected)
        accepted += [f"- fused: {fuse}: {place}" for place in places]
        write(row("yes" if fuse else "no", len(list(numbers(content))), own, own - len(places)))
    write("\n" + "\n".join(accepted or [f"All {count} are rejected."]))


def spent() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


if __name__ == "__main__":
    main()
