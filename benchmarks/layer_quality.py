#!/usr/bin/env python3
"""How good the mapper's mappings are: EDP beside the best known one and timeloop-mapper's after 10 s of CPU.

    python benchmarks/layer_quality.py [--every N] [--design NAME] [--seed S] [--no-gradient] [--no-refinement]

Reads the anchors recorded in anchors.json; prints a row per layer and design, and a summary.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from fadiff_mapper import load, map_layer
from fadiff_mapper.bundled import find, listing

ANCHORS = Path(__file__).with_name("anchors.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take every N-th row")
    parser.add_argument("--design", help="one design only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-gradient", action="store_true")
    parser.add_argument("--no-refinement", action="store_true")
    options = parser.parse_args()
    layers = {name.rsplit("/", 1)[-1]: name for name in listing() if name.startswith("layers/")}
    rows = [row for row in json.loads(ANCHORS.read_text())["rows"] if options.design in (None, row["design"])]
    print("| design | layer | EDP / best known | timeloop-mapper 10 s / best known | EDP / lower bound | s |")
    print("|---|---|---|---|---|---|")
    ratios, theirs, seconds = [], [], []
    for row in rows[::options.every]:
        spec = load(find(f"arch/{row['design']}"), find(layers[row["layer"]]))
        start = time.perf_counter()
        result = map_layer(spec, seed=options.seed, gradient=not options.no_gradient,
                           refinement=not options.no_refinement)
        seconds.append(time.perf_counter() - start)
        ratios.append(result.stats.edp / row["best_known_edp"])
        timeloop = row["timeloop_mapper_10s_edp"]
        theirs.append(timeloop / row["best_known_edp"] if timeloop else np.nan)
        print(f"| {row['design']} | {row['layer']} | {ratios[-1]:.4f} | {theirs[-1]:.2f} | "
              f"{result.stats.edp / row['lower_bound_edp']:.3f} | {seconds[-1]:.2f} |", flush=True)
    summary(np.array(ratios), np.array(theirs), np.array(seconds))


def summary(ratios: np.ndarray, theirs: np.ndarray, seconds: np.ndarray) -> None:
    both = ~np.isnan(theirs)
    print(f"\n{len(ratios)} layers: EDP / best known: median {np.median(ratios):.4f}, 95th percentile "
          f"{np.quantile(ratios, 0.95):.4f}, worst {ratios.max():.4f}, geometric mean {_mean(ratios):.4f}")
    as_good = (ratios[both] <= theirs[both] * (1 + 1e-9)).sum()
    print(f"timeloop-mapper, {both.sum()} layers: geometric mean {_mean(theirs[both]):.2f}, "
          f"worst {theirs[both].max():.1f}; ours is at or below it on {as_good} of them")
    print(f"seconds per layer: median {np.median(seconds):.2f}, worst {seconds.max():.2f}")


def _mean(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))


if __name__ == "__main__":
    main()
