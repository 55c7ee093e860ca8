"""Access counts of loop nests: the equations that the exact evaluation and the relaxed model share.

Everything here works on whole batches, NumPy or torch alike, in float64, where integers below 2^53 are exact: at
integer factors the results are Timeloop's, between them they are differentiable in the factors. Axes are named
L (storage level, innermost first), D (dimension), T (data space) and B (batch, last).

A *boundary* b lies between storage level b and what is below it: level b - 1, or the arithmetic for b = 0. The
equations extend those of FADiff (arXiv 2511.22348, eqs. 4-12) to loop order, sliding windows, multicast and
bypass, as `timeloop-model` computes them. What has no smooth form is left to `windows.py` and `spread.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from array_api_compat import array_namespace

from fadiff_mapper.nest import Active, Array, Nest, Projection, Ranks, all_active


@dataclass(frozen=True)
class Tiles:
    """Extents and sizes of tiles. The tile of level l is all that its temporal loops and those inside it span.

    below     [L, D, B]   points per dimension below boundary l (one point for l = 0)
    across    [L, D, B]   the same with the spatial loops of level l: what one temporal iteration there touches
    size      [L, T, B]   words of the tile of level l
    below_size, across_size [L, T, B]   words of the boxes `below` and `across`
    """

    below: Array
    across: Array
    size: Array
    below_size: Array
    across_size: Array


@dataclass(frozen=True)
class Delivery:
    """What crosses each boundary, as a tally over K kinds of transfer (K = 1 unless windows are spread in space).

    words, multicast, scatter [K, L, T, B]   words sent by one instance of level l, to how many receivers each is
                                             sent, and how many such groups there are
    fan    [L, 1, B]   receivers of one instance of level l
    links  [L, T, B]   words that receivers take from a neighbour instead
    """

    words: Array
    multicast: Array
    scatter: Array
    fan: Array
    links: Array


@dataclass(frozen=True)
class Counts:
    """Accesses of one instance over the whole run, in words, [L, T, B]; zero where a data space is not kept."""

    reads: Array
    fills: Array
    updates: Array
    partition: Array
    address_generations: Array


@dataclass(frozen=True)
class Rounding:
    """How counts become whole numbers: Timeloop's rules at integer points, or not at all between them."""

    nearest: Callable[[Array], Array]
    down: Callable[[Array], Array]
    up: Callable[[Array], Array]


def tiles(nest: Nest, projection: Projection, active: Active | None = None) -> Tiles:
    """The boxes at every boundary; eq. (5) of the paper, with the holes of strides and dilations counted."""
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    boxes, below, across, whole = [xp.ones_like(nest.temporal[0])], [], [], []
    for level in range(nest.temporal.shape[0]):
        below.append(len(boxes) - 1)
        if active.spatial[level].any():
            boxes.append(boxes[-1] * nest.spatial[level])
        across.append(len(boxes) - 1)
        if active.temporal[level].any():
            boxes.append(boxes[-1] * nest.temporal[level])
        whole.append(len(boxes) - 1)
    extents = xp.stack(boxes)
    words = volume(extents, projection)
    return Tiles(extents[below], extents[across], words[whole], words[below], words[across])


def volume(extents: Array, projection: Projection) -> Array:
    """Words of the boxes `extents` [N, D, B] in every data space, [N, T, B]."""
    xp = array_namespace(extents)
    return xp.stack([product([rank_extent(extents, rank) for rank in ranks]) for ranks in projection.ranks], axis=1)


def rank_extent(extents: Array, rank: tuple[tuple[int, int], ...]) -> Array:
    """Extent of one rank of a data space, [N, B]: 1 + sum of coefficient * (points - 1)."""
    reach = total([extents[:, d] if coefficient == 1 else coefficient * extents[:, d] for d, coefficient in rank])
    surplus = sum(coefficient for _, coefficient in rank) - 1
    return reach - surplus if surplus else reach


def product(factors: Sequence[Array]) -> Array:
    return reduce(operator.mul, factors)


def total(terms: Sequence[Array]) -> Array:
    """The sum in the given order, on which the last bit may depend."""
    return reduce(operator.add, terms)


