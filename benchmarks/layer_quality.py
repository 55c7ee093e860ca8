#!/usr/bin/env python3
"""How good the mapper's mappings are: beside the best known ones, a lower bound, and timeloop-mapper's after 10 s.

    python benchmarks/layer_quality.py [--design NAME] [--every N] [--seed S] [--alone]
    python benchmarks/layer_quality.py --ablations        what each part of the search brings, at equal time
    python benchmarks/layer_quality.py --picture FILE.svg EDP over time

Reads the anchors recorded in anchors.json. All layers of a design are mapped in one batch; `--alone` maps each by
itself as well and prints its seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fadiff_mapper import Result, SearchOptions, Spec, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import find, listing

ANCHORS = Path(__file__).with_name("anchors.json")

WARM_UP = {"restarts": 2, "steps": 1, "chains": 4, "rounds": 2}
"""Options of a search that only loads compiled code."""


@dataclass(frozen=True)
class Anchor:
    """One layer on one design, with what others reach on it: EDP in pJ * cycles (timeloop-mapper's may lack)."""

    design: str
    layer: str
    best_known: float
    timeloop_mapper: float
    spec: Spec


def anchors(design: str | None, every: int) -> list[Anchor]:
    """The recorded rows, those of one design together."""
    files = {name.rsplit("/", 1)[-1]: name for name in listing() if name.startswith("layers/")}
    rows = [row for row in json.loads(ANCHORS.read_text())["rows"] if design in (None, row["design"])]
    return [Anchor(row["design"], row["layer"], row["best_known_edp"], row["timeloop_mapper_10s_edp"] or np.nan,
                   load(find(f"arch/{row['design']}"), find(files[row["layer"]]))) for row in rows[::every]]


def mapped(rows: list[Anchor], **options: Any) -> tuple[list[Result], float]:
    """The results of all rows, one batch for each design, and the seconds that took."""
    results: dict[int, Result] = {}
    start = time.perf_counter()
    for design in dict.fromkeys(row.design for row in rows):
        here = [index for index, row in enumerate(rows) if row.design == design]
        results |= zip(here, map_layers([rows[index].spec for index in here], SearchOptions(**options)), strict=True)
    return [results[index] for index in range(len(rows))], time.perf_counter() - start


def table(rows: list[Anchor], seed: int, alone: bool) -> None:
    results, seconds = mapped(rows, seed=seed)
    print("| design | layer | EDP / best known | timeloop-mapper 10 s / best known | EDP / lower bound | evaluations "
          "| s alone |\n|---|---|---|---|---|---|---|")
    ratios, theirs, bounds, lonely = [], [], [], []
    for row, result in zip(rows, results, strict=True):
        if alone:
            start = time.perf_counter()
            map_layer(row.spec, seed=seed)
            lonely.append(time.perf_counter() - start)
        ratios.append(result.stats.edp / row.best_known)
        theirs.append(row.timeloop_mapper / row.best_known)
        bounds.append(result.stats.edp / result.bound.of("edp") if result.bound else np.nan)
        print(f"| {row.design} | {row.layer} | {ratios[-1]:.5f} | {theirs[-1]:.2f} | {bounds[-1]:.4f} | "
              f"{result.evaluations} | {f'{lonely[-1]:.2f}' if alone else ''} |", flush=True)
    print(f"\n{len(rows)} layers in {seconds:.1f} s, a batch for each design")
    described("EDP / best known", np.array(ratios))
    described("EDP / lower bound", np.array(bounds))
    described("timeloop-mapper, 10 s of CPU a layer / best known", np.array(theirs))
    if alone:
        described("seconds alone", np.array(lonely))


def described(what: str, values: np.ndarray) -> None:
    """One line of statistics over the values that there are."""
    known = values[~np.isnan(values)]
    print(f"{what}, {len(known)} layers: median {np.median(known):.5f}, "
          f"95th percentile {np.quantile(known, 0.95):.5f}, worst {known.max():.5f}, "
          f"geometric mean {geometric_mean(known):.5f}")


def geometric_mean(values: np.ndarray) -> float:
    return float(np.exp(np.log(values).mean()))


DEFAULT = SearchOptions()
VARIANTS: dict[str, tuple[dict[str, Any], Callable[[float], dict[str, Any]]]] = {
    "all parts": ({}, lambda scale: {}),
    "no refinement": ({"refinement": False}, lambda scale: {"steps": effort(DEFAULT.steps, scale)}),
    "no gradient": ({"gradient": False}, lambda scale: {"rounds": effort(DEFAULT.rounds, scale), "rounds_further": 0}),
    "no loop order": ({"orders": False}, lambda scale: {"rounds": effort(DEFAULT.rounds, scale), "rounds_further": 0}),
    "gradient of the paper's equations": ({"model": "paper"},
                                          lambda scale: {"rounds": effort(DEFAULT.rounds, scale), "rounds_further": 0}),
    "paper's equations, no refinement": ({"model": "paper", "refinement": False},
                                         lambda scale: {"steps": effort(DEFAULT.steps, scale)}),
}
"""What is switched off, and by which option the time that this saves is spent."""


def effort(default: int, scale: float) -> int:
    return max(1, round(default * scale))


def ablations(rows: list[Anchor], seeds: int) -> None:
    print("| search | s | median | 95th percentile | worst | geometric mean |\n|---|---|---|---|---|---|")
    budget = None
    for name, (switched, spent) in VARIANTS.items():
        options = dict(switched)
        if budget is not None:
            for _ in range(2):  # the time is not proportional to the effort: look twice
                measured = mapped(rows, **options)[1]
                known = next(iter(spent(1.0)))
                options |= spent(options.get(known, getattr(DEFAULT, known)) / getattr(DEFAULT, known)
                                 * budget / measured)
        runs = [mapped(rows, seed=seed, **options) for seed in range(seeds)]
        budget = budget or float(np.mean([seconds for _, seconds in runs]))
        ratios = np.array([result.stats.edp / row.best_known for results, _ in runs
                           for row, result in zip(rows, results, strict=True)])
        print(f"| {name} | {np.mean([seconds for _, seconds in runs]):.1f} | {np.median(ratios):.4f} | "
              f"{np.quantile(ratios, 0.95):.4f} | {ratios.max():.3f} | {geometric_mean(ratios):.4f} |", flush=True)


def picture(rows: list[Anchor], path: Path) -> None:
    """EDP over best known against seconds of one layer alone: median and worst of all layers, and timeloop-mapper."""
    import matplotlib
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    clock = np.geomspace(0.02, 3.0, 120)
    curves = []
    for row in rows:
        history = [(step["time_s"], step["value"]) for step in map_layer(row.spec).history if step["value"]]
        seconds, values = np.array(history).T
        reached = np.searchsorted(seconds, clock, side="right") - 1
        curves.append(np.where(reached < 0, np.nan, values[np.maximum(reached, 0)] / row.best_known))
    known = np.array([row.timeloop_mapper / row.best_known for row in rows])
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    ratios = np.array(curves)
    axes.fill_between(clock, np.nanquantile(ratios, 0.05, axis=0), np.nanquantile(ratios, 0.95, axis=0), alpha=0.2,
                      linewidth=0, label="5 % to 95 % of the layers")
    axes.plot(clock, np.nanmedian(ratios, axis=0), label="median")
    axes.plot(clock, np.nanmax(ratios, axis=0), linewidth=0.8, linestyle="--", label="worst layer")
    axes.errorbar([10], [np.nanmedian(known)],
                  [[np.nanmedian(known) - np.nanquantile(known, 0.05)],
                   [np.nanquantile(known, 0.95) - np.nanmedian(known)]],
                  fmt="s", color="0.35", markersize=5, label="timeloop-mapper: median, 5 % to 95 %")
    axes.set(xscale="log", yscale="log", xlabel="seconds a layer", ylabel="EDP / best known")
    axes.grid(True, which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    print(f"{path}: {len(rows)} layers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take every N-th row")
    parser.add_argument("--design", help="one design only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="map every layer by itself, too")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each ablation")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    rows = anchors(options.design, options.every)
    mapped(rows[:1], **WARM_UP)
    if options.ablations:
        ablations(rows, options.seeds)
    elif options.picture:
        picture(rows, options.picture)
    else:
        table(rows, options.seed, options.alone)


if __name__ == "__main__":
    main()
