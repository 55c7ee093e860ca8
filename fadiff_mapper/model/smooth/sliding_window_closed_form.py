"""Sliding windows in time, in closed form and differentiable: what `sliding_window_walk.py` counts call by call.

Every temporal loop moves the tile of a data space by its own step less one step of each loop inside it, which start
again. In Timeloop's way of counting (see `sliding_window_walk.py`) the innermost loop that moves a tile brings new
words only, and the tile remembers that loop's move before a step of any loop further out. So a step further out brings

    nothing               where the moves cancel: the tile stays
    the new words only    where the tile moves as the innermost loop moves it: the window slides on
    the whole tile        otherwise

Which of these it is has no derivative; the words have. The innermost loop repeats itself, so its next words may be at
a neighbour (see `spatial_overlap_closed_form.py`), but only if no loop inside it lets calls pass that bring nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fadiff_mapper.model.access_counts import TemporalLoops, Tiles, first_moving, overlap, sorted_loops, total
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, Ranks, array_namespace
from fadiff_mapper.model.reuse import Reuse

Rank: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class WindowSteps:
    """The calls that deliver the tiles of one data space over N boundaries, by the temporal loop that steps.

    levels [N]          the levels outside the boundaries
    demand [N, B]       words that one receiver asks for over the whole run
    again [N, S, B]     words of the calls after a step of the loop that are as long as the call before
    move [R, N, S, B]   how far the tile moves after a step, in the ranks that dimensions share; whole numbers
    alone [N, S, B]     whether it moves in no other rank
    """

    levels: tuple[int, ...]
    demand: Array
    again: Array
    move: Array
    alone: Array


def shared_ranks(ranks: Ranks) -> list[Rank]:
    """The ranks that several dimensions move, and those of a dimension that moves several."""
    everywhere = [d for rank in ranks for d, _ in rank]
    return [rank for rank in ranks if len(rank) > 1 or everywhere.count(rank[0][0]) > 1]


def window_steps(nest: Nest, projection: Projection, tensor: int, tile: Tiles, active: Active,
                 reuse: Reuse) -> WindowSteps | None:
    """How windows of a data space slide over the boundaries where this is more than `access_counts.demand` knows, or
    where they are spread in space; None where there are no such boundaries."""
    levels = tuple(level for level in range(1, len(nest.temporal)) if reuse.held[level, tensor]
                   and _is_needed(projection, tensor, active, level))
    if not levels:
        return None
    loops = sorted_loops(nest, active)
    xp, size = array_namespace(loops.bound), tile.below_size[list(levels), tensor]
    first = first_moving(loops, projection, len(nest.temporal))[list(levels), tensor]
    start = xp.asarray([loops.start(level) for level in levels])
    slot = xp.arange(len(loops.level))[:, None]
    innermost, further = slot == first[:, None], slot > first[:, None]                       # [N, S, B]
    move, alone = _moves(loops, projection, tensor, tile, start)
    stays = further & alone & xp.all(move == 0, axis=0)
    goes_on = further & alone & xp.all(move == xp.sum(move * innermost, axis=-2)[..., None, :], axis=0)
    held = overlap(loops, projection.ranks[tensor], tile, levels, first)
    times = (loops.bound - 1) * loops.outside[1:] * (innermost | further)
    words = xp.where(innermost | goes_on, (size - held)[:, None], size[:, None] * ~stays)
    idle = ~xp.any(innermost & (_since(loops.bound > 1, start) == 0), axis=1)
    again = _repeats(times, innermost, further, goes_on, stays, held == 0) * ~idle[:, None]
    return WindowSteps(levels, size + xp.sum(times * words, axis=1), again * words, move, alone)


def _is_needed(projection: Projection, tensor: int, active: Active, level: int) -> bool:
    """Whether windows may be spread over the fan-out below the boundary, or several loops outside move one of them."""
    ranks = [[d for d, _ in rank] for rank in shared_ranks(projection.ranks[tensor])]
    return any(active.spatial[level, dims].any() or active.temporal[level:, dims].sum() > 1 for dims in ranks)


def _moves(loops: TemporalLoops, projection: Projection, tensor: int, tile: Tiles, start: Array) -> tuple[Array, Array]:
    """`WindowSteps.move` and `WindowSteps.alone`. Moves are only compared, so they are integers, which carry no gradient."""
    xp = array_namespace(loops.bound)
    level, row = xp.asarray(np.array(loops.level))[:, None], xp.arange(loops.bound.shape[1])
    step = xp.astype(tile.across[level, loops.dim, row] * (loops.bound > 1), xp.int64)
    along = xp.stack([step * total([c * (loops.dim == d) for d, c in rank])
                      for rank in shared_ranks(projection.ranks[tensor])])
    elsewhere = step * xp.asarray(projection.relevant[tensor])[loops.dim] * xp.all(along == 0, axis=0)
    return along[:, None] - _since(along, start), _since(elsewhere, start) + elsewhere == 0


def _since(values: Array, start: Array) -> Array:
    """The sum over the loops inside each, from slot `start` [N] on: [..., N, S, B] from [..., S, B].

    It means nothing before that slot.
    """
    xp = array_namespace(values)
    whole = xp.astype(values, xp.int64)
    inside = xp.cumulative_sum(whole, axis=-2) - whole
    return inside[..., None, :, :] - xp.take(inside, start, axis=-2)[..., None, :]


def _repeats(times: Array, innermost: Array, further: Array, goes_on: Array, stays: Array, disjoint: Array) -> Array:
    """How many of the calls after a step of each loop, of `times` [N, S, B], are as long as the call before, where the
    innermost loop that moves the tile is the innermost of all.

    A step further out follows one of the innermost loop: it repeats that one where the window slides on, or where
    tiles have no words in common. A step of the innermost loop repeats another one, and a call that repeated one.
    """
    xp = array_namespace(times)
    repeats = times * (goes_on | (further & ~stays & disjoint[:, None]))
    broken = xp.sum(times * further - repeats, axis=1) + ~disjoint
    return xp.where(innermost, times - broken[:, None], repeats)
