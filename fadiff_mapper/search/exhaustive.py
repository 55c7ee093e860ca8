"""The true optimum of a small problem: every mapping of its map space is evaluated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from math import inf

import numpy as np

from fadiff_mapper.base.deadline import Over, never, with_grace
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.search.best_so_far import NO_TERMS, MetricTerms, SearchState, Watcher, unwatched
from fadiff_mapper.search.enumerate import count, nests, whole_space
from fadiff_mapper.search.layer_family import LayerFamily, open_keeps
from fadiff_mapper.search.mapspace import MapSpace, factorization_count, places
from fadiff_mapper.search.options import ILLEGAL, SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome

BATCH = 1 << 14
"""Mappings for each thread between two looks at the clock: 0.1 to 0.5 s at the rates that
`benchmarks/evaluation_throughput.py` prints."""

PROBE, LOOK_EVERY = 16, 0.25
"""Mappings that are timed before an enumeration with a deadline, and seconds between two looks at the clock."""

HOPELESS = 1000
"""A space with so many times more factorizations than mappings are allowed is not counted to the end, which would take
long and only sharpen the number in an error message. Nothing was measured."""


def measured(space: MapSpace, limit: int, over: Over = never) -> tuple[int, bool]:
    """The size of a map space, exact unless it is far above a limit.

    Args:
        space: The map space.
        limit: Mappings that the caller would still enumerate.
        over: Tells whether time is over.

    Returns:
        How many mappings there are, and whether that is exact; if not, there are more.

    Raises:
        OutOfTime: Time was over before they were counted.
    """
    least = 2 ** len(open_keeps(space)) * math.prod(
        factorization_count(bound, [loops.choices[name] for loops in places(space)])
        for name, bound in space.problem.bounds.items())
    return (least, False) if least > HOPELESS * limit else (count(space, over), True)


def refuse_large(space: MapSpace, limit: int, over: Over = never) -> None:
    """Refuses a map space that is too large to enumerate.

    Raises:
        FadiffError: The map space has more mappings than `limit`.
        OutOfTime: Time was over before they were counted.
    """
    size, exact = measured(space, limit, over)
    if size > limit:
        raise FadiffError(f"{space.problem.name}: the map space has {'' if exact else 'more than '}{size:,} mappings; "
                          f"an exhaustive search is limited to {limit:,}; accepted: more constraints, a smaller "
                          "problem, or a higher limit")


def exhaust(family: LayerFamily, options: SearchOptions, *, watcher: Watcher = unwatched,
            stopped: Callable[[], bool] = lambda: False, given: Sequence[Nest] = (),
            terms: MetricTerms = NO_TERMS, deadline: float = inf) -> list[SearchOutcome]:
    """Evaluates all mappings of a family of one member.

    Args:
        family: The layer, as a family of one.
        options: Metrics and threads; the rest is of no account.
        watcher: Called whenever the best mapping improves.
        stopped: Asked between batches; once true, the search ends with the best so far.
        given: A nest of the space to start from, or none; matters only where time runs out.
        terms: Terms of the member in the exact evaluation.
        deadline: When the search has to end, seconds of `time.monotonic`.

    Returns:
        One outcome; its status says that all mappings were evaluated, or how many of how many.

    Raises:
        FadiffError: The map space is empty.
        OutOfTime: Time was over before the first mapping.
    """
    space, state = family.spaces[0], SearchState(family, options, watcher, stopped, terms, deadline)
    total, done, status = count(space), 0, ""
    if not total:
        raise FadiffError(f"{space.problem.name}: no mapping can meet the constraints: no spatial loops are left")
    if given:
        state.value(joined(given), np.zeros(1, dtype=np.int64), "given")
    whole, size = whole_space(space, with_grace(deadline, stopped)), BATCH * options.workers
    if deadline < inf:
        size = min(size, _mappings_between_looks(family, next(nests(whole, PROBE))))
    for nest in nests(whole, size):
        state.value(nest, family.member_of(nest.batch), "exhaustive")
        done += nest.batch
        if done < total and state.out_of_time():
            reason = "interrupted" if state.stopped() else f"out of time after {options.time_limit:g} s"
            status = f"{reason}: the best of {done} of {total} mappings"
            break
    words = f"optimal: all {total} mappings evaluated"
    if state.best[0] >= ILLEGAL:
        words = f"proved: none of all {total} mappings is legal"
    return [SearchOutcome(state.nests[0], float(state.best[0]), status or words, tuple(state.history[0]), done,
                          int(state.legal_evaluations[0]))]


def _mappings_between_looks(family: LayerFamily, some: Nest) -> int:
    """Mappings that are evaluated within `LOOK_EVERY`, by the time that some take on one thread."""
    start = time.perf_counter()
    score(family.layer, some)
    return max(1, int(LOOK_EVERY / (time.perf_counter() - start) * some.batch))
