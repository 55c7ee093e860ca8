"""Refinement on the exact model: chains of random moves that cool down, then descent to a local optimum.

Gradient descent on the relaxed model ends near good mappings, not at the best (`benchmarks/layer_quality.py
--ablations` measures how near), so the search goes on with exact values. The method is simulated annealing
(Kirkpatrick, Gelatt and Vecchi 1983) in many chains at once, each of which looks at several neighbours before it
moves. Whatever it starts from, nothing worse is returned: `SearchState` keeps the best mapping that the search has met.
"""

from __future__ import annotations

import numpy as np

from fadiff_mapper.relaxation.annealing import geometric
from fadiff_mapper.search.best_so_far import SearchState, best_rows
from fadiff_mapper.search.move_tables import open_in
from fadiff_mapper.search.neighbours import neighbours
from fadiff_mapper.search.options import Annealing
from fadiff_mapper.search.population import Population, put
from fadiff_mapper.search.random_moves import proposed

SAME = 1e-9
"""Values (logarithms of the metric) that differ by less are those of equally good mappings: far above the rounding of
float64, far below a word more or less. Nothing was measured."""

LOOK_EVERY = 5
"""Rounds between two looks at whether the chains of a member agree. Halved together with the number of rounds (10 of
120 before), so that there are equally many looks; nothing else was measured."""

LEAST_DESCENT = 1e-12
"""A neighbour has to be better by more than this (in logarithms of the metric) for the last descent to go there, so
that it cannot circle among mappings that differ by rounding alone."""


def anneal(state: SearchState, start: Population, rng: np.random.Generator, plan: Annealing) -> Population:
    """Simulated annealing in many chains at once (Kirkpatrick, Gelatt and Vecchi 1983).

    In each round every chain draws `SearchOptions.neighbours_tried` random moves and picks one: the best (greedy), or
    each in proportion to exp(-value / temperature). A pick that is better is taken; a worse one with the probability
    exp(-difference / temperature). Values are logarithms of the metric: at a temperature of 0.1 a metric that is 10 %
    higher is accepted about once in e. All chains of a member leave once enough of them have met its best mapping.

    Args:
        state: The running search; told of every mapping evaluated.
        start: The chains, equally many of each member; not changed.
        rng: Source of all random numbers.
        plan: Rounds, temperatures, and when chains agree.

    Returns:
        The chains of the members that have not agreed, as they stand at the end; none if all have.
    """
    options, family = state.options, state.family
    open_, tries = open_in(family, options.orders), options.neighbours_tried
    here = start.take(np.arange(len(start.member)))  # a copy
    values = state.value(here.nest, here.member, "refine")
    lowest = values.copy()
    for step in range(plan.rounds):
        ratio = step / max(plan.rounds - 1, 1)
        temperature = geometric(plan.temperature_start, plan.temperature_end, ratio)
        near, draw = proposed(open_, here, tries, rng)
        nearby = np.full((len(values), tries), np.inf)
        if len(draw):  # else there is nothing to decide
            nearby.flat[draw] = state.value(near.nest, near.member, "refine")
        # The largest of -value / temperature + Gumbel noise is a draw in proportion to exp(-value / temperature).
        noise = 0.0 if plan.greedy else temperature * rng.gumbel(size=nearby.shape)
        pick = (nearby - noise).argmin(axis=1)
        picked = nearby[np.arange(len(nearby)), pick]
        risen = np.maximum(picked - values, 0)
        rows = np.flatnonzero((rng.random(len(picked)) < np.exp(-risen / temperature)) & (picked < np.inf))
        put(here, rows, near, np.searchsorted(draw, rows * tries + pick[rows]))
        values[rows] = picked[rows]
        lowest = np.minimum(lowest, values)
        if state.out_of_time():
            break
        done = step + 1
        if (done % LOOK_EVERY == 0 and done >= plan.rounds_least) or done == plan.rounds:
            rows = _undecided(state, here.member, lowest, plan.chains_agreeing)
            if len(rows) < len(values):
                here, values, lowest = here.take(rows), values[rows], lowest[rows]
            if not len(rows):
                break
    return here


def _undecided(state: SearchState, member: np.ndarray, lowest: np.ndarray, chains_agreeing: int) -> np.ndarray:
    """Rows of the chains whose member has fewer than `chains_agreeing` chains that have met its best mapping.

    `member` and `lowest` [B]: each chain's member and the lowest value that it has had.
    """
    met = lowest <= state.best[member] + SAME
    undecided = np.bincount(member[met], minlength=len(state.best)) < chains_agreeing
    return np.flatnonzero(undecided[member])


def strongest(state: SearchState, chains: Population, count: int) -> Population:
    """The `count` chains of every member whose present mappings are best."""
    values = state.value(chains.nest, chains.member, "refine")
    ranked = np.lexsort((values, chains.member))
    member = chains.member[ranked]
    return chains.take(np.sort(ranked[np.arange(len(ranked)) - np.searchsorted(member, member) < count]))


def polish(state: SearchState, start: Population, rng: np.random.Generator, most: int = 200) -> bool:
    """Steepest descent of every row to a local optimum.

    Args:
        state: The running search; told of every mapping evaluated.
        start: The mappings to start from.
        rng: Draws the sample of layouts among the neighbours.
        most: Steps at most; a limit for safety, nothing was measured.

    Returns:
        Whether every row arrived where no neighbour is better.
    """
    family = state.family
    here, values = start, state.value(start.nest, start.member, "polish")
    for _ in range(most):
        if state.out_of_time():
            return False
        near, origin = neighbours(family, here, rng, state.options.orders)
        if not len(origin):
            return True
        nearby = state.value(near.nest, near.member, "polish")
        best = best_rows(nearby, origin)
        best = best[nearby[best] < values[origin[best]] - LEAST_DESCENT]
        if not len(best):
            return True
        here, values = near.take(best), nearby[best]
    return False
