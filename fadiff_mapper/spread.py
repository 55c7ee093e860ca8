"""How words spread over the receivers of one fan-out, exactly as Timeloop counts them (exact evaluation only).

Receivers stand in a grid. Those that want the same words form a multicast group; a receiver whose words were at a
neighbour in the previous call can take them over the link instead. The shared equations (`counts.delivery`) hold
where receivers differ in unshared dimensions only; this module counts element by element.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.counts import Delivery, Tiles
from fadiff_mapper.nest import Nest, Projection
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.windows import Walk, outer_loops, walk_points, walk_tiles


@dataclass(frozen=True)
class Fan:
    """One fan-out for one data space.

    offsets [E, R]   where the words of each receiver lie, relative to the first; receivers are numbered along X
                     first, X loops from the innermost
    width, height    the grid: the hardware's fan-out, or what is mapped if that is more
    """

    offsets: np.ndarray
    width: int
    height: int


Tally = dict[tuple[int, int], tuple[float, float]]
"""(multicast, scatter) -> (words, hops * words). Per word delivered to a receiver as built by `groups`."""


def fan_out(nest: Nest, row: int, projection: Projection, arch: Architecture, tile: Tiles, level: int,
            tensor: int) -> Fan:
    """The grid of receivers below `level` in one row of the batch."""
    spatial, on_y = nest.spatial[level, :, row], nest.on_y[level, :, row]
    used = [int(d) for d in nest.spatial_order[level, :, row] if spatial[d] > 1]
    loops = [d for d in used if not on_y[d]] + [d for d in used if on_y[d]]
    mapped_x = int(np.prod([spatial[d] for d in loops if not on_y[d]]))
    mapped_y = int(np.prod([spatial[d] for d in loops if on_y[d]]))
    ranks = projection.ranks[tensor]
    offsets = np.zeros((1, len(ranks)))
    for d in loops:
        step = np.array([sum(c for dim, c in rank if dim == d) for rank in ranks]) * tile.below[level, d, row]
        offsets = (np.arange(spatial[d])[:, None, None] * step + offsets[None]).reshape(-1, len(ranks))
    x, y = arch.fanout(level)
    return Fan(offsets, max(x, mapped_x), max(y, mapped_y))


def groups(fan: Fan, taken: np.ndarray) -> Tally:
    """Multicast groups among the receivers that are not `taken` [E] care of, for one word per receiver.

    Hops of a group: along X to its farthest member, and from the middle of each column it touches to its ends.
    """
    members = np.flatnonzero(~taken)
    _, group = np.unique(fan.offsets[members], axis=0, return_inverse=True)
    group = group.reshape(-1)
    sizes = np.bincount(group)
    hops = _group_hops(fan, members, group, len(sizes))
    return {(int(m), int((sizes == m).sum())): (float((sizes == m).sum()), float(hops[sizes == m].sum()))
            for m in np.unique(sizes)}


def _group_hops(fan: Fan, members: np.ndarray, group: np.ndarray, count: int) -> np.ndarray:
    across, down, middle = members % fan.width, members // fan.width, (fan.height - 1) / 2
    hops = np.zeros(count)
    np.maximum.at(hops, group, across)
    column = group * fan.width + across
    columns, where = np.unique(column, return_inverse=True)
    lowest, highest = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    np.minimum.at(lowest, where.reshape(-1), down)
    np.maximum.at(highest, where.reshape(-1), down)
    reach = np.maximum(middle - lowest, 0) + np.maximum(highest - middle, 0)
    np.add.at(hops, columns // fan.width, reach)
    return hops


def linked(fan: Fan, move: np.ndarray) -> np.ndarray:
    """[E]: receivers whose words a direct neighbour held in the previous call, `move` [R] earlier."""
    count = len(fan.offsets)
    element = np.arange(count)
    across, down = element % fan.width, element // fan.width
    result = np.zeros(count, dtype=bool)
    for shift, there in ((-1, across > 0), (1, across < fan.width - 1),
                         (-fan.width, down > 0), (fan.width, down < fan.height - 1)):
        neighbour = element + shift
        there = there & (neighbour >= 0) & (neighbour < count)
        held = fan.offsets[np.where(there, neighbour, 0)]
        result |= there & (held == fan.offsets + move).all(axis=1)
    return result


def tally(fan: Fan, walk: Walk, moves: np.ndarray, row: int, known: dict[bytes, tuple[Tally, int]]) -> tuple[Tally, float]:
    """The tally of one row, and the words that go over links.

    A call uses links only if that leaves fewer words to send. `moves` [S, R]: the jump of each loop. `known`
    remembers the groups of this grid per jump (the empty key: without links).
    """
    if b"" not in known:
        known[b""] = groups(fan, np.zeros(len(fan.offsets), dtype=bool)), 0
    alone = known[b""][0]
    result: Tally = {}
    links = 0.0

    def add(part: Tally, words: float) -> None:
        for key, (count, hops) in part.items():
            before = result.get(key, (0.0, 0.0))
            result[key] = before[0] + count * words, before[1] + hops * words

    unlinked = float(walk.plain[row])
    for slot, move in enumerate(moves):
        words = float(walk.repeated[slot, row])
        if not words:
            continue
        key = move.tobytes()
        if key not in known:
            taken = linked(fan, move)
            fewer = groups(fan, taken)
            helps = sum(n for n, _ in fewer.values()) < sum(n for n, _ in alone.values())
            known[key] = (fewer, int(taken.sum())) if helps else (alone, 0)
        part, count = known[key]
        if count:
            add(part, words)
            links += words * count
        else:
            unlinked += words
    add(alone, unlinked)
    return result, links


@dataclass(frozen=True)
class Spread:
    """A tally that was counted element by element, and the words times hops of each kind, [K, L, T, B]."""

    delivery: Delivery
    hop_words: np.ndarray


def spread(nest: Nest, projection: Projection, arch: Architecture, tile: Tiles, closed_form: Delivery,
           everywhere: bool) -> Spread:
    """`counts.delivery` with the count by elements wherever the shared equations may not hold.

    That is below the innermost level (operands of neighbouring units may travel over links), and where receivers
    differ in a dimension that shares a rank. `everywhere`: count every fan-out, for the sake of the hops.
    """
    found: dict[tuple[int, int, int], tuple[Tally, float]] = {}
    for level in range(len(nest.temporal)):
        for tensor in range(len(projection.ranks)):
            rows = _rows_to_count(nest, projection, level, tensor, everywhere)
            if not len(rows):
                continue
            part = nest.take(rows)
            part_tile = Tiles(*(getattr(tile, name)[..., rows] for name in Tiles.__dataclass_fields__))
            loops = outer_loops(part, projection, part_tile, level, tensor)
            walk = walk_tiles(loops) if level else walk_points(loops)
            grids: dict[bytes, tuple[Fan, dict[bytes, tuple[Tally, int]]]] = {}
            for i, row in enumerate(rows):
                key = b"".join(np.ascontiguousarray(a[level, :, i]).tobytes() for a in
                               (part.spatial, part.on_y, part.spatial_order, part_tile.below))
                if key not in grids:
                    grids[key] = fan_out(part, i, projection, arch, part_tile, level, tensor), {}
                fan, known = grids[key]
                found[level, tensor, int(row)] = tally(fan, walk, loops.move[:, :, i], i, known)
    return _merge(closed_form, found)


def _rows_to_count(nest: Nest, projection: Projection, level: int, tensor: int, everywhere: bool) -> np.ndarray:
    spread_out = nest.spatial[level] > 1
    if everywhere or level == 0:
        return np.flatnonzero(spread_out.any(axis=0))
    shared = list(projection.shared_dims(tensor))
    return np.flatnonzero(spread_out[shared].any(axis=0)) if shared else np.zeros(0, dtype=np.int64)


def _merge(closed_form: Delivery, found: dict[tuple[int, int, int], tuple[Tally, float]]) -> Spread:
    """The closed form with the counted tallies in place, kinds in ascending order of (multicast, scatter)."""
    kinds = max((len(part) for part, _ in found.values()), default=1)
    shape = (max(kinds, 1), *closed_form.links.shape)
    words, hop_words, links = np.zeros(shape), np.zeros(shape), closed_form.links.copy()
    multicast, scatter = np.ones(shape), np.ones(shape)
    words[0], multicast[0], scatter[0] = closed_form.words[0], closed_form.multicast[0], closed_form.scatter[0]
    for (level, tensor, row), (part, linked_words) in found.items():
        at = level, tensor, row
        words[(slice(None), *at)] = 0
        links[at] = linked_words
        for kind, key in enumerate(sorted(part)):
            multicast[(kind, *at)], scatter[(kind, *at)] = key
            words[(kind, *at)], hop_words[(kind, *at)] = part[key]
    return Spread(Delivery(words, multicast, scatter, closed_form.fan, links), hop_words)
