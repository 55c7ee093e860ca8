"""The decisions without a gradient: loop order, keep or bypass, and where spatial loops lie.

Orders are drawn from those that can matter: a level's order decides which data spaces stay in place during its
innermost loops, so for every ranking of the data spaces the loops that leave the first one in place come first, and
so on; among equals, each dimension that slides a window is tried innermost.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from fadiff_mapper.mapspace import LoopSpace, MapSpace
from fadiff_mapper.nest import Projection
from fadiff_mapper.relax import Choices


def temporal_orders(space: MapSpace, projection: Projection, level: int) -> np.ndarray:
    """Candidate orders of one level's temporal loops, [n, D] dimension indices from the innermost loop outwards."""
    loops, index = space.levels[level].temporal, _index(space)
    between = [index[name] for name in loops.between]
    movable = [d for d in between if loops.choices[space.problem.dimensions[d]] != (1,)]
    fixed = [d for d in between if d not in movable]
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


def random_choices(space: MapSpace, projection: Projection, batch: int, rng: np.random.Generator) -> Choices:
    """One random set of decisions per restart; the first keeps everything it may, the second bypasses it inside."""
    levels, dims = len(space.levels), len(space.problem.dimensions)
    order, spatial_order = (np.zeros((levels, dims, batch), dtype=np.int64) for _ in range(2))
    on_y = np.zeros((levels, dims, batch), dtype=bool)
    keep = np.zeros((levels, len(projection.ranks), batch), dtype=bool)
    for level, here in enumerate(space.levels):
        orders = temporal_orders(space, projection, level)
        order[level] = orders[rng.integers(0, len(orders), batch)].T
        for row in range(batch):
            spatial_order[level, :, row], on_y[level, :, row] = random_spatial(space, level, rng)
        for tensor, name in enumerate(space.problem.dataspace_names()):
            keep[level, tensor] = (rng.random(batch) < 0.7) if name in here.open else name in here.keep
            keep[level, tensor, 0] |= name in here.open
            keep[level, tensor, 1:2] = name in here.keep or (name in here.open and level == levels - 1)
    return Choices(order, keep, on_y, spatial_order)


def open_keeps(space: MapSpace) -> list[tuple[int, int]]:
    """(level, tensor) of every keep-or-bypass decision that is open."""
    return [(level, tensor) for level, here in enumerate(space.levels)
            for tensor, name in enumerate(space.problem.dataspace_names()) if name in here.open]
