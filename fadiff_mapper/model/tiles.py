"""Boxes of points below every boundary and their words (tiles of levels, windows of ranks), and instances in use.

The first step of the shared equations, see `access_counts.py` for the others and for the axes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.inputs.spec.problem import extent
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, all_active, array_namespace


@dataclass(frozen=True)
class Tiles:
    """Boxes of points at every boundary and their words, and the instances in use of a batch of mappings.

    The tile of level l is the box that its temporal loops and all loops inside span.
    """

    below: Array           # [L, D, B]. Points per dimension below boundary l: the tile of one receiver (one point for
                           # l = 0)
    across: Array          # [L, D, B]. Points below boundary l of all receivers of one instance together: `below` times
                           # the spatial factors of level l, the part of the tile that one temporal iteration of level
                           # l touches
    size: Array            # [L, T, B]. Words of the tile of level l
    below_size: Array      # [L, T, B]. Words of the boxes `below`
    across_size: Array     # [L, T, B]. Words of the boxes `across`
    expansion_x: Array     # [L + 1, B]. Instances in use along X; entry 0 is the arithmetic, entry l + 1 is level l
    expansion_y: Array     # [L + 1, B]. The same along Y
    compute_cycles: Array  # [B]. Product of all temporal loops: cycles if nothing throttles
    computes: Array        # [B]. Multiply-accumulates: the product of all factors; with residuals see `average_usage`
    # [L, B]. Average instances of every storage level in use, if last runs of spatial loops or empty tiles leave some
    # idle; limits on meshes still apply to the expansions. None: all instances laid out
    average: Array | None = None

    @property
    def laid_out(self) -> Array:
        """Instances of every storage level that the mapping lays out, [L, B]."""
        return self.expansion_x[1:] * self.expansion_y[1:]

    @property
    def instances(self) -> Array:
        """Used instances of every storage level, [L, B]."""
        return self.laid_out if self.average is None else self.average


def tiles(nest: Nest, projection: Projection, active: Active | None = None) -> Tiles:
    """The boxes of points at every boundary and their words, instances in use and compute cycles.

    FADiff eq. (5) multiplies the factors of a data space's dimensions; here a rank that is a sum of dimensions
    spans its window (see `rank_extent`). A tile is that of a full run, if there is one. The expansion of a level is
    the product of all spatial loops further out (of all of them for the arithmetic). `active`: the loops that may
    exceed 1; None: all.
    """
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    levels = range(nest.temporal.shape[0])
    boxes, below, across, whole = [xp.ones_like(nest.temporal[0])], list[int](), list[int](), list[int]()
    rests, lasts = boxes.copy(), []  # boxes if all loops further out are in their last iteration; last runs
    for level in levels:
        for inside, factors, last, looping in ((below, nest.spatial, nest.spatial_last, active.spatial),
                                               (across, nest.temporal, nest.temporal_last, active.temporal)):
            inside.append(len(boxes) - 1)
            if looping[level].any():
                if last is not None:
                    rests.append(rests[-1] + boxes[-1] * (last[level] - 1))
                    lasts.append(last[level])
                boxes.append(boxes[-1] * factors[level])
        whole.append(len(boxes) - 1)
    extents = xp.stack(boxes)
    if nest.residual:
        further = boxes[:1]
        for last in reversed(lasts):
            further.append(further[-1] * last)
        extents = xp.where(xp.stack(further[::-1]) > 1, extents, xp.stack(rests))
    words = xp.stack([math.prod(rank_extent(extents, rank) for rank in ranks) for ranks in projection.ranks], axis=1)
    one, spread = xp.ones_like(nest.spatial[:, 0]), np.flatnonzero(active.spatial.any(axis=0)).tolist()
    on_x = math.prod((xp.where(nest.on_y[:, d], one, nest.spatial[:, d]) for d in spread), start=one)
    on_y = math.prod((xp.where(nest.on_y[:, d], nest.spatial[:, d], one) for d in spread), start=one)
    x, y = [one[0]], [one[0]]  # from the outermost level inwards
    for level in reversed(levels):
        x.append(x[-1] * on_x[level])
        y.append(y[-1] * on_y[level])
    cycles = math.prod((xp.prod(factors, axis=0) for factors in nest.temporal), start=one[0])
    return Tiles(extents[below], extents[across], words[whole], words[below], words[across], xp.stack(x[::-1]),
                 xp.stack(y[::-1]), cycles, cycles * x[-1] * y[-1])


def rank_extent(extents: Array, rank: tuple[tuple[int, int], ...]) -> Array:
    """Extent of one rank of a data space (`spec.problem.extent`), [N, B], in boxes of extents [N, D, B]."""
    return extent([(coefficient, extents[:, d]) for d, coefficient in rank])


def average_usage(tile: Tiles, nest: Nest) -> tuple[Tiles, np.ndarray]:
    """The tiles with average instances in use and computes of a batch with residual factors; both without rounding.

    Cycles are counted for full runs.

    A spatial loop with bound n and residual r that runs m times uses (r + n (m - 1)) / m receivers on average. Timeloop
    counts as multiply-accumulates the computes of the first unit times the units in use, rounded down: too few if
    last runs are shorter in both.

    Also returns the average receivers of one instance of each level, [L, B].
    """
    rows = np.arange(nest.batch)
    runs = np.ones(nest.temporal.shape[1:])  # [D, B]; iterations of all loops so far, last runs at their true length
    used, average = np.ones(nest.batch), np.empty((len(nest.temporal), nest.batch))
    for level in reversed(range(len(nest.temporal))):
        average[level] = used
        runs = nest.temporal_last[level] + nest.temporal[level] * (runs - 1)
        for on_y in (True, False) if level else ():
            for position in reversed(range(nest.order.shape[1])):
                d = nest.spatial_order[level, position]
                here = nest.on_y[level, d, rows] == on_y
                bound = np.where(here, nest.spatial[level, d, rows], 1)
                last = np.where(here, nest.spatial_last[level, d, rows], 1)
                times = runs[d, rows]
                used = np.where(bound == last, used * bound, used * (last + bound * (times - 1)) / times)
        runs = nest.spatial_last[level] + nest.spatial[level] * (runs - 1)
    units = np.trunc(average[0] * nest.spatial[0].prod(axis=0))
    # Average computes of the first unit, over the units below one innermost level: by dimension, once with all loops
    # further out in their last iteration and once otherwise. Of spatial loops further out the first receiver counts,
    # which has a shorter run only if the residual is 1.
    ends, others = nest.spatial_last[0], nest.spatial[0]
    for level in range(len(nest.temporal)):
        if level:
            ends = np.where(nest.spatial_last[level] == 1, ends, others)
        ends, others = ends + (nest.temporal_last[level] - 1) * others, others * nest.temporal[level]
    shorter = (nest.spatial_last[1:] == 1).all(axis=0) & (nest.temporal_last == 1).all(axis=0)
    iterations = ends.prod(axis=0) / np.where(shorter, nest.spatial_last[0], nest.spatial[0]).prod(axis=0)
    receivers = np.concatenate([units[None], average[:-1]]) / average
    return replace(tile, computes=iterations * units, average=average), receivers
