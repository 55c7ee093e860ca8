"""The decisions without a gradient: loop order, keep or bypass, and where spatial loops lie.

Orders are drawn from the few that can matter. A level's order decides which data spaces stay in place during its
innermost loops; so for every ranking of the data spaces there is a candidate in which the loops that leave the first
data space in place come innermost, among these the loops that leave the second in place, and so on. Among equals each
dimension that slides a window is tried innermost, because only the innermost loop brings new words alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import TypeAlias

import numpy as np

from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.model.loop_nest import Projection

MOST_ORDERS = 5040
"""Candidate orders of one level: those for all rankings of seven data spaces. With more, so many are drawn at
random. A plain limit that keeps the tables small; nothing was measured to choose it."""

LAYOUTS = 256
"""Samples of the placement of spatial loops of one level with a two-dimensional fan-out, equal ones merged. A plain
limit that keeps the tables small; nothing was measured to choose it."""

REMEMBERED = 4096
"""Candidate orders and layouts that are kept, of levels with equal constraints: the layers of a network and the tiles
of its groups share nearly all of theirs. Of the time of 700 searches of small tiles they took a third before."""

Dimensions: TypeAlias = tuple[int, ...]
"""Indices of dimensions, innermost first."""


@dataclass(frozen=True)
class DiscreteDecisions:
    """The decisions that have no gradient, one column per mapping; arrays as in `Nest`.

    Attributes:
        order: [L, D, B]. Dimension indices of the temporal loops, innermost first.
        keep: [L, T, B]. Whether the level keeps the data space.
        on_y: [L, D, B]. Whether the spatial factor of a dimension lies on the Y axis.
        spatial_order: [L, D, B]. Dimension indices of the spatial loops, innermost first.
    """

    order: np.ndarray
    keep: np.ndarray
    on_y: np.ndarray
    spatial_order: np.ndarray


def temporal_orders(space: MapSpace, projection: Projection, level: int, looping: Sequence[bool]) -> np.ndarray:
    """Candidate orders of one level's temporal loops within the constraints.

    Args:
        space: The map space.
        projection: Tells the dimensions that move each data space.
        level: Index of the level.
        looping: [D]. Whether the dimension can have a loop at this level at all; the position of the others does
            not matter.

    Returns:
        [n, D]. Distinct orders as dimension indices, innermost first.
    """
    loops = space.levels[level].temporal
    return _orders(space.problem.dimensions, loops.inner, loops.between, loops.outer, tuple(looping),
                   projection.relevance, projection.shared)


@lru_cache(maxsize=REMEMBERED)
def _orders(dimensions: tuple[str, ...], inner: tuple[str, ...], between: tuple[str, ...], outer: tuple[str, ...],
            looping: tuple[bool, ...], relevant: tuple[tuple[bool, ...], ...], shared: frozenset[int]) -> np.ndarray:
    """`temporal_orders` from all that it depends on, which many levels of many layers share.

    Args:
        dimensions: Names of the dimensions, D.
        inner: The innermost dimensions in order.
        between: The dimensions whose order is free.
        outer: The outermost dimensions in order.
        looping: [D]. Whether the dimension can have a loop.
        relevant: [T, D]. Whether the dimension moves the data space.
        shared: Dimensions that share a rank with another one.

    Returns:
        [n, D]. Distinct orders, innermost first; not to be written to.
    """
    innermost, free, outermost = (_indices(part, dimensions) for part in (inner, between, outer))
    movable, fixed = [d for d in free if looping[d]], [d for d in free if not looping[d]]
    leading = [None, *(d for d in movable if d in shared)]
    moved = dict.fromkeys(tuple(row[d] for d in movable) for row in relevant)
    telling = [row for row in moved if len(set(row)) > 1]
    orders: dict[Dimensions, None] = {}
    for ranking, first in _rankings(telling, leading):
        told = dict(zip(movable, zip(*ranking, strict=True), strict=False))
        ordered = sorted(movable, key=lambda d: (told.get(d, ()), d != first))
        orders[(*innermost, *fixed, *ordered, *outermost)] = None
    return np.array(list(orders))


def _rankings(telling: list[tuple[bool, ...]], leading: list[int | None]) -> Iterator[
        tuple[Sequence[tuple[bool, ...]], int | None]]:
    """Rankings of data spaces, each with a dimension to be tried innermost: all, or `MOST_ORDERS` drawn at random."""
    if math.factorial(len(telling)) * len(leading) <= MOST_ORDERS:
        yield from product(permutations(telling), leading)
        return
    rng = np.random.default_rng(0)
    for _ in range(MOST_ORDERS):
        yield [telling[row] for row in rng.permutation(len(telling))], leading[rng.integers(len(leading))]


def _indices(names: tuple[str, ...], dimensions: tuple[str, ...]) -> Dimensions:
    """Indices of some dimensions."""
    return tuple(dimensions.index(name) for name in names)


def _random_layout(inner: Dimensions, between: Dimensions, outer: Dimensions, fanout: tuple[int, int],
                   split: int | None, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random placement of spatial loops.

    Args:
        inner: The innermost dimensions in order.
        between: The dimensions whose order is free.
        outer: The outermost dimensions in order.
        fanout: Units along X and Y.
        split: Number of loops along X; None: random on a fan-out of two axes.
        rng: Source of randomness.

    Returns:
        Order of the loops, [D] dimension indices from the innermost, and whether each dimension lies on Y, [D] by
        dimension.
    """
    order = np.array([*inner, *rng.permutation(between).astype(np.int64), *outer], dtype=np.int64)
    if split is None:
        x, y = fanout
        split = len(order) if y == 1 else 0 if x == 1 else int(rng.integers(0, len(order) + 1))
    on_y = np.ones(len(order), dtype=bool)
    on_y[order[:split]] = False
    return order, on_y


