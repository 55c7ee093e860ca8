"""The exact cost of every segment's group, by the planner's own estimates, search of tiles and evaluation.

Whatever came before plays no role for a group, unlike in the planner, which learns strategies on the way: a space has
one cost for each segment, in whatever order a method asks.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

from benchmarks.agatf.fusion_space import FusionSpace, Nodes, SpaceGroup
from benchmarks.agatf.import_networks import network
from fadiff_mapper import NetworkOptions, map_layers
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.candidates import candidates
from fadiff_mapper.fusion.estimates import Candidate
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.network.checkpoint import Checkpoint, opened
from fadiff_mapper.network.map_network import padded_layers
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.options import layer_search
from fadiff_mapper.network.planning import SHORT, PlanningRun, evaluated
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.network.result import EvaluatedGroup
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.workload import Workload

LONGEST = 16
"""Operators of a group at most: AGATF's actions are 1 to 16, and the planner's limit is the same."""


@dataclass(frozen=True)
class SpaceTask:
    """A network with its layers mapped, whose groups can be evaluated.

    Attributes:
        run: A run of the planner that has come to its layers.
        design: Name of the design.
        segments: Every distinct segment by its key.
        number: For every segment of the network the number of its key.
    """

    run: PlanningRun
    design: str
    segments: Mapping[Hashable, Segment]
    number: Mapping[Nodes, int]


def space_task(workload: Workload, design: str, seed: int = 0, saved: Checkpoint | None = None) -> SpaceTask:
    """Maps every distinct layer of a network by itself, as the planner does first.

    Args:
        workload: The network.
        design: Name of a bundled design.
        seed: Seed of the searches.
        saved: Takes notice of evaluations; None: nothing does.
    """
    options = NetworkOptions(seed=seed, threads=1, longest=LONGEST)
    specs = specs_of(workload, bundled_files.find(f"arch/{design}"))
    results = tuple(map_layers(specs, layer_search(options)))
    effort = SearchOptions(seed=seed, threads=1, effort="light")
    padded = padded_layers(results, effort, lambda: False)
    run = PlanningRun(workload, options, results, padded, None, PlanningClock(None, lambda: False),
                      saved or opened(None, workload, specs, options), lambda *_: None)
    every = segments(workload, LONGEST)
    keys = {segment.key: segment for segment in reversed(every)}
    order = {key: index for index, key in enumerate(keys)}
    return SpaceTask(run, design, keys, {segment.nodes: order[segment.key] for segment in every})


def space_group(task: SpaceTask, segment: Segment) -> SpaceGroup:
    """Evaluates the candidate of a segment with the best estimate; with all strategies where it falls short."""
    run, price, start = task.run, task.run.price, time.process_time()
    found = candidates(run.compiled(segment), price, inf)
    if not found:
        nothing = run.alone[segment.nodes[0]]
        return SpaceGroup(nothing, None, 0, time.process_time() - start)
    best, searches = _evaluated(task, found[0], compared=False), 1
    if best is None or price(best.point) > (1 + SHORT) * price(found[0].estimate):
        again, searches = _evaluated(task, found[0], compared=True), 2
        best = min((group for group in (best, again) if group), key=lambda group: price(group.point), default=None)
    return SpaceGroup(found[0].estimate, best.point if best else None, searches, time.process_time() - start)


def _evaluated(task: SpaceTask, candidate: Candidate, compared: bool) -> EvaluatedGroup | None:
    """Searches the tiles of a candidate; strategies of other groups are not known."""
    task.run.memory.strategies.clear()
    return evaluated(task.run, [candidate], task.run.price, compared)[0]


def space_with(task: SpaceTask, groups: tuple[SpaceGroup, ...]) -> FusionSpace:
    """The space with the groups of all distinct segments, in their order."""
    run = task.run
    return FusionSpace(run.workload, task.design, tuple(run.chains), dict(run.alone), run.joined,
                       with_candidates(task.number, groups), groups)


@cache
def space(name: str, design: str) -> FusionSpace:
    """Every group of a network of `import_networks` on a design, evaluated, which takes seconds to a minute."""
    task = space_task(network(name), design)
    return space_with(task, tuple(space_group(task, segment) for segment in task.segments.values()))


def with_candidates(number: Mapping[Nodes, int], groups: Sequence[SpaceGroup]) -> dict[Nodes, int]:
    """The segments for which estimates know a candidate; for others there is nothing to evaluate.

    Args:
        number: For every segment the number of its group.
        groups: The groups.
    """
    return {nodes: index for nodes, index in number.items() if groups[index].searches}
