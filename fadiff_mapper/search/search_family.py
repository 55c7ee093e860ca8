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
    """The end of the search of one problem.

    Attributes:
        nest: The best mapping, a nest of one row.
        value: Its value (see `objective.exact_value`): the logarithm of the metric if legal, else above `ILLEGAL`.
        status: How the search ended, in words.
        history: Every improvement, in order.
        evaluations: Mappings evaluated.
    """

    nest: Nest
    value: float
    status: str
    history: tuple[Progress, ...]
    evaluations: int

    @property
    def legal(self) -> bool:
        """Whether the mapping runs on the design."""
        return self.value < ILLEGAL


def search(family: LayerFamily, options: SearchOptions, *, watcher: Watcher = lambda *_: None,
           stopped: Callable[[], bool] = lambda: False, given: Sequence[Nest] = (),
           terms: MetricTerms = NO_TERMS) -> list[SearchOutcome]:
    """Searches every member of a family.

    Args:
        family: W layers that are searched side by side.
        options: Effort and parts of the search. The same seed gives the same answer, unless time runs out.
        watcher: Called whenever a member's best mapping improves.
        stopped: Asked between steps; once true, the search ends with the best so far.
        given: Nests of one row to start from besides random ones, one for every member, or none at all.
        terms: Terms of the members in the exact evaluation.

    Returns:
        One outcome per member, in order; its mapping may be illegal where no legal one was met.
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
    """The chains' first mappings: the mappings of the descent in turn, for the first chain of each member its best so
    far.

    Returns the nests of all chains, `SearchOptions.chains` for each member in turn, and the member of each.
    """
    members, chains = len(state.nests), state.options.chains
    restarts = nest.batch // members
    rows = np.arange(members)[:, None] * restarts + np.arange(chains) % restarts
    starts, first = nest.take(rows.reshape(-1)), np.arange(members) * chains
    for name in Nest.__dataclass_fields__:
        getattr(starts, name)[..., first] = getattr(joined(state.nests), name)
    return starts, np.arange(members).repeat(chains)
