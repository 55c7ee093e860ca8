"""Windows that the receivers of one fan-out share, in closed form and differentiable.

The twin of `kernel/receivers.cpp`, which counts receiver by receiver and is the authority;
`tests/model/test_closed_forms.py` says how often the two agree. Receivers whose windows coincide are sent them
together. Receivers side by side lie one step of a spatial loop apart: where a tile moves by that step, and the call
before was as long, all but the last of them find their words at a neighbour. Not followed: receivers that find them in
the next row where the mapping fills rows in part, and at a neighbour of the next turn of an outer spatial loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.model.access_counts import Delivery
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, array_namespace
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.model.smooth.sliding_window_closed_form import Rank, WindowSteps, shared_ranks
from fadiff_mapper.model.tile_boxes import Tiles, product, total
from fadiff_mapper.spec.arch import Architecture


@dataclass(frozen=True)
class SentWords:
    """Words of one data space that one instance of a level sends.

    Attributes:
        words: [B]. Words sent, all groups together.
        multicast: [B]. Receivers of each word.
        groups: [B]. Groups of receivers with the same words.
        links: [B]. Words that receivers take from a neighbour instead, all receivers together.
    """

    words: Array
    multicast: Array
    groups: Array
    links: Array


def smooth_delivery(raw: Delivery, steps: Mapping[int, WindowSteps], nest: Nest, projection: Projection,
                    arch: Architecture, tile: Tiles, active: Active, reuse: Reuse) -> Delivery:
    """`access_counts.delivery` with the words that windows share in space.

    Args:
        raw: The tally without sharing, of one kind of transfer.
        steps: Steps of the sliding windows by data space; data spaces without any have no links.
        nest: B mappings, NumPy or torch.
        projection: Ranks of the data spaces.
        arch: Fan-outs of the hardware.
        tile: Tiles of the mappings.
        active: Loops that may differ from 1.
        reuse: Without reuse in space windows that coincide are sent to each receiver; no words come over links
            that are switched off.

    Returns:
        The tally with the sharing, of one kind of transfer (mean multicast).
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

    def replaced(values: Array, name: str) -> Array:
        return xp.stack([xp.stack([getattr(sent[at], name) if (at := (level, t)) in sent else row[t]
                                   for t in range(len(projection.ranks))]) for level, row in enumerate(values)])

    return replace(raw, words=replaced(raw.words[0], "words")[None],
                   multicast=replaced(raw.multicast[0], "multicast")[None],
                   scatter=replaced(raw.scatter[0], "groups")[None], links=replaced(raw.links, "links"))


def _sent(raw: Delivery, steps: WindowSteps | None, nest: Nest, projection: Projection, arch: Architecture, tile: Tiles,
          level: int, dataspace: int, multicast: bool) -> SentWords:
    """The words of one level and data space with the sharing.

    Derivation. Every receiver wants `wanted` words; receivers form scatter groups, fewer where windows coincide
    (`distinct_windows`), so that wanted * groups words are sent. Let `repeated` be the words of a receiver that a
    neighbour held in the call before, over a spatial loop of `side_by_side` receivers. All receivers but the last of
    each run of that loop, and but the pairs torn apart by the end of a row, take them over a link: fan - fan /
    side_by_side - torn of fan receivers. Likewise all groups but the last of each run are not sent them.

    Worked example (Timeloop's own numbers): Inputs[P + R], P = 4 in space above registers, R = 3 in time. Each register
    wants 3 words; the first call sends each of the 4 groups 1 word, the 2 calls after it repeat it one step further on,
    which is where the neighbour was. repeated = 2, so 3 * 4 - 2 * (4 - 1) = 6 words are sent and 2 * (4 - 1) = 6 come
    over links.
    """
    xp, spatial, ranks = array_namespace(nest.temporal), nest.spatial[level], shared_ranks(projection.ranks[dataspace])
    fan, scatter = raw.fan[level, 0], raw.scatter[0, level, dataspace]
    wanted = raw.words[0, level, dataspace] / scatter
    share = {rank: distinct_windows(spatial, tile.below[level], rank) for rank in ranks if multicast and len(rank) == 2}
    groups = product([scatter, *share.values()])
    words, links = wanted * groups, xp.zeros_like(wanted)
    held_beside = _held_beside(steps, nest, arch, tile, level, ranks) if steps and level in steps.levels else ()
    for dim, torn, repeated in held_beside:
        side_by_side = spatial[dim, xp.arange(nest.batch)]
        last = product([scatter / side_by_side, *(xp.where(_is_any(dim, rank), xp.ones_like(part), part)
                                                  for rank, part in share.items())])
        words = words - repeated * (groups - last - torn * groups / fan)
        links = links + repeated * (fan - fan / side_by_side - torn)
    return SentWords(words, (wanted * fan - links) / words, groups, links)


