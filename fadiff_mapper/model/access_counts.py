"""Access counts of loop nests: the equations that the exact evaluation and the relaxed model share.

Everything here works on whole batches, NumPy or torch alike, in float64, where integers below 2^53 are exact: at
integer factors the results are Timeloop's, between them they are differentiable in the factors. Axes are named
L (storage level, innermost first), D (dimension), T (data space) and B (batch, last).

A *boundary* b lies between storage level b and what is below it: level b - 1, or the arithmetic for b = 0. The
equations extend those of FADiff (arXiv 2511.22348, eqs. 4-12) to loop order, sliding windows, multicast and
bypass, as `timeloop-model` computes them. What has no smooth form is left to `sliding_window_walk.py` and
`spatial_transfers.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, Ranks, all_active, array_namespace
from fadiff_mapper.model.reuse import Reuse, full_reuse


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


@dataclass(frozen=True)
class TemporalLoops:
    """The temporal loops of a batch, innermost first, without the levels that have none.

    level [S]       the level each slot belongs to
    dim [S, B]      the dimension of the loop in each slot
    bound [S, B]    its iterations
    outside [S + 1, B]   iterations of the loop in a slot times those of all loops outside it; 1 at the end
    """

    level: list[int]
    dim: Array
    bound: Array
    outside: Array

    def start(self, level: int) -> int:
        """The first slot outside the boundary below a level."""
        return sum(at < level for at in self.level)


def sorted_loops(nest: Nest, active: Active) -> TemporalLoops:
    """The loops in the order in which they run; at least one level is included, loops or not."""
    xp = array_namespace(nest.temporal)
    dims, batch = nest.temporal.shape[1:]
    levels = active.looping_levels() or [0]
    row = xp.arange(batch)
    dim = xp.concat([nest.order[level] for level in levels])
    bound = xp.concat([xp.reshape(nest.temporal[level], (-1,))[nest.order[level] * batch + row] for level in levels])
    outside = [xp.ones_like(bound[0])]
    for slot in reversed(range(bound.shape[0])):
        outside.append(outside[-1] * bound[slot])
    return TemporalLoops([level for level in levels for _ in range(dims)], dim, bound, xp.stack(outside[::-1]))


def first_moving(loops: TemporalLoops, projection: Projection, levels: int) -> Array:
    """Slot of the innermost loop outside each boundary that moves the data space, [L, T, B]; S where none does.

    A loop of bound 1 moves nothing.
    """
    xp = array_namespace(loops.bound)
    slots = len(loops.level)
    relevant = xp.take(xp.asarray(projection.relevant), xp.reshape(loops.dim, (-1,)), axis=1)
    moves = xp.reshape(relevant, (-1, *loops.dim.shape)) & (loops.bound > 1)                     # [T, S, B]
    depth = moves * xp.reshape(xp.arange(slots, 0, -1, dtype=xp.int16), (slots, 1))    # 1 for the outermost slot
    deepest, result = xp.zeros_like(depth[:, 0]), []
    for level in reversed(range(levels)):
        here = [slot for slot in range(slots) if loops.level[slot] == level]
        if here:
            deepest = xp.maximum(deepest, xp.max(depth[:, here[0]:here[-1] + 1], axis=1))
        result.append(deepest)
    return slots - xp.astype(xp.stack(result[::-1]), xp.int64)


def demand(nest: Nest, projection: Projection, tile: Tiles, active: Active | None = None,
           reuse: Reuse | None = None) -> Array:
    """Words that one receiver below each boundary asks for over the whole run, [L, T, B].

    Below the innermost level sits the arithmetic, which asks for one word per cycle and data space. Elsewhere a
    tile is sent again for every outer temporal loop, except for the run of irrelevant loops that directly
    surrounds it: once one relevant loop is met, every loop outside it counts (eq. 6 of the paper counts the
    relevant ones only). The steps of that innermost relevant loop send only what the previous tile did not hold;
    this is left out where no row keeps the data space below, since `bypassed` does not look at the demand there.
    Where `reuse` says that nothing is held, every outer loop sends the whole tile again.
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
    """Words that need not be sent because the tile of the step before held them, [B].

    `first` [B] is the slot of the loop that moves the tile, `visits` [B] how often the tile is sent.
    """
    xp = array_namespace(visits)
    bound = loops.bound[xp.where(first < len(loops.level), first, xp.zeros_like(first)), xp.arange(first.shape[0])]
    return overlap(loops, ranks, tile, (level,), first[None])[0] * (visits - visits / bound)


def overlap(loops: TemporalLoops, ranks: Ranks, tile: Tiles, levels: Sequence[int], first: Array) -> Array:
    """Words of the tiles below some boundaries that a step of the loops in the slots `first` [N, B] leaves in place;
    0 where no loop moves the tile, [N, B]."""
    xp = array_namespace(loops.bound)
    row, slots = xp.arange(first.shape[1]), len(loops.level)
    some = first < slots
    slot = xp.where(some, first, xp.zeros_like(first))
    dim = loops.dim[slot, row]
    points = tile.across[xp.asarray(loops.level)[slot], dim, row]
    below, lengths = tile.below[list(levels)], []
    for rank in ranks:
        left = rank_extent(below, rank) - points * total([c * (dim == d) for d, c in rank])
        lengths.append(left * (left > 0))
    return product(lengths) * some


