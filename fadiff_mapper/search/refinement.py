"""Refinement on the exact model: chains of random moves that cool down, then descent to a local optimum.

Whatever it starts from, nothing worse is returned: the search keeps the best mapping that it has met.
"""

from __future__ import annotations

import numpy as np

from fadiff_mapper.relaxation.annealing import geometric
from fadiff_mapper.search.best_so_far import SearchState, best_rows
from fadiff_mapper.search.neighbours import neighbours
from fadiff_mapper.search.options import Annealing
from fadiff_mapper.search.population import Population, put
from fadiff_mapper.search.random_moves import open_in, proposed

SAME = 1e-9
"""Values that differ by less are those of equally good mappings."""

LOOK_EVERY = 5
"""Rounds between two looks at whether the chains of a member agree."""


def anneal(state: SearchState, start: Population, rng: np.random.Generator, plan: Annealing) -> Population:
    """Simulated annealing in many chains at once; `start` holds equally many of each member.

    Every chain picks one of its random neighbours: the best, or each in proportion to exp(-value / temperature). It
    moves there if that is better, or else with the probability exp(-difference / temperature). Members whose chains
    agree on the best mapping leave early; what is returned are the chains of the others as they stand.
    """
    options, family = state.options, state.family
    open_, tries = open_in(family, options.orders), options.neighbours_tried
    here = start.take(np.arange(len(start.member)))  # a copy
    values = state.value(here.nest, here.member, "refine")
    lowest = values.copy()
    for step in range(plan.rounds):
        ratio = step / max(plan.rounds - 1, 1)
        temperature = geometric(plan.temperature_start, plan.temperature_end, ratio)
        near, row = proposed(open_, here, tries, rng)
        found = np.full((len(values), tries), np.inf)
        if len(row):  # else there is nothing to decide
            found.flat[row] = state.value(near.nest, near.member, "refine")
        luck = 0.0 if plan.greedy else temperature * rng.gumbel(size=found.shape)
        pick = (found - luck).argmin(axis=1)
        best = found[np.arange(len(found)), pick]
        risen = np.maximum(best - values, 0)
        rows = np.flatnonzero((rng.random(len(best)) < np.exp(-risen / temperature)) & (best < np.inf))
        put(here, rows, near, np.searchsorted(row, rows * tries + pick[rows]))
        values[rows] = best[rows]
        lowest = np.minimum(lowest, values)
        if state.out_of_time():
            break
        done = step + 1
        if (done % LOOK_EVERY == 0 and done >= plan.rounds_least) or done == plan.rounds:
            met = lowest <= state.best[here.member] + SAME
            busy = np.bincount(here.member[met], minlength=len(state.best)) < plan.chains_agreeing
            rows = np.flatnonzero(busy[here.member])
            if len(rows) < len(values):
                here, values, lowest = here.take(rows), values[rows], lowest[rows]
            if not len(rows):
                break
    return here


def strongest(state: SearchState, chains: Population, count: int) -> Population:
    """The best `count` chains of every member."""
    values = state.value(chains.nest, chains.member, "refine")
    ranked = np.lexsort((values, chains.member))
    member = chains.member[ranked]
    return chains.take(np.sort(ranked[np.arange(len(ranked)) - np.searchsorted(member, member) < count]))


def polish(state: SearchState, start: Population, rng: np.random.Generator, most: int = 200) -> bool:
    """Steepest descent of every row to a local optimum; whether all of them arrived."""
    family = state.family
    here, values = start, state.value(start.nest, start.member, "polish")
    for _ in range(most):
        if state.out_of_time():
            return False
        near, row = neighbours(family, here, rng, state.options.orders)
        if not len(row):
            return True
        found = state.value(near.nest, near.member, "polish")
        first = best_rows(found, row)
        first = first[found[first] < values[row[first]] - 1e-12]
        if not len(first):
            return True
        here, values = near.take(first), found[first]
    return False
