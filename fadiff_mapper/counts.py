"""Access counts of loop nests: the equations that the exact evaluation and the relaxed model share.

Everything here works on whole batches, NumPy or torch alike, in float64, where integers below 2^53 are exact: at
integer factors the results are Timeloop's, between them they are differentiable in the factors. Axes are named
L (storage level, innermost first), D (dimension), T (data space) and B (batch, last).

A *boundary* b lies between storage level b and what is below it: level b - 1, or the arithmetic for b = 0. The
equations extend those of FADiff (arXiv 2511.22348, eqs. 4-12) to loop order, sliding windows, multicast and
bypass, as `timeloop-model` computes them. What has no smooth form is left to `windows.py` and `spread.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from array_api_compat import array_namespace

from fadiff_mapper.nest import Array, Nest, Projection


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


def tile_extents(nest: Nest) -> tuple[Array, Array, Array]:
    """Points per dimension of (below, across, whole tile), each [L, D, B]; eq. (5) of the paper."""
    xp = array_namespace(nest.temporal)
    below, across, whole = [], [], []
    inner = xp.ones_like(nest.temporal[0])
    for level in range(nest.temporal.shape[0]):
        below.append(inner)
        across.append(inner * nest.spatial[level])
        inner = across[-1] * nest.temporal[level]
        whole.append(inner)
    return xp.stack(below), xp.stack(across), xp.stack(whole)


def rank_extents(extents: Array, ranks: tuple[tuple[tuple[int, int], ...], ...]) -> list[Array]:
    """Extent of every rank of one data space, [L, B] each: 1 + sum of coefficient * (points - 1)."""
    return [1 + sum(coefficient * (extents[:, d] - 1) for d, coefficient in rank) if len(rank) > 1 or rank[0][1] != 1
            else extents[:, rank[0][0]] for rank in ranks]


def volume(extents: Array, projection: Projection) -> Array:
    """Words of the box that `extents` [L, D, B] spans in every data space, [L, T, B]."""
    xp = array_namespace(extents)
    return xp.stack([product(rank_extents(extents, ranks)) for ranks in projection.ranks], axis=1)


def product(factors: list[Array]) -> Array:
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def tiles(nest: Nest, projection: Projection) -> Tiles:
    below, across, whole = tile_extents(nest)
    return Tiles(below, across, volume(whole, projection), volume(below, projection), volume(across, projection))


def demand(nest: Nest, projection: Projection, tile: Tiles) -> Array:
    """Words that one receiver below each boundary asks for over the whole run, [L, T, B].

    Below the innermost level sits the arithmetic, which asks for one word per cycle and data space. Elsewhere a
    tile is sent again for every outer temporal loop, except for the run of irrelevant loops that directly
    surrounds it: once one relevant loop is met, every loop outside it counts (eq. 6 of the paper counts the
    relevant ones only). The steps of that innermost relevant loop send only what the previous tile did not hold.
    """
    xp = array_namespace(nest.temporal)
    levels, dims = nest.temporal.shape[:2]
    bounds = xp.reshape(xp.take_along_axis(nest.temporal, nest.order, axis=1), (levels * dims, -1))
    dim_of = xp.reshape(nest.order, (levels * dims, -1))
    step = xp.reshape(xp.take_along_axis(tile.across, nest.order, axis=1), (levels * dims, -1))
    outside = suffix_products(bounds)
    result = [xp.broadcast_to(outside[0], (len(projection.ranks), *outside[0].shape))]
    first = first_moving(bounds, dim_of, projection, levels)
    padded = xp.concat([bounds, xp.ones_like(bounds[:1])])
    beyond = xp.concat([outside[1:], xp.ones_like(bounds[:1])])
    for level in range(1, levels):
        at = first[level]                                             # [T, B]
        iterations = xp.take_along_axis(padded, at, axis=0)
        size = tile.below_size[level]
        fresh = xp.stack([
            _fresh_words(tile, projection, level, tensor, at[tensor], dim_of, step)
            if projection.windowed[tensor] else size[tensor] for tensor in range(len(projection.ranks))])
        result.append((size + fresh * (iterations - 1)) * xp.take_along_axis(beyond, at, axis=0))
    return xp.stack(result)


def suffix_products(bounds: Array) -> Array:
    """[S + 1, B]: entry s is the product of the bounds of loop s and all loops outside it (1 at the end)."""
    xp = array_namespace(bounds)
    running = [xp.ones_like(bounds[0])]
    for slot in reversed(range(bounds.shape[0])):
        running.append(running[-1] * bounds[slot])
    return xp.stack(running[::-1])


def first_moving(bounds: Array, dim_of: Array, projection: Projection, levels: int) -> Array:
    """Slot of the innermost loop outside each boundary that moves the data space, [L, T, B]; S where none does.

    A loop of bound 1 moves nothing. `bounds` and `dim_of` are [S, B], from the innermost loop outwards.
    """
    xp = array_namespace(bounds)
    slots, dims = bounds.shape[0], bounds.shape[0] // levels
    relevant = xp.asarray(projection.relevant)[:, dim_of]             # [T, S, B]
    index = xp.reshape(xp.arange(slots), (1, slots, 1))
    where = xp.where(relevant & (bounds > 1), index, slots)
    nearest = [xp.full_like(where[:, 0], slots)]
    for level in reversed(range(levels)):
        within = xp.min(where[:, level * dims:(level + 1) * dims], axis=1)
        nearest.append(xp.minimum(within, nearest[-1]))
    return xp.stack(nearest[1:][::-1])


def _fresh_words(tile: Tiles, projection: Projection, level: int, tensor: int, at: Array, dim_of: Array,
                 step: Array) -> Array:
    """Words of a tile that a step of the loop in slot `at` [B] brings in anew: its size less the overlap, [B]."""
    xp = array_namespace(step)
    slot = xp.minimum(at, xp.full_like(at, step.shape[0] - 1))[None]
    dim, points = xp.take_along_axis(dim_of, slot, axis=0)[0], xp.take_along_axis(step, slot, axis=0)[0]
    extents = rank_extents(tile.below[level:level + 1], projection.ranks[tensor])
    overlap = []
    for rank, extent in zip(projection.ranks[tensor], extents, strict=True):
        shift = sum(coefficient * points * (dim == d) for d, coefficient in rank)
        left = extent[0] - shift
        overlap.append(xp.where(left > 0, left, xp.zeros_like(left)))
    return tile.below_size[level, tensor] - product(overlap)


def delivery(nest: Nest, projection: Projection, wanted: Array) -> Delivery:
    """The tally when receivers that differ in a relevant dimension want different words, and others the same.

    `wanted` [L, T, B] is the demand of one receiver. Multicast covers the irrelevant spatial dimensions (eq. 9 of
    the paper; for outputs the same number is the spatial reduction of eq. 12).
    """
    xp = array_namespace(wanted)
    scatter = xp.stack([
        product([nest.spatial[:, d] for d in range(nest.spatial.shape[1]) if relevant[d]] or [xp.ones_like(wanted[:, 0])])
        for relevant in projection.relevant], axis=1)
    fan = product([nest.spatial[:, d] for d in range(nest.spatial.shape[1])])[:, None]
    return Delivery((wanted * scatter)[None], (fan / scatter)[None], scatter[None], fan, xp.zeros_like(wanted))


def received(tally: Delivery) -> Array:
    """Words that arrive at one receiver below each boundary, [L, T, B]."""
    total = tally.words[0] * tally.multicast[0] / tally.fan
    for kind in range(1, tally.words.shape[0]):
        total = total + tally.words[kind] * tally.multicast[kind] / tally.fan
    return total


def sent(tally: Delivery) -> Array:
    """Words that one instance of each level sends (or takes in, for outputs), [L, T, B]."""
    total = tally.words[0]
    for kind in range(1, tally.words.shape[0]):
        total = total + tally.words[kind]
    return total


def bypassed(tally: Delivery, keep: Array) -> Delivery:
    """The tally after levels that do not keep a data space have handed their traffic outwards.

    The traffic of a bypassed level is charged to the next level outwards in proportion to that one's own tally,
    so the multicast in between is kept; its neighbour links are lost.
    """
    xp = array_namespace(tally.words)
    words = [tally.words[:, level] for level in range(keep.shape[0])]
    links = [tally.links[level] for level in range(keep.shape[0])]
    for level in range(keep.shape[0] - 1):
        content = sum_kinds(words[level])
        reach = sum_kinds(words[level + 1] * tally.multicast[:, level + 1])
        factor = xp.where(keep[level], xp.ones_like(content), content * tally.fan[level + 1] / reach)
        words[level + 1] = words[level + 1] * factor
        links[level + 1] = xp.where(keep[level], links[level + 1], xp.zeros_like(content))
    return Delivery(xp.stack(words, axis=1), tally.multicast, tally.scatter, tally.fan, xp.stack(links))


def sum_kinds(values: Array) -> Array:
    total = values[0]
    for kind in range(1, values.shape[0]):
        total = total + values[kind]
    return total


def partitions(nest: Nest, tile: Tiles, rounding: Rounding) -> Array:
    """Words of each data space that one instance is responsible for, [L, T, B]."""
    xp = array_namespace(tile.size)
    levels = tile.size.shape[0]
    result = [tile.size[levels - 1]]
    for level in reversed(range(levels - 1)):
        result.append(rounding.down(result[-1] * tile.size[level] / tile.across_size[level + 1]))
    return xp.stack(result[::-1])


def accesses(nest: Nest, projection: Projection, tile: Tiles, raw: Delivery, tally: Delivery, instances: Array,
             rounding: Rounding) -> Counts:
    """Reads, fills and updates from the tally before (`raw`) and after bypassing (`tally`).

    An output level is updated with all that comes up from below, reads back all but the first touch of each word
    of its partition, and is filled from above with all but the first visit. `instances` [L, B]: used instances.
    """
    xp = array_namespace(tile.size)
    levels = tile.size.shape[0]
    content, arriving, zero = sent(tally), received(raw), xp.zeros_like(tile.size[0])
    part = partitions(nest, tile, rounding)
    outermost = _outermost(nest.keep)
    reads, fills, updates = [], [], []
    for level in range(levels):
        above = level + 1 < levels
        peer = tally.links[level + 1] / instances[level] if above else zero
        top = outermost[level]
        share = xp.where(top, zero, arriving[level + 1]) if above else zero
        written = xp.asarray(projection.read_write)[:, None]
        supply = rounding.nearest(content[level] + peer - xp.where(written, part[level], zero))
        first = xp.where(top, zero, part[level])
        reads.append(supply)
        fills.append(xp.where(written, rounding.nearest(share + peer - first), rounding.down(share + peer)))
        updates.append(xp.where(written, rounding.nearest(content[level]), zero))
    kept = nest.keep * xp.ones_like(tile.size)
    reads, fills, updates = (xp.stack(values) * kept for values in (reads, fills, updates))
    generations = fills + xp.where(written, updates, reads)
    return Counts(reads, fills, updates, part, generations)


def _outermost(keep: Array) -> list[Array]:
    """Whether no level further out keeps the data space, per level [T, B]."""
    above = keep[-1] & ~keep[-1]
    result = []
    for level in reversed(range(keep.shape[0])):
        result.append(~above)
        above = above | keep[level]
    return result[::-1]
