#!/usr/bin/env python3
"""Methods of designing a machine on DOSA's space and networks, side by side at equally many designs mapped.

    python benchmarks/design_methods.py [--seeds N] [--evaluations N ...] [--method NAME ...] [--network NAME ...]
                                        [--baseline NAME ...] [--first N] [--store FOLDER] [-o FILE]

The space is `bundled:spaces/dosa_gemmini` with DOSA's energies and bandwidths; layers run one by one, as in DOSA, and
each design is mapped to the quality of `map`. A row has the EDP (uJ x cycles) after so many designs: the geometric mean
over the seeds with its range, and the CPU seconds of a run (with a store that has some of its designs: less). Beside
the methods stand DOSA's own descent on our model (`dosa_protocol`), its random search with its settings (10 designs,
1,000 random mappings a layer; the best of them) on the same model, and Gemmini's default design (side 16, 32 KB,
128 KB), mapped here. DOSA's own figures come from its analytical model and are not comparable. `--baseline` picks among
the three; with a store, runs that were stopped go on.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import yaml
from dosa_protocol import dosa_search
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import DesignSpace, SearchOptions, Workload, map_layers, read_space
from fadiff_mapper.design.design_options import DesignOptions
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.design_reader import DesignReader
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.design.space import Point, nearest_point
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, summed
from fadiff_mapper.results.designed_machine import DesignedMachine
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.random_mappings import random_nests
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Node, build_workload
from fadiff_mapper.workload.operator import make_operator

LAYERS = Path(__file__).with_name("dosa_layers.yaml")
DEFAULT = {"side": 16, "accumulator_kb": 32, "scratchpad_kb": 128}
"""Gemmini's own design, as DOSA lists it."""
RANDOM_DESIGNS, RANDOM_MAPPINGS = 10, 1000
"""DOSA's random search: designs, and legal mappings of each layer on each of them."""
DRAWN, MOST_DRAWN = 8192, 60
"""Random mappings drawn at a time, most of which exceed some capacity or mesh; and how often at most."""
PJ_PER_UJ = 1e6

T = TypeVar("T")


