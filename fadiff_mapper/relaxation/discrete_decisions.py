"""The decisions without a gradient: loop order, keep or bypass, and where spatial loops lie.

Orders are drawn from those that can matter: a level's order decides which data spaces stay in place during its
innermost loops, so for every ranking of the data spaces the loops that leave the first one in place come first, and
so on; among equals, each dimension that slides a window is tried innermost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from fadiff_mapper.mapspace import LoopSpace, MapSpace
from fadiff_mapper.model.loop_nest import Projection

LAYOUTS = 256
"""Candidate placements of the spatial loops of one level with a two-dimensional fan-out."""


@dataclass(frozen=True)
class DiscreteDecisions:
    """The decisions that have no gradient, one column per mapping; arrays as in `Nest`."""

    order: np.ndarray
    keep: np.ndarray
    on_y: np.ndarray
    spatial_order: np.ndarray


def temporal_orders(space: MapSpace, projection: Projection, level: int, looping: np.ndarray) -> np.ndarray:
    """Candidate orders of one level's temporal loops, [n, D] dimension indices from the innermost loop outwards.

    `looping` [D]: which dimensions can have a loop there at all.
    """
    loops, index = space.levels[level].temporal, _index(space)
    between = [index[name] for name in loops.between]
    movable = [d for d in between if looping[d]]
    fixed = [d for d in between if not looping[d]]
    leading = [None, *(d for d in movable if any(d in projection.shared_dims(t) for t in range(len(projection.ranks))))]
    found: dict[tuple[int, ...], None] = {}
    for ranking in permutations(range(len(projection.ranks))):
        for first in leading:
            ordered = sorted(movable, key=lambda d: (*(bool(projection.relevant[t, d]) for t in ranking), d != first))
            found[_whole(loops, index, (*fixed, *ordered))] = None
    return np.array(list(found))


def _index(space: MapSpace) -> dict[str, int]:
    return {name: i for i, name in enumerate(space.problem.dimensions)}


def _whole(loops: LoopSpace, index: dict[str, int], between: tuple[int, ...]) -> tuple[int, ...]:
    return (*(index[n] for n in loops.inner), *between, *(index[n] for n in loops.outer))


def random_spatial(space: MapSpace, level: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random placement of one level's spatial loops within the constraints: (order [D], on Y [D] by dimension)."""
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
    """Candidate placements of one level's spatial loops: order [n, D] from the innermost, on_y [n, D] by dimension."""

    order: np.ndarray
    on_y: np.ndarray


def layouts(space: MapSpace, level: int) -> SpatialLayouts:
    """Placements that the constraints allow: one where the fan-out has one axis, else a sample, always the same."""
    rng = np.random.default_rng(level)
    count = LAYOUTS if min(space.levels[level].fanout) > 1 else 1
    order, on_y = (np.stack(part) for part in zip(*(random_spatial(space, level, rng) for _ in range(count)),
                                                  strict=True))
    _, distinct = np.unique(np.concatenate([order, on_y], axis=1), axis=0, return_index=True)
    return SpatialLayouts(order[np.sort(distinct)], on_y[np.sort(distinct)])


def open_keeps(space: MapSpace) -> list[tuple[int, int]]:
    """(level, tensor) of every keep-or-bypass decision that is open."""
    return [(level, tensor) for level, here in enumerate(space.levels)
            for tensor, name in enumerate(space.problem.dataspace_names()) if name in here.open]