def _held_beside(steps: WindowSteps, nest: Nest, arch: Architecture, tile: Tiles, level: int,
                 ranks: Sequence[Rank]) -> Iterator[tuple[Array, Array, Array]]:
    """(dimension of a spatial loop, pairs that lie in two rows, words that receivers find at a neighbour), [B] each.

    A neighbour held the words of a step where the tile moves by the distance of the two, in either direction.
    """
    xp, n = array_namespace(nest.temporal), steps.levels.index(level)
    for there, dim, torn in neighbours(nest, arch, level):
        step = xp.astype(tile.below[level][dim, xp.arange(nest.batch)], xp.int64)
        apart = xp.stack([step * total([c * (dim == d) for d, c in rank]) for rank in ranks])[:, None]
        move = steps.move[:, n]
        meets = xp.all(move == apart, axis=0) | xp.all(move == -apart, axis=0)
        yield dim, torn, xp.sum(steps.again[n] * (meets & steps.alone[n] & there & xp.any(apart > 0, axis=0)), axis=0)


def _is_any(dim: Array, rank: Rank) -> Array:
    """Whether the dimension of each column, `dim` [B], moves a rank, [B]."""
    xp = array_namespace(dim)
    return xp.any(xp.stack([dim == d for d, _ in rank]), axis=0)


def neighbours(nest: Nest, arch: Architecture, level: int) -> Iterator[tuple[Array, Array, Array]]:
    """The spatial loops whose steps lie between receivers side by side.

    Along a row this is the innermost loop; from row to row the innermost loop on Y where the loops on X fill the row.

    Args:
        nest: The mappings.
        arch: Fan-outs of the hardware.
        level: Level outside the fan-out.

    Yields:
        Whether there is such a loop, its dimension, and the pairs of its receivers that the end of a row tears apart,
        [B] each; first along the row, then from row to row.
    """
    xp, order = array_namespace(nest.temporal), nest.spatial_order[level]
    row, spatial = xp.arange(nest.batch), xp.astype(nest.spatial[level], xp.int64)
    looping, on_y = spatial[order, row] > 1, nest.on_y[level][order, row]
    on_x, (wide, high) = xp.prod(xp.where(nest.on_y[level], xp.ones_like(spatial), spatial), axis=0), arch.fanout(level)
    width, receivers = xp.where(on_x > wide, on_x, wide * xp.ones_like(on_x)), xp.prod(spatial, axis=0)
    ends = width * xp.arange(1, max(high, 2))[:, None]
    there, dim = _innermost(order, looping)
    torn = xp.sum((ends < receivers) & (width > 1) & (ends % spatial[dim, row] > 0), axis=0)
    yield there, dim, torn
    yield *_innermost(order, looping & on_y & (on_x > 1) & (on_x >= wide)), xp.zeros_like(torn)


def _innermost(order: Array, loops: Array) -> tuple[Array, Array]:
    """Whether any loop is marked, [B], and the dimension of the innermost marked one, [B].

    `order` [D, B] has the dimensions innermost first, `loops` [D, B] the marks in the same order.
    """
    xp = array_namespace(order)
    return xp.any(loops, axis=0), order[xp.argmax(xp.astype(loops, xp.int64), axis=0), xp.arange(order.shape[1])]


def distinct_windows(spatial: Array, below: Array, rank: Rank) -> Array:
    """Share of the receivers' windows below a boundary that are distinct, along a rank of two dimensions.

    Derivation. Let p receivers lie steps of length a apart, and for each of them r receivers steps of length b, with
    a = k b for a whole k. Their windows start at b (k i + j) for i < p and j < r. From i to i + 1 the starts move on by
    k; of r starts in a row max(r - k, 0) are met again, p - 1 times over. So p r - (p - 1) max(r - k, 0) windows are
    distinct. Example: Inputs[P + R] with P = 4 and R = 3 in space: k = 1, 12 - 3 * 2 = 6 distinct windows, share 1/2.
    Where neither length is a multiple of the other, all windows are taken for distinct.

    Args:
        spatial: [D, B]. Spatial factors of the level.
        below: [D, B]. Points of one receiver, by which neighbours lie apart.
        rank: Two terms (dimension index, coefficient).

    Returns:
        [B]. Share in (0, 1].
    """
    xp = array_namespace(spatial)
    (first, a), (second, b) = ((spatial[d], coefficient * below[d]) for d, coefficient in rank)
    p, r = xp.where(a < b, second, first), xp.where(a < b, first, second)
    long, short = xp.maximum(a, b), xp.minimum(a, b)
    ratio = xp.round(long / short)
    met_again = (p - 1) * (r - ratio) * ((r > ratio) & (ratio * short == long))
    return 1 - met_again / (p * r)
