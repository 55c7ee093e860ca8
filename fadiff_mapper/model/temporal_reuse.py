"""Words that one receiver asks for over the whole run: reuse in time, in closed form and differentiable.

The second step of the shared equations, see `access_counts.py` for the others. Axes as there, and S: temporal loops,
innermost first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, Ranks, all_active, array_namespace
from fadiff_mapper.model.reuse import Reuse, full_reuse
from fadiff_mapper.model.tile_boxes import Tiles, product, rank_extent, total


@dataclass(frozen=True)
class TemporalLoops:
    """The temporal loops of a batch, innermost first, without the levels that have none.

    Every level with loops contributes D positions, so that all mappings have the same S; loops of bound 1 stay.

    Attributes:
        level: [S]. The level that each loop belongs to.
        dim: [S, B]. The dimension of each loop.
        bound: [S, B]. Its iterations.
        outside: [S + 1, B]. Iterations of a loop times those of all loops outside it; 1 at the end.
    """

    level: list[int]
    dim: Array
    bound: Array
    outside: Array

    def start(self, level: int) -> int:
        """Position of the innermost loop outside the boundary below a level."""
        return sum(at < level for at in self.level)


def sorted_loops(nest: Nest, active: Active) -> TemporalLoops:
    """The temporal loops in the order in which they run; at least one level is included, with loops or without."""
    xp = array_namespace(nest.temporal)
    dims, batch = nest.temporal.shape[1:]
    levels = active.looping_levels() or [0]
    row = xp.arange(batch)
    dim = xp.concat([nest.order[level] for level in levels])
    bound = xp.concat([xp.reshape(nest.temporal[level], (-1,))[nest.order[level] * batch + row] for level in levels])
    outside = [xp.ones_like(bound[0])]
    for loop in reversed(range(bound.shape[0])):
        outside.append(outside[-1] * bound[loop])
    return TemporalLoops([level for level in levels for _ in range(dims)], dim, bound, xp.stack(outside[::-1]))


def first_moving(loops: TemporalLoops, projection: Projection, levels: int) -> Array:
    """The innermost loop outside each boundary that moves the data space.

    A loop moves a data space if its dimension is relevant and its bound is above 1.

    Args:
        loops: All temporal loops.
        projection: Relevant dimensions of the data spaces.
        levels: L.

    Returns:
        [L, T, B]. Positions in `loops`; S where no loop moves the data space.
    """
    xp = array_namespace(loops.bound)
    count = len(loops.level)
    relevant = xp.take(xp.asarray(projection.relevant), xp.reshape(loops.dim, (-1,)), axis=1)
    moves = xp.reshape(relevant, (-1, *loops.dim.shape)) & (loops.bound > 1)                     # [T, S, B]
    # depth counts from the outermost loop (1) inwards, so that the innermost loop is a running maximum over levels
    depth = moves * xp.reshape(xp.arange(count, 0, -1, dtype=xp.int16), (count, 1))
    deepest, result = xp.zeros_like(depth[:, 0]), []
    for level in reversed(range(levels)):
        here = [loop for loop in range(count) if loops.level[loop] == level]
        if here:
            deepest = xp.maximum(deepest, xp.max(depth[:, here[0]:here[-1] + 1], axis=1))
        result.append(deepest)
    return count - xp.astype(xp.stack(result[::-1]), xp.int64)


def demand(nest: Nest, projection: Projection, tile: Tiles, active: Active | None = None,
           reuse: Reuse | None = None) -> Array:
    """Words that one receiver below each boundary asks for over the whole run (temporal reuse).

    Below the innermost level sits the arithmetic, which asks for one word per cycle and data space. Elsewhere a
    tile is sent again for every outer temporal loop, except for the run of irrelevant loops that directly
    surrounds it: once a relevant loop is met, every loop outside counts, relevant or not (FADiff eq. (6) counts the
    relevant ones only). The steps of that innermost relevant loop send the new words of a sliding window only.
    Without reuse in time every outer loop sends the whole tile again.

    This closed form is exact where at most one loop moves each window (property test in
    `tests/model/test_sliding_window_walk.py`). Where several do, the walk of `kernel/window_walk.cpp`, the authority,
    and `window_steps` take its place.

    Args:
        nest: The mappings.
        projection: Ranks of the data spaces.
        tile: Their tiles.
        active: Loops that may differ from 1; None takes all. Overlaps of windows are not subtracted where
            `active.counted` is False: `bypassed` rescales the traffic there, so that its size does not matter.
        reuse: Reuse over the boundaries; None reuses everything.

    Returns:
        [L, T, B]. Words.
    """
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    reuse = reuse or full_reuse(nest.temporal.shape[0], len(projection.ranks))
    loops = sorted_loops(nest, active)
    first = first_moving(loops, projection, nest.temporal.shape[0])
    visits = loops.outside[first, xp.arange(nest.temporal.shape[2])]
    result = [xp.stack([loops.outside[0]] * len(projection.ranks))]
    for level in range(1, nest.temporal.shape[0]):
        held, calls = reuse.held[level], loops.outside[loops.start(level)]
        whole = tile.below_size[level] * (
            visits[level] if held.all() else xp.where(xp.asarray(held)[:, None], visits[level], calls))
        overlapping = [windowed and held[t] and active.counted[level - 1, t]
                       for t, windowed in enumerate(projection.windowed)]
        result.append(xp.stack([
            whole[t] - held_words(loops, projection.ranks[t], tile, level, first[level, t], visits[level, t])
            if overlaps else whole[t] for t, overlaps in enumerate(overlapping)]) if any(overlapping) else whole)
    return xp.stack(result)


def held_words(loops: TemporalLoops, ranks: Ranks, tile: Tiles, level: int, first: Array, visits: Array) -> Array:
    """Words that need not be sent because the tile of the step before held them.

    Of n steps of the loop that moves the tile, n - 1 find the overlap in place, in each of the visits / n runs of
    the loop.

    Args:
        loops: All temporal loops.
        ranks: Ranks of the data space.
        tile: The tiles.
        level: The level outside the boundary.
        first: [B]. Position of the loop that moves the tile.
        visits: [B]. How often the tile is sent.

    Returns:
        [B]. Words over the whole run.
    """
    xp = array_namespace(visits)
    bound = loops.bound[xp.where(first < len(loops.level), first, xp.zeros_like(first)), xp.arange(first.shape[0])]
    return overlap(loops, ranks, tile, (level,), first[None])[0] * (visits - visits / bound)


def overlap(loops: TemporalLoops, ranks: Ranks, tile: Tiles, levels: Sequence[int], first: Array) -> Array:
    """Words that a tile and its predecessor have in common when a loop takes one step.

    A step moves each rank by coefficient times the points `across` of the loop's level; a rank of extent e that
    moves by m keeps max(e - m, 0) words, and the overlap is the product over the ranks.

    Args:
        loops: All temporal loops.
        ranks: Ranks of the data space.
        tile: The tiles.
        levels: The levels outside N boundaries.
        first: [N, B]. Position of the loop that moves the tile below each boundary; S where there is none.

    Returns:
        [N, B]. Words of the overlap; 0 where no loop moves the tile.
    """
    xp = array_namespace(loops.bound)
    row = xp.arange(first.shape[1])
    some = first < len(loops.level)
    loop = xp.where(some, first, xp.zeros_like(first))
    dim = loops.dim[loop, row]
    points = tile.across[xp.asarray(loops.level)[loop], dim, row]
    below, lengths = tile.below[list(levels)], []
    for rank in ranks:
        left = rank_extent(below, rank) - points * total([c * (dim == d) for d, c in rank])
        lengths.append(left * (left > 0))  # not maximum(left, 0): the gradient at 0 is 0
    return product(lengths) * some