def demand(nest: Nest, projection: Projection, tile: Tiles, active: Active | None = None) -> Array:
    """Words that one receiver below each boundary asks for over the whole run, [L, T, B].

    Below the innermost level sits the arithmetic, which asks for one word per cycle and data space. Elsewhere a
    tile is sent again for every outer temporal loop, except for the run of irrelevant loops that directly
    surrounds it: once one relevant loop is met, every loop outside it counts (eq. 6 of the paper counts the
    relevant ones only). The steps of that innermost relevant loop send only what the previous tile did not hold;
    this is left out where no row keeps the data space below, since `bypassed` does not look at the demand there.
    """
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    visits, moving = visits_of_tiles(nest, projection, active)
    whole = tile.below_size * visits
    result = [whole[0]]
    for level in range(1, nest.temporal.shape[0]):
        overlapping = [windowed and active.counted[level - 1, t] for t, windowed in enumerate(projection.windowed)]
        result.append(xp.stack([
            whole[level, t] - held_words(nest, projection.ranks[t], tile, level, moving[level][t], visits[level, t])
            if overlaps else whole[level, t] for t, overlaps in enumerate(overlapping)])
            if any(overlapping) else whole[level])
    return xp.stack(result)


def visits_of_tiles(nest: Nest, projection: Projection, active: Active) -> tuple[Array, list[list[Array]]]:
    """How often the tile below each boundary is sent, [L, T, B], and because of which loop.

    The first is the product of all loops from the innermost one that moves the data space outwards (below the
    innermost level: of all loops). A loop of bound 1 moves nothing. The second, per level and data space, [B]: the
    position of that loop, counted from 1 for the outermost slot inwards; 0 where nothing moves. (Both grow inwards,
    so the maximum over all loops that move is that of the innermost one.) It is found for windowed data spaces only.
    """
    xp = array_namespace(nest.temporal)
    levels, dims, batch = nest.temporal.shape
    relevant, row = xp.asarray(projection.relevant), xp.arange(batch)
    outside = xp.ones_like(nest.temporal[0, 0])
    visits = xp.stack([outside] * len(projection.ranks))
    moving = [xp.zeros_like(row)] * len(projection.ranks)
    all_visits, all_moving = [visits], [moving]
    for level in reversed(range(levels)):
        if active.temporal[level].any():
            order = nest.order[level]
            bounds = xp.reshape(nest.temporal[level], (-1,))[order * batch + row]
            moves = relevant[:, order] & (bounds > 1)                              # [T, D, B]
            for slot in reversed(range(dims)):
                outside = outside * bounds[slot]
                visits = xp.maximum(visits, outside * moves[:, slot])
                position = (levels - level) * dims - slot
                moving = [xp.maximum(found, position * moves[t, slot]) if projection.windowed[t] else found
                          for t, found in enumerate(moving)]
        all_visits.append(visits)
        all_moving.append(moving)
    all_visits[levels] = xp.stack([outside] * len(projection.ranks))
    return xp.stack(all_visits[:0:-1]), all_moving[:0:-1]


def held_words(nest: Nest, ranks: Ranks, tile: Tiles, level: int, moving: Array, visits: Array) -> Array:
    """Words that need not be sent because the tile of the step before held them, [B].

    `moving` and `visits` [B]: the loop that moves the tile and how often the tile is sent, of `visits_of_tiles`.
    """
    xp = array_namespace(visits)
    levels, dims, batch = nest.temporal.shape
    row, some = xp.arange(batch), moving > 0
    slot = levels * dims - xp.where(some, moving, xp.ones_like(moving))
    at = slot // dims
    dim = nest.order[at, slot - at * dims, row]
    points, bound = tile.across[at, dim, row], nest.temporal[at, dim, row]
    overlap = []
    for rank in ranks:
        left = rank_extent(tile.below[level:level + 1], rank)[0] - points * total([c * (dim == d) for d, c in rank])
        overlap.append(left * (left > 0))
    return product(overlap) * (visits - visits / bound) * some


def delivery(nest: Nest, projection: Projection, wanted: Array, active: Active | None = None) -> Delivery:
    """The tally when receivers that differ in a relevant dimension want different words, and others the same.

    `wanted` [L, T, B] is the demand of one receiver. Multicast covers the irrelevant spatial dimensions (eq. 9 of
    the paper; for outputs the same number is the spatial reduction of eq. 12).
    """
    xp = array_namespace(wanted)
    active = active or all_active(nest)
    one = xp.ones_like(wanted[0, 0])
    scatter, fan = [], []
    for level in range(nest.temporal.shape[0]):
        loops = [int(d) for d in active.spatial[level].nonzero()[0]]
        fan.append(product([nest.spatial[level, d] for d in loops] or [one]))
        scatter += [product([nest.spatial[level, d] for d in loops if relevant[d]] or [one])
                    for relevant in projection.relevant]
    receivers, groups = xp.stack(fan)[:, None], xp.reshape(xp.stack(scatter), wanted.shape)
    return Delivery((wanted * groups)[None], (receivers / groups)[None], groups[None], receivers, xp.zeros_like(wanted))


