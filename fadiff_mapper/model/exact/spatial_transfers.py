"""How words spread over the receivers of one fan-out, exactly as Timeloop counts them (exact evaluation only).

Receivers stand in a grid. Those that want the same words form a multicast group; a receiver whose words were at a
neighbour in the previous call can take them over the link instead. The shared equations (`access_counts.delivery`) hold
where receivers differ in unshared dimensions only; this module counts element by element.

A tally is counted as rows (multicast, scatter, words, words times hops): receivers per group, how many such groups,
what they are sent in all. It stands in ascending order of the first two and ends at a multicast of 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.access_counts import Delivery, Tiles
from fadiff_mapper.model.exact.pe_grid import (
    FanOut,
    PeGrid,
    find_groups,
    find_linked,
    grid_of,
    group_hops,
    group_sizes,
    groups_left,
    most_receivers,
    receivers,
    separate_groups,
)
from fadiff_mapper.model.exact.sliding_window_walk import (
    CompiledBatch,
    WindowWalk,
    batch_of,
    coefficients,
    outer_loops,
    tile_extent,
    walk_of,
    walk_tiles,
    walk_unheld,
)
from fadiff_mapper.model.loop_nest import Active, Nest, Projection
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.spec.arch import Architecture

Floats: TypeAlias = np.ndarray
Bools: TypeAlias = np.ndarray

MULTICAST, SCATTER, WORDS, HOP_WORDS = 0, 1, 2, 3
"""Columns of a tally."""

FIRST_KINDS = 4
"""Kinds of transfer that there is room for at first; a batch with more is counted again with more room."""


@compiled
def kind_row(tally: Floats, multicast: int, scatter: int) -> int:
    """The row of a kind in a tally [K, 4]; made where it belongs if it is new."""
    at = 0
    while 0 < tally[at, MULTICAST] < multicast or (tally[at, MULTICAST] == multicast and tally[at, SCATTER] < scatter):
        at += 1
    if tally[at, MULTICAST] == multicast and tally[at, SCATTER] == scatter:
        return at
    end = at
    while tally[end, MULTICAST] > 0:
        end += 1
    for row in range(end, at, -1):
        for column in range(4):
            tally[row, column] = tally[row - 1, column]
    tally[at, MULTICAST], tally[at, SCATTER], tally[at, WORDS], tally[at, HOP_WORDS] = multicast, scatter, 0.0, 0.0
    return at


@compiled
def add_call(tally: Floats, grid: PeGrid, count: int, groups: int, shape: tuple[int, int], words: float,
             with_hops: bool) -> None:
    """Adds to a tally a call that delivers `words` to every receiver that is not taken care of."""
    sizes = group_sizes(grid, count, groups)
    scatter, hop_sum = np.zeros(count + 1, dtype=np.int64), np.zeros(count + 1)
    hops = group_hops(grid, count, groups, shape[0], shape[1]) if with_hops else np.zeros(groups)
    for g in range(groups):
        scatter[sizes[g]] += 1
        hop_sum[sizes[g]] += hops[g]
    for multicast in range(1, count + 1):
        if scatter[multicast] > 0:
            at = kind_row(tally, multicast, scatter[multicast])
            tally[at, WORDS] += scatter[multicast] * words
            tally[at, HOP_WORDS] += hop_sum[multicast] * words


@compiled
def count_row(tally: Floats, grid: PeGrid, count: int, shape: tuple[int, int], walk: WindowWalk, loops: int,
              plain: float,
              multicast: bool, with_hops: bool) -> float:
    """Counts all calls of a walk (see `sliding_window_walk.walk_tiles`) into an empty tally; returns the words that
    go over links.

    `plain`: words of the calls that repeat none. A call uses links only if that leaves fewer words to send.
    """
    groups = find_groups(grid, count) if multicast else separate_groups(grid, count)
    links, unlinked = 0.0, plain
    for s in range(loops):
        words = walk.repeated[s]
        taken = find_linked(grid, walk.moves[s], count, shape[0], shape[1]) if words > 0 else 0
        if taken > 0 and groups_left(grid, count, groups) < groups:
            add_call(tally, grid, count, groups, shape, words, with_hops)
            links += words * taken
        else:
            unlinked += words
    grid.taken[:] = False
    add_call(tally, grid, count, groups, shape, unlinked, with_hops)
    return links


class TransferTally(NamedTuple):
    """The tallies of one level and data space, [K, B], and the words over links, [B]; see `Delivery`."""

    words: Floats
    multicast: Floats
    scatter: Floats
    hop_words: Floats
    links: Floats


@compiled
def count_rows(cell: TransferTally, batch: CompiledBatch, fan: FanOut, coefficient: Floats, level: int, width: int,
               height: int,
               differing: Bools, held: bool, multicast: bool, with_hops: bool) -> int:
    """Replaces the tallies of all rows in which receivers differ in one of the dimensions `differing` [D].

    `width`, `height`: the fan-out of the hardware; `held`, `multicast`: see `Reuse`. Returns the most kinds of any
    row; where this is more than there is room for, the row is left out.
    """
    slots, ranks, most = batch.order.shape[0] * batch.order.shape[1], len(coefficient), 1
    walk = walk_of(slots, ranks)
    size = most_receivers(fan, level)
    grid = grid_of(size, ranks)
    tally = np.zeros(((slots + 1) * (int((2 * size) ** 0.5) + 1) + 1, 4))  # each call adds at most sqrt(2 E) kinds
    for row in range(cell.links.shape[0]):
        if not has_spatial_loop(fan.spatial, level, row, differing):
            continue
        x, y = receivers(grid, fan, batch, coefficient, level, row)
        loops = outer_loops(walk, batch, coefficient, level, row)
        words = tile_extent(walk, batch, coefficient, level, row)
        plain = walk_tiles(walk, loops, words) if held else walk_unheld(walk, loops, words)
        links = count_row(tally, grid, x * y, (max(x, width), max(y, height)), walk, loops, plain, multicast,
                          with_hops)
        most = max(most, store(cell, row, tally, links))
    return most


@compiled
def store(cell: TransferTally, row: int, tally: Floats, links: float) -> int:
    """Moves a tally to its place, as far as there is room; returns how many kinds it has."""
    cell.links[row] = links
    cell.words[0, row] = 0.0
    kind = 0
    while tally[kind, MULTICAST] > 0:
        if kind < len(cell.words):
            cell.multicast[kind, row], cell.scatter[kind, row] = tally[kind, MULTICAST], tally[kind, SCATTER]
            cell.words[kind, row], cell.hop_words[kind, row] = tally[kind, WORDS], tally[kind, HOP_WORDS]
        tally[kind, MULTICAST] = 0.0
        kind += 1
    return kind


@compiled
def has_spatial_loop(spatial: Floats, level: int, row: int, differing: Bools) -> bool:
    """Whether there is a spatial loop of one of these dimensions."""
    found = False
    for d in range(len(differing)):
        found |= differing[d] and spatial[level, d, row] > 1
    return found


@dataclass(frozen=True)
class SpatialTransfers:
    """A tally that was counted element by element, and the words times hops of each kind, [K, L, T, B]."""

    delivery: Delivery
    hop_words: Floats


def exact_delivery(nest: Nest, projection: Projection, arch: Architecture, tile: Tiles, closed_form: Delivery,
                   active: Active, reuse: Reuse, with_hops: bool) -> SpatialTransfers:
    """`access_counts.delivery` with the count by elements wherever the shared equations may not hold.

    That is where nothing is held over, such as below the innermost level (what neighbours were sent before may travel
    over links), and where receivers differ in a dimension that shares a rank. `with_hops` counts every fan-out.
    """
    looped = [(int(level), tensor) for level in np.flatnonzero(active.spatial.any(axis=1))
              for tensor in range(len(projection.ranks))]
    differing = {cell: _differing(projection, cell[1], with_hops or not reuse.held[cell]) & active.spatial[cell[0]]
                 for cell in looped}
    cells = [cell for cell, dims in differing.items() if dims.any()]
    if not cells:
        return SpatialTransfers(closed_form, np.zeros_like(closed_form.words))
    batch, fan = batch_of(nest, tile), FanOut(*map(np.ascontiguousarray, (nest.spatial, nest.on_y, nest.spatial_order)))
    room, most = 0, FIRST_KINDS
    while most > room:
        room, most = most, 1
        result = _with_room(closed_form, room)
        for level, tensor in cells:
            width, height = arch.fanout(level)
            held, multicast = bool(reuse.held[level, tensor]), bool(reuse.multicast[level, tensor])
            most = max(most, count_rows(_cell(result, level, tensor), batch, fan, coefficients(projection, tensor),
                                        level, width, height, differing[level, tensor], held, multicast, with_hops))
    return _with_kinds(result, most)


def _differing(projection: Projection, tensor: int, everywhere: bool) -> Bools:
    """[D]: dimensions whose spatial loops the shared equations do not cover for a data space."""
    result = np.full(projection.relevant.shape[1], everywhere)
    result[list(projection.shared_dims(tensor))] = True
    return result


def _cell(result: SpatialTransfers, level: int, tensor: int) -> TransferTally:
    """A view of what is counted for one level and data space."""
    tally = result.delivery
    words, multicast, scatter, hop_words = (
        array[:, level, tensor] for array in (tally.words, tally.multicast, tally.scatter, result.hop_words))
    return TransferTally(words, multicast, scatter, hop_words, tally.links[level, tensor])


def _with_room(closed_form: Delivery, kinds: int) -> SpatialTransfers:
    """A copy of the tally with room for more kinds of transfer."""
    shape = (kinds, *closed_form.links.shape)
    words, multicast, scatter = np.zeros(shape), np.ones(shape), np.ones(shape)
    words[0], multicast[0], scatter[0] = closed_form.words[0], closed_form.multicast[0], closed_form.scatter[0]
    return SpatialTransfers(Delivery(words, multicast, scatter, closed_form.fan, closed_form.links.copy()),
                            np.zeros(shape))


def _with_kinds(counted: SpatialTransfers, kinds: int) -> SpatialTransfers:
    """The tally without the room that no row needs."""
    tally = counted.delivery
    return SpatialTransfers(Delivery(tally.words[:kinds], tally.multicast[:kinds], tally.scatter[:kinds], tally.fan,
                                     tally.links),
                            counted.hop_words[:kinds])
