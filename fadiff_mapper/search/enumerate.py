"""Every mapping of a small map space, counted exactly and laid out in batches.

A mapping is one factorization of each bound, for every level one order of its temporal loops and one placement of its
spatial ones, and one choice of what each level keeps. Loops of one iteration may stand anywhere, so only the others
are ordered, and an order that cannot matter (see `mapspace.build`) counts once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, product

import numpy as np

from fadiff_mapper.mapspace import LoopSpace, MapSpace, places
from fadiff_mapper.mapspace.build import between_on_x
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.relaxation.discrete_decisions import open_keeps

BLOCK = 1 << 15
"""Factorizations that are looked at together."""

DIGIT = 5
"""Bits of one number in a packed tally of loops: a level has fewer than 32 dimensions."""


def count(space: MapSpace) -> int:
    """How many mappings there are, illegal ones included; exact at any size.

    Dimension by dimension, the factorizations are tallied by how many loops of more than one iteration stand at each
    place, which is all that the numbers of orders and placements depend on.
    """
    tallies = Counter({0: 1})
    for name in space.problem.dimensions:
        longer: Counter[int] = Counter()
        for (tally, ways), (added, more) in product(tallies.items(), _factorizations_by_loops(space, name).items()):
            longer[tally + added] += ways * more
        tallies = longer
    arranged = sum(ways * math.prod(_arrangements(space, place, tally >> 2 * DIGIT * place)
                                    for place in range(2 * len(space.levels))) for tally, ways in tallies.items())
    return arranged << len(open_keeps(space))


def _factorizations_by_loops(space: MapSpace, name: str) -> dict[int, int]:
    """The factorizations of one bound, by the loops that they make: packed as `_loop` does, for all places."""
    bound = space.problem.bounds[name]
    partial = Counter({(1, 0): 1})
    for place, loops in enumerate(places(space)):
        longer: Counter[tuple[int, int]] = Counter()
        for ((done, tally), ways), factor in product(partial.items(), loops.choices[name]):
            if bound % (done * factor) == 0:
                loop = _loop(space, place, name) << 2 * DIGIT * place if factor > 1 else 0
                longer[done * factor, tally + loop] += ways
        partial = longer
    return {tally: ways for (done, tally), ways in partial.items() if done == bound}


def _loop(space: MapSpace, place: int, name: str) -> int:
    """One loop in a packed tally: (loops in free order, all loops); the latter only where their number matters."""
    placed = place % 2 == 0 and _cut_is_open(space, place // 2)
    return (name in places(space)[place].between) + (placed << DIGIT)


def _arrangements(space: MapSpace, place: int, tally: int) -> int:
    """The orders (of spatial loops: with their axes) of as many loops as a tally says."""
    free, all_loops = tally & (1 << DIGIT) - 1, tally >> DIGIT & (1 << DIGIT) - 1
    cuts = 1 if place % 2 else len(_cuts(space, place // 2, free, all_loops))
    return math.factorial(free) * cuts


def _cut_is_open(space: MapSpace, level: int) -> bool:
    return space.constraints.levels[level].spatial.split is None and min(space.levels[level].fanout) > 1


def _cuts(space: MapSpace, level: int, free: int, loops: int) -> range:
    """How many loops of several iterations may lie on X, the first ones of their order: of all `loops` of them where
    no split is given, else of the `free` ones that the permutation does not name."""
    split, (wide, high) = space.constraints.levels[level].spatial.split, space.levels[level].fanout
    if split is None:
        return range(loops + 1) if _cut_is_open(space, level) else range(1)
    order = space.levels[level].spatial
    on_x = between_on_x(split, len(order.inner), len(order.between))
    least, most = max(0, free - (len(order.between) - on_x)), min(free, on_x)
    if high == 1:
        least = free
    if wide == 1:
        most = 0
    return range(least, most + 1)


@dataclass(frozen=True)
class Arrangements:
    """The orders of one place's loops. M (set of dimensions with a loop, as a bit mask), n (order), D (dimension).

    number, first [M]: how many orders there are, and the row of the first one; order [n, D], dimension indices from
    the innermost; on_y [n, D] by dimension.
    """

    number: np.ndarray
    first: np.ndarray
    order: np.ndarray
    on_y: np.ndarray


def _arranged(space: MapSpace, place: int) -> Arrangements:
    names = space.problem.dimensions
    loops = places(space)[place]
    looping = [d for d, name in enumerate(names) if any(factor > 1 for factor in loops.choices[name])]
    number, first = np.zeros((2, 1 << len(names)), dtype=np.int64)
    orders: list[tuple[int, ...]] = []
    on_y: list[list[bool]] = []
    for real in chain.from_iterable(combinations(looping, n) for n in range(len(looping) + 1)):
        mask, idle = sum(1 << d for d in real), [d for d in range(len(names)) if d not in real]
        first[mask] = len(orders)
        for order, outside in _ways(space, place, [names[d] for d in real]):
            orders.append((*idle, *(names.index(name) for name in order)))
            on_y.append([name in outside for name in names])
        number[mask] = len(orders) - first[mask]
    return Arrangements(number, first, np.array(orders), np.array(on_y))


def _ways(space: MapSpace, place: int, real: Sequence[str]) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Every order of some loops, X before Y, with those on Y."""
    loops = places(space)[place]
    inner, between, outer = ([name for name in part if name in real] for part in (loops.inner, loops.between,
                                                                                  loops.outer))
    for order in permutations(between):
        whole = (*inner, *order, *outer)
        if place % 2:
            yield whole, frozenset()
            continue
        for cut in _cuts(space, place // 2, len(between), len(real)):
            outside = _on_y(space, place // 2, loops, inner, order, outer, cut)
            yield (*(n for n in whole if n not in outside), *(n for n in whole if n in outside)), outside


def _on_y(space: MapSpace, level: int, loops: LoopSpace, inner: Sequence[str], between: Sequence[str],
          outer: Sequence[str], cut: int) -> frozenset[str]:
    """The loops on Y where `cut` of them (see `_cuts`) lie on X."""
    split = space.constraints.levels[level].spatial.split
    if split is None:
        whole = (*inner, *between, *outer)
        if _cut_is_open(space, level):
            return frozenset(whole[cut:])
        return frozenset(whole if space.levels[level].fanout[0] == 1 else ())
    axes = space.levels[level].axes
    return frozenset({name for name in (*inner, *outer) if axes[name] == "Y"} | set(between[cut:]))


@dataclass(frozen=True)
class WholeSpace:
    """A map space ready to be walked through.

    factors    per dimension its factorizations, [n, P] (see `mapspace.tables` for places)
    arranged   per place the orders of its loops
    keep       what the levels keep, [K, level, tensor]
    """

    factors: tuple[np.ndarray, ...]
    arranged: tuple[Arrangements, ...]
    keep: np.ndarray


def whole_space(space: MapSpace) -> WholeSpace:
    """Lay out a map space. The tables grow with its size: `count` first."""
    names, pairs = space.problem.dataspace_names(), open_keeps(space)
    keep = np.array([[name in here.keep for name in names] for here in space.levels])
    keeps = keep[None].repeat(2 ** len(pairs), axis=0)
    for pair, column in zip(pairs, zip(*product((True, False), repeat=len(pairs)), strict=True), strict=True):
        keeps[:, pair[0], pair[1]] = column
    factors = tuple(_factorizations(space, name) for name in space.problem.dimensions)
    return WholeSpace(factors, tuple(_arranged(space, place) for place in range(2 * len(space.levels))), keeps)


def _factorizations(space: MapSpace, name: str) -> np.ndarray:
    """All factorizations of a dimension's bound, [n, P]."""
    bound = space.problem.bounds[name]
    rows: list[tuple[int, ...]] = [()]
    for loops in places(space):
        rows = [(*row, factor) for row in rows for factor in loops.choices[name]
                if bound % (math.prod(row) * factor) == 0]
    return np.array([row for row in rows if math.prod(row) == bound], dtype=np.float64).reshape(-1, len(places(space)))


def nests(whole: WholeSpace, size: int) -> Iterator[Nest]:
    """Every mapping once, in batches of at most `size`."""
    shape = tuple(len(rows) for rows in whole.factors)
    for start in range(0, math.prod(shape), BLOCK):
        digits = np.unravel_index(np.arange(start, min(start + BLOCK, math.prod(shape))), shape)
        factors = np.stack([rows[digit] for rows, digit in zip(whole.factors, digits, strict=True)])   # [D, F, P]
        masks = ((factors > 1) << np.arange(len(shape))[:, None, None]).sum(axis=0).T                  # [P, F]
        ways = np.stack([here.number[mask] for here, mask in zip(whole.arranged, masks, strict=True)])
        each = ways.prod(axis=0) * len(whole.keep)
        ends = np.cumsum(each)
        for low in range(0, int(ends[-1]), size):
            mapping = np.arange(low, min(low + size, int(ends[-1])))
            row = np.searchsorted(ends, mapping, side="right")
            yield _nest(whole, factors[:, row], masks[:, row], mapping - ends[row] + each[row])


def _nest(whole: WholeSpace, factors: np.ndarray, masks: np.ndarray, choice: np.ndarray) -> Nest:
    """The mappings of given factors [D, B, P], each with the arrangement that a number `choice` [B] stands for."""
    choice, keep = np.divmod(choice, len(whole.keep))
    orders, on_y = [], []
    for here, mask in zip(whole.arranged, masks, strict=True):
        choice, digit = np.divmod(choice, here.number[mask])
        orders.append(here.order[here.first[mask] + digit].T)
        on_y.append(here.on_y[here.first[mask] + digit].T)
    by_place = np.ascontiguousarray(factors.transpose(2, 0, 1))                                        # [P, D, B]
    return Nest(temporal=np.ascontiguousarray(by_place[1::2]), spatial=np.ascontiguousarray(by_place[0::2]),
                order=np.stack(orders[1::2]), keep=np.ascontiguousarray(whole.keep[keep].transpose(1, 2, 0)),
                on_y=np.stack(on_y[0::2]), spatial_order=np.stack(orders[0::2]))