def dosa_network(name: str) -> Workload:
    """One of DOSA's networks, its layers without links."""
    nodes = []
    for layer, count, *bounds in yaml.safe_load(LAYERS.read_text(encoding="utf-8"))[name]:
        dims = dict(zip("RSPQCMN", bounds, strict=False))
        nodes.append(Node(str(layer), "conv", (), layer=make_operator("conv", dims, tuple(bounds[7:]), repeat=count)))
    return build_workload(name, nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evaluations", type=int, nargs="+", default=[10, 25, 50])
    parser.add_argument("--method", nargs="+", default=["gradient", "tpe", "nsga2", "random"])
    parser.add_argument("--network", nargs="+", default=["unet", "resnet50", "bert", "retinanet"])
    parser.add_argument("--baseline", nargs="*", default=list(BASELINES), choices=list(BASELINES))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--jobs", type=int)
    add_output(parser)
    options = parser.parse_args()
    space = read_space("bundled:spaces/dosa_gemmini")
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        write(heading("network", "method", *(f"{count} designs" for count in options.evaluations), "CPU s"))
        for name in options.network:
            measure(space, dosa_network(name), options, options.store or Path(folder), write)


def measure(space: DesignSpace, network: Workload, options: argparse.Namespace, store: Path, write: Write) -> None:
    """Writes the rows of one network."""
    question = DesignQuestion(space, (network,), (1.0,), fuse=False, energy=space.energy or "dosa")
    seeds = range(options.first, options.first + options.seeds)
    for method in options.method:
        runs, seconds = timed(lambda seed, method=method: search_design(replace(question, seed=seed), DesignOptions(
            method, max(options.evaluations), neighbours=False, prune=False, jobs=options.jobs, store=store)), seeds)
        cells = [spread([best_after(run, count) for run in runs]) for count in options.evaluations]
        write(row(network.name, method, *cells, seconds))
    blank = [""] * (len(options.evaluations) - 1)
    for name in options.baseline:
        what, found = BASELINES[name]
        values, seconds = timed(lambda seed, found=found: found(DesignReader(question), network, seed),
                                seeds[:1] if name == "default" else seeds)
        write(row(network.name, what, *blank, spread(values), seconds))


def timed(work: Callable[[int], T], seeds: Sequence[int]) -> tuple[list[T], str]:
    """The results of work for every seed, and the median of the CPU seconds of this process."""
    results, seconds = [], []
    for seed in seeds:
        start = time.process_time()
        results.append(work(seed))
        seconds.append(time.process_time() - start)
    return results, f"{statistics.median(seconds):.0f}"


def best_after(run: DesignedMachine, count: int) -> float:
    """The least EDP of the first designs that were mapped, in uJ x cycles."""
    mapped = [outcome.edp for outcome in run.outcomes if outcome.mapped]
    return min(mapped[:count]) / PJ_PER_UJ


def random_search(reader: DesignReader, network: Workload, seed: int) -> float:
    """The best of random designs with random mappings, in uJ x cycles."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(RANDOM_DESIGNS):
        point = tuple(int(rng.integers(len(parameter.values))) for parameter in reader.question.space.parameters)
        found.append(edp(network, [best_of_random(spec, seed) for spec in reader.specs(point)]))
    return min(found)


def best_of_random(spec: Spec, seed: int) -> OperatingPoint:
    """Energy and cycles of the best EDP of `RANDOM_MAPPINGS` legal random mappings; infinite where none is legal."""
    task, energy, cycles = mapping_task(spec), np.array([]), np.array([])
    for draw in range(MOST_DRAWN):
        scores = score(task.layer, random_nests(task.layer, task.space, DRAWN, seed * MOST_DRAWN + draw))
        energy = np.append(energy, scores.energy[scores.legal])
        cycles = np.append(cycles, scores.cycles[scores.legal])
        if len(energy) >= RANDOM_MAPPINGS:
            break
    if not len(energy):
        return OperatingPoint(math.inf, math.inf)
    best = int(np.argmin((energy * cycles)[:RANDOM_MAPPINGS]))
    return OperatingPoint(float(energy[best]), float(cycles[best]))


def dosa_edp(reader: DesignReader, network: Workload, seed: int) -> float:
    """The EDP that DOSA's descent ends with, in uJ x cycles."""
    return dosa_search(reader, seed).edp / PJ_PER_UJ


def default_edp(reader: DesignReader, network: Workload, seed: int) -> float:
    """The EDP of Gemmini's own design, in uJ x cycles."""
    return mapped_edp(reader, network, nearest_point(reader.question.space, DEFAULT))


def mapped_edp(reader: DesignReader, network: Workload, point: Point) -> float:
    """The EDP of a design, each layer mapped by the search, in uJ x cycles."""
    results = map_layers(reader.specs(point), SearchOptions(("edp",)))
    return edp(network, [OperatingPoint(result.stats.energy_pj, result.stats.cycles) for result in results])


def edp(network: Workload, layers: Sequence[OperatingPoint]) -> float:
    """The EDP of all layers one after the other, each as often as it runs, in uJ x cycles."""
    total = summed([OperatingPoint(entry.times * point.energy_pj, entry.times * point.cycles)
                    for entry, point in zip(network.distinct(), layers, strict=True)])
    return total.edp / PJ_PER_UJ


def spread(values: Sequence[float]) -> str:
    """The geometric mean with its range."""
    mean = math.exp(statistics.fmean(map(math.log, values)))
    return f"{mean:.4g} ({min(values):.4g} to {max(values):.4g})"


BASELINES: dict[str, tuple[str, Callable[[DesignReader, Workload, int], float]]] = {
    "dosa": ("DOSA's descent (7 starts x 1,490 steps) on our model", dosa_edp),
    "random": ("random designs and mappings (DOSA's settings)", random_search),
    "default": ("default design (16, 32 KB, 128 KB)", default_edp),
}
"""What stands beside the methods."""


if __name__ == "__main__":
    main()
