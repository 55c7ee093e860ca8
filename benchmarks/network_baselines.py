"""A network's plan beside gradient descent alone: one row per network and design.

    python benchmarks/network_baselines.py [NETWORK ...] [--design large|small] [-o FILE]

The baselines map every distinct layer by gradient descent on the relaxed model of layers: no fusion, no refinement,
no choice between energy and cycles for the network. Every mapping drawn on the way is evaluated exactly and the best
one is kept, which is more than a descent on a model alone would know.

    short        48 restarts of 12 steps, as at the beginning of a layer's search
    DOSA         7 start points of 1490 steps, loop orders chosen every 500, as in DOSA's code for its figures
                 (github.com/ucb-bar/dosa, dataset/dse/mapping_driven_hw_search.py); start points are random, not CoSA's
    equal time   48 restarts, and as many steps as take the CPU time of the plan, loop orders chosen every 4
    paper model  the same on FADiff's equations as printed, in place of the refined model

Columns: CPU seconds of the plan, the part of the unfused EDP that it saves, and for each baseline the part by which the
plan's EDP is below the baseline's, and the baseline's CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from multiprocessing import get_context
from typing import Any

from network_fusion import NETWORKS
from provenance import add_output, heading, markdown, row

from fadiff_mapper import Workload, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.gradient.layer_descent import STEPS, descend
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import Effort, SearchOptions
from fadiff_mapper.search.search_many import search_all

SHORT = {"steps": STEPS}
DOSA = {"restarts": 7, "steps": 1490, "reorder_every": 500}
PAPER = {"model": "paper", "steps": STEPS}
PROBES = (8, 24)
"""Steps of the two runs that tell how long a step takes."""

BASELINES = ("short", "DOSA", "equal time", "paper model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NETWORKS)
    parser.add_argument("--design", choices=("large", "small"), action="append")
    add_output(parser)
    options = parser.parse_args()
    with (markdown(options.output) as write,
          ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool):
        write(heading("network", "design", "CPU s", "saved", *(text for name in BASELINES for text in (name, "CPU s"))))
        for design in options.design or ("large", "small"):
            measures = []
            for name in options.names:
                measures.append(pool.submit(compared, name, design).result())
                write(row(name, design, *cells(measures[-1])))
            average = [sum(column) / len(measures) for column in zip(*measures, strict=True)]
            write(row("average", design, *cells(average)))


def cells(measures: Sequence[float]) -> list[str]:
    """The numbers of `compared` as text: CPU seconds of the plan, then shares and CPU seconds by turns."""
    return [f"{measures[0]:.1f}", f"{measures[1]:.2%}", *(text for share, spent in zip(
        measures[2::2], measures[3::2], strict=True) for text in (f"{share:.2%}", f"{spent:.1f}"))]


def compared(name: str, design: str) -> list[float]:
    """Maps one network on one design, by the plan and by all baselines.

    Returns:
        CPU seconds of the plan, the part of the unfused EDP that it saves, and for every baseline the part by which the
        plan's EDP is lower and the baseline's CPU seconds.
    """
    workload, file = load_network(f"bundled:networks/{name}"), bundled_files.find(f"arch/gemmini_{design}")
    tasks = [mapping_task(spec) for spec in specs_of(workload, file)]
    descended(workload, tasks, SHORT)  # loads and compiles all code, so that no timing below includes that
    start = time.process_time()
    result = map_network(workload, file)
    spent = time.process_time() - start
    measures = [spent, result.gain]
    for schedule in (SHORT, DOSA, lasting(workload, tasks, SHORT, spent), lasting(workload, tasks, PAPER, spent)):
        edp, seconds = descended(workload, tasks, schedule)
        measures += [1 - result.stats.edp / edp, seconds]
    return measures


def lasting(workload: Workload, tasks: Sequence[MappingTask], schedule: Mapping[str, Any],
            seconds: float) -> dict[str, Any]:
    """The schedule with as many steps as take so many seconds of CPU time, judged by two short runs."""
    few, more = (descended(workload, tasks, {**schedule, "steps": steps})[1] for steps in PROBES)
    each = (more - few) / (PROBES[1] - PROBES[0])
    return {**schedule, "steps": max(round(PROBES[0] + (seconds - few) / each), schedule["steps"])}


def descended(workload: Workload, tasks: Sequence[MappingTask], schedule: Mapping[str, Any]) -> tuple[float, float]:
    """Descends every layer by itself and keeps the best mapping that was drawn.

    Returns:
        The network's EDP, infinite where a layer has no legal mapping, and the CPU seconds of the descent.
    """
    start = time.process_time()
    effort = Effort(searches=0, descent=partial(descend, **schedule))
    outcomes = search_all(tasks, SearchOptions(effort=effort))
    spent = time.process_time() - start
    scores = [score(task.layer, outcome.nest) for task, outcome in zip(tasks, outcomes, strict=True)]
    costs = [(float(exact.energy[0]), int(exact.cycles[0])) for exact in scores]
    return workload.totals(costs).edp if all(outcome.legal for outcome in outcomes) else inf, spent


if __name__ == "__main__":
    main()
