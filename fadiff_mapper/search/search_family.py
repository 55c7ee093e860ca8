"""The search of one family: descent on the relaxed model where it is asked for, then refinement on the exact one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.search.best_so_far import NO_TERMS, MetricTerms, SearchState, Watcher, unwatched
from fadiff_mapper.search.layer_family import LayerFamily
from fadiff_mapper.search.options import ILLEGAL, Progress, SearchOptions
from fadiff_mapper.search.refinement import refinement_of

if TYPE_CHECKING:
    from fadiff_mapper.imperfect.residual_nest import ResidualNest


@dataclass(frozen=True)
class SearchOutcome:
    """The end of the search of one problem.

    Attributes:
        nest: The best mapping, a nest of one row.
        value: Its value (see `best_so_far.exact_value`): the logarithm of the metric if legal, else above `ILLEGAL`.
        status: How the search ended, in words.
        history: Every improvement, in order.
        evaluations: Mappings evaluated.
        legal_evaluations: The legal ones of these.
        residuals: The same mapping with its residuals, where residual factors were searched.
    """

    nest: Nest
    value: float
    status: str
    history: tuple[Progress, ...]
    evaluations: int
    legal_evaluations: int
    residuals: ResidualNest | None = None

    @property
    def legal(self) -> bool:
        """Whether the mapping runs on the design."""
        return self.value < ILLEGAL


def search(family: LayerFamily, options: SearchOptions, *, watcher: Watcher = unwatched,
           stopped: Callable[[], bool] = lambda: False, given: Sequence[Nest] = (),
           terms: MetricTerms = NO_TERMS, deadline: float = inf) -> list[SearchOutcome]:
    """Searches every member of a family.

    Args:
        family: W layers; with the gradient they descend side by side.
        options: Effort and parts of the search. The same seed gives the same answer, unless time runs out.
        watcher: Called whenever a member's best mapping improves.
        stopped: Asked between steps; once true, the search ends with the best so far.
        given: Nests of one row to start from besides random ones, one for every member, or none at all.
        terms: Terms of the members in the exact evaluation.
        deadline: When all of them have to end, seconds of `time.monotonic`.

    Returns:
        One outcome per member, in order; its mapping may be illegal where no legal one was met.
    """
    members = len(family.spaces)
    descended: list[SearchOutcome] | None = None
    starts: list[Nest | None] = list(given) or [None] * members
    if options.schedule.descent:
        descended, starts = _descended(family, options, watcher, stopped, given, terms, deadline)
        if not options.schedule.refinement:
            return descended
    outcomes = []
    for member in range(members):
        now = time.monotonic()
        share = now + (deadline - now) / (members - member)
        before = descended[member] if descended else None
        outcomes.append(_refined(family, member, options, starts[member], before, share, watcher, stopped, terms))
    return outcomes


def _descended(family: LayerFamily, options: SearchOptions, watcher: Watcher, stopped: Callable[[], bool],
               given: Sequence[Nest], terms: MetricTerms,
               deadline: float) -> tuple[list[SearchOutcome], list[Nest | None]]:
    """The best mappings of the descent, and for each member the mappings that its refinement starts from.

    Starts are the best mapping so far and the descents' results in turn, `Effort.chains` of them.
    """
    state = SearchState(family, options, watcher, stopped, terms, deadline)
    if given:
        state.value(joined(given), np.arange(len(given)), "given")
    assert options.schedule.descent
    nest = options.schedule.descent(state, np.random.default_rng(options.seed))
    status = early_end(options, state.stopped(), state.out_of_time()) or "descent ended"
    outcomes = [SearchOutcome(state.nests[member], float(state.best[member]), status, tuple(state.history[member]),
                              int(state.evaluations[member]), int(state.legal_evaluations[member]))
                for member in range(len(state.nests))]
    members = len(state.nests)
    restarts = nest.batch // members
    starts: list[Nest | None] = [
        joined([state.nests[member],
                nest.take(member * restarts + np.arange(1, options.schedule.chains) % restarts)])
        for member in range(members)]
    return outcomes, starts


def _refined(family: LayerFamily, member: int, options: SearchOptions, starts: Nest | None,
             descended: SearchOutcome | None, deadline: float, watcher: Watcher, stopped: Callable[[], bool],
             terms: MetricTerms) -> SearchOutcome:
    """The refinement of one member until a deadline; the history goes on where the descent's ends."""
    before, legal_before = (descended.evaluations, descended.legal_evaluations) if descended else (0, 0)
    elapsed = descended.history[-1].time_s if descended else 0.0

    def after_descent(step: Progress) -> Progress:
        if descended is None:
            return step
        return replace(step, time_s=step.time_s + elapsed, evaluations=step.evaluations + before,
                       legal_evaluations=step.legal_evaluations + legal_before)

    def watch(nest: Nest, step: Progress) -> None:
        if descended is None or step.value < descended.value:
            watcher(member, nest, after_descent(step))

    def out_of_time() -> bool:
        return stopped() or time.monotonic() > deadline

    room = None if terms.room is None else (terms.room.words[..., member], terms.room.counted[..., member])
    weights = None if terms.weights is None else tuple(float(weight) for weight in terms.weights[:, member])
    sums = None if terms.sums is None else (float(terms.sums[0, member]), float(terms.sums[1, member]))
    refinement = refinement_of(family, member, options, starts, watcher=None if watcher is unwatched else watch,
                               out_of_time=out_of_time, room=room, weights=weights, sums=sums, deadline=deadline,
                               sparse=None if terms.sparse is None else terms.sparse.compiled)
    converged = options.schedule.refinement and not out_of_time() and refinement.run()
    status = early_end(options, stopped(), out_of_time()) or (
        "converged: no neighbour of the best mapping is better" if converged else "search ended")
    refinement.take_history()
    better = [after_descent(step) for step in refinement.history if descended is None or step.value < descended.value]
    return SearchOutcome(refinement.best(), refinement.chains.best_value, status,
                         (*(descended.history if descended else ()), *better),
                         before + refinement.chains.evaluations, legal_before + refinement.chains.legal_evaluations)


def early_end(options: SearchOptions, stopped: bool, out_of_time: bool) -> str:
    """The status of a search that did not run to its end; empty for others.

    Args:
        options: Options of the search.
        stopped: Whether it was stopped.
        out_of_time: Whether its time was over.
    """
    if stopped:
        return "interrupted: the best mapping so far"
    return f"out of time after {options.time_limit:g} s: the best mapping so far" if out_of_time else ""
