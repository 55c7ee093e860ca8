#!/usr/bin/env python3
"""How often the search finds the true optimum of small problems, and how far its seeds agree on large ones.

    python benchmarks/true_optimum.py [--part optimum|spread] [--first-seed S] [--seeds K] [--design NAME] [-o FILE]
    python benchmarks/true_optimum.py --part spread --first-seed 701 --seeds 3 [--known FILE.json]

Small problems are enumerated, then searched with default options and several seeds. Large problems
are the 49 distinct layers of five networks on all six designs: every seed maps the 49 in one batch, and each run is
compared with the best mapping that any run has found for its layer, those of `--known` among them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from imperfect_factors import shapes
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import SearchOptions, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.search.result import Result

CONV, STRIDED = "resnet18/conv3x3_64_64_56_s1", "resnet18/conv3x3_128_256_14_s2"
POINTWISE, DEPTHWISE = "mobilenet_v1/conv1x1_512_512_14_s1", "mobilenet_v1/dw3x3_256_28_s1"
MATMUL = "gpt3_6b7_block/gemm_2048_4096_4096"

SMALL = (
    (CONV, {"M": 4, "C": 2, "P": 6, "R": 3}), (CONV, {"M": 4, "C": 4, "P": 4, "Q": 2}),
    (CONV, {"C": 8, "P": 8, "R": 3}),
    (STRIDED, {"M": 4, "C": 4, "P": 3, "R": 3}), (DEPTHWISE, {"G": 4, "P": 4, "Q": 2, "R": 3}),
    (POINTWISE, {"M": 8, "C": 8, "P": 4}), (MATMUL, {"M": 16, "C": 8, "N": 8}),
)
"""Layers and the bounds that they are shrunk to; the other dimensions become 1."""

MISSES = (0.002, 0.0002)
"""Shares above the best known EDP from which on a run counts as a miss, the larger one first."""

METRICS = ("edp", "energy", "delay")
"""Metrics for which small problems are enumerated."""

LARGEST = 2_000_000
"""Mappings above which a small problem is left out: a plain limit on the time of an enumeration."""

SAME = 1e-9
"""Relative difference below which two values are equal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["optimum", "spread"], help="one part only")
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
        if options.part != "spread":
            optimum(names, seeds, write)
        if options.part != "optimum":
            spread(names, seeds, options.known, write)


def shrunk(design: str, layer: str, bounds: dict[str, int]) -> Spec:
    """A bundled layer on a design with these bounds, and 1 for all other dimensions."""
    spec = load(find(f"arch/{design}"), find(f"layers/{layer}"))
    return replace(spec, problem=replace(spec.problem, bounds={name: bounds.get(name, 1)
                                                               for name in spec.problem.bounds}))


def optimum(names: list[str], seeds: Sequence[int], write: Write) -> None:
    """Writes a row per design, small problem and metric: how many seeds find the optimum of the whole map space."""
    from fadiff_mapper.search.exhaustive import count
    from fadiff_mapper.search.mapspace.build import build_mapspace
    write(heading("design", "layer", "bounds", "metric", "mappings", "found", "worst / optimum", "s for all",
                  "s for one search"))
    hits = total = cases = 0
    for design, (layer, bounds), metric in ((d, s, m) for d in names for s in SMALL for m in METRICS):
        spec = shrunk(design, layer, bounds)
        size = count(build_mapspace(spec.arch, spec.problem, spec.constraints))
        if size > LARGEST:
            continue
        best, whole_s = timed(spec, metric=metric, method="exhaustive")
        searched = [timed(spec, metric=metric, seed=seed) for seed in seeds]
        ratios = [result.value / best.value for result, _ in searched]
        optimal = sum(ratio <= 1 + SAME for ratio in ratios)
        hits, total, cases = hits + optimal, total + len(seeds), cases + 1
        shape = " ".join(f"{name}{bound}" for name, bound in bounds.items())
        write(row(design, layer, shape, metric, f"{size:,}", f"{optimal} of {len(seeds)}", f"{max(ratios):.4f}",
                  f"{whole_s:.2f}", f"{sum(seconds for _, seconds in searched) / len(seeds):.2f}"))
    write(f"\n{cases} problems and metrics: the true optimum in {hits} of {total} searches\n")


def timed(spec: Spec, metric: str, seed: int = 0, method: str = "annealing") -> tuple[Result, float]:
    """(result, seconds) of a search, or of an enumeration."""
    start = time.perf_counter()
    return map_layer(spec, SearchOptions(method=method), metric=metric, seed=seed), time.perf_counter() - start


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
