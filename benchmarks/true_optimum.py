#!/usr/bin/env python3
"""How often the search finds the true optimum of small problems, and how far its seeds agree on large ones.

    python benchmarks/true_optimum.py [--part optimum|spread] [--seeds K] [--design NAME] [-o FILE]

Small problems are enumerated (`exhaustive=True`), then searched with default options and several seeds. Of large
problems the best and the worst seed are compared, and the best one with the lower bound.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import SearchOptions, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.spec.spec import Spec

CONV, STRIDED = "resnet18/conv3x3_64_64_56_s1", "resnet18/conv3x3_128_256_14_s2"
POINTWISE, DEPTHWISE = "mobilenet_v1/conv1x1_512_512_14_s1", "mobilenet_v1/dw3x3_256_28_s1"
MATMUL, DEEP = "gpt3_6b7_block/gemm_2048_4096_4096", "vgg16/conv3x3_256_512_28_s1"

SMALL = (
    (CONV, {"M": 4, "C": 2, "P": 6, "R": 3}), (CONV, {"M": 4, "C": 4, "P": 4, "Q": 2}),
    (CONV, {"C": 8, "P": 8, "R": 3}),
    (STRIDED, {"M": 4, "C": 4, "P": 3, "R": 3}), (DEPTHWISE, {"G": 4, "P": 4, "Q": 2, "R": 3}),
    (POINTWISE, {"M": 8, "C": 8, "P": 4}), (MATMUL, {"M": 16, "C": 8, "N": 8}),
)
"""Layers and the bounds that they are shrunk to; the other dimensions become 1."""

LARGE = (CONV, STRIDED, POINTWISE, DEPTHWISE, MATMUL, DEEP)
"""Layers on which seeds are compared."""

SPREAD_DESIGNS = ("eyeriss_like", "simba_like", "output_stationary", "weight_stationary")
"""Designs on which seeds are compared: those for which `layer_quality.py` has no best known mappings."""

METRICS = ("edp", "energy", "delay")
"""Metrics for which small problems are enumerated."""

LARGEST = 2_000_000
"""Mappings above which a small problem is left out: a plain limit on the time of an enumeration."""

SAME = 1e-9
"""Relative difference below which two values are equal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["optimum", "spread"], help="one part only")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--design", help="one design only")
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        if options.part != "spread":
            optimum([name for name in designs() if options.design in (None, name)], options.seeds, write)
        if options.part != "optimum":
            spread([name for name in SPREAD_DESIGNS if options.design in (None, name)], options.seeds, write)


def shrunk(design: str, layer: str, bounds: dict[str, int]) -> Spec:
    """A bundled layer on a design with these bounds, and 1 for all other dimensions."""
    spec = load(find(f"arch/{design}"), find(f"layers/{layer}"))
    return replace(spec, problem=replace(spec.problem, bounds={name: bounds.get(name, 1)
                                                               for name in spec.problem.bounds}))


def optimum(names: list[str], seeds: int, write: Write) -> None:
    """Writes a row per design, small problem and metric: how many seeds find the optimum of the whole map space."""
    from fadiff_mapper.mapspace import build_mapspace
    from fadiff_mapper.search.enumerate import count
    write(heading("design", "layer", "bounds", "metric", "mappings", "found", "worst / optimum", "s for all",
                  "s for one search"))
    hits = total = cases = 0
    for design, (layer, bounds), metric in ((d, s, m) for d in names for s in SMALL for m in METRICS):
        spec = shrunk(design, layer, bounds)
        size = count(build_mapspace(spec.arch, spec.problem, spec.constraints))
        if size > LARGEST:
            continue
        best, whole_s = timed(spec, metric=metric, exhaustive=True)
        searched = [timed(spec, metric=metric, seed=seed) for seed in range(seeds)]
        ratios = [result.value / best.value for result, _ in searched]
        optimal = sum(ratio <= 1 + SAME for ratio in ratios)
        hits, total, cases = hits + optimal, total + seeds, cases + 1
        shape = " ".join(f"{name}{bound}" for name, bound in bounds.items())
        write(row(design, layer, shape, metric, f"{size:,}", f"{optimal} of {seeds}", f"{max(ratios):.4f}",
                  f"{whole_s:.2f}", f"{sum(seconds for _, seconds in searched) / seeds:.2f}"))
    write(f"\n{cases} problems and metrics: the true optimum in {hits} of {total} searches\n")


def timed(spec: Spec, metric: str, seed: int = 0, exhaustive: bool = False) -> tuple[MappedLayer, float]:
    """(result, seconds) of a search, or of an enumeration."""
    start = time.perf_counter()
    return map_layer(spec, SearchOptions(exhaustive=exhaustive), metric=metric, seed=seed), time.perf_counter() - start


def spread(names: list[str], seeds: int, write: Write) -> None:
    """Writes a row per design and large layer: how far its seeds agree, and how far the best is from the bound."""
    write(heading("design", "layer", "best EDP", "worst / best seed", "seeds at the best", "best / lower bound", "s"))
    for design in names:
        specs = [load(find(f"arch/{design}"), find(f"layers/{layer}")) for layer in LARGE]
        start = time.perf_counter()
        runs = [map_layers(specs, seed=seed) for seed in range(seeds)]
        seconds = (time.perf_counter() - start) / seeds / len(specs)
        for layer, results in zip(LARGE, zip(*runs, strict=True), strict=True):
            values = [result.value for result in results]
            best = min(results, key=lambda result: result.value)
            equal = sum(value <= best.value * (1 + SAME) for value in values)
            above = f"{best.value / best.bound.edp:.4f}" if best.bound else "-"
            write(row(design, layer, f"{best.value:.6g}", f"{max(values) / best.value:.4f}", f"{equal} of {seeds}",
                      above, f"{seconds:.2f}"))


if __name__ == "__main__":
    main()
