"""The decisions without a gradient: loop order, keep or bypass, and where spatial loops lie.

Orders are drawn from the few that can matter. A level's order decides which data spaces stay in place during its
innermost loops; so for every ranking of the data spaces there is a candidate in which the loops that leave the first
data space in place come innermost, among these the loops that leave the second in place, and so on. Among equals each
dimension that slides a window is tried innermost, because only the innermost loop brings new words alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from fadiff_mapper.mapspace import LoopSpace, MapSpace
from fadiff_mapper.model.loop_nest import Projection

LAYOUTS = 256
"""Samples of the placement of spatial loops of one level with a two-dimensional fan-out, equal ones merged. A plain
limit that keeps the tables small; nothing was measured to choose it."""


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


def temporal_orders(space: MapSpace, projection: Projection, level: int, looping: np.ndarray) -> np.ndarray:
    """Candidate orders of one level's temporal loops within the constraints.

    Args:
        space: The map space.
        projection: Which dimensions move which data space.
        level: Index of the level.
        looping: [D]. Whether the dimension can have a loop at this level at all; the position of the others does
            not matter.

    Returns:
        [n, D]. Distinct orders as dimension indices, innermost first.
    """
    loops, index = space.levels[level].temporal, _index(space)
    between = [index[name] for name in loops.between]
    movable = [d for d in between if looping[d]]
    fixed = [d for d in between if not looping[d]]
    leading = [None, *(d for d in movable if any(d in projection.shared_dims(t) for t in range(len(projection.ranks))))]
    orders: dict[tuple[int, ...], None] = {}
    for ranking in permutations(range(len(projection.ranks))):
        for first in leading:
            ordered = sorted(movable, key=lambda d: (*(bool(projection.relevant[t, d]) for t in ranking), d != first))
            orders[_whole(loops, index, (*fixed, *ordered))] = None
    return np.array(list(orders))


def _index(space: MapSpace) -> dict[str, int]:
    """Index of each dimension by its name."""
    return {name: i for i, name in enumerate(space.problem.dimensions)}


def _whole(loops: LoopSpace, index: dict[str, int], between: tuple[int, ...]) -> tuple[int, ...]:
    """An order of all dimensions: dimensions fixed innermost, `between`, dimensions fixed outermost by the
    constraints."""
    return (*(index[n] for n in loops.inner), *between, *(index[n] for n in loops.outer))


def random_spatial(space: MapSpace, level: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random placement of one level's spatial loops within the constraints.

    Args:
        space: The map space.
        level: Index of the level.
        rng: Source of randomness.

    Returns:
        Order of the loops, [D] dimension indices from the innermost, and whether each dimension lies on Y, [D] by
        dimension. Without a constraint the split is random on a fan-out of two axes.
    """
    here, loops, index = space.levels[level], space.levels[level].spatial, _index(space)
    between = rng.permutation([index[name] for name in loops.between]).astype(np.int64)
    order = np.array(_whole(loops, index, tuple(int(d) for d in between)), dtype=np.int64)
    split = space.constraints.levels[level].spatial.split
    if split is None:
        x, y = here.fanout
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
    rng = np.random.default_rng(level)
    count = LAYOUTS if min(space.levels[level].fanout) > 1 else 1
    order, on_y = (np.stack(part) for part in zip(*(random_spatial(space, level, rng) for _ in range(count)),
                                                  strict=True))
    _, distinct = np.unique(np.concatenate([order, on_y], axis=1), axis=0, return_index=True)
    return SpatialLayouts(order[np.sort(distinct)], on_y[np.sort(distinct)])


def open_keeps(space: MapSpace) -> list[tuple[int, int]]:
    """(level, index of the data space) of every keep-or-bypass decision that the constraints leave open."""
    return [(level, t) for level, here in enumerate(space.levels)
            for t, name in enumerate(space.problem.dataspace_names()) if name in here.open]
