"""Access counts of loop nests: the equations that the exact evaluation and the differentiable model share.

Everything works on whole batches, NumPy or torch alike, in float64, where integers below 2^53 are exact: at integer
factors the results are Timeloop's, between them they are differentiable in the factors. Axes: L (storage level,
innermost first), D (dimension), T (data space), B (batch, last), K (kind of transfer: one pair of multicast and
scatter).

A *boundary* b lies between storage level b and its receivers: the instances of level b - 1, or the arithmetic for
b = 0. The steps:

    tiles       boxes of points below each boundary, and their words (`tiles.py`)
    demand      words that one receiver asks for over the whole run: reuse in time
    delivery    words that one instance of a level sends: reuse in space (multicast)
    bypassed    delivery after levels that do not keep a data space have passed their traffic outwards
    accesses    reads, fills and updates of every level

The equations extend those of FADiff (arXiv 2511.22348, eqs. 4-12) to loop order, sliding windows, multicast at every
level and bypass, as `timeloop-model` computes them. Two of Timeloop's rules have no smooth form: the state that a
sliding window keeps between calls (`kernel/window_walk.hpp`) and links between neighbouring receivers
(`kernel/receivers.hpp`); `smooth.py` has closed forms for both.

Searches run the compiled `kernel/evaluate.cpp`; `tests/kernel/test_kernel_equals_arrays.py` holds the two together
from the traffic on, which both take from the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, Ranks, all_active, array_namespace
from fadiff_mapper.model.reuse import Reuse, full_reuse
from fadiff_mapper.model.tiles import Tiles, rank_extent


@dataclass(frozen=True)
class Delivery:
    """The words that cross each boundary over the whole run, as a tally by kind of transfer.

    A kind is a pair (multicast, scatter): `scatter` groups of `multicast` receivers each, every group with its own
    words. K is 1 unless receivers are counted one by one (`kernel/receivers.hpp`); unused kinds hold 0 words.
    """

    words: Array                    # [K, L, T, B]. Words sent by one instance of level l to all groups together, a word
                                    # for several receivers counted once
    multicast: Array                # [K, L, T, B]. Receivers of each of these words
    scatter: Array                  # [K, L, T, B]. Groups of receivers
    fan: Array                      # [L, 1, B]. Receivers of one instance of level l, the product of its spatial
                                    # factors
    links: Array                    # [L, T, B]. Words that receivers take from a neighbouring receiver instead, all
                                    # receivers together
    hop_words: Array | None = None  # [K, L, T, B]. Words times the hops they travel on the interconnect; None if hops
                                    # were not counted


@dataclass(frozen=True)
class ElementWords:
    """Words of each level that an element takes if tensors have bits of their own, [L, T, B]: whole numbers / `per`.

    Elements are packed one behind the other, across the words of a level.
    """

    stored: Array       # Stored in the level; partial sums have a width of their own, see `element_words`
    transferred: Array  # Transferred between the level and its receivers
    per: Array          # Common divisor of both

    def of(self, elements: Array) -> Array:
        """Words of each level that `elements` [L, T, B] occupy."""
        return elements * self.stored / self.per


@dataclass(frozen=True)
class Counts:
    """Accesses of one instance over the whole run, in words of tensors, [L, T, B]; 0 where a data space is not kept."""

    reads: Array                # Words read and sent inwards; outputs are read back to go on accumulating. Draining a
                                # finished sum outwards costs no read here: Timeloop does not count it
    fills: Array                # Words written that arrive from a level further out
    updates: Array              # Words of outputs written that arrive from below; 0 for operands
    partition: Array            # Words of the data space that the instance is responsible for (kept or not)
    address_generations: Array  # Addresses generated: fills, and updates of outputs or reads of operands
    words: ElementWords | None = None  # Words of the levels per word of a tensor; None: 1


MORE = 1 + 1e-9
"""Updates of a level over words of its partition above which words are updated again; with a margin for rounding."""


def element_words(counts: Counts, nest: Nest, projection: Projection, whole: np.ndarray, partial: np.ndarray,
                  per: np.ndarray) -> ElementWords:
    """Words of the levels that elements take, from the widths of finished elements, `whole / per`, and of partial sums,
    `partial / per`, [L, T, 1] each.

    A level holds partial sums of an output if it gets more updates than words of its partition, so that some are added
    up there or read back, or if a spatial loop further out adds up words of several instances. Its receivers send
    partial sums also if a spatial loop of the level itself adds up words.
    """
    xp = array_namespace(nest.temporal)
    adding = xp.any(xp.asarray(projection.adding)[None, :, :, None] & (nest.spatial > 1)[:, None], axis=2)
    apart, stored, transferred = xp.zeros_like(adding[0]), list[Array](), list[Array]()
    for level in reversed(range(len(whole))):
        again = counts.updates[level] > counts.partition[level] * MORE
        stored.append(apart | again)
        apart = apart | adding[level]
        transferred.append(apart | again)
    in_level, on_the_way = (xp.where(xp.stack(sums[::-1]), xp.asarray(partial), xp.asarray(whole))
                            for sums in (stored, transferred))
    return ElementWords(in_level, on_the_way, xp.asarray(per) + 0 * nest.temporal[:, :1])


@dataclass(frozen=True)
class Rounding:
    """The rounding of counts: Timeloop's rules in the exact evaluation, the identity in the differentiable model."""

    nearest: Callable[[Array], Array]  # Rounds half away from zero, as C++ does
    down: Callable[[Array], Array]     # Truncates (counts are not negative)
    up: Callable[[Array], Array]       # Rounds up


