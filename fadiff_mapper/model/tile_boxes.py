"""Boxes of points below every boundary, and their words: tiles of levels, windows of ranks.

The first step of the shared equations, see `access_counts.py` for the others and for the axes.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from fadiff_mapper.inputs.spec.problem import extent
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, all_active, array_namespace


@dataclass(frozen=True)
class Tiles:
    """Extents and sizes of tiles. The tile of level l is the box that its temporal loops and all loops inside span.

    Attributes:
        below: [L, D, B]. Points per dimension below boundary l: the tile of one receiver (one point for l = 0).
        across: [L, D, B]. Points below boundary l of all receivers of one instance together: `below` times the
            spatial factors of level l, the part of the tile that one temporal iteration of level l touches.
        size: [L, T, B]. Words of the tile of level l.
        below_size: [L, T, B]. Words of the boxes `below`.
        across_size: [L, T, B]. Words of the boxes `across`.
    """

    below: Array
    across: Array
    size: Array
    below_size: Array
    across_size: Array


def tiles(nest: Nest, projection: Projection, active: Active | None = None) -> Tiles:
    """The boxes of points at every boundary and their words.

    FADiff eq. (5) multiplies the factors of a data space's dimensions; here a rank that is a sum of dimensions
    spans its window (see `rank_extent`). Tiles are those of whole runs, where there is one.

    Args:
        nest: The mappings.
        projection: Ranks of the data spaces.
        active: Loops that may differ from 1; None takes all.

    Returns:
        Tiles of all mappings.
    """
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    levels = range(nest.temporal.shape[0])
    none = [None for _ in levels]
    temporal_last, spatial_last = (nest.temporal_last, nest.spatial_last) if nest.residual else (none, none)
    boxes, below, across, whole = [xp.ones_like(nest.temporal[0])], [], [], []
    rests, lasts = boxes.copy(), []  # boxes where all loops further out are in their last iteration; last runs

    def grow(factors: Array, last: Array | None) -> None:
        if last is not None:
            rests.append(rests[-1] + boxes[-1] * (last - 1))
            lasts.append(last)
        boxes.append(boxes[-1] * factors)

    for level in levels:
        below.append(len(boxes) - 1)
        if active.spatial[level].any():
            grow(nest.spatial[level], spatial_last[level])
        across.append(len(boxes) - 1)
        if active.temporal[level].any():
            grow(nest.temporal[level], temporal_last[level])
        whole.append(len(boxes) - 1)
    extents = xp.stack(boxes)
    if nest.residual:
        further = boxes[:1]
        for last in reversed(lasts):
            further.append(further[-1] * last)
        extents = xp.where(xp.stack(further[::-1]) > 1, extents, xp.stack(rests))
    words = volume(extents, projection)
    return Tiles(extents[below], extents[across], words[whole], words[below], words[across])


def volume(extents: Array, projection: Projection) -> Array:
    """Words of boxes in every data space: the product of the extents of its ranks.

    Args:
        extents: [N, D, B]. Points per dimension of N boxes.
        projection: Ranks of the data spaces.

    Returns:
        [N, T, B].
    """
    xp = array_namespace(extents)
    return xp.stack([product([rank_extent(extents, rank) for rank in ranks]) for ranks in projection.ranks], axis=1)


def rank_extent(extents: Array, rank: tuple[tuple[int, int], ...]) -> Array:
    """Extent of one rank of a data space (`spec.problem.extent`), [N, B], in boxes of extents [N, D, B]."""
    return extent([(coefficient, extents[:, d]) for d, coefficient in rank])


def product(factors: Sequence[Array]) -> Array:
    """The product in the given order, of at least one factor."""
    return reduce(operator.mul, factors)


def total(terms: Sequence[Array]) -> Array:
    """The sum in the given order, on which the last bit may depend, of at least one term."""
    return reduce(operator.add, terms)
