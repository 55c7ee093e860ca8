#!/usr/bin/env python3
"""How many mappings of layers can be proved to be the best, how long that takes, and how tight bounds are before it.

    python benchmarks/proofs.py [--design NAME] [--every N] [--seconds S] [-o FILE]
    python benchmarks/proofs.py --mutations N [--seed S] [-o FILE]   certificates with one number changed

The layers are the 49 distinct ones of five networks on all six designs. Seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from imperfect_factors import shapes
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import SearchOptions, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.lower_bound.proof import prove
from fadiff_mapper.search.mapping_task import mapping_task

CERTIFIED = (("gemmini_small", "resnet18/fc_512_1000"), ("simba_like", "resnet18/fc_512_1000"),
             ("output_stationary", "resnet18/fc_512_1000"), ("weight_stationary", "mobilenet_v1/dw3x3_512_7_s2"))
"""Designs and layers whose certificates are changed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--design", choices=sorted(designs()), help="one design only")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th layer only")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="processor time of a proof at most")
    parser.add_argument("--mutations", type=int, default=0, metavar="N", help="change certificates instead")
    parser.add_argument("--seed", type=int, default=0)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        if options.mutations:
            mutations(options.mutations, options.seed, write)
        else:
            proofs([name for name in designs() if options.design in (None, name)], options.every, options.seconds,
                   write)


def proofs(names: list[str], every: int, seconds: float, write: Write) -> None:
    """Writes a row per design: bounds, proofs and their time; then every layer that is not proved."""
    write(heading("design", "layers", "median gap before", "worst before", "median gap by default", "worst by default",
                  "proved", "within 1 %", "worst gap", "median s", "worst s", "better mappings"))
    left = []
    for design in names:
        layers = shapes(design)[::every]
        found = map_layers([layer.spec for layer in layers])
        before, default, gaps, times, better = [], [], [], [], 0
        for layer, result in zip(layers, found, strict=True):
            task = mapping_task(layer.spec)
            tiles = lower_bound(task.layer, task.space)
            before.append(result.value / tiles.edp - 1 if tiles else float("nan"))
            default.append(result.gap if result.gap is not None else float("nan"))
            start = time.process_time()
            proof = prove(task.layer, task.space, "edp", pack([result.mapping], layer.spec.problem),
                          over=lambda start=start: time.process_time() - start > seconds)
            times.append(time.process_time() - start)
            gaps.append(proof.gap)
            better += proof.value < result.value * (1 - 1e-9)
            if proof.gap:
                left.append(f"- {design}, {layer.name}: at most {proof.gap:.2%} above the best possible after "
                            f"{times[-1]:.1f} s; by default {default[-1]:.2%}")
        write(row(design, len(layers), f"{median(before):.4f}", f"{max(before):.4f}", f"{median(default):.4f}",
                  f"{max(default):.4f}", sum(gap == 0 for gap in gaps), sum(gap <= 0.01 for gap in gaps),
                  f"{max(gaps):.4f}", f"{median(times):.3f}", f"{max(times):.2f}", better))
    write("\n" + "\n".join(left or ["All are proved."]))


def numbers(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every number in a certificate."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from numbers(value, (*path, key))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield path


def mutated(content: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """A certificate with one number changed, by one or by a millionth to a half of it, and the place of it."""
    changed, place = copy.deepcopy(content), rng.choice(list(numbers(content)))
    holder = changed
    for key in place[:-1]:
        holder = holder[key]
    number = holder[place[-1]]
    holder[place[-1]] = (number + rng.choice((-1, 1)) if isinstance(number, int)
                         else number * (1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-6, -0.3)) or 1e-6)
    return changed, place


def accepted_changes(content: dict[str, Any], count: int, rng: random.Random,
                     check: Callable[[dict[str, Any]], object], rejected: type[Exception]) -> list[tuple[Any, ...]]:
    """The places of changed numbers with which a check accepts a certificate, of `count` changes by one number each."""
    found = []
    for _ in range(count):
        changed, place = mutated(content, rng)
        try:
            check(changed)
            found.append(place)
        except rejected:
            pass
    return found


def mutations(count: int, seed: int, write: Write) -> None:
    """Writes how many changed certificates are rejected, and the places of those that are not."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from validation.check_certificate import Rejected, check
    rng, accepted, tried = random.Random(seed), [], 0
    write(heading("design", "layer", "numbers", "changed", "rejected"))
    for share, (design, layer) in enumerate(CERTIFIED):
        spec = load(find(f"arch/{design}"), find(f"layers/{layer}"))
        content = json.loads(json.dumps(map_layer(spec, SearchOptions(prove=True)).certificate()))
        check(content, spec)
        own = count // len(CERTIFIED) + (share < count % len(CERTIFIED))
        places = accepted_changes(content, own, rng, partial(check, spec=spec), Rejected)
        accepted += [f"- {design}, {layer}: {place}" for place in places]
        tried += own
        write(row(design, layer, len(list(numbers(content))), own, own - len(places)))
    write("\n" + "\n".join(accepted or [f"All {tried} are rejected."]))


if __name__ == "__main__":
    main()