@dataclass(frozen=True)
class TemporalLoops:
    """The temporal loops of a batch, innermost first, without the levels that have none.

    Every level with loops contributes D positions, so that all mappings have the same S; loops of bound 1 stay.
    """

    level: list[int]  # [S]. The level of each loop
    dim: Array        # [S, B]. The dimension of each loop
    bound: Array      # [S, B]. Its iterations
    outside: Array    # [S + 1, B]. Iterations of a loop times the iterations of all loops outside it; 1 at the end

    def start(self, level: int) -> int:
        """Position of the innermost loop outside the boundary below a level."""
        return sum(at < level for at in self.level)


def sorted_loops(nest: Nest, active: Active) -> TemporalLoops:
    """The temporal loops in the order in which they run; at least one level is included, with loops or without."""
    xp, (dims, batch) = array_namespace(nest.temporal), nest.temporal.shape[1:]
    levels, row = np.flatnonzero(active.temporal.any(axis=1)).tolist() or [0], xp.arange(batch)
    dim = xp.concat([nest.order[level] for level in levels])
    bound = xp.concat([xp.reshape(nest.temporal[level], (-1,))[nest.order[level] * batch + row] for level in levels])
    outside = [xp.ones_like(bound[0])]
    for loop in reversed(range(bound.shape[0])):
        outside.append(outside[-1] * bound[loop])
    return TemporalLoops([level for level in levels for _ in range(dims)], dim, bound, xp.stack(outside[::-1]))


