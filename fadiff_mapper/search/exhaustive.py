"""The true optimum of a small problem: every mapping of its map space, counted exactly and evaluated in batches.

A mapping is one factorization of each bound, for every level one order of its temporal loops and one layout of its
spatial loops, and one choice of the data spaces that each level keeps. Loops of one iteration may be anywhere, so only
the other loops are ordered, and orders that cannot matter (see `mapspace.build`) count once.

The count is a sum over factorizations; each contributes the product, over places, of the number of loop orders there.
This number depends on how many loops of several iterations a place has, not on their factors, so factorizations are
tallied by these numbers, dimension by dimension. A tally packs two numbers of `DIGIT` bits for each of the 2 L factor
places (2 l: spatial loops of level l, 2 l + 1: its temporal loops): loops in free order, and all loops.

Axes: P factor places, D dimensions, B mappings of a batch.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from math import inf

import numpy as np

from fadiff_mapper.base.deadline import Over, in_time, never, with_grace
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.best_so_far import SearchOutcome, SearchState, Watcher
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import MapSpace, cuts, factorization_count, orders_at
from fadiff_mapper.search.options import ILLEGAL, SearchOptions

BATCH = 1 << 14
"""Mappings for each thread between two looks at the clock, some tenths of a second."""

PROBE, LOOK_EVERY = 16, 0.25
"""Mappings that are timed before an enumeration with a deadline, and seconds between two looks at the clock."""

HOPELESS = 1000
"""A space with at least so many times more mappings than allowed is not counted to the end: an exact count would only
sharpen the number in an error message."""

BLOCK = 1 << 15
"""Factorizations that are laid out together: arrays of some megabytes."""

DIGIT = 5
"""Bits of one number in a packed tally of loops: a level has fewer than 32 dimensions."""


def measured(space: MapSpace, limit: int, over: Over = never) -> tuple[int, bool]:
    """The size of a map space, and whether it is exact: far above `limit` it is a lower bound. Raises OutOfTime."""
    least = 2 ** len(space.open_keeps) * math.prod(
        factorization_count(bound, [loops.choices[name] for loops in space.places])
        for name, bound in space.problem.bounds.items())
    return (least, False) if least > HOPELESS * limit else (count(space, over), True)


def refuse_large(space: MapSpace, limit: int, over: Over = never) -> None:
    """Raises FadiffError for a map space of more mappings than `limit`, OutOfTime before they are counted."""
    size, exact = measured(space, limit, over)
    if size > limit:
        raise FadiffError(f"{space.problem.name}: the map space has {'' if exact else 'more than '}{size:,} mappings; "
                          f"an exhaustive search is limited to {limit:,}; accepted: more constraints, a smaller "
                          "problem, or a higher limit")


def exhaust(task: MappingTask, options: SearchOptions, *, watcher: Watcher | None = None,
            stopped: Over = never, deadline: float = inf) -> SearchOutcome:
    """Evaluates all mappings of a problem; the start of a task matters only if time runs out.

    The status says that all mappings were evaluated, or how many of how many. Raises FadiffError if the map space is
    empty, OutOfTime before the first mapping.
    """
    space, state = task.space, SearchState([task], options, watcher, stopped, deadline)
    total, done = count(space), 0
    if not total:
        raise FadiffError(f"{space.problem.name}: no mapping can meet the constraints: no spatial loops are left")
    if task.given:
        state.value(task.given, np.zeros(1, dtype=np.int64), "given")
    whole, size = whole_space(space, with_grace(deadline, stopped)), BATCH * options.workers
    if deadline < inf:
        some, start = next(nests(whole, PROBE)), time.perf_counter()
        score(task.layer, some)
        size = min(size, max(1, int(LOOK_EVERY / (time.perf_counter() - start) * some.batch)))
    for nest in nests(whole, size):
        state.value(nest, np.zeros(nest.batch, dtype=np.int64), "exhaustive")
        done += nest.batch
        if done < total and state.out_of_time():
            reason = "interrupted" if state.stopped() else f"out of time after {options.time_limit:g} s"
            status = f"{reason}: the best of {done} of {total} mappings"
            break
    else:
        status = (f"optimal: all {total} mappings evaluated" if state.best[0] < ILLEGAL
                  else f"proved: none of all {total} mappings is legal")
    return replace(state.outcome(0, status), evaluations=done)


def count(space: MapSpace, over: Over = never) -> int:
    """The number of mappings of a map space, illegal ones included; exact at any size. Raises OutOfTime."""
    tallies = Counter({0: 1})
    for name, bound in space.problem.bounds.items():
        # Factorizations of the bound, counted by the tally of their loops.
        partial = Counter({(1, 0): 1})
        for p, loops in enumerate(space.places):
            # all loops are counted only where any number of them may lie on X
            level, limits = space.levels[p // 2], space.constraints.levels[p // 2].spatial
            counted = p % 2 == 0 and limits.split is None and min(level.fanout) > 1
            loop = ((name in loops.between) + (counted << DIGIT)) << 2 * DIGIT * p
            further: Counter[tuple[int, int]] = Counter()
            for ((done, tally), times), factor in product(partial.items(), loops.choices[name]):
                if bound % (done * factor) == 0:
                    further[done * factor, tally + (loop if factor > 1 else 0)] += times
            partial = further
        longer: Counter[int] = Counter()
        own = [(tally, times) for (done, tally), times in partial.items() if done == bound]
        for tally, times in in_time(tallies.items(), over):
            for added, more in own:
                longer[tally + added] += times * more
        tallies = longer
    total = 0
    for tally, times in in_time(tallies.items(), over):
        for p in range(2 * len(space.levels)):
            free, loops_here = (tally >> (2 * p + part) * DIGIT & (1 << DIGIT) - 1 for part in (0, 1))
            times *= math.factorial(free) * (1 if p % 2 else len(cuts(space, p // 2, free, loops_here)))
        total += times
    return total << len(space.open_keeps)


Arrangements = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The orders of the loops at one factor place, for every set of dimensions that have a loop there.

A set is a bit mask m below 2^D; its orders are in rows first[m] up to first[m] + number[m] of two tables [n, D]:
dimension indices from the innermost loop outwards, and whether the loop of a dimension lies on the Y axis. The tuple is
(number, first, table of orders, table of axes)."""


