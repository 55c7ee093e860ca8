"""A network's plan beside gradient descent alone: one line per network and design.

    python benchmarks/network_baselines.py [NETWORK ...] [--design large|small]

The baselines map every distinct layer by gradient descent on the relaxed model of layers: no fusion, no refinement,
no choice between energy and cycles for the network. Every mapping drawn on the way is evaluated exactly and the best
one is kept, which is more than a descent on a model alone would know.

    short        48 restarts of 12 steps, what the search of a layer begins with
    DOSA         7 start points of 1490 steps, loop orders chosen every 500, as in DOSA's code for its figures
                 (github.com/ucb-bar/dosa, dataset/dse/mapping_driven_hw_search.py); start points are random, not CoSA's
    equal time   48 restarts, and as many steps as take the CPU time of the plan, loop orders chosen every 4
    paper model  the same on FADiff's equations as printed, in place of the refined model

For each the part by which the plan's EDP is below the baseline's, and the baseline's CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from math import inf
from multiprocessing import get_context

from network_fusion import NETWORKS

from fadiff_mapper import Workload, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.network.layers.one_design import specs_of
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_many import search_all

SHORT = SearchOptions(refinement=False)
DOSA = SearchOptions(refinement=False, restarts=7, steps=1490, reorder_every=500)
PAPER = SearchOptions(refinement=False, model="paper")
PROBES = (8, 24)
"""Steps of the two runs that tell how long a step takes."""

BASELINES = ("short", "DOSA", "equal time", "paper model")


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("names", nargs="*", default=NETWORKS)
    given.add_argument("--design", choices=("large", "small"), action="append")
    options = given.parse_args()
    print(f"{'network':16} {'design':6} {'CPU s':>6} {'saved':>7}" + "".join(f" {name:>12} {'CPU s':>6}"
                                                                            for name in BASELINES), flush=True)
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for design in options.design or ("large", "small"):
            found = []
            for name in options.names:
                found.append(pool.submit(compared, name, design).result())
                print(f"{name:16} {design:6} {line(found[-1])}", flush=True)
            average = [sum(column) / len(found) for column in zip(*found, strict=True)]
            print(f"{'average':16} {design:6} {line(average)}", flush=True)


def line(row: Sequence[float]) -> str:
    """CPU seconds and shares by turns."""
    return f"{row[0]:6.1f} {row[1]:7.2%}" + "".join(f" {share:12.2%} {spent:6.1f}"
                                                   for share, spent in zip(row[2::2], row[3::2], strict=True))


def compared(name: str, design: str) -> list[float]:
    """CPU seconds of the plan, the part of the unfused EDP that it saves, and for every baseline the part by which the
    plan's EDP is lower and the baseline's CPU seconds."""
    workload, file = load_network(f"bundled:networks/{name}"), bundled_files.find(f"arch/gemmini_{design}")
    tasks = [mapping_task(spec) for spec in specs_of(workload, file)]
    descended(workload, tasks, SHORT)  # what is loaded and compiled but once
    start = time.process_time()
    result = map_network(workload, file)
    spent = time.process_time() - start
    row = [spent, result.gain]
    for options in (SHORT, DOSA, lasting(workload, tasks, SHORT, spent), lasting(workload, tasks, PAPER, spent)):
        edp, seconds = descended(workload, tasks, options)
        row += [1 - result.stats.edp / edp, seconds]
    return row


def lasting(workload: Workload, tasks: Sequence[MappingTask], options: SearchOptions, seconds: float) -> SearchOptions:
    """The options with as many steps as take so much CPU time."""
    few, more = (descended(workload, tasks, changed(options, steps))[1] for steps in PROBES)
    each = (more - few) / (PROBES[1] - PROBES[0])
    return changed(options, max(round(PROBES[0] + (seconds - few) / each), options.steps))


def changed(options: SearchOptions, steps: int) -> SearchOptions:
    return SearchOptions(**{**options.as_dict(), "steps": steps})


def descended(workload: Workload, tasks: Sequence[MappingTask], options: SearchOptions) -> tuple[float, float]:
    """The network's EDP with the best mapping of every layer that a descent draws (infinite where one has none), and
    the CPU seconds of it."""
    start = time.process_time()
    found = search_all(tasks, options)
    spent = time.process_time() - start
    scores = [score(task.layer, one.nest) for task, one in zip(tasks, found, strict=True)]
    costs = [(float(one.energy[0]), int(one.cycles[0])) for one in scores]
    return workload.totals(costs).edp if all(one.legal for one in found) else inf, spent


if __name__ == "__main__":
    main()