def first_moving(loops: TemporalLoops, projection: Projection, levels: int) -> Array:
    """The innermost loop outside each boundary that moves the data space: a relevant one of bound above 1.

    Returns [L, T, B]: positions in `loops`, S where no loop moves the data space.
    """
    xp, count = array_namespace(loops.bound), len(loops.level)
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

    The arithmetic below the innermost level asks for one word per cycle and data space. Elsewhere a tile is sent again
    for every outer temporal loop, except the run of irrelevant loops that directly surrounds it: outside the first
    relevant loop every loop counts, relevant or not (FADiff eq. (6) counts only relevant loops). The steps of that
    innermost relevant loop send only the new words of a sliding window: of n steps n - 1 find the overlap in place, in
    each of the visits / n runs of the loop. Without temporal reuse every outer loop sends the whole tile again.

    This closed form is exact if at most one loop moves each window (property test in
    `tests/model/test_sliding_window_walk.py`). If several do, the compiled walk (`kernel/window_walk.hpp`), the
    authority, and `smooth.window_steps` take its place. Returns words [L, T, B]. Overlaps of windows are not subtracted
    if `active.counted` is False: `bypassed` rescales the traffic there, so that its size does not matter.
    """
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    reuse = reuse or full_reuse(nest.temporal.shape[0], len(projection.ranks))
    loops = sorted_loops(nest, active)
    first, row = first_moving(loops, projection, nest.temporal.shape[0]), xp.arange(nest.temporal.shape[2])
    visits = loops.outside[first, row]
    result = [xp.stack([loops.outside[0]] * len(projection.ranks))]
    for level in range(1, nest.temporal.shape[0]):
        held, calls = reuse.held[level], loops.outside[loops.start(level)]
        words = tile.below_size[level] * (
            visits[level] if held.all() else xp.where(xp.asarray(held)[:, None], visits[level], calls))
        sent = [words[t] for t in range(len(projection.ranks))]
        slides = [t for t, windowed in enumerate(projection.windowed)
                  if windowed and held[t] and active.counted[level - 1, t]]
        for t in slides:
            moving = first[level, t]
            bound = loops.bound[xp.where(moving < len(loops.level), moving, xp.zeros_like(moving)), row]
            found = overlap(loops, projection.ranks[t], tile, (level,), moving[None])[0]
            sent[t] = sent[t] - found * (visits[level, t] - visits[level, t] / bound)
        result.append(xp.stack(sent) if slides else words)
    return xp.stack(result)


def overlap(loops: TemporalLoops, ranks: Ranks, tile: Tiles, levels: Sequence[int], first: Array) -> Array:
    """Words that a tile and its predecessor have in common when a loop takes one step.

    A step moves each rank by coefficient times the points `across` of the loop's level; a rank of extent e that moves
    by m keeps max(e - m, 0) words, and the overlap is the product over the ranks. `levels`: the levels outside N
    boundaries; `first` [N, B]: the position of the loop that moves the tile below each boundary, S if none does.
    Returns words [N, B], 0 if no loop moves the tile.
    """
    xp, some = array_namespace(loops.bound), first < len(loops.level)
    row = xp.arange(first.shape[1])
    loop = xp.where(some, first, xp.zeros_like(first))
    dim = loops.dim[loop, row]
    points = tile.across[xp.asarray(loops.level)[loop], dim, row]
    below, lengths = tile.below[list(levels)], []
    for rank in ranks:
        left = rank_extent(below, rank) - points * sum(c * (dim == d) for d, c in rank)
        lengths.append(left * (left > 0))  # not maximum(left, 0): the gradient at 0 is 0
    return math.prod(lengths) * some


def delivery(nest: Nest, projection: Projection, wanted: Array, active: Active | None = None,
             reuse: Reuse | None = None) -> Delivery:
    """The tally when receivers that differ in a relevant dimension want different words, and others the same.

    Multicast covers the irrelevant spatial dimensions (FADiff eq. (9); for outputs the same number is the spatial
    reduction of eq. (12)). Without spatial reuse every receiver is sent its own words. Receivers whose windows overlap
    in part are left to `evaluate.exact_traffic` and `smooth.smooth_delivery`. `wanted` [L, T, B]: the demand of one
    receiver in words. Returns one kind of transfer per level and data space, without links and hops.
    """
    xp = array_namespace(wanted)
    active = active or all_active(nest)
    loops = np.flatnonzero(active.spatial.any(axis=0)).tolist()
    one = xp.ones_like(wanted[:, 0])
    fan = math.prod((nest.spatial[:, d] for d in loops), start=one)[:, None]
    scatter = xp.stack([math.prod((nest.spatial[:, d] for d in loops if relevant[d]), start=one)
                        for relevant in projection.relevant], axis=1)
    if reuse is not None and not reuse.multicast.all():
        scatter = xp.where(xp.asarray(reuse.multicast)[:, :, None], scatter, fan)
    return Delivery((wanted * scatter)[None], (fan / scatter)[None], scatter[None], fan, xp.zeros_like(wanted))


def holding(nest: Nest, reuse: Reuse) -> Nest:
    """The mappings without the data spaces that Timeloop forgets in a level.

    A level that keeps a data space without coalescing, outside of every level that coalesces it, has no level to fetch
    from: Timeloop counts as if the data space bypassed the level, without capacity for it. If no level is left,
    Timeloop ends on an assertion. If every level coalesces all data spaces, the result is `nest` itself.
    """
    if reuse.coalesced.all():
        return nest
    xp = array_namespace(nest.keep)
    coalesces = xp.asarray(reuse.coalesced)[:, :, None]
    return replace(nest, keep=nest.keep & (coalesces | kept_further_out(nest.keep & coalesces)))


def bypassed(tally: Delivery, keep: Array, reuse: Reuse) -> Delivery:
    """The tally after levels that do not keep a data space have passed their traffic outwards.

    Derivation. An instance of the bypassed level l - 1 would send `content` words to its own receivers. Bypassed, it
    asks level l for all of them, and level l has `fan` such receivers: content * fan words must arrive. The tally of
    level l, counted as if level l - 1 held its tile, lets reach = sum over kinds of words * multicast words arrive.
    Scaling every kind by f = content * fan / reach makes the right number arrive and keeps the multicast of each kind.
    Applied from the innermost level outwards, this covers runs of bypassed levels. Links are lost: a level without the
    data space has no words for its neighbour. Outside the outermost level that keeps a data space there are no links
    either.

    Worked example (Timeloop's own numbers): GEMM, M = K = N = 4, K = 4 spatial under Buf, four Reg each above its own
    MAC, 16 cycles. B[K, N] at Reg: 16 words sent to the MAC. Buf sends 16 words of B, each to one Reg. B bypassing
    Reg: f = 16 * 4 / 16 = 4, so that Buf reads 16 * 4 = 64 words of B, four MACs times 16 cycles.

    `keep` is [L, T, B]; levels that keep a data space without coalescing it (`reuse`) pass their traffic outwards, too.
    Multicast, scatter, fan and hop_words are unchanged (Timeloop counts hops before bypassing).
    """
    xp = array_namespace(tally.words)
    if not reuse.coalesced.all():
        keep = keep & xp.asarray(reuse.coalesced)[:, :, None]
    further = kept_further_out(keep)
    words, links = [tally.words[:, 0]], [tally.links[0]]
    for level in range(1, keep.shape[0]):
        kept, own = keep[level - 1], tally.words[:, level]
        content, reach = sum(words[-1]), sum(own * tally.multicast[:, level])
        words.append(own * xp.where(kept, xp.ones_like(content), content * tally.fan[level] / reach))
        links.append(tally.links[level] * (kept & further[level - 1]))
    return replace(tally, words=xp.stack(words, axis=1), links=xp.stack(links))


def partitions(tile: Tiles, rounding: Rounding, active: Active) -> Array:
    """Words of each data space that one instance is responsible for, whether it keeps the data space or not.

    The outermost level is responsible for its whole tile. Below a fan-out one receiver has the share of its tile in the
    tile of all receivers: part(l) = floor(part(l + 1) * size(l) / across_size(l + 1)), in this order of operations.
    Returns words per instance, [L, T, B].
    """
    xp = array_namespace(tile.size)
    result = [tile.size[-1]]
    for level in reversed(range(tile.size.shape[0] - 1)):
        part = result[-1]
        if active.spatial[level + 1].any():
            part = rounding.down(part * tile.size[level] / tile.across_size[level + 1])
        result.append(part)
    return xp.stack(result[::-1])


def accesses(nest: Nest, projection: Projection, tile: Tiles, raw: Delivery, tally: Delivery, rounding: Rounding,
             active: Active, reuse: Reuse) -> Counts:
    """Reads, fills and updates of every level from the tally before and after bypassing.

    Per instance, with content the words that the level sends, share the words that arrive from outside, and peer
    the words that arrive from a neighbour (one neighbour's read for each):

        operand   reads = round(content + peer)            fills = floor(share + peer)
        output    reads = round(content + peer - part)     fills = round(share + peer - part), updates = round(content)

    An output is updated with all words from below. It is read back except at the first touch of each word of the
    partition, and filled except at the first visit; the outermost level that keeps it is never filled. If first updates
    are no plain writes, part is left out. A level that coalesces no output is read and filled with
    round(content + peer). `raw`: the tally as if every level kept every data space, which gives `share`; `tally`: after
    bypassing, which gives content and links.
    """
    xp = array_namespace(tile.size)
    part = partitions(tile, rounding, active)
    further = kept_further_out(nest.keep)
    coalesced = xp.asarray(reuse.coalesced)[:, :, None]
    plain = coalesced & xp.asarray(reuse.first_written)[:, :, None]
    reads, fills, updates = [], [], []
    for t, written in enumerate(projection.read_write):
        content = sum(tally.words[:, :, t])
        peer = from_outside(tally.links[:, t]) / tile.instances
        share = from_outside(received(raw, t)) * further[:, t]
        if written:
            first = part[:, t] * plain[:, t]
            asked, filled = content + peer - first, share + peer - first * further[:, t]
            reads.append(rounding.nearest(asked))
            fills.append(rounding.nearest(xp.where(coalesced[:, t], filled, asked)))
            updates.append(rounding.nearest(content))
        else:
            reads.append(rounding.nearest(content + peer))
            fills.append(rounding.down(share + peer))
            updates.append(xp.zeros_like(content))
    reads, fills, updates = (xp.stack(values, axis=1) * nest.keep for values in (reads, fills, updates))
    from_below = xp.where(xp.asarray(projection.read_write)[:, None], updates, reads)
    return Counts(reads, fills, updates, part, fills + from_below)


def received(tally: Delivery, dataspace: int) -> Array:
    """Words of one data space that arrive at one receiver below each boundary, [L, B].

    Each kind is (words * multicast) / fan in Timeloop's order: the sum is truncated, so its last bit counts.
    """
    return sum(tally.words[:, :, dataspace] * tally.multicast[:, :, dataspace] / tally.fan[:, 0])


def from_outside(values: Array) -> Array:
    """Values by the level inside a boundary, 0 for the outermost level, from values [L, B] by the level outside."""
    xp = array_namespace(values)
    return xp.concat([values[1:], xp.zeros_like(values[:1])])


def kept_further_out(keep: Array) -> Array:
    """Whether some level further out keeps the data space, [L, T, B] from `keep` [L, T, B]."""
    xp = array_namespace(keep)
    result = [keep[-1] & ~keep[-1]]
    for level in reversed(range(1, keep.shape[0])):
        result.append(result[-1] | keep[level])
    return xp.stack(result[::-1])
