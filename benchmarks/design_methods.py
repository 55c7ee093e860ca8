#!/usr/bin/env python3
"""Methods of designing a machine on DOSA's space and networks, side by side at equally many designs and in equal time.

    python benchmarks/design_methods.py [--records FILE] [--seeds N] [--evaluations N ...] [--method NAME ...]
                                        [--network NAME ...] [--baseline NAME ...] [--seconds S] [-o FILE]

The space is `bundled:spaces/dosa_gemmini` with DOSA's energies and bandwidths; layers run one by one, as in DOSA, and
each design is mapped to the quality of `map`, in one process and without a store, so that CPU seconds are comparable.
EDP in uJ x cycles. Every method maps the most designs asked for; TPE and NSGA-II go on until they have had the CPU
seconds of the gradient's run with the same network and seed. Beside the methods stand DOSA's own descent on our model
(`dosa_protocol`), its random search with its settings (10 designs, 1,000 random mappings a layer; the best of them) on
the same model, and its fixed design that stands in the space, Gemmini's default (side 16, 32 KB, 128 KB), mapped here.
DOSA's own figures come from its analytical model and are not comparable.

Each run that ends leaves a line in the records, and is not made again; `--seconds` begins no further run after so many.
The tables (median and range over the seeds) are those of all records.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import yaml
from design_records import GRADIENT, Record, Step, add_record, read_records, recorded, write_tables
from dosa_protocol import dosa_search
from fadiff_validation.random_mappings import random_nests
from provenance import add_output, markdown

from fadiff_mapper import SearchOptions, Workload, map_layers, read_space
from fadiff_mapper.design.evaluate_design import DesignReader
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.search_design import DesignProgress, search_design
from fadiff_mapper.design.space import DesignSpace, Point, nearest_value
from fadiff_mapper.fusion.prices import summed
from fadiff_mapper.gradient import descent_for_designs
from fadiff_mapper.gradient.hardware_descent import descended_designs  # noqa: F401  loads torch before time counts
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.workload import Node, OperatingPoint, build_workload
from fadiff_mapper.workload.operator import make_operator

LAYERS = Path(__file__).with_name("dosa_layers.yaml")
DEFAULT = {"side": 16, "accumulator_kb": 32, "scratchpad_kb": 128}
"""Gemmini's own design, as DOSA lists it."""
RANDOM_DESIGNS, RANDOM_MAPPINGS = 10, 1000
"""DOSA's random search: designs, and legal mappings of each layer on each of them."""
DRAWN, MOST_DRAWN = 8192, 60
"""Random mappings drawn at a time, most of which exceed some capacity or mesh; and how often at most."""
PJ_PER_UJ = 1e6
MOST_DESIGNS = 10_000
"""Designs mapped where time is the limit: more than any run gets to."""


def dosa_network(name: str) -> Workload:
    """One of DOSA's networks, its layers without links."""
    nodes = []
    for layer, count, *bounds in yaml.safe_load(LAYERS.read_text(encoding="utf-8"))[name]:
        dims = dict(zip("RSPQCMN", bounds, strict=False))
        nodes.append(Node(str(layer), "conv", (), layer=make_operator("conv", dims, tuple(bounds[7:]), repeat=count)))
    return build_workload(name, nodes)


