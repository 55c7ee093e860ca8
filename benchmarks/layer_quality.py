#!/usr/bin/env python3
"""How good the mapper's mappings are: beside the best known ones, a lower bound, and timeloop-mapper's after 10 s.

    python benchmarks/layer_quality.py [--design NAME] [--every N] [--seed S] [--alone] [-o FILE]
    python benchmarks/layer_quality.py --over-time [-o FILE]   EDP against the seconds of a layer

Reads the anchors recorded in anchors.json. All layers of a design are mapped in one batch; `--alone` maps each by
itself as well and prints its seconds of processor time.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import Result, SearchOptions, Spec, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import find, listing

ANCHORS = Path(__file__).with_name("anchors.json")
"""Best known EDPs (by simulated annealing on an exact evaluator in C++), and timeloop-mapper's after 10 s of CPU."""


@dataclass(frozen=True)
class Anchor:
    """One layer on one design with the EDPs of others.

    Attributes:
        design: The bundled design.
        layer: The bundled layer.
        best_known: Lowest EDP known, in pJ * cycles.
        timeloop_mapper: EDP of timeloop-mapper after 10 s of CPU; not a number where it found no mapping.
        spec: The layer on the design.
    """

    design: str
    layer: str
    best_known: float
    timeloop_mapper: float
    spec: Spec


def anchors(design: str | None, every: int) -> list[Anchor]:
    """The recorded rows of one design, or of all (None), every `every`-th of them; each design's rows are together."""
    files = {name.rsplit("/", 1)[-1]: name for name in listing() if name.startswith("layers/")}
    rows = [row for row in json.loads(ANCHORS.read_text())["rows"] if design in (None, row["design"])]
    return [Anchor(row["design"], row["layer"], row["best_known_edp"], row["timeloop_mapper_10s_edp"] or np.nan,
                   load(find(f"arch/{row['design']}"), find(files[row["layer"]]))) for row in rows[::every]]


def mapped(rows: list[Anchor], **options: Any) -> tuple[list[Result], float]:
    """Maps all rows, one batch for each design: (results in the order of the rows, seconds)."""
    results: dict[int, Result] = {}
    start = time.perf_counter()
    for design in dict.fromkeys(anchor.design for anchor in rows):
        batch = [index for index, anchor in enumerate(rows) if anchor.design == design]
        results |= zip(batch, map_layers([rows[index].spec for index in batch], SearchOptions(**options)), strict=True)
    return [results[index] for index in range(len(rows))], time.perf_counter() - start


def table(rows: list[Anchor], seed: int, alone: bool, write: Write) -> None:
    """Writes a row per layer and a line of statistics per column; with `alone` each layer is mapped by itself, too."""
    results, seconds = mapped(rows, seed=seed)
    write(heading("design", "layer", "EDP / best known", "timeloop-mapper 10 s / best known", "EDP / lower bound",
                  "evaluations", "CPU s alone"))
    ratios, theirs, bounds, times_alone = [], [], [], []
    for anchor, result in zip(rows, results, strict=True):
        if alone:
            start = time.process_time()
            map_layer(anchor.spec, SearchOptions(threads=1), seed=seed)
            times_alone.append(time.process_time() - start)
        ratios.append(result.stats.edp / anchor.best_known)
        theirs.append(anchor.timeloop_mapper / anchor.best_known)
        bounds.append(result.stats.edp / result.bound.of("edp") if result.bound else np.nan)
        write(row(anchor.design, anchor.layer, f"{ratios[-1]:.5f}", f"{theirs[-1]:.2f}", f"{bounds[-1]:.4f}",
                  result.evaluations, f"{times_alone[-1]:.2f}" if alone else ""))
    write(f"\n{len(rows)} layers in {seconds:.1f} s, a batch for each design\n")
    write(statistics("EDP / best known", np.array(ratios)))
    write(statistics("EDP / lower bound", np.array(bounds)))
    write(statistics("timeloop-mapper, 10 s of CPU a layer / best known", np.array(theirs)))
    if alone:
        write(statistics("CPU seconds alone", np.array(times_alone)))


def statistics(name: str, values: np.ndarray) -> str:
    """An item of a list with statistics over the values that are numbers."""
    known = values[~np.isnan(values)]
    if not len(known):
        return f"- {name}: no values"
    return (f"- {name}, {len(known)} layers: median {np.median(known):.5f}, "
            f"95th percentile {np.quantile(known, 0.95):.5f}, worst {known.max():.5f}, "
            f"geometric mean {geometric_mean(known):.5f}")


def geometric_mean(values: np.ndarray) -> float:
    """The geometric mean of positive values."""
    return float(np.exp(np.log(values).mean()))


def over_time(rows: list[Anchor], write: Write) -> None:
    """Writes EDP over best known against seconds of one layer alone: statistics over all layers at each time."""
    clock = np.geomspace(0.005, 3.0, 60)
    curves = []
    for anchor in rows:
        history = [(step["time_s"], step["value"]) for step in map_layer(anchor.spec).history if step["value"]]
        seconds, values = np.array(history).T
        reached = np.searchsorted(seconds, clock, side="right") - 1
        curves.append(np.where(reached < 0, np.nan, values[np.maximum(reached, 0)] / anchor.best_known))
    known = np.array([anchor.timeloop_mapper / anchor.best_known for anchor in rows])
    write(heading("mapper", "s a layer", "layers", "5th percentile", "median", "95th percentile", "worst"))
    for mapper, second, ratios in [*(("fadiff_mapper", second, values) for second, values in
                                     zip(clock, np.array(curves).T, strict=True)), ("timeloop-mapper", 10.0, known)]:
        found = ratios[~np.isnan(ratios)]
        if len(found):
            write(row(mapper, f"{second:.4f}", len(found), *(f"{np.quantile(found, share):.4f}"
                                                             for share in (0.05, 0.5, 0.95, 1))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take every N-th row")
    parser.add_argument("--design", help="one design only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="map every layer by itself, too")
    parser.add_argument("--over-time", action="store_true")
    add_output(parser)
    options = parser.parse_args()
    rows = anchors(options.design, options.every)
    mapped(rows[:1], effort="light")  # loads all code
    with markdown(options.output) as write:
        if options.over_time:
            over_time(rows, write)
        else:
            table(rows, options.seed, options.alone, write)


if __name__ == "__main__":
    main()