def _arranged(space: MapSpace, p: int, over: Over) -> Arrangements:
    names, loops = space.problem.dimensions, space.places[p]
    looping = [d for d, name in enumerate(names) if any(factor > 1 for factor in loops.choices[name])]
    number, first = np.zeros((2, 1 << len(names)), dtype=np.int64)
    orders: list[tuple[int, ...]] = []
    on_y: list[list[bool]] = []
    for real in in_time(chain.from_iterable(combinations(looping, n) for n in range(len(looping) + 1)), over):
        mask, idle = sum(1 << d for d in real), [d for d in range(len(names)) if d not in real]
        first[mask] = len(orders)
        for order, y_loops in in_time(orders_at(space, p, real), over):
            orders.append((*idle, *order))
            on_y.append([d in y_loops for d in range(len(names))])
        number[mask] = len(orders) - first[mask]
    return number, first, np.array(orders), np.array(on_y)


@dataclass(frozen=True)
class WholeSpace:
    """A map space as tables from which all mappings are enumerated."""

    factors: tuple[np.ndarray, ...]     # For each dimension its factorizations, [n, P]
    arranged: tuple[Arrangements, ...]  # For each factor place the orders of its loops
    keep: np.ndarray                    # Every choice of the data spaces that the levels keep, [n, L, T]


def whole_space(space: MapSpace, over: Over = never) -> WholeSpace:
    """Lays out a map space; tables grow with its size, so `refuse_large` should come first. Raises OutOfTime."""
    factors = []
    for name, bound in space.problem.bounds.items():
        rows: list[tuple[int, ...]] = [()]
        for loops in space.places:
            rows = [(*row, factor) for row in in_time(rows, over) for factor in loops.choices[name]
                    if bound % (math.prod(row) * factor) == 0]
        factors.append(np.array([row for row in rows if math.prod(row) == bound],
                                dtype=np.float64).reshape(-1, 2 * len(space.levels)))
    return WholeSpace(tuple(factors), tuple(_arranged(space, p, over) for p in range(2 * len(space.levels))),
                      space.every_keep)


def nests(whole: WholeSpace, size: int) -> Iterator[Nest]:
    """Every mapping once, in batches of at most `size`.

    The mappings of a factorization are numbered; the digits of a number, in a base that differs from place to place,
    select the order at each place and the kept data spaces.
    """
    shape = tuple(len(rows) for rows in whole.factors)
    for start in range(0, math.prod(shape), BLOCK):
        digits = np.unravel_index(np.arange(start, min(start + BLOCK, math.prod(shape))), shape)
        factors = np.stack([rows[digit] for rows, digit in zip(whole.factors, digits, strict=True)])   # [D, F, P]
        masks = ((factors > 1) << np.arange(len(shape))[:, None, None]).sum(axis=0).T                  # [P, F]
        numbers = np.stack([number[mask] for (number, *_), mask in zip(whole.arranged, masks, strict=True)])
        each = numbers.prod(axis=0) * len(whole.keep)
        ends = np.cumsum(each)
        for low in range(0, int(ends[-1]), size):
            mapping = np.arange(low, min(low + size, int(ends[-1])))
            row = np.searchsorted(ends, mapping, side="right")
            choice, keep = np.divmod(mapping - ends[row] + each[row], len(whole.keep))
            orders, on_y = [], []
            for (number, first, order, high), mask in zip(whole.arranged, masks[:, row], strict=True):
                choice, digit = np.divmod(choice, number[mask])
                orders.append(order[first[mask] + digit].T)
                on_y.append(high[first[mask] + digit].T)
            placed = np.ascontiguousarray(factors[:, row].transpose(2, 0, 1))                           # [P, D, B]
            yield Nest(temporal=np.ascontiguousarray(placed[1::2]), spatial=np.ascontiguousarray(placed[0::2]),
                       order=np.stack(orders[1::2]), keep=np.ascontiguousarray(whole.keep[keep].transpose(1, 2, 0)),
                       on_y=np.stack(on_y[0::2]), spatial_order=np.stack(orders[0::2]))
