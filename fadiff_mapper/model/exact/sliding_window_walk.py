"""Sliding windows in time, exactly as Timeloop walks them (exact evaluation only: none of this is smooth).

Timeloop runs iterations 0 and 1 of every temporal loop and lets iteration 1 stand for all others. Each tile
remembers where it was and its last step v. A call that moves it by m delivers

    nothing              where m = 0
    the new words only   where v is unset (then v = m) or m = v
    the whole tile       where m differs from v (then v is unset)

The calls of loop l form the sequence S(l) = S(l - 1), then n - 1 times: step of loop l, S(l - 1). So a step of a loop
further out than the innermost one that moves the tile always follows a step of that one, which v remembers, and it is
enough to compare its move with that one's. Where only one loop moves a window, the closed form in
`access_counts.demand` says
the same; `sliding_window_closed_form.py` says it for whole batches, differentiably. The functions here are compiled
and work on one mapping; `exact_demand` runs them over a batch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.access_counts import Tiles
from fadiff_mapper.model.loop_nest import Active, Nest, Projection
from fadiff_mapper.model.reuse import Reuse, full_reuse

Floats: TypeAlias = np.ndarray
Ints: TypeAlias = np.ndarray

# How a loop moves the tile: not at all, as the innermost loop that does, or otherwise.
STILL, INNERMOST, OTHER = 0, 1, 2


class CompiledBatch(NamedTuple):
    """The arrays of a batch, [L, D, B], laid out for compiled code; see `Nest` and `Tiles`."""

    temporal: Floats
    order: Ints
    across: Floats
    below: Floats


def batch_of(nest: Nest, tile: Tiles) -> CompiledBatch:
    return CompiledBatch(*map(np.ascontiguousarray, (nest.temporal, nest.order, tile.across, tile.below)))


def coefficients(projection: Projection, tensor: int) -> Floats:
    """How far one point of each dimension moves each rank of a data space, [R, D]."""
    ranks = projection.ranks[tensor]
    result = np.zeros((len(ranks), projection.relevant.shape[1]))
    for r, rank in enumerate(ranks):
        for d, coefficient in rank:
            result[r, d] += coefficient
    return result


class WindowWalk(NamedTuple):
    """The walk of one tile through the loops outside it, innermost loop first. Loops that run once are left out.

    extent   [R]      the tile's extent in each rank
    bounds   [S]      iterations of each loop
    moves    [S, R]   how far the tile jumps in each rank when the loop advances and the loops inside it, which stood
                      at iteration 1, start again
    repeated [S]      result: words of calls that repeat the shape of the call before after a step of the loop (whose
                      move tells which neighbour held those words)
    The rest is scratch: the sum of the steps [R], and how each loop moves the tile [S].
    """

    extent: Floats
    bounds: Floats
    moves: Floats
    repeated: Floats
    travelled: Floats
    step: Ints


@compiled
def walk_of(slots: int, ranks: int) -> WindowWalk:
    """Room for walks through at most so many loops."""
    return WindowWalk(np.zeros(ranks), np.zeros(slots), np.zeros((slots, ranks)), np.zeros(slots), np.zeros(ranks),
                      np.zeros(slots, np.int64))


@compiled
def outer_loops(walk: WindowWalk, batch: CompiledBatch, coefficient: Floats, level: int, row: int) -> int:
    """Fills in the loops of `level` and further out; returns how many there are."""
    ranks, count = len(coefficient), 0
    for r in range(ranks):
        walk.travelled[r] = 0.0
    for at in range(level, len(batch.temporal)):
        for slot in range(batch.order.shape[1]):
            d = batch.order[at, slot, row]
            if batch.temporal[at, d, row] <= 1:
                continue
            walk.bounds[count] = batch.temporal[at, d, row]
            for r in range(ranks):
                step = coefficient[r, d] * batch.across[at, d, row]
                walk.moves[count, r] = step - walk.travelled[r]
                walk.travelled[r] += step
            count += 1
    return count


@compiled
def tile_extent(walk: WindowWalk, batch: CompiledBatch, coefficient: Floats, level: int, row: int) -> float:
    """Fills in the extent of the tile below a boundary; returns its words."""
    words = 1.0
    for r in range(len(coefficient)):
        extent = 1.0
        for d in range(coefficient.shape[1]):
            extent += coefficient[r, d] * (batch.below[level, d, row] - 1)
        walk.extent[r] = extent
        words *= extent
    return words


@compiled
def same(a: Floats, b: Floats) -> bool:
    """Whether two vectors are equal."""
    equal = True
    for r in range(len(a)):
        equal &= a[r] == b[r]
    return equal


@compiled
def new_words(extent: Floats, move: Floats) -> float:
    """Words of a tile that were not there before it moved."""
    whole, overlap = 1.0, 1.0
    for r in range(len(extent)):
        whole *= extent[r]
        overlap *= max(extent[r] - abs(move[r]), 0.0)
    return whole - overlap


@compiled
def walk_unheld(walk: WindowWalk, count: int, size: float) -> float:
    """As `walk_tiles`, where nothing is held over: every iteration asks for the whole tile."""
    outside = 1.0
    for s in range(count - 1, -1, -1):
        walk.repeated[s] = size * (walk.bounds[s] - 1) * outside
        outside *= walk.bounds[s]
    return size


@compiled
def walk_tiles(walk: WindowWalk, count: int, size: float) -> float:
    """Words of a tile of `size` that one receiver is sent by calls that repeat no shape; fills in `repeated`.

    A call further out repeats the one before, of the innermost loop, if it brings as many words; a call of the
    innermost loop repeats another one, and a call that repeated one. Where a loop still further in moves nothing, its
    calls deliver nothing in between, and none repeats.
    """
    first = prepare_steps(walk, count)
    fresh = new_words(walk.extent, walk.moves[first]) if first < count else size
    plain, outside, broken = size, 1.0, 0.0 if fresh == size else 1.0
    for s in range(count - 1, -1, -1):
        times = (walk.bounds[s] - 1) * outside
        outside *= walk.bounds[s]
        words = 0.0 if walk.step[s] == STILL else fresh if walk.step[s] == INNERMOST else size
        repeats = times if words == fresh else 0.0
        if s == first:
            repeats -= broken
        broken += times - repeats
        walk.repeated[s] = words * repeats if first == 0 else 0.0
        plain += words * times - walk.repeated[s]
    return plain


@compiled
def prepare_steps(walk: WindowWalk, count: int) -> int:
    """Fills in how each loop moves the tile; returns the innermost one that does, `count` where none does."""
    first = count
    for s in range(count):
        walk.step[s] = STILL
        for move in walk.moves[s]:
            if move != 0:
                walk.step[s] = OTHER
        if walk.step[s] == OTHER and first == count:
            first = s
        if first < count and same(walk.moves[s], walk.moves[first]):
            walk.step[s] = INNERMOST
    return first


@compiled
def several_move_one_rank(batch: CompiledBatch, coefficient: Floats, level: int, row: int) -> bool:
    """Whether at least two loops outside move the same summed rank, so that the closed form may not hold."""
    for r in range(len(coefficient)):
        loops, terms = 0, 0
        for d in range(coefficient.shape[1]):
            if coefficient[r, d] != 0:
                terms += 1
                for at in range(level, len(batch.temporal)):
                    loops += batch.temporal[at, d, row] > 1
        if loops > 1 and terms > 1:
            return True
    return False


@compiled
def walk_rows(batch: CompiledBatch, coefficient: Floats, level: int, words: Floats) -> None:
    """Replaces `words` [B], the closed form for one boundary and data space, where it may not hold."""
    walk = walk_of(batch.order.shape[0] * batch.order.shape[1], len(coefficient))
    for row in range(len(words)):
        if several_move_one_rank(batch, coefficient, level, row):
            count = outer_loops(walk, batch, coefficient, level, row)
            words[row] = walk_tiles(walk, count, tile_extent(walk, batch, coefficient, level, row))
            for s in range(count):
                words[row] += walk.repeated[s]


def exact_demand(nest: Nest, projection: Projection, tile: Tiles, closed_form: Floats, active: Active,
                 reuse: Reuse | None = None) -> Floats:
    """`access_counts.demand` with the walk in place of the closed form where several loops move one window, [L, T, B].

    Boundaries below which no row keeps the data space are left alone, and those below which nothing is held.
    """
    reuse = reuse or full_reuse(*closed_form.shape[:2])
    result, batch = closed_form.copy(), batch_of(nest, tile)
    for tensor, windowed in enumerate(projection.windowed):
        for level in range(1, len(result)) if windowed else ():
            if active.counted[level - 1, tensor] and reuse.held[level, tensor]:
                walk_rows(batch, coefficients(projection, tensor), level, result[level, tensor])
    return result