def main() -> None:
    """Makes the runs that are missing in the records, seed by seed, and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, default=Path("design_methods.jsonl"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--evaluations", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--method", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--network", nargs="+", default=["unet", "resnet50", "bert", "retinanet"])
    parser.add_argument("--baseline", nargs="*", default=list(BASELINES), choices=list(BASELINES))
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no further run after so many; 0: tables")
    add_output(parser)
    options = parser.parse_args()
    start = time.monotonic()
    for seed in range(options.seeds):
        for name in options.network:
            for method in (*options.method, *options.baseline):
                done = read_records(options.records)
                if time.monotonic() - start < options.seconds and not _known(done, name, method, seed):
                    question = question_of(name, seed)
                    steps = (searched(question, method, max(options.evaluations), done)
                             if method in METHODS else beside(question, method))
                    add_record(options.records, recorded(name, method, seed, steps))
    with markdown(options.output) as write:
        write_tables(read_records(options.records), METHODS, {name: words for name, (words, _) in BASELINES.items()},
                     sorted(options.evaluations), write)


def _known(done: Sequence[Record], network: str, method: str, seed: int) -> bool:
    """Whether a run is recorded; one of the fixed design stands for all seeds."""
    return any((each.network, each.method) == (network, method) and (each.seed == seed or method == "default")
               for each in done)


def question_of(name: str, seed: int) -> DesignQuestion:
    """The question for one of DOSA's networks on its space."""
    space = read_space("bundled:spaces/dosa_gemmini")
    return DesignQuestion(space, (dosa_network(name),), (1.0,), DesignOptions(fuse=False, seed=seed))


def searched(question: DesignQuestion, method: str, most: int, done: Sequence[Record]) -> list[Step]:
    """The steps of a search of designs, of the gradient's length in time where there is a record of it."""
    network = question.networks[0].name
    seconds = max((each.steps[-1].cpu_s for each in done if method in TAUGHT and each.method == GRADIENT
                   and each.network == network and each.seed == question.options.seed), default=0.0)
    steps, start = list[Step](), time.process_time()

    def kept(progress: DesignProgress) -> None:
        if progress.best is not None and progress.evaluations > len(steps):
            steps.append(Step(progress.evaluations, time.process_time() - start, progress.best.edp / PJ_PER_UJ))

    def over() -> bool:
        return len(steps) >= most and time.process_time() - start >= seconds
    options = replace(question.options, method=method, evaluations=MOST_DESIGNS, neighbours=False, prune=False)
    search_design(replace(question, options=options), DesignWorkers(1), descent=descent_for_designs(method),
                  on_progress=kept, stopped=over)
    return steps


def beside(question: DesignQuestion, baseline: str) -> list[Step]:
    """The end of a baseline."""
    start = time.process_time()
    edp = BASELINES[baseline][1](DesignReader(question), question.networks[0], question.options.seed)
    return [Step(1, time.process_time() - start, edp)]


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


def default_point(space: DesignSpace) -> Point:
    """The point of Gemmini's own design."""
    return tuple(nearest_value(parameter.values, DEFAULT[parameter.name]) for parameter in space.parameters)


def default_edp(reader: DesignReader, network: Workload, seed: int) -> float:
    """The EDP of Gemmini's own design, in uJ x cycles."""
    return mapped_edp(reader, network, default_point(reader.question.space))


def mapped_edp(reader: DesignReader, network: Workload, point: Point) -> float:
    """The EDP of a design, each layer mapped by the search, in uJ x cycles."""
    results = map_layers(reader.specs(point), SearchOptions(("edp",)))
    return edp(network, [OperatingPoint(result.stats.energy_pj, result.stats.cycles) for result in results])


def edp(network: Workload, layers: Sequence[OperatingPoint]) -> float:
    """The EDP of all layers one after the other, each as often as it runs, in uJ x cycles."""
    total = summed([OperatingPoint(entry.times * point.energy_pj, entry.times * point.cycles)
                    for entry, point in zip(network.distinct(), layers, strict=True)])
    return total.edp / PJ_PER_UJ


METHODS, TAUGHT = (GRADIENT, "tpe", "nsga2", "random"), ("tpe", "nsga2")
"""Methods of `search_design`, and those that get the gradient's time."""

BASELINES: dict[str, tuple[str, Callable[[DesignReader, Workload, int], float]]] = {
    "dosa": ("DOSA's descent (7 starts x 1,490 steps) on our model", dosa_edp),
    "random_mappings": ("random designs and mappings (DOSA's settings)", random_search),
    "default": ("default design (16, 32 KB, 128 KB)", default_edp),
}
"""What stands beside the methods."""


if __name__ == "__main__":
    main()
