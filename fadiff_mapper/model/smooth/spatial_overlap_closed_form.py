"""Windows that the receivers of one fan-out share, in closed form and differentiable: what `spatial_transfers.py`
counts.

Receivers whose windows coincide are sent them together. Receivers side by side lie one step of a spatial loop apart:
where a tile moves by that step, and the call before was as long, all but the last of them find their words at a
neighbour. Not followed: those who find them in the next row where the mapping fills rows in part, and at a neighbour
of the next turn of an outer spatial loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.model.access_counts import Delivery, Tiles, product, total
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, array_namespace
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.model.smooth.sliding_window_closed_form import Rank, WindowSteps, shared_ranks
from fadiff_mapper.spec.arch import Architecture


@dataclass(frozen=True)
class SentWords:
    """What one instance of a level sends of one data space, [B] each: words, to how many receivers each goes, to how
    many groups of receivers, and words that receivers take from a neighbour instead."""

    words: Array
    multicast: Array
    groups: Array
    links: Array


def smooth_delivery(raw: Delivery, slides: Mapping[int, WindowSteps], nest: Nest, projection: Projection, arch: Architecture,
                    tile: Tiles, active: Active, reuse: Reuse) -> Delivery:
    """The tally with what windows share, from one without; `slides` by data space."""
    xp = array_namespace(nest.temporal)
    found = {}
    for tensor, ranks in enumerate(projection.ranks):
        moving = [d for rank in shared_ranks(ranks) for d, _ in rank]
        for level in range(len(nest.spatial)):
            if active.spatial[level, moving].any():
                found[level, tensor] = _sent(raw, slides.get(tensor), nest, projection, arch, tile, level,
                                             tensor, bool(reuse.multicast[level, tensor]))
    if not found:
        return raw

    def replaced(values: Array, name: str) -> Array:
        return xp.stack([xp.stack([getattr(found[at], name) if (at := (level, tensor)) in found else row[tensor]
                                   for tensor in range(len(projection.ranks))]) for level, row in enumerate(values)])

    return replace(raw, words=replaced(raw.words[0], "words")[None],
                   multicast=replaced(raw.multicast[0], "multicast")[None],
                   scatter=replaced(raw.scatter[0], "groups")[None], links=replaced(raw.links, "links"))


def _sent(raw: Delivery, slid: WindowSteps | None, nest: Nest, projection: Projection, arch: Architecture, tile: Tiles,
          level: int, tensor: int, multicast: bool) -> SentWords:
    xp, spatial, ranks = array_namespace(nest.temporal), nest.spatial[level], shared_ranks(projection.ranks[tensor])
    fan, scatter = raw.fan[level, 0], raw.scatter[0, level, tensor]
    wanted = raw.words[0, level, tensor] / scatter
    share = {rank: distinct_windows(spatial, tile.below[level], rank) for rank in ranks if multicast and len(rank) == 2}
    groups = product([scatter, *share.values()])
    words, links = wanted * groups, xp.zeros_like(wanted)
    for dim, torn, found in _found(slid, nest, arch, tile, level, ranks) if slid and level in slid.levels else ():
        side_by_side = spatial[dim, xp.arange(nest.batch)]
        last = product([scatter / side_by_side, *(xp.where(_is_any(dim, rank), xp.ones_like(part), part)
                                                  for rank, part in share.items())])
        words = words - found * (groups - last - torn * groups / fan)
        links = links + found * (fan - fan / side_by_side - torn)
    return SentWords(words, (wanted * fan - links) / words, groups, links)


def _found(slid: WindowSteps, nest: Nest, arch: Architecture, tile: Tiles, level: int,
           ranks: Sequence[Rank]) -> Iterator[tuple[Array, Array, Array]]:
    """(dimension of a spatial loop, pairs that lie in two rows, words that receivers find at a neighbour), [B] each."""
    xp, n = array_namespace(nest.temporal), slid.levels.index(level)
    for there, dim, torn in neighbours(nest, arch, level):
        step = xp.astype(tile.below[level][dim, xp.arange(nest.batch)], xp.int64)
        apart = xp.stack([step * total([c * (dim == d) for d, c in rank]) for rank in ranks])[:, None]
        move = slid.move[:, n]
        meets = xp.all(move == apart, axis=0) | xp.all(move == -apart, axis=0)
        yield dim, torn, xp.sum(slid.again[n] * (meets & slid.alone[n] & there & xp.any(apart > 0, axis=0)), axis=0)


def _is_any(dim: Array, rank: Rank) -> Array:
    """Whether each of some dimensions [B] moves a rank."""
    xp = array_namespace(dim)
    return xp.any(xp.stack([dim == d for d, _ in rank]), axis=0)


def neighbours(nest: Nest, arch: Architecture, level: int) -> Iterator[tuple[Array, Array, Array]]:
    """The spatial loops whose steps lie between receivers side by side: (whether there is one, its dimension, how many
    pairs of its receivers are torn apart by the end of a row), [B] each.

    Along a row that is the innermost loop; from row to row the innermost one on Y where those on X fill the row.
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
    """Whether there is a loop among the marked ones [D, B], and the dimension of the innermost one."""
    xp = array_namespace(order)
    return xp.any(loops, axis=0), order[xp.argmax(xp.astype(loops, xp.int64), axis=0), xp.arange(order.shape[1])]


def distinct_windows(spatial: Array, below: Array, rank: Rank) -> Array:
    """Share of the windows below a boundary that are not another one's, along a rank of two dimensions, [B].

    `spatial` and `below` [D, B]: spatial loops, and the points that a step of each goes on, per dimension. Of p
    steps of length a beside r of length b, a = kb with a whole k, (p - 1) max(r - k, 0) windows are met again;
    where neither length is a multiple of the other, we take them for different.
    """
    xp = array_namespace(spatial)
    (first, a), (second, b) = ((spatial[d], coefficient * below[d]) for d, coefficient in rank)
    p, r = xp.where(a < b, second, first), xp.where(a < b, first, second)
    long, short = xp.maximum(a, b), xp.minimum(a, b)
    ratio = xp.round(long / short)
    again = (p - 1) * (r - ratio) * ((r > ratio) & (ratio * short == long))
    return 1 - again / (p * r)