def delivery(nest: Nest, projection: Projection, wanted: Array, active: Active | None = None,
             reuse: Reuse | None = None) -> Delivery:
    """The tally when receivers that differ in a relevant dimension want different words, and others the same.

    `wanted` [L, T, B] is the demand of one receiver. Multicast covers the irrelevant spatial dimensions (eq. 9 of
    the paper; for outputs the same number is the spatial reduction of eq. 12), unless `reuse` says otherwise.
    """
    xp = array_namespace(wanted)
    active = active or all_active(nest)
    loops = active.spatial_dims()
    one = xp.ones_like(wanted[:, 0])
    fan = product([nest.spatial[:, d] for d in loops] or [one])[:, None]
    scatter = xp.stack([product([nest.spatial[:, d] for d in loops if relevant[d]] or [one])
                        for relevant in projection.relevant], axis=1)
    if reuse is not None and not reuse.multicast.all():
        scatter = xp.where(xp.asarray(reuse.multicast)[:, :, None], scatter, fan)
    return Delivery((wanted * scatter)[None], (fan / scatter)[None], scatter[None], fan, xp.zeros_like(wanted))


def sum_kinds(values: Array) -> Array:
    """The sum over the kinds of a tally, in their order."""
    return total([values[kind] for kind in range(values.shape[0])])


def bypassed(tally: Delivery, keep: Array) -> Delivery:
    """The tally after levels that do not keep a data space have handed their traffic outwards.

    The traffic of a bypassed level is charged to the next level outwards in proportion to that one's own tally,
    so the multicast in between is kept; its neighbour links are lost. Nothing comes over the links outside the
    outermost level that keeps a data space either.
    """
    xp = array_namespace(tally.words)
    further = kept_further_out(keep)
    words, links = [tally.words[:, 0]], [tally.links[0]]
    for level in range(1, keep.shape[0]):
        kept, own = keep[level - 1], tally.words[:, level]
        content, reach = sum_kinds(words[-1]), sum_kinds(own * tally.multicast[:, level])
        words.append(own * xp.where(kept, xp.ones_like(content), content * tally.fan[level] / reach))
        links.append(tally.links[level] * (kept & further[level - 1]))
    return Delivery(xp.stack(words, axis=1), tally.multicast, tally.scatter, tally.fan, xp.stack(links))


def partitions(tile: Tiles, rounding: Rounding, active: Active) -> Array:
    """Words of each data space that one instance is responsible for, [L, T, B]."""
    xp = array_namespace(tile.size)
    result = [tile.size[-1]]
    for level in reversed(range(tile.size.shape[0] - 1)):
        part = result[-1]
        if active.spatial[level + 1].any():
            part = rounding.down(part * tile.size[level] / tile.across_size[level + 1])
        result.append(part)
    return xp.stack(result[::-1])


def accesses(nest: Nest, projection: Projection, tile: Tiles, raw: Delivery, tally: Delivery, instances: Array,
             rounding: Rounding, active: Active | None = None) -> Counts:
    """Reads, fills and updates from the tally before (`raw`) and after bypassing (`tally`).

    An output level is updated with all that comes up from below, reads back all but the first touch of each word
    of its partition, and is filled from above with all but the first visit. `instances` [L, B]: used instances.
    """
    xp = array_namespace(tile.size)
    part = partitions(tile, rounding, active or all_active(nest))
    further = kept_further_out(nest.keep)
    reads, fills, updates = [], [], []
    for t, written in enumerate(projection.read_write):
        content = sum_kinds(tally.words[:, :, t])
        peer = from_outside(tally.links[:, t]) / instances
        share = from_outside(received(raw, t)) * further[:, t]
        if written:
            reads.append(rounding.nearest(content + peer - part[:, t]))
            fills.append(rounding.nearest(share + peer - part[:, t] * further[:, t]))
            updates.append(rounding.nearest(content))
        else:
            reads.append(rounding.nearest(content + peer))
            fills.append(rounding.down(share + peer))
            updates.append(xp.zeros_like(content))
    reads, fills, updates = (xp.stack(values, axis=1) * nest.keep for values in (reads, fills, updates))
    from_below = xp.where(xp.asarray(projection.read_write)[:, None], updates, reads)
    return Counts(reads, fills, updates, part, fills + from_below)


def received(tally: Delivery, tensor: int) -> Array:
    """Words of one data space that arrive at one receiver below each boundary, [L, B]."""
    return sum_kinds(tally.words[:, :, tensor] * tally.multicast[:, :, tensor] / tally.fan[:, 0])


def from_outside(values: Array) -> Array:
    """What each level gets over the boundary above it, from values [L, B] per boundary below a level."""
    xp = array_namespace(values)
    return xp.concat([values[1:], xp.zeros_like(values[:1])])


def kept_further_out(keep: Array) -> Array:
    """Whether some level further out keeps the data space, [L, T, B]."""
    xp = array_namespace(keep)
    result = [keep[-1] & ~keep[-1]]
    for level in reversed(range(1, keep.shape[0])):
        result.append(result[-1] | keep[level])
    return xp.stack(result[::-1])
