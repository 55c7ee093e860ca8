#!/usr/bin/env python3
"""How far the seeds of the layer search agree.

    python benchmarks/layer_seeds.py [--first-seed S] [--seeds K] [--known FILE.json] [--design NAME] [-o FILE]

The layers are the 49 distinct ones of five networks on all six designs. Every seed maps the 49 in one batch, and each
run is compared with the best mapping that any run has found for its layer, those of `--known` among them. `proofs.py`
tells which mappings are optimal.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from imperfect_factors import shapes
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import map_layers
from fadiff_mapper.base.bundled_files import designs

MISSES = (0.002, 0.0002)
"""Shares above the best known EDP from which on a run counts as a miss, the larger one first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--design", choices=sorted(designs()), help="one design only")
    parser.add_argument("--known", type=Path, metavar="FILE.json",
                        help="best known EDPs of large problems, read where there are any, written with better ones")
    add_output(parser)
    options = parser.parse_args()
    names = [name for name in designs() if options.design in (None, name)]
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with markdown(options.output) as write:
        spread(names, seeds, options.known, write)


@dataclass(frozen=True)
class Batch:
    """All large problems of one design, mapped with one seed.

    Attributes:
        design: The bundled design.
        seed: The seed.
        values: EDP of each layer.
        evaluations: Mappings evaluated for all layers together.
        cpu_s: Seconds of processor time, with the lower bounds, without reading the files.
        time_s: The same by the clock.
    """

    design: str
    seed: int
    values: dict[str, float]
    evaluations: int
    cpu_s: float
    time_s: float

    def above(self, known: dict[str, float]) -> dict[str, float]:
        """Share by which each layer's EDP is above the best known."""
        return {layer: value / known[key(self.design, layer)] - 1 for layer, value in self.values.items()}


def key(design: str, layer: str) -> str:
    """The name of a large problem in a file of best known EDPs."""
    return f"{design}/{layer}"


def spread(names: list[str], seeds: Sequence[int], file: Path | None, write: Write) -> None:
    """Writes a row per design: how many of its runs end at the best known mappings; then every run that misses."""
    batches = [batch(design, seed) for design in names for seed in seeds]
    known = with_better(json.loads(file.read_text(encoding="utf-8")) if file and file.exists() else {}, batches)
    if file:
        file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write(heading("design", "runs", *(f"within {miss:.2%}" for miss in MISSES), "worst / best known",
                  "evaluations of a batch", "s of CPU of a batch", "s by the clock"))
    for design in names:
        own = [one for one in batches if one.design == design]
        write(summary(design, own, known, f"{sum(one.evaluations for one in own) / len(own):,.0f}",
                      f"{sum(one.cpu_s for one in own) / len(own):.2f}",
                      f"{sum(one.time_s for one in own) / len(own):.2f}"))
    write(summary("all", batches, known, "", "", ""))
    missed = [f"- {one.design}, {layer}, seed {one.seed}: {share:.2%} above the best known" for one in batches
              for layer, share in one.above(known).items() if share > MISSES[-1]]
    write("\n" + "\n".join(missed or [f"No run is over {MISSES[-1]:.2%} above the best known."]))


def batch(design: str, seed: int) -> Batch:
    """Maps all large problems of one design with one seed and default options."""
    layers = shapes(design)
    start, begun = time.process_time(), time.monotonic()
    results = map_layers([layer.spec for layer in layers], seed=seed)
    return Batch(design, seed, {layer.name: result.value for layer, result in zip(layers, results, strict=True)},
                 sum(result.evaluations for result in results), time.process_time() - start, time.monotonic() - begun)


def with_better(known: dict[str, float], batches: list[Batch]) -> dict[str, float]:
    """Best known EDPs, with those of the batches where these are better or none is known."""
    best = dict(known)
    for one in batches:
        for layer, value in one.values.items():
            best[key(one.design, layer)] = min(value, best.get(key(one.design, layer), value))
    return best


def summary(name: str, batches: list[Batch], known: dict[str, float], *costs: str) -> str:
    """A row: how many runs of some batches are near the best known, and how far the worst is."""
    shares = [share for one in batches for share in one.above(known).values()]
    near = [f"{sum(share <= miss for share in shares)}" for miss in MISSES]
    return row(name, len(shares), *near, f"{1 + max(shares):.5f}", *costs)


if __name__ == "__main__":
    main()
