"""The search of one family: gradient descent on the relaxed model, then refinement on the exact one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.relaxation.layer_batch import LayerFamily
from fadiff_mapper.relaxation.objective import ILLEGAL
from fadiff_mapper.search.best_so_far import NO_TERMS, MetricTerms, SearchState, Watcher
from fadiff_mapper.search.gradient_descent import descend
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.population import population_of
from fadiff_mapper.search.refinement import anneal, polish, strongest


@dataclass(frozen=True)
class SearchOutcome:
    """The best nest of one problem (one row), its value, and how the search ended."""

    nest: Nest
    value: float
    status: str
    history: tuple[Progress, ...]
    evaluations: int

    @property
    def legal(self) -> bool:
        return self.value < ILLEGAL


def search(family: LayerFamily, options: SearchOptions, *, watcher: Watcher = lambda *_: None,
           stopped: Callable[[], bool] = lambda: False, given: Sequence[Nest] = (),
           terms: MetricTerms = NO_TERMS) -> list[SearchOutcome]:
    """The best mapping found for every member of a family.

    `given` are nests to start from besides random ones, one for every member. `stopped` is asked between steps. The
    same seed gives the same answer, unless time runs out. A result may be illegal where no legal mapping was met;
    `SearchOutcome.legal` tells.
    """
    rng = np.random.default_rng(options.seed)
    state = SearchState(family, options, watcher, stopped, terms)
    if given:
        state.value(joined(given), np.arange(len(given)), "given")
    nest = descend(state, options.restarts if options.gradient else options.chains, rng)
    status = "descent ended"
    if options.refinement and not state.out_of_time():
        undecided = anneal(state, population_of(family, *_starts(state, nest)), rng, options.annealing)
        if len(undecided.member) and options.rounds_further and not state.out_of_time():
            anneal(state, strongest(state, undecided, options.chains_further), rng, options.further_annealing)
        best = population_of(family, joined(state.nests), np.arange(len(state.nests)))
        if polish(state, best, rng):
            status = "converged: no neighbour of the best mapping is better"
    if state.stopped():
        status = "interrupted: the best mapping so far"
    elif state.out_of_time():
        status = f"out of time after {options.time_limit:g} s: the best mapping so far"
    return [SearchOutcome(state.nests[member], float(state.best[member]), status, tuple(state.history[member]),
                          int(state.evaluations[member])) for member in range(len(state.nests))]


def _starts(state: SearchState, nest: Nest) -> tuple[Nest, np.ndarray]:
    """For every chain a nest, those of the descent in turn, and its member; the first chain of each has the best."""
    members, chains = len(state.nests), state.options.chains
    share = nest.batch // members
    rows = np.arange(members)[:, None] * share + np.arange(chains) % share
    whole, first = nest.take(rows.reshape(-1)), np.arange(members) * chains
    for name in Nest.__dataclass_fields__:
        getattr(whole, name)[..., first] = getattr(joined(state.nests), name)
    return whole, np.arange(members).repeat(chains)
