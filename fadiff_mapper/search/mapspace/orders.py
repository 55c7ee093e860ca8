"""The orders of the loops at one place, and the cut of spatial loops into X and Y."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from fadiff_mapper.search.mapspace.build import MapSpace, between_on_x, places


def cut_is_open(space: MapSpace, level: int) -> bool:
    """Whether a level's spatial loops may be cut anywhere into X and Y."""
    return space.constraints.levels[level].spatial.split is None and min(space.levels[level].fanout) > 1


def cuts(space: MapSpace, level: int, free: int, loops: int) -> range:
    """The numbers of loops of several iterations that may lie on X, the first ones of their order.

    They count all `loops` without a split, else the `free` ones, which the permutation does not name.
    """
    split, (wide, high) = space.constraints.levels[level].spatial.split, space.levels[level].fanout
    if split is None:
        return range(loops + 1) if cut_is_open(space, level) else range(1)
    order = space.levels[level].spatial
    on_x = between_on_x(split, len(order.inner), len(order.between))
    least, most = max(0, free - (len(order.between) - on_x)), min(free, on_x)
    if high == 1:
        least = free
    if wide == 1:
        most = 0
    return range(least, most + 1)


def orders_at(space: MapSpace, p: int, real: Sequence[int]) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
    """Every order of the loops of some dimensions at place `p`, X before Y; and the set on Y."""
    names, loops, level = space.problem.dimensions, places(space)[p], space.levels[p // 2]
    split = space.constraints.levels[p // 2].spatial.split
    inner, between, outer = ([d for d in map(names.index, part) if d in real]
                             for part in (loops.inner, loops.between, loops.outer))
    for order in permutations(between):
        whole = (*inner, *order, *outer)
        for cut in [0] if p % 2 else cuts(space, p // 2, len(between), len(real)):
            y_loops: frozenset[int] = frozenset()
            if p % 2 == 0 and split is not None:
                y_loops = frozenset({d for d in (*inner, *outer) if level.axes[names[d]] == "Y"} | {*order[cut:]})
            elif p % 2 == 0:
                y_loops = frozenset(whole[cut:] if cut_is_open(space, p // 2) else whole * (level.fanout[0] == 1))
            yield tuple(sorted(whole, key=y_loops.__contains__)), y_loops