def sum_kinds(values: Array) -> Array:
    """The sum over the kinds of a tally, in their order."""
    return total([values[kind] for kind in range(values.shape[0])])


def bypassed(tally: Delivery, keep: Array) -> Delivery:
    """The tally after levels that do not keep a data space have handed their traffic outwards.

    The traffic of a bypassed level is charged to the next level outwards in proportion to that one's own tally,
    so the multicast in between is kept; its neighbour links are lost.
    """
    xp = array_namespace(tally.words)
    words, links = [tally.words[:, 0]], [tally.links[0]]
    for level in range(1, keep.shape[0]):
        kept, own = keep[level - 1], tally.words[:, level]
        content, reach = sum_kinds(words[-1]), sum_kinds(own * tally.multicast[:, level])
        words.append(own * xp.where(kept, xp.ones_like(content), content * tally.fan[level] / reach))
        links.append(tally.links[level] * kept)
    return Delivery(xp.stack(words, axis=1), tally.multicast, tally.scatter, tally.fan, xp.stack(links))


def partitions(tile: Tiles, rounding: Rounding, active: Active) -> Array:
    """Words of each data space that one instance is responsible for, [L, T, B]."""
    xp = array_namespace(tile.size)
    result = [tile.size[-1]]
    for level in reversed(range(tile.size.shape[0] - 1)):
        shared = active.spatial[level + 1].any()
        result.append(rounding.down(result[-1] * tile.size[level] / tile.across_size[level + 1]) if shared else result[-1])
    return xp.stack(result[::-1])


def accesses(nest: Nest, projection: Projection, tile: Tiles, raw: Delivery, tally: Delivery, instances: Array,
             rounding: Rounding, active: Active | None = None) -> Counts:
    """Reads, fills and updates from the tally before (`raw`) and after bypassing (`tally`).

    An output level is updated with all that comes up from below, reads back all but the first touch of each word
    of its partition, and is filled from above with all but the first visit. `instances` [L, B]: used instances.
    """
    xp = array_namespace(tile.size)
    active = active or all_active(nest)
    levels, tensors = nest.keep.shape[:2]
    zero, part, beyond = xp.zeros_like(tile.size[0, 0]), partitions(tile, rounding, active), kept_further_out(nest.keep)
    cells: list[tuple[Array, Array, Array]] = []
    for level in range(levels):
        for t, written in enumerate(projection.read_write):
            if not active.counted[level, t]:
                cells.append((zero, zero, zero))
                continue
            keep, outer = nest.keep[level, t], level + 1 < levels
            content = sum_kinds(tally.words[:, level, t])
            peer = tally.links[level + 1, t] / instances[level] if outer else zero
            share = received(raw, level + 1, t) * beyond[level][t] if outer else zero
            if written:
                reads = rounding.nearest(content + peer - part[level, t])
                fills = rounding.nearest(share + peer - part[level, t] * beyond[level][t])
                cells.append((reads * keep, fills * keep, rounding.nearest(content) * keep))
            else:
                cells.append((rounding.nearest(content + peer) * keep, rounding.down(share + peer) * keep, zero))
    reads, fills, updates = (xp.reshape(xp.stack(values), tile.size.shape) for values in zip(*cells, strict=True))
    from_below = xp.where(xp.asarray(projection.read_write)[:, None], updates, reads)
    return Counts(reads, fills, updates, part, fills + from_below)


def received(tally: Delivery, level: int, tensor: int) -> Array:
    """Words of one data space that arrive at one receiver below a level, [B]."""
    return sum_kinds(tally.words[:, level, tensor] * tally.multicast[:, level, tensor] / tally.fan[level])


def kept_further_out(keep: Array) -> list[Array]:
    """Whether some level further out keeps the data space, per level [T, B]."""
    result = [keep[-1] & ~keep[-1]]
    for level in reversed(range(1, keep.shape[0])):
        result.append(result[-1] | keep[level])
    return result[::-1]
