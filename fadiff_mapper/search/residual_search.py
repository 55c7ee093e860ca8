"""The search through residual factors, from the best mapping without them.

Starts are the best mapping of the layer and those of slightly larger layers, cut off at the bounds: a layer of 28 rows
for one of 27. From the best of them random moves go on, always from the best few mappings so far.

Timeloop rounds the instances in use on average down, and divides the words of a fan-out among all its receivers, so
that the best mapping by its numbers alone would be the one that the rounding takes most from. A mapping here is as
good as the worse of two values: Timeloop's own, and the one without these faults (`evaluate_residuals.averaged`);
where both forget multiply-accumulates, it is worse by that share.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from fadiff_mapper.imperfect.evaluate_residuals import as_timeloop, averaged, walk_residuals
from fadiff_mapper.imperfect.residual_nest import ResidualNest, cut_off, joined_residuals, without_residuals
from fadiff_mapper.mapspace import available
from fadiff_mapper.model.exact.evaluate import scores_of
from fadiff_mapper.search.best_so_far import exact_value
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import ILLEGAL, Progress, SearchOptions
from fadiff_mapper.search.residual_moves import FactorLimits, factor_limits, padded, random_neighbours, within
from fadiff_mapper.search.search_family import SearchOutcome, search
from fadiff_mapper.spec.spec import Spec

MULTIPLES = (2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 32)
"""Numbers that the bounds of larger layers are multiples of. Nothing was measured."""

MOST_GROWTH = 0.34
"""Growth of a bound for such a layer, relative to it, at most. Nothing was measured."""

CHAINS, BRIEF = 16, 24
"""Chains and rounds of the searches of larger layers at most: their mappings are starts, no results."""

BEAM = 4
"""Mappings that each round goes on from: the best so far."""

NEIGHBOURS = 96
"""Neighbours of each of them in a round."""

ROUNDS, PATIENCE = 40, 8
"""Rounds at most, and rounds without an improvement after which the search ends."""

GAIN = 1e-9
"""Improvements by less are none: values are logarithms."""


@dataclass
class _State:
    """The best mappings so far, by ascending value, and the way to them."""

    task: MappingTask
    limits: FactorLimits
    options: SearchOptions
    start: float
    evaluations: int
    legal_evaluations: int
    beam: list[tuple[float, ResidualNest]]
    history: list[Progress]

    def values(self, batch: ResidualNest) -> np.ndarray:
        """Values of a batch, [B]; see the module."""
        self.evaluations += batch.nest.batch
        walks = walk_residuals(self.task.layer, batch)
        values = np.maximum(*(exact_value(scores_of(evaluation), self.options.priorities) for evaluation in (
            as_timeloop(self.task.layer, walks), averaged(self.task.layer, walks))))
        values += np.log(walks.forgotten(self.task.layer.problem.computes))
        least = self.task.space.constraints.min_parallelism
        share = batch.nest.spatial.prod(axis=(0, 1)) / available(self.task.space)
        values = np.where(within(batch, self.limits) & (share >= least), values, 2 * ILLEGAL)
        self.legal_evaluations += int(np.count_nonzero(values < ILLEGAL))
        return values

    def take(self, batch: ResidualNest, stage: str) -> bool:
        """Evaluates a batch and keeps its best; returns whether one is better than all before."""
        if not batch.nest.batch:
            return False
        values, before = self.values(batch), self.beam[0][0] if self.beam else np.inf
        for row in np.argsort(values, kind="stable")[:BEAM]:
            self.beam.append((float(values[row]), batch.take([row])))
        self.beam.sort(key=lambda pair: pair[0])
        del self.beam[BEAM:]
        better = self.beam[0][0] < before - GAIN
        if better:
            self.history.append(Progress(time.monotonic() - self.start, self.evaluations, self.legal_evaluations,
                                         self.beam[0][0], stage))
        return better


def search_residuals(spec: Spec, task: MappingTask, outcome: SearchOutcome, options: SearchOptions, *,
                     stopped: Callable[[], bool] = lambda: False, deadline: float = inf) -> SearchOutcome:
    """Goes on from the end of a search without residuals.

    Args:
        spec: The problem on its design.
        task: The same as it was searched.
        outcome: The end of that search, with a legal mapping.
        options: Metrics, seed and effort of the searches of larger layers.
        stopped: Asked between steps; once true, the search ends with the best so far.
        deadline: When the search has to end, seconds of `time.monotonic`.

    Returns:
        The outcome with the better mapping, with or without residuals.
    """
    start = time.monotonic()

    def over() -> bool:
        return stopped() or time.monotonic() > deadline

    before = outcome.history[-1].time_s if outcome.history else 0.0
    state = _State(task, factor_limits(task.space), options, start - before, outcome.evaluations,
                   outcome.legal_evaluations, [], [])
    given = without_residuals(outcome.nest)
    state.take(given, "given")
    state.beam[:] = [(outcome.value, given)]  # the walk of its calls may be too long, by which it would be illegal
    state.history.clear()
    effort = options.schedule
    brief = replace(options, effort=replace(effort, chains=min(CHAINS, effort.chains), rounds=min(BRIEF, effort.rounds),
                                            extra_rounds=0, resplit_rate=0.0))
    for larger in _larger_layers(spec, task):
        if over():
            break
        found, = search(larger.family, brief, stopped=stopped, deadline=deadline)
        state.evaluations += found.evaluations
        state.legal_evaluations += found.legal_evaluations
        if found.legal:
            state.take(cut_off(found.nest, state.limits.bounds), "start")
    rng = np.random.default_rng(options.seed)
    idle = 0
    for _ in range(ROUNDS):
        if idle == PATIENCE or over():
            break
        near = [random_neighbours(here, task.space, state.limits, rng, NEIGHBOURS) for _, here in state.beam]
        idle = 0 if state.take(joined_residuals(near), "residuals") else idle + 1
    value, best = state.beam[0]
    status = outcome.status if over() else "search through residual factors ended"
    return replace(outcome, nest=best.nest, value=value, residuals=best, status=status, evaluations=state.evaluations,
                   legal_evaluations=state.legal_evaluations, history=(*outcome.history, *state.history))


def _larger_layers(spec: Spec, task: MappingTask) -> list[MappingTask]:
    """The problem with bounds rounded up, wherever a dimension has loops at several places."""
    limits, bounds = factor_limits(task.space), spec.problem.bounds
    open_places = (limits.most > limits.least).sum(axis=0) > 1
    movable = frozenset(name for name, several in zip(bounds, open_places, strict=True) if several)
    distinct = {tuple(grown.values()): grown for multiple in MULTIPLES
                if (grown := padded(bounds, multiple, movable, MOST_GROWTH)) != bounds}
    tasks = [mapping_task(replace(spec, problem=replace(spec.problem, bounds=grown))) for grown in distinct.values()]
    return [larger for larger in tasks if not larger.impossible]
