"""The differentiable cost model: the equations of the exact model, with closed forms for rules without a gradient.

It works on NumPy and torch arrays alike. At integer factors it differs from the exact evaluation in the rounding of
counts and vector accesses, in the energy of interconnects, and where windows are passed on or shared in ways that the
closed forms below do not follow. `fadiff-validate` measures the difference (row "smooth" of its table). Between
integers nothing is guaranteed: searches draw integers and follow the gradient there.

Windows that slide in time follow `kernel/window_walk.hpp`, windows that receivers share follow
`kernel/receivers.cpp`. Both kernels count step by step and are the authority; `tests/model/test_closed_forms.py`
measures how often they agree. Every temporal loop moves the tile of a data space by its own step minus one step of each
loop inside, which starts again. In Timeloop's counting the innermost loop that moves a tile brings only new words, and
the tile remembers that loop's move before a step of any loop further out. So a step further out brings

    nothing               where the moves cancel: the tile stays
    the new words only    where the tile moves as the innermost loop moves it: the window slides on
    the whole tile        otherwise

The choice among these cases has no derivative; the words have. A step that delivers as many words as the call before
repeats it, so its words may be at a neighbour, but only if no loop further in has calls that deliver nothing. Receivers
whose windows coincide share one transfer. Neighbouring receivers are one step of a spatial loop apart: if a tile moves
by this step, and the call before delivered as much, all receivers except the last find their words at a neighbour. Not
followed: receivers that find words in the next row if the mapping fills rows in part, or at a neighbour in the next
iteration of an outer spatial loop.

Axes beside those of `access_counts.py`: N boundaries, S temporal loops (innermost first), R ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.model.access_counts import (
    Delivery,
    Rounding,
    delivery,
    demand,
    first_moving,
    overlap,
    sorted_loops,
)
from fadiff_mapper.model.evaluate import NestEvaluation, evaluate_with
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, Ranks, all_active, array_namespace
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.model.tiles import Tiles, tiles

SMOOTH = Rounding(*[lambda values: values] * 3)
"""No rounding: its gradient would be 0 almost everywhere."""


def evaluate_smooth(layer: PreparedLayer, nest: Nest, active: Active | None = None) -> NestEvaluation:
    """Counts, cycles and energy of nests, differentiable in their factors; dense counts for sparse designs.

    `active`: the loops that may exceed 1 (see `gumbel_softmax.drawable_parts`); other loops cost no time. With
    torch factors every number carries its gradient.
    """
    everywhere = active or all_active(nest)
    tile = tiles(nest, layer.projection, everywhere)
    return evaluate_with(layer, nest, tile, _traffic(layer, nest, tile, everywhere), SMOOTH, everywhere)


def _traffic(layer: PreparedLayer, nest: Nest, tile: Tiles, active: Active) -> Delivery:
    """The tally before bypassing, with windows that slide in time and are shared in space in closed form."""
    projection, reuse = layer.projection, layer.reuse
    found = {t: window_steps(nest, projection, t, tile, active, reuse)
             for t, windowed in enumerate(projection.windowed) if windowed}
    steps = {t: known for t, known in found.items() if known is not None}
    xp, counted = array_namespace(nest.temporal), active.counted.copy()
    for t, known in steps.items():  # `steps` below have the overlaps, so `demand` need not subtract them
        counted[[level - 1 for level in known.levels], t] = False
    wanted = demand(nest, projection, tile, replace(active, counted=counted), reuse)
    better = {(level, t): known.demand[n] for t, known in steps.items() for n, level in enumerate(known.levels)}
    if better:
        wanted = xp.stack([xp.stack([better.get((level, t), wanted[level, t]) for t in range(wanted.shape[1])])
                           for level in range(wanted.shape[0])])
    raw = delivery(nest, projection, wanted, active, reuse)
    return smooth_delivery(raw, steps, nest, projection, layer.arch, tile, active, reuse)


Rank: TypeAlias = tuple[tuple[int, int], ...]
"""One rank of a data space: terms (dimension index, coefficient)."""


@dataclass(frozen=True)
class WindowSteps:
    """The calls that deliver the tiles of one data space over N boundaries, by the temporal loop that steps."""

    levels: tuple[int, ...]  # [N]. The levels outside the boundaries
    demand: Array            # [N, B]. Words that one receiver asks for over the whole run
    again: Array             # [N, S, B]. Words of those steps of each loop that repeat the call before, that is,
                             # deliver as many words
    move: Array              # [R, N, S, B]. Move of the tile in the ranks that dimensions share, per step; integers
    alone: Array             # [N, S, B]. Whether a step moves the tile only in the ranks that dimensions share


def shared_ranks(ranks: Ranks) -> list[Rank]:
    """The ranks that several dimensions move, and the ranks of a dimension that moves several ranks."""
    everywhere = [d for rank in ranks for d, _ in rank]
    return [rank for rank in ranks if len(rank) > 1 or everywhere.count(rank[0][0]) > 1]


def window_steps(nest: Nest, projection: Projection, dataspace: int, tile: Tiles, active: Active,
                 reuse: Reuse) -> WindowSteps | None:
    """The steps of a data space's windows over the boundaries at which the closed form of one loop is not enough.

    These are boundaries outside which several loops move one window, and boundaries below which windows are spread in
    space, if a tile is held below; None if there are none. `access_counts.demand` is exact over all other
    boundaries.
    """
    shared = [[d for d, _ in rank] for rank in shared_ranks(projection.ranks[dataspace])]
    levels = tuple(level for level in range(1, len(nest.temporal)) if reuse.held[level, dataspace]
                   and any(active.spatial[level, dims].any() or active.temporal[level:, dims].sum() > 1
                           for dims in shared))
    if not levels:
        return None
    loops = sorted_loops(nest, active)
    xp, size = array_namespace(loops.bound), tile.below_size[list(levels), dataspace]
    first = first_moving(loops, projection, len(nest.temporal))[list(levels), dataspace]
    start = xp.asarray([loops.start(level) for level in levels])
    loop = xp.arange(len(loops.level))[:, None]
    innermost, further = loop == first[:, None], loop > first[:, None]                       # [N, S, B]
    # moves are only compared, so they are integers without gradient
    level, row = xp.asarray(np.array(loops.level))[:, None], xp.arange(loops.bound.shape[1])
    step = xp.astype(tile.across[level, loops.dim, row] * (loops.bound > 1), xp.int64)
    along = xp.stack([step * sum(c * (loops.dim == d) for d, c in rank)
                      for rank in shared_ranks(projection.ranks[dataspace])])
    elsewhere = step * xp.asarray(projection.relevant[dataspace])[loops.dim] * xp.all(along == 0, axis=0)
    move, alone = along[:, None] - _over_inner_loops(along, start), _over_inner_loops(elsewhere, start) + elsewhere == 0
    stays = further & alone & xp.all(move == 0, axis=0)
    slides_on = further & alone & xp.all(move == xp.sum(move * innermost, axis=-2)[..., None, :], axis=0)
    held = overlap(loops, projection.ranks[dataspace], tile, levels, first)
    times = (loops.bound - 1) * loops.outside[1:] * (innermost | further)
    words = xp.where(innermost | slides_on, (size - held)[:, None], size[:, None] * ~stays)
    # a loop inside the innermost moving loop has calls that deliver nothing
    idle = ~xp.any(innermost & (_over_inner_loops(loops.bound > 1, start) == 0), axis=1)
    again = _repeats(loops.bound - 1, times, innermost, further, slides_on, stays, held == 0) * ~idle[:, None]
    return WindowSteps(levels, size + xp.sum(times * words, axis=1), again * words, move, alone)


def _over_inner_loops(values: Array, start: Array) -> Array:
    """The sum over the loops inside each loop, from the loop `start` on; loops before `start` have no valid sum.

    `values` [..., S, B]; `start` [N]: the innermost loop outside each boundary, S if none; result [..., N, S, B].
    """
    xp = array_namespace(values)
    whole = xp.astype(values, xp.int64)
    inside = xp.cumulative_sum(whole, axis=-2, include_initial=True)
    return inside[..., None, :-1, :] - xp.take(inside, start, axis=-2)[..., None, :]


def _repeats(run: Array, times: Array, innermost: Array, further: Array, slides_on: Array, stays: Array,
             disjoint: Array) -> Array:
    """Number of steps of each loop that deliver as many words as the call before.

    The table of `walk_held` in `kernel/window_walk.cpp` for whole batches, where the innermost loop that moves the tile
    is the innermost of all: it repeats in all of its `run` [S, B] steps, or in none. `times` [N, S, B] counts the steps
    of each loop over all its runs; `disjoint` [N, B] says where consecutive tiles of the innermost loop share no words.
    """
    xp = array_namespace(times)
    repeats = times * (slides_on | (further & ~stays & disjoint[:, None]))
    broken = xp.sum(times * further - repeats, axis=1) + ~disjoint
    return xp.where(innermost, times - broken[:, None] * run, repeats)


def smooth_delivery(raw: Delivery, steps: Mapping[int, WindowSteps], nest: Nest, projection: Projection,
                    arch: Architecture, tile: Tiles, active: Active, reuse: Reuse) -> Delivery:
    """`access_counts.delivery` with the words that windows share in space.

    `raw`: the tally without sharing; data spaces without `steps` have no links. Without spatial reuse, windows that
    coincide are sent to each receiver; links that are switched off carry no words. Returns one kind of transfer
    (mean multicast).
    """
    xp = array_namespace(nest.temporal)
    sent = {}
    for t, ranks in enumerate(projection.ranks):
        moving = [d for rank in shared_ranks(ranks) for d, _ in rank]
        for level in range(len(nest.spatial)):
            if active.spatial[level, moving].any():
                slid = steps.get(t) if reuse.linked[level, t] else None
                sent[level, t] = _sent(raw, slid, nest, projection, arch, tile, level, t,
                                       bool(reuse.multicast[level, t]))
    if not sent:
        return raw
    words, multicast, scatter, links = (
        xp.stack([xp.stack([sent[level, t][part] if (level, t) in sent else own for t, own in enumerate(row)])
                  for level, row in enumerate(values)])
        for part, values in enumerate((raw.words[0], raw.multicast[0], raw.scatter[0], raw.links)))
    return replace(raw, words=words[None], multicast=multicast[None], scatter=scatter[None], links=links)


def _sent(raw: Delivery, steps: WindowSteps | None, nest: Nest, projection: Projection, arch: Architecture, tile: Tiles,
          level: int, dataspace: int, multicast: bool) -> tuple[Array, Array, Array, Array]:
    """Words of one level and data space that are sent, receivers of each, groups, and words over links, [B] each.

    Derivation. Every receiver wants `wanted` words; receivers form scatter groups, fewer if windows coincide
    (`distinct_windows`), so that wanted * groups words are sent. Let `repeated` be the words of a receiver that a
    neighbour held in the call before, over a spatial loop of `side_by_side` receivers. They come over a link for all
    receivers but the last of each run of that loop, and the pairs torn apart by the end of a row: fan - fan /
    side_by_side - torn of fan receivers. Likewise they are not sent to all groups but the last of each run.

    Worked example (Timeloop's own numbers): Inputs[P + R], P = 4 in space above registers, R = 3 in time. Each register
    wants 3 words; the first call sends each of the 4 groups 1 word, the 2 calls after it repeat it one step further on,
    which is where the neighbour was. repeated = 2, so 3 * 4 - 2 * (4 - 1) = 6 words are sent and 2 * (4 - 1) = 6 come
    over links.
    """
    xp, spatial, ranks = array_namespace(nest.temporal), nest.spatial[level], shared_ranks(projection.ranks[dataspace])
    fan, scatter = raw.fan[level, 0], raw.scatter[0, level, dataspace]
    wanted = raw.words[0, level, dataspace] / scatter
    share = {rank: distinct_windows(spatial, tile.below[level], rank) for rank in ranks if multicast and len(rank) == 2}
    groups = math.prod(share.values(), start=scatter)
    words, links = wanted * groups, xp.zeros_like(wanted)
    row = xp.arange(nest.batch)
    for there, dim, torn in neighbours(nest, arch, level) if steps and level in steps.levels else ():
        # a neighbour held the words if the tile moves by the distance of both receivers, in either direction
        assert steps is not None
        n, step = steps.levels.index(level), xp.astype(tile.below[level][dim, row], xp.int64)
        apart = xp.stack([step * sum(c * (dim == d) for d, c in rank) for rank in ranks])[:, None]
        meets = xp.all(steps.move[:, n] == apart, axis=0) | xp.all(steps.move[:, n] == -apart, axis=0)
        repeated = xp.sum(steps.again[n] * (meets & steps.alone[n] & there & xp.any(apart > 0, axis=0)), axis=0)
        side_by_side = spatial[dim, row]
        last = math.prod((xp.where(xp.any(xp.stack([dim == d for d, _ in rank]), axis=0), xp.ones_like(part), part)
                          for rank, part in share.items()), start=scatter / side_by_side)
        words = words - repeated * (groups - last - torn * groups / fan)
        links = links + repeated * (fan - fan / side_by_side - torn)
    return words, (wanted * fan - links) / words, groups, links


def neighbours(nest: Nest, arch: Architecture, level: int) -> Iterator[tuple[Array, Array, Array]]:
    """The spatial loops whose steps separate neighbouring receivers.

    Along a row this is the innermost loop; from row to row the innermost loop on Y if the loops on X fill the row.
    Yields for both whether there is such a loop, its dimension, and the pairs of its receivers that the end of a row
    tears apart, [B] each.
    """
    xp, order = array_namespace(nest.temporal), nest.spatial_order[level]
    row, spatial = xp.arange(nest.batch), xp.astype(nest.spatial[level], xp.int64)
    looping, on_y = spatial[order, row] > 1, nest.on_y[level][order, row]
    on_x, (wide, high) = xp.prod(xp.where(nest.on_y[level], xp.ones_like(spatial), spatial), axis=0), arch.fanout(level)
    width, receivers = xp.where(on_x > wide, on_x, wide * xp.ones_like(on_x)), xp.prod(spatial, axis=0)
    ends = width * xp.arange(1, max(high, 2))[:, None]

    def innermost(loops: Array) -> tuple[Array, Array]:
        """Whether any loop [D, B] is marked, and the dimension of the innermost marked one, [B] each."""
        return xp.any(loops, axis=0), order[xp.argmax(xp.astype(loops, xp.int64), axis=0), row]

    there, dim = innermost(looping)
    torn = xp.sum((ends < receivers) & (width > 1) & (ends % spatial[dim, row] > 0), axis=0)
    yield there, dim, torn
    yield *innermost(looping & on_y & (on_x > 1) & (on_x >= wide)), xp.zeros_like(torn)


def distinct_windows(spatial: Array, below: Array, rank: Rank) -> Array:
    """Share of the receivers' windows below a boundary that are distinct, along a rank of two dimensions.

    Derivation. Let p receivers lie steps of length a apart, and for each of them r receivers steps of length b, with
    a = k b for a whole k. Their windows start at b (k i + j) for i < p and j < r. From i to i + 1 the starts move on by
    k; of r starts in a row max(r - k, 0) are met again, p - 1 times over. So p r - (p - 1) max(r - k, 0) windows are
    distinct. Example: Inputs[P + R] with P = 4 and R = 3 in space: k = 1, 12 - 3 * 2 = 6 distinct windows, share 1/2.
    If neither length is a multiple of the other, all windows count as distinct.

    `spatial` and `below` are [D, B]; `below`: the points of one receiver, the distance of neighbours. Returns the
    share [B], in (0, 1].
    """
    xp = array_namespace(spatial)
    (first, a), (second, b) = ((spatial[d], coefficient * below[d]) for d, coefficient in rank)
    p, r = xp.where(a < b, second, first), xp.where(a < b, first, second)
    long, short = xp.maximum(a, b), xp.minimum(a, b)
    ratio = xp.round(long / short)
    met_again = (p - 1) * (r - ratio) * ((r > ratio) & (ratio * short == long))
    return 1 - met_again / (p * r)
