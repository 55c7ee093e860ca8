"""The search of sparse designs that the compiled kernel does not model: with spatial skipping.

Candidates come from the dense search, their values from the sparse evaluation. The dense search is fast and ends near
good mappings of most sparse designs. Every mapping by which it improved is a candidate. From the best candidates chains
of random moves and a last descent go on, on the exact sparse values, which take about a millisecond each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays
from fadiff_mapper.search.best_so_far import MetricTerms, SearchState, Watcher, best_rows, unwatched
from fadiff_mapper.search.compiled_space import compiled_space
from fadiff_mapper.search.layer_family import LayerFamily
from fadiff_mapper.search.options import ILLEGAL, SAME, Progress, SearchOptions, geometric
from fadiff_mapper.search.search_family import SearchOutcome, search
from fadiff_mapper.sparse.evaluate_sparse import SparseDesign

CANDIDATES = 48
"""Candidates of the dense search that are evaluated, the last ones, which are the best. A limit on time."""
CHAINS, TRIES, ROUNDS = 12, 6, 20
"""Chains of the refinement, neighbours that each tries in a round, and rounds, where the options ask for no fewer:
1,440 evaluations. A limit on time; nothing was measured."""
POLISH_STEPS = 4
"""Steps of the last descent at most, of some hundred evaluations each."""
TEMPERATURE_START, TEMPERATURE_END = 0.1, 0.01
"""Temperatures of the refinement's first and last round, in natural logarithms of the metric. Nothing was measured."""
RANDOM, RANDOM_BATCHES = 128, 8
"""Random mappings in a batch, and batches, where no candidate suits the formats of the design."""


def search_sparse(design: SparseDesign, family: LayerFamily, options: SearchOptions, *,
                  watcher: Watcher = unwatched, stopped: Callable[[], bool] = lambda: False,
                  given: Sequence[Nest] = (), deadline: float = inf) -> SearchOutcome:
    """Searches one layer on a sparse design.

    Args:
        design: The layer on its design.
        family: The layer, as a family of one.
        options: Metrics, seed and threads, and the effort of the dense search.
        watcher: Called whenever the best mapping improves.
        stopped: Asked between steps; once true, the search ends with the best so far.
        given: A nest to start from besides the candidates, or none.
        deadline: When the search has to end, seconds of `time.monotonic`.

    Returns:
        The outcome; its mapping may be illegal where no legal one was met.
    """
    effort = options.schedule
    own = replace(options, effort=replace(effort, neighbours=min(TRIES, effort.neighbours),
                                          chains=min(CHAINS, effort.chains), rounds=min(ROUNDS, effort.rounds)))
    state = SearchState(family, own, watcher, stopped, MetricTerms(sparse=design), deadline)
    candidates: list[Nest] = list(given)
    if given:
        state.value(joined(given), np.zeros(len(given), dtype=np.int64), "given")

    def collect(_: int, nest: Nest, step: Progress) -> None:
        if step.legal:
            candidates.append(nest)

    search(family, options, watcher=collect, stopped=stopped,
           deadline=inf if deadline == inf else (time.monotonic() + deadline) / 2)
    pool = joined(candidates[-CANDIDATES:] or [_random(family, options.seed)])
    values = state.value(pool, np.zeros(pool.batch, dtype=np.int64), "descent")
    for batch in range(RANDOM_BATCHES):
        if values.min() < ILLEGAL or state.out_of_time():
            break
        pool = _random(family, options.seed + 1 + batch)
        values = state.value(pool, np.zeros(pool.batch, dtype=np.int64), "start")
    status = _refined(state, pool, values)
    return SearchOutcome(state.nests[0], float(state.best[0]), status, tuple(state.history[0]),
                         int(state.evaluations[0]), int(state.legal_evaluations[0]))


def _random(family: LayerFamily, seed: int) -> Nest:
    """Random mappings of a family of one, `RANDOM` of them, the same for a seed."""
    *arrays, _, _ = _kernel.random_points(family.layer.compiled, compiled_space(family, 0), RANDOM, seed)
    return Nest(*arrays)


def _refined(state: SearchState, pool: Nest, values: np.ndarray) -> str:
    """Goes on from the best mappings of a pool; returns how the search ended, in words."""
    chains = state.options.schedule.chains
    best = np.argsort(values, kind="stable")[np.arange(chains) % min(chains, len(values))]
    status = "refinement ended"
    if state.options.schedule.refinement and not state.out_of_time():
        tables = compiled_space(state.family, 0)
        _anneal(state, tables, pool.take(best), values[best])
        if _polish(state, tables):
            status = "converged: no neighbour of the best mapping is better"
    if state.stopped():
        return "interrupted: the best mapping so far"
    if state.out_of_time():
        return f"out of time after {state.options.time_limit:g} s: the best mapping so far"
    return status


def _anneal(state: SearchState, tables: dict[str, Any], here: Nest, values: np.ndarray) -> None:
    """Chains of random moves that cool down, each to the best of some neighbours; ends early once half of them agree.

    Args:
        state: The running search; told of every mapping evaluated.
        tables: The map space for the kernel, which draws the moves.
        here: The first mapping of each chain.
        values: [B]. Their values.
    """
    rng, rounds = np.random.default_rng(state.options.seed), state.options.schedule.rounds
    layer, values = state.family.layer.compiled, values.copy()
    for step in range(rounds):
        temperature = geometric(TEMPERATURE_START, TEMPERATURE_END, step / max(rounds - 1, 1))
        *arrays, _, chain = _kernel.random_neighbours(layer, tables, *nest_arrays(here),
                                                      state.options.schedule.neighbours, int(rng.integers(1 << 63)))
        if not len(chain):
            break
        near = Nest(*arrays)
        nearby = state.value(near, np.zeros(near.batch, dtype=np.int64), "refine")
        pick = best_rows(nearby, chain)
        rise = np.maximum(nearby[pick] - values[chain[pick]], 0)
        pick = pick[rng.random(len(pick)) < np.exp(-rise / temperature)]
        values[chain[pick]] = nearby[pick]
        for name in Nest.__dataclass_fields__:
            getattr(here, name)[..., chain[pick]] = getattr(near, name)[..., pick]
        agreeing = np.count_nonzero(values <= state.best[0] + SAME)
        if state.out_of_time() or (step + 1 >= rounds // 2 and 2 * agreeing > len(values)):
            break


def _polish(state: SearchState, tables: dict[str, Any]) -> bool:
    """Steepest descent of the best mapping; returns whether no neighbour of where it ends is better."""
    for _ in range(POLISH_STEPS):
        if state.out_of_time():
            return False
        before = state.best[0]
        *arrays, _, _ = _kernel.all_neighbours(state.family.layer.compiled, tables, *nest_arrays(state.nests[0]),
                                               state.options.seed)
        near = Nest(*arrays)
        if not near.batch or state.value(near, np.zeros(near.batch, dtype=np.int64), "polish").min() >= before - SAME:
            return True
    return False
