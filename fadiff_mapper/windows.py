"""Sliding windows in time, exactly as Timeloop walks them (exact evaluation only: none of this is smooth).

Timeloop runs iterations 0 and 1 of every temporal loop and lets iteration 1 stand for all others. Each tile
remembers where it was and its last step v. A call that moves it by m delivers

    nothing              where m = 0
    the new words only   where v is unset (then v = m) or m = v
    the whole tile       where m differs from v (then v is unset)

Where only one loop moves a window, the closed form in `counts.demand` says the same. Here is the general case: the
calls form the sequence S(l) = S(l - 1), step of loop l, S(l - 1) with weight n - 1, and a tile can be in few states,
so that S(l) as a function of the state is put together loop by loop, for all mappings of a batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fadiff_mapper.counts import Tiles
from fadiff_mapper.nest import Nest, Projection

Floats: TypeAlias = np.ndarray

# A state is 3 * step + last. `step` says what v is: unset, the step of the innermost moving loop, or another one.
UNSET, INNERMOST, OTHER = 0, 1, 2
# `last` says what the previous call delivered: nothing (or a shape that cannot come again), a whole tile, or the
# new words of an innermost step. Two calls in a row that deliver the same shape can use links between neighbours.
NOTHING, WHOLE, PART = 0, 1, 2
STATES = 9
START = 3 * UNSET + WHOLE


@dataclass(frozen=True)
class OuterLoops:
    """The temporal loops outside one boundary for one data space, innermost first.

    bounds [S, B]      iterations
    step   [S, R, B]   how far one iteration moves the tile in each rank
    move   [S, R, B]   how far the tile jumps when the loop advances and the loops inside start again
    extent [R, B]      the tile's extent in each rank
    """

    bounds: Floats
    step: Floats
    move: Floats
    extent: Floats


def outer_loops(nest: Nest, projection: Projection, tile: Tiles, level: int, tensor: int) -> OuterLoops:
    """The loops of `level` and further out, without those that are 1 in the whole batch."""
    dims = nest.temporal.shape[1]
    bounds, points, dim_of = (
        np.concatenate([np.take_along_axis(source[at], nest.order[at], axis=0) for at in range(level, len(source))])
        for source in (nest.temporal, tile.across, np.broadcast_to(np.arange(dims)[:, None], nest.temporal.shape)))
    used = (bounds > 1).any(axis=1)
    bounds, points, dim_of = bounds[used], points[used], dim_of[used]
    ranks = projection.ranks[tensor]
    step = np.zeros((len(bounds), len(ranks), nest.batch))
    extent = np.ones((len(ranks), nest.batch))
    for r, rank in enumerate(ranks):
        for d, coefficient in rank:
            step[:, r] += coefficient * points * (dim_of == d)
            extent[r] += coefficient * (tile.below[level, d] - 1)
    running = step * (bounds > 1)[:, None]
    before = np.cumsum(running, axis=0) - running
    return OuterLoops(bounds, step, step - before, extent)


def several_move_one_rank(nest: Nest, projection: Projection, level: int, tensor: int) -> np.ndarray:
    """[B]: whether at least two loops outside move the same summed rank, so that the closed form may not hold."""
    result = np.zeros(nest.batch, dtype=bool)
    active = (nest.temporal[level:] > 1).sum(axis=0)
    for rank in projection.ranks[tensor]:
        if len(rank) > 1:
            result |= active[[d for d, _ in rank]].sum(axis=0) > 1
    return result


@dataclass(frozen=True)
class Walk:
    """Words delivered to one receiver: [B] without a chance of links, and [S, B] by calls that repeat the shape
    of the previous one after a step of loop s (whose `move` tells which neighbour held those words)."""

    plain: Floats
    repeated: Floats

    @property
    def total(self) -> Floats:
        total: Floats = self.plain + self.repeated.sum(axis=0)
        return total


def walk_points(loops: OuterLoops) -> Walk:
    """The walk below the innermost level: every iteration asks for one word, held over or not."""
    outside = np.cumprod(loops.bounds[::-1], axis=0)[::-1] / loops.bounds
    return Walk(np.ones(loops.extent.shape[1]), (loops.bounds - 1) * outside)


def walk_tiles(loops: OuterLoops) -> Walk:
    """The walk of a tile through all outer loops."""
    slots, batch = loops.bounds.shape
    size = loops.extent.prod(axis=0)
    active = loops.bounds > 1
    moving = active & (loops.move != 0).any(axis=1)
    innermost = np.where(moving.any(axis=0), moving.argmax(axis=0), 0) if slots else None
    following = np.repeat(np.arange(STATES)[:, None], batch, axis=1)
    plain, repeated = np.zeros((STATES, batch)), np.zeros((STATES, slots, batch))
    for slot in range(slots):
        assert innermost is not None
        same = (loops.move[slot] == loops.move[innermost, :, np.arange(batch)].T).all(axis=0)
        step = _step(size, _fresh(loops, slot, size), moving[slot], same)
        epochs = np.where(active[slot], loops.bounds[slot] - 1, 0)
        after = np.take_along_axis(step.following, following, axis=0)
        again = np.take_along_axis(repeated, after[:, None], axis=0)
        step_repeated = np.take_along_axis(step.repeated, following, axis=0)
        plain = plain + epochs * (np.take_along_axis(step.plain, following, axis=0)
                                  + np.take_along_axis(plain, after, axis=0))
        repeated = repeated + epochs * again
        repeated[:, slot] += epochs * step_repeated
        following = np.where(active[slot], np.take_along_axis(following, after, axis=0), following)
    return Walk(size + plain[START], repeated[START])


def _fresh(loops: OuterLoops, slot: int, size: Floats) -> Floats:
    """Words of the tile that were not there before the move of loop `slot`, [B]."""
    overlap = np.maximum(loops.extent - np.abs(loops.move[slot]), 0).prod(axis=0)
    fresh: Floats = size - overlap
    return fresh


@dataclass(frozen=True)
class _Step:
    following: np.ndarray
    plain: Floats
    repeated: Floats


def _step(size: Floats, fresh: Floats, moving: np.ndarray, same: np.ndarray) -> _Step:
    """One call after a step, for every state: the next state, and the words it delivers, [STATES, B]."""
    batch = len(size)
    following = np.zeros((STATES, batch), dtype=np.int64)
    plain, repeated = np.zeros((STATES, batch)), np.zeros((STATES, batch))
    for state in range(STATES):
        v, last = divmod(state, 3)
        subtract = np.full(batch, True) if v == UNSET else same if v == INNERMOST else np.full(batch, False)
        words = np.where(subtract, fresh, size)
        whole = words == size
        shape = np.where(whole, WHOLE, np.where(same, PART, NOTHING))
        repeats = (shape == last) & (last != NOTHING)
        step = np.where(subtract, np.where(same, INNERMOST, OTHER), UNSET)
        following[state] = np.where(moving, 3 * step + shape, 3 * v + NOTHING)
        repeated[state] = np.where(moving & repeats, words, 0)
        plain[state] = np.where(moving & ~repeats, words, 0)
    return _Step(following, plain, repeated)


def exact_demand(nest: Nest, projection: Projection, tile: Tiles, closed_form: Floats) -> Floats:
    """`counts.demand` with the walk in place of the closed form where several loops move one window, [L, T, B]."""
    result = closed_form.copy()
    for tensor, windowed in enumerate(projection.windowed):
        for level in range(1, len(nest.temporal)) if windowed else ():
            rows = np.flatnonzero(several_move_one_rank(nest, projection, level, tensor)
                                  & nest.keep[level - 1, tensor])
            if len(rows):
                part = Tiles(*(getattr(tile, name)[..., rows] for name in Tiles.__dataclass_fields__))
                result[level, tensor, rows] = walk_tiles(
                    outer_loops(nest.take(rows), projection, part, level, tensor)).total
    return result
