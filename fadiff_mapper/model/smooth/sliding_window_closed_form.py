"""Sliding windows in time, in closed form and differentiable: the twin of `kernel/window_walk.cpp`.

The walk is the authority; `tests/model/test_closed_forms.py` compares the two over random nests. Every temporal loop
moves the tile of a data space by its own step less one step of each loop inside, which start again. In Timeloop's way
of counting the innermost loop that moves a tile brings new words only, and the tile remembers that loop's move before a
step of any loop further out. So a step further out brings

    nothing               where the moves cancel: the tile stays
    the new words only    where the tile moves as the innermost loop moves it: the window slides on
    the whole tile        otherwise

The choice among these cases has no derivative; the words have. A step that delivers as many words as the call before
repeats it, so its words may be at a neighbour (see `spatial_overlap_closed_form.py`), but only if no loop further in
lets calls pass that bring nothing.

Axes beside those of `access_counts.py`: N boundaries, S temporal loops (innermost first), R ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, Ranks, array_namespace
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.model.temporal_reuse import TemporalLoops, first_moving, overlap, sorted_loops
from fadiff_mapper.model.tile_boxes import Tiles, total

Rank: TypeAlias = tuple[tuple[int, int], ...]
"""One rank of a data space: terms (dimension index, coefficient)."""


@dataclass(frozen=True)
class WindowSteps:
    """The calls that deliver the tiles of one data space over N boundaries, by the temporal loop that steps.

    Attributes:
        levels: [N]. The levels outside the boundaries.
        demand: [N, B]. Words that one receiver asks for over the whole run.
        again: [N, S, B]. Words of the steps of each loop that repeat the call before, that is, deliver as many words.
        move: [R, N, S, B]. Move of the tile in the ranks that dimensions share, per step; integers.
        alone: [N, S, B]. Whether a step moves the tile in none of the other ranks.
    """

    levels: tuple[int, ...]
    demand: Array
    again: Array
    move: Array
    alone: Array


def shared_ranks(ranks: Ranks) -> list[Rank]:
    """The ranks that several dimensions move, and those of a dimension that moves several ranks."""
    everywhere = [d for rank in ranks for d, _ in rank]
    return [rank for rank in ranks if len(rank) > 1 or everywhere.count(rank[0][0]) > 1]


def window_steps(nest: Nest, projection: Projection, dataspace: int, tile: Tiles, active: Active,
                 reuse: Reuse) -> WindowSteps | None:
    """The steps of a data space's windows over the boundaries where the closed form of one loop is not enough.

    The result covers boundaries outside which several loops move one window, and boundaries below which windows are
    spread in space. `temporal_reuse.demand` is exact over all others.

    Args:
        nest: B mappings, NumPy or torch.
        projection: Ranks of the data spaces.
        dataspace: Index of the data space.
        tile: Tiles of the mappings.
        active: Loops that may differ from 1.
        reuse: Boundaries below which nothing is held are left out.

    Returns:
        The steps; None where there is no such boundary.
    """
    levels = tuple(level for level in range(1, len(nest.temporal)) if reuse.held[level, dataspace]
                   and _is_needed(projection, dataspace, active, level))
    if not levels:
        return None
    loops = sorted_loops(nest, active)
    xp, size = array_namespace(loops.bound), tile.below_size[list(levels), dataspace]
    first = first_moving(loops, projection, len(nest.temporal))[list(levels), dataspace]
    start = xp.asarray([loops.start(level) for level in levels])
    loop = xp.arange(len(loops.level))[:, None]
    innermost, further = loop == first[:, None], loop > first[:, None]                       # [N, S, B]
    move, alone = _moves(loops, projection, dataspace, tile, start)
    stays = further & alone & xp.all(move == 0, axis=0)
    slides_on = further & alone & xp.all(move == xp.sum(move * innermost, axis=-2)[..., None, :], axis=0)
    held = overlap(loops, projection.ranks[dataspace], tile, levels, first)
    times = (loops.bound - 1) * loops.outside[1:] * (innermost | further)
    words = xp.where(innermost | slides_on, (size - held)[:, None], size[:, None] * ~stays)
    # a loop with iterations inside the innermost moving one lets calls pass that bring nothing
    idle = ~xp.any(innermost & (_since(loops.bound > 1, start) == 0), axis=1)
    again = _repeats(loops.bound - 1, times, innermost, further, slides_on, stays, held == 0) * ~idle[:, None]
    return WindowSteps(levels, size + xp.sum(times * words, axis=1), again * words, move, alone)


def _is_needed(projection: Projection, dataspace: int, active: Active, level: int) -> bool:
    """Whether windows may be spread over the fan-out below the boundary, or several loops outside move one of them."""
    ranks = [[d for d, _ in rank] for rank in shared_ranks(projection.ranks[dataspace])]
    return any(active.spatial[level, dims].any() or active.temporal[level:, dims].sum() > 1 for dims in ranks)


def _moves(loops: TemporalLoops, projection: Projection, dataspace: int, tile: Tiles,
           start: Array) -> tuple[Array, Array]:
    """`WindowSteps.move` and `WindowSteps.alone`; moves are only compared, so they are integers without gradient."""
    xp = array_namespace(loops.bound)
    level, row = xp.asarray(np.array(loops.level))[:, None], xp.arange(loops.bound.shape[1])
    step = xp.astype(tile.across[level, loops.dim, row] * (loops.bound > 1), xp.int64)
    along = xp.stack([step * total([c * (loops.dim == d) for d, c in rank])
                      for rank in shared_ranks(projection.ranks[dataspace])])
    elsewhere = step * xp.asarray(projection.relevant[dataspace])[loops.dim] * xp.all(along == 0, axis=0)
    return along[:, None] - _since(along, start), _since(elsewhere, start) + elsewhere == 0


def _since(values: Array, start: Array) -> Array:
    """The sum over the loops inside each one, from the loop `start` on.

    Args:
        values: [..., S, B]. One value for each loop.
        start: [N]. Position of the innermost loop outside each boundary; S where there is none.

    Returns:
        [..., N, S, B]. Sums; before `start` they mean nothing.
    """
    xp = array_namespace(values)
    whole = xp.astype(values, xp.int64)
    inside = xp.cumulative_sum(whole, axis=-2, include_initial=True)
    return inside[..., None, :-1, :] - xp.take(inside, start, axis=-2)[..., None, :]


def _repeats(run: Array, times: Array, innermost: Array, further: Array, slides_on: Array, stays: Array,
             disjoint: Array) -> Array:
    """Number of steps of each loop that deliver as many words as the call before.

    The table of `walk_held` in `kernel/window_walk.cpp` for whole batches, where the innermost loop that moves the tile
    is the innermost of all.

    Args:
        run: [S, B]. Steps of each loop in one run of it, all of which repeat the delivery before the run or none.
        times: [N, S, B]. Steps of each loop over all its runs.
        innermost: [N, S, B]. Whether the loop is the innermost one that moves the tile.
        further: [N, S, B]. Whether the loop lies further out than that.
        slides_on: [N, S, B]. Whether a step moves the tile as the innermost loop does.
        stays: [N, S, B]. Whether a step leaves the tile in place.
        disjoint: [N, B]. Whether consecutive tiles of the innermost loop have no words in common.

    Returns:
        [N, S, B]. Steps.
    """
    xp = array_namespace(times)
    repeats = times * (slides_on | (further & ~stays & disjoint[:, None]))
    broken = xp.sum(times * further - repeats, axis=1) + ~disjoint
    return xp.where(innermost, times - broken[:, None] * run, repeats)
