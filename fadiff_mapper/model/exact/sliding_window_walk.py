"""Sliding windows in time, exactly as Timeloop walks them (exact evaluation only: none of this is smooth).

Timeloop runs iterations 0 and 1 of every temporal loop and lets iteration 1 stand for all others. Each tile
remembers its position and its last step v. A call that moves the tile by m delivers

    nothing              where m = 0
    the new words only   where v is unset (then v = m) or m = v
    the whole tile       where m differs from v (then v is unset)

The calls of loop l form the sequence S(l) = S(l - 1), then n - 1 times: step of loop l, S(l - 1). So a step of a loop
further out than the innermost one that moves the tile always follows a step of that innermost loop, whose move v
remembers; comparing the two moves is enough.

Sliding windows are counted in three places. This module is the authority, tested against Timeloop's numbers and
against its rule executed call by call (`tests/model/test_sliding_window_walk.py`). `temporal_reuse.demand` is the
closed form where at most one loop moves a window, `smooth/sliding_window_closed_form.py` the differentiable one where
several do; property tests hold both to the walk. The functions here are compiled and work on one mapping;
`exact_demand` runs them over a batch.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.loop_nest import Active, Nest, Projection
from fadiff_mapper.model.reuse import Reuse, full_reuse
from fadiff_mapper.model.tile_boxes import Tiles

Floats: TypeAlias = np.ndarray
Ints: TypeAlias = np.ndarray

STILL, INNERMOST, OTHER = 0, 1, 2
"""Move of the tile by a loop: none, the same as by the innermost loop that moves it, or another one."""


class CompiledBatch(NamedTuple):
    """Arrays of a batch, [L, D, B] each and contiguous, for compiled code; see `Nest` and `Tiles`."""

    temporal: Floats
    order: Ints
    across: Floats
    below: Floats


def batch_of(nest: Nest, tile: Tiles) -> CompiledBatch:
    """The arrays of a nest and its tiles for compiled code."""
    return CompiledBatch(*map(np.ascontiguousarray, (nest.temporal, nest.order, tile.across, tile.below)))


def coefficients(projection: Projection, dataspace: int) -> Floats:
    """Move of each rank of a data space per point of each dimension, in words, [R, D]."""
    ranks = projection.ranks[dataspace]
    matrix = np.zeros((len(ranks), projection.relevant.shape[1]))
    for r, rank in enumerate(ranks):
        for d, coefficient in rank:
            matrix[r, d] += coefficient
    return matrix


class WindowWalk(NamedTuple):
    """The walk of one tile through the S loops outside it, innermost loop first. Loops that run once are left out.

    Attributes:
        extent: [R]. Extent of the tile in each rank.
        bounds: [S]. Iterations of each loop.
        moves: [S, R]. Move of the tile in each rank when the loop advances and the loops inside, which stood at
            iteration 1, start again.
        repeated: [S]. Result: words delivered by steps of each loop that repeat the delivery before, see `walk_tiles`
            (the move of the loop tells which neighbour held those words).
        travelled: [R]. Scratch: sum of the steps of the loops so far.
        step: [S]. Scratch: STILL, INNERMOST or OTHER.
    """

    extent: Floats
    bounds: Floats
    moves: Floats
    repeated: Floats
    travelled: Floats
    step: Ints


@compiled
def walk_of(loops: int, ranks: int) -> WindowWalk:
    """Space for walks of a data space with `ranks` ranks through at most `loops` loops."""
    return WindowWalk(np.zeros(ranks), np.zeros(loops), np.zeros((loops, ranks)), np.zeros(loops), np.zeros(ranks),
                      np.zeros(loops, np.int64))


@compiled
def outer_loops(walk: WindowWalk, batch: CompiledBatch, coefficient: Floats, level: int, row: int) -> int:
    """Fills in the temporal loops of `level` and further out.

    Args:
        walk: Its bounds and moves are written.
        batch: Loops and tiles of the batch.
        coefficient: [R, D]. Move of each rank per point of each dimension.
        level: Level outside the boundary.
        row: Column of the batch.

    Returns:
        Number of loops that run more than once.
    """
    ranks, count = len(coefficient), 0
    for r in range(ranks):
        walk.travelled[r] = 0.0
    for at in range(level, len(batch.temporal)):
        for position in range(batch.order.shape[1]):
            d = batch.order[at, position, row]
            if batch.temporal[at, d, row] <= 1:
                continue
            walk.bounds[count] = batch.temporal[at, d, row]
            for r in range(ranks):
                step = coefficient[r, d] * batch.across[at, d, row]
                # one step ahead, less one step of every loop inside: Timeloop leaves those at iteration 1
                walk.moves[count, r] = step - walk.travelled[r]
                walk.travelled[r] += step
            count += 1
    return count


@compiled
def tile_extent(walk: WindowWalk, batch: CompiledBatch, coefficient: Floats, level: int, row: int) -> float:
    """Fills in the extent of the tile below a boundary, 1 + sum of c (p - 1) in each rank; returns its words.

    Compiled twin of `tile_boxes.rank_extent`.
    """
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
    """Whether two vectors of the same length are equal."""
    equal = True
    for r in range(len(a)):
        equal &= a[r] == b[r]
    return equal


@compiled
def new_words(extent: Floats, move: Floats) -> float:
    """Words of a tile of `extent` [R] that were not there before a move [R]: the tile less its overlap."""
    whole, overlap = 1.0, 1.0
    for r in range(len(extent)):
        whole *= extent[r]
        overlap *= max(extent[r] - abs(move[r]), 0.0)
    return whole - overlap


@compiled
def walk_unheld(walk: WindowWalk, count: int, size: float) -> float:
    """As `walk_tiles`, for receivers that hold nothing: every iteration asks for the whole tile of `size` words.

    All deliveries have the same length, so that every call but the first repeats the one before.
    """
    outside = 1.0
    for s in range(count - 1, -1, -1):
        walk.repeated[s] = size * (walk.bounds[s] - 1) * outside
        outside *= walk.bounds[s]
    return size


@compiled
def walk_tiles(walk: WindowWalk, count: int, size: float) -> float:
    """Words that one receiver is sent by calls that repeat no delivery; fills in `repeated`.

    A delivery is a repeat if it has as many words as the previous one; only then may receivers take words from a
    neighbour. Let f be the words of a step of the innermost loop that moves the tile:

        step of                    previous delivery            repeats
        that innermost loop        any                          none in a run that a delivery of another length begins:
                                                                the first tile (unless f is a whole tile), or a step
                                                                further out that is no repeat; all in other runs
        a loop further out         f words: a step of the       all steps if they bring f words as well, that is if
                                   innermost loop               the window slides on or tiles never overlap; else none

    Iteration 1 stands for all steps of a run of that innermost loop, so the delivery before the run decides for all of
    them. Where a loop inside that innermost one moves nothing, its calls deliver nothing in between, and nothing
    repeats.

    Args:
        walk: Bounds, moves and extent; `repeated` is written.
        count: Number of loops.
        size: Words of the tile.

    Returns:
        Words of the calls that are no repeats; with the sum of `repeated` the demand of one receiver.
    """
    first = prepare_steps(walk, count)
    fresh = new_words(walk.extent, walk.moves[first]) if first < count else size
    plain, outside, broken = size, 1.0, 0.0 if fresh == size else 1.0  # broken: runs begun by another length
    for s in range(count - 1, -1, -1):
        times = (walk.bounds[s] - 1) * outside
        outside *= walk.bounds[s]
        words = 0.0 if walk.step[s] == STILL else fresh if walk.step[s] == INNERMOST else size
        repeats = times if words == fresh else 0.0
        if s == first:
            repeats -= broken * (walk.bounds[s] - 1)
        broken += times - repeats
        walk.repeated[s] = words * repeats if first == 0 else 0.0
        plain += words * times - walk.repeated[s]
    return plain


@compiled
def prepare_steps(walk: WindowWalk, count: int) -> int:
    """Fills in `step`; returns the innermost loop that moves the tile, `count` where none does."""
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
    """Whether at least two loops outside move the same rank of several terms, so that the closed form may not hold."""
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
    """Replaces the demand `words` [B] over one boundary for one data space where the closed form may not hold."""
    walk = walk_of(batch.order.shape[0] * batch.order.shape[1], len(coefficient))
    for row in range(len(words)):
        if several_move_one_rank(batch, coefficient, level, row):
            count = outer_loops(walk, batch, coefficient, level, row)
            words[row] = walk_tiles(walk, count, tile_extent(walk, batch, coefficient, level, row))
            for s in range(count):
                words[row] += walk.repeated[s]


def exact_demand(nest: Nest, projection: Projection, tile: Tiles, closed_form: Floats, active: Active,
                 reuse: Reuse | None = None) -> Floats:
    """`temporal_reuse.demand` with the walk in place of the closed form where several loops move one window.

    Args:
        nest: B mappings, NumPy.
        projection: Ranks of the data spaces.
        tile: Tiles of the mappings.
        closed_form: [L, T, B]. Words of `temporal_reuse.demand`.
        active: Boundaries below which no mapping keeps the data space (`counted` False) are left alone.
        reuse: Boundaries below which nothing is held are left alone; None reuses everything.

    Returns:
        [L, T, B]. Words that one receiver below each boundary asks for over the whole run.
    """
    reuse = reuse or full_reuse(*closed_form.shape[:2])
    wanted, batch = closed_form.copy(), batch_of(nest, tile)
    for t, windowed in enumerate(projection.windowed):
        for level in range(1, len(wanted)) if windowed else ():
            if active.counted[level - 1, t] and reuse.held[level, t]:
                walk_rows(batch, coefficients(projection, t), level, wanted[level, t])
    return wanted