@dataclass(frozen=True)
class SpatialLayouts:
    """Candidate placements of one level's spatial loops; of a family of W members, [W, n, D] each.

    Attributes:
        order: [n, D]. Dimension indices from the innermost loop.
        on_y: [n, D]. Whether each dimension lies on the Y axis, by dimension.
    """

    order: np.ndarray
    on_y: np.ndarray


def layouts(space: MapSpace, level: int) -> SpatialLayouts:
    """Placements of one level's spatial loops that the constraints allow.

    Args:
        space: The map space.
        level: Index of the level, which is also the seed: the sample is always the same.

    Returns:
        One placement where the fan-out has one axis, else the distinct ones of `LAYOUTS` random ones.
    """
    here = space.levels[level]
    return _layouts(space.problem.dimensions, here.spatial.inner, here.spatial.between, here.spatial.outer,
                    here.fanout, space.constraints.levels[level].spatial.split, level)


@lru_cache(maxsize=REMEMBERED)
def _layouts(dimensions: tuple[str, ...], inner: tuple[str, ...], between: tuple[str, ...], outer: tuple[str, ...],
             fanout: tuple[int, int], split: int | None, seed: int) -> SpatialLayouts:
    """`layouts` from all that it depends on, which many layers share; not to be written to."""
    rng = np.random.default_rng(seed)
    innermost, free, outermost = (_indices(part, dimensions) for part in (inner, between, outer))
    count = LAYOUTS if min(fanout) > 1 else 1
    order, on_y = (np.stack(part) for part in zip(*(
        _random_layout(innermost, free, outermost, fanout, split, rng) for _ in range(count)), strict=True))
    _, distinct = np.unique(np.concatenate([order, on_y], axis=1), axis=0, return_index=True)
    return SpatialLayouts(order[np.sort(distinct)], on_y[np.sort(distinct)])


def open_keeps(space: MapSpace) -> list[tuple[int, int]]:
    """(level, index of the data space) of every keep-or-bypass decision that the constraints leave open."""
    return [(level, t) for level, here in enumerate(space.levels)
            for t, name in enumerate(space.problem.dataspace_names()) if name in here.open]
