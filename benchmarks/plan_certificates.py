#!/usr/bin/env python3
"""What the certificates of fused plans prove, how long they take, and whether changed ones are rejected.

    python benchmarks/plan_certificates.py [--mutations N] [--seed S] [NETWORK/DESIGN ...] [-o FILE]

With `--mutations`, one number of a certificate is changed at a time, N in all. Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from functools import partial
from itertools import pairwise
from pathlib import Path

from proofs import accepted_changes, numbers
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import NetworkResult, load_network, map_network
from fadiff_mapper.base.bundled_files import find

PLANS = ("resnet18/gemmini_large", "mobilenet_v1/gemmini_large", "gpt3_6b7_block/gemmini_large",
         "resnet18/gemmini_small", "mobilenet_v1/gemmini_small", "gpt3_6b7_block/gemmini_small")
"""Networks and designs whose plans are certified."""

CHANGED = ("gemmini_large", "weight_stationary", "simba_like")
"""Designs on which the certificates of plans of a network of three layers are changed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="*", default=PLANS, metavar="NETWORK/DESIGN", help=f"default: {' '.join(PLANS)}")
    parser.add_argument("--mutations", type=int, default=0, metavar="N", help="change certificates instead")
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser)
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parents[1]))
    with markdown(options.output) as write:
        if options.mutations:
            mutations(options.mutations, options.seed, write)
        else:
            certificates(options.plans, write)


def planned(network: str, design: str) -> NetworkResult:
    """The plan of a bundled network on a bundled design."""
    return map_network(load_network(f"bundled:{network}"), find(f"arch/{design}"))


def certificates(plans: list[str], write: Write) -> None:
    """Writes a row per plan."""
    from validation.check_plan import check
    write(heading("network", "design", "gap of the plan", "gap certified", "lines", "groups divided", "layers proved",
                  "MB", "s to plan", "s to certify", "s to check"))
    for plan in plans:
        network, design = plan.split("/")
        times = [time.process_time()]
        result = planned(f"networks/{network}", design)
        times.append(time.process_time())
        text = json.dumps(result.certificate())
        times.append(time.process_time())
        content = json.loads(text)
        check(content, result.workload, [layer.spec for layer in result.layers])
        times.append(time.process_time())
        assert result.gap is not None
        write(row(network, design, f"{result.gap:.2%}", f"{content['value'] / content['bound'] - 1:.2%}",
                  len(content["lines"]), len(content["groups"]), sum(len(line["layers"]) for line in content["lines"]),
                  f"{len(text) / 1e6:.1f}", *(f"{after - before:.1f}" for before, after in pairwise(times))))


def mutations(count: int, seed: int, write: Write) -> None:
    """Writes how many changed certificates are rejected, and the places of those that are not."""
    from validation.check_certificate import Rejected
    from validation.check_plan import check
    rng, accepted = random.Random(seed), []
    write(heading("design", "numbers", "changed", "rejected"))
    for share, design in enumerate(CHANGED):
        result = planned("quickstart/network", design)
        content, specs = json.loads(json.dumps(result.certificate())), [layer.spec for layer in result.layers]
        check(content, result.workload, specs)
        own = count // len(CHANGED) + (share < count % len(CHANGED))
        places = accepted_changes(content, own, rng, partial(check, workload=result.workload, specs=specs), Rejected)
        accepted += [f"- {design}: {place}" for place in places]
        write(row(design, len(list(numbers(content))), own, own - len(places)))
    write("\n" + "\n".join(accepted or [f"All {count} are rejected."]))


if __name__ == "__main__":
    main()
