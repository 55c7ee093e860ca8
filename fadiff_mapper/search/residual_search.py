"""The search through residual factors, from the best mapping without them.

It starts from the best mappings of the layer and of slightly larger layers, cut off at the bounds: a layer of 28 rows
for a layer of 27. From the best of these, chains of random moves continue, as in the search without residuals.

Timeloop rounds the average instances in use down, and divides the words of a fan-out among all its receivers, so that
the best mapping by its numbers would exploit the rounding. A mapping here has the worse of two values: Timeloop's, and
the value without rounding (`model.evaluate.UNROUNDED`); missing multiply-accumulates worsen it by their share.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf

import numpy as np

from fadiff_mapper.base.deadline import Over, at_latest, never
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.loop_nest import Nest, cut_off, joined, nest_arrays, without_lasts
from fadiff_mapper.search.best_so_far import SearchOutcome
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.mapspace.build import factor_ranges
from fadiff_mapper.search.options import SAME, Progress, SearchOptions
from fadiff_mapper.search.refinement import chains_of, compiled_space, cool
from fadiff_mapper.search.search_many import search

MULTIPLES = (2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 32)
"""Numbers whose multiples are bounds of larger layers."""

MOST_GROWTH = 0.34
"""Largest relative growth of a bound in such a larger layer."""

BRIEF_CHAINS, BRIEF_ROUNDS = 16, 24
"""Most chains and rounds of the searches of larger layers: their mappings are only starts."""

CHAINS, TRIED, ROUNDS, COOLING = (12, 6), (10, 32), (24, 14), ((0.1, 0.003), (0.003, 0.001))
"""Schedules of the chains through residual factors: chains, neighbours tried per round, rounds, temperatures of first
and last round. The second continues with the best chains, as the first often ends above the best mapping."""

CROSSOVER = 0.1
"""Share of the moves that take all factors of one dimension from another chain."""

POLISH_STEPS = 2
"""Most steps of the last descent, of some hundred neighbours each."""


def search_residuals(spec: Spec, task: MappingTask, outcome: SearchOutcome, options: SearchOptions, *,
                     stopped: Over = never, deadline: float = inf) -> SearchOutcome:
    """The better outcome, with or without residual factors; `outcome`: of the search without, a legal mapping."""
    over = at_latest(deadline, stopped)
    earlier = (outcome.history[-1].time_s if outcome.history else 0.0) - time.monotonic()
    least, most = factor_ranges(task.space)
    bounds = list(spec.problem.bounds.values())
    effort = options.schedule
    brief = replace(options, effort=replace(effort, chains=min(BRIEF_CHAINS, effort.chains),
                                            rounds=min(BRIEF_ROUNDS, effort.rounds), extra_rounds=0, resplit_rate=0.0))
    # Larger layers round up the bounds of dimensions with loops at several places.
    several, layers = (most > least).sum(axis=0) > 1, {}
    for multiple in MULTIPLES:
        grown = {}
        for (name, bound), more in zip(spec.problem.bounds.items(), several, strict=True):
            up = -(-bound // multiple) * multiple
            grown[name] = up if more and up <= bound * (1 + MOST_GROWTH) else bound
        if grown != spec.problem.bounds and tuple(grown.values()) not in layers:
            layers[tuple(grown.values())] = mapping_task(replace(spec, problem=replace(spec.problem, bounds=grown)))
    starts, evaluations, legal_evaluations = [outcome.nest], outcome.evaluations, outcome.legal_evaluations
    for larger in layers.values():
        if over():
            break
        if larger.impossible:
            continue
        found, = search([larger], brief, stopped=stopped, deadline=deadline)
        evaluations += found.evaluations
        legal_evaluations += found.legal_evaluations
        if found.legal:
            starts.append(found.nest)
    first = cut_off(joined(starts), bounds)
    factors = np.stack([first.spatial, first.temporal], axis=1).reshape(*least.shape, -1)
    allowed = ((factors >= least[..., None]) & (factors <= most[..., None])).all(axis=(0, 1))
    rows = np.flatnonzero(allowed)
    earlier += time.monotonic()
    chains = chains_of(task, options, compiled_space(task.family, 0, residuals=True), deadline)
    chains.start_at(nest_arrays(first.take(np.concatenate([rows, np.resize(rows, max(CHAINS[0] - len(rows), 0))]))))
    for count, tried, rounds, (hot, cold) in zip(CHAINS, TRIED, ROUNDS, COOLING, strict=True):
        if not over():
            chains.keep_strongest(count)
            chains.begin(rounds, hot, cold, rounds, count, tried, True, 0.0, CROSSOVER)
            cool(chains, over)
    ended = not over() and chains.polish(POLISH_STEPS)
    better = tuple(Progress(seconds + earlier, evaluated + evaluations, legal + legal_evaluations, value, "residuals")
                   for seconds, evaluated, legal, value, _ in chains.history(0) if value < outcome.value - SAME)
    return replace(outcome, nest=without_lasts(Nest(*chains.best())) if better else outcome.nest,
                   value=min(chains.best_value, outcome.value),
                   status="converged: no neighbour with residual factors is better" if ended else outcome.status,
                   evaluations=evaluations + chains.evaluations,
                   legal_evaluations=legal_evaluations + chains.legal_evaluations, history=(*outcome.history, *better))
