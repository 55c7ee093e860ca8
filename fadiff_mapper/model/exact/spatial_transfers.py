"""Words over the receivers of one fan-out, counted receiver by receiver as Timeloop does (exact evaluation only).

Receivers stand in a grid (`pe_grid.py`). Receivers that want the same words form a multicast group; a receiver whose
words were at a neighbour in the previous call can take them over the link instead. The shared equations
(`access_counts.delivery`) hold where receivers differ in dimensions that share no rank and hold their tiles; this
module counts everything else, and is the authority for `smooth/spatial_overlap_closed_form.py`.

A tally is counted as rows (multicast, scatter, words, words times hops): receivers per group, number of such groups,
words sent to all of them. Rows stand in ascending order of the first two, the order in which Timeloop adds them up, and
end at a multicast of 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.access_counts import Delivery
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
from fadiff_mapper.model.tile_boxes import Tiles
from fadiff_mapper.spec.arch import Architecture

Floats: TypeAlias = np.ndarray
Bools: TypeAlias = np.ndarray

MULTICAST, SCATTER, WORDS, HOP_WORDS = 0, 1, 2, 3
"""Columns of a tally [K, 4]."""

FIRST_KINDS = 4
"""Kinds of transfer that a batch has space for at first; a batch with more is counted again with more space. The
results do not depend on it, and nothing was measured."""


@compiled
def kind_row(tally: Floats, multicast: int, scatter: int) -> int:
    """The row of a kind in a tally [K, 4]; a new kind is inserted where its order belongs."""
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
    """Adds a call that delivers `words` to every receiver that takes nothing from a neighbour.

    Args:
        tally: [K, 4]. Changed in place.
        grid: Receivers with their groups and links.
        count: Number of receivers.
        groups: Number of groups.
        shape: Width and height of the grid.
        words: Words of one receiver.
        with_hops: Whether to count hops.
    """
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
              plain: float, multicast: bool, with_hops: bool) -> float:
    """Counts all calls of a walk into an empty tally.

    A call uses links only where every member of some group finds its words at a neighbour, so that fewer words are
    sent; all other calls are added up and sent as if in one.

    Args:
        tally: [K, 4]. Filled in.
        grid: Receivers with their offsets.
        count: Number of receivers.
        shape: Width and height of the grid.
        walk: The walk, with its repeated words, see `sliding_window_walk.walk_tiles`.
        loops: Number of loops of the walk.
        plain: Words per receiver of the calls that repeat no call before.
        multicast: Whether receivers that want the same words share a transfer.
        with_hops: Whether to count hops.

    Returns:
        Words that go over links, all receivers together.
    """
    groups = find_groups(grid, count) if multicast else separate_groups(grid, count)
    links, unlinked = 0.0, plain
    for s in range(loops):
        words = walk.repeated[s]
        linked = find_linked(grid, walk.moves[s], count, shape[0], shape[1]) if words > 0 else 0
        if linked > 0 and groups_left(grid, count, groups) < groups:
            add_call(tally, grid, count, groups, shape, words, with_hops)
            links += words * linked
        else:
            unlinked += words
    grid.linked[:] = False
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
               height: int, differing: Bools, held: bool, multicast: bool, with_hops: bool) -> int:
    """Replaces the tallies of one level and data space for all mappings in which receivers differ as said.

    Args:
        cell: Tallies of the level and data space, changed in place.
        batch: Temporal loops and tiles of the batch.
        fan: Spatial loops of the batch.
        coefficient: [R, D]. Move of each rank per point of each dimension.
        level: Level outside the fan-out.
        width: Fan-out of the hardware along X.
        height: Fan-out of the hardware along Y.
        differing: [D]. Mappings without a spatial loop of any of these dimensions are left alone.
        held: Whether receivers hold their tiles, see `Reuse`.
        multicast: Whether receivers share transfers, see `Reuse`.
        with_hops: Whether to count hops.

    Returns:
        The most kinds of any mapping. Kinds beyond the space of `cell` are not stored: the caller must count again.
    """
    loops_most, ranks, most = batch.order.shape[0] * batch.order.shape[1], len(coefficient), 1
    walk = walk_of(loops_most, ranks)
    size = most_receivers(fan, level)
    grid = grid_of(size, ranks)
    # a call adds at most sqrt(2 E) kinds: groups of different sizes 1 + 2 + ... must fit into E receivers
    tally = np.zeros(((loops_most + 1) * (int((2 * size) ** 0.5) + 1) + 1, 4))
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
    """Moves a tally [K, 4] to its column of a cell and empties it; returns its number of kinds, stored or not."""
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
    """Whether a mapping has a spatial loop of one of the dimensions `differing` [D]."""
    looping = False
    for d in range(len(differing)):
        looping |= differing[d] and spatial[level, d, row] > 1
    return looping


def exact_delivery(nest: Nest, projection: Projection, arch: Architecture, tile: Tiles, closed_form: Delivery,
                   active: Active, reuse: Reuse, with_hops: bool) -> Delivery:
    """`access_counts.delivery` with the count by receivers wherever the shared equations may not hold.

    Counted are fan-outs whose receivers hold nothing, such as the arithmetic (the words of the call before may travel
    over links), and fan-outs whose receivers differ in a dimension that shares a rank.

    Args:
        nest: B mappings, NumPy.
        projection: Ranks of the data spaces.
        arch: Fan-outs of the hardware.
        tile: Tiles of the mappings.
        closed_form: The tally of `access_counts.delivery`.
        active: Levels without spatial loops are left alone.
        reuse: Reuse over the boundaries.
        with_hops: Whether to count hops; then every fan-out is counted by receivers.

    Returns:
        The tally of as many kinds as some mapping needs, with hops (0 where not counted).
    """
    fanned_out = [(int(level), t) for level in np.flatnonzero(active.spatial.any(axis=1))
                  for t in range(len(projection.ranks))]
    differing = {cell: _differing(projection, cell[1], with_hops or not reuse.held[cell]) & active.spatial[cell[0]]
                 for cell in fanned_out}
    cells = [cell for cell, dims in differing.items() if dims.any()]
    if not cells:
        return replace(closed_form, hop_words=np.zeros_like(closed_form.words))
    batch, fan = batch_of(nest, tile), FanOut(*map(np.ascontiguousarray, (nest.spatial, nest.on_y, nest.spatial_order)))
    space, most = 0, FIRST_KINDS
    while most > space:
        space, most = most, 1
        tally = _with_space(closed_form, space)
        for level, t in cells:
            width, height = arch.fanout(level)
            held, multicast = bool(reuse.held[level, t]), bool(reuse.multicast[level, t])
            most = max(most, count_rows(_cell(tally, level, t), batch, fan, coefficients(projection, t), level, width,
                                        height, differing[level, t], held, multicast, with_hops))
    return _with_kinds(tally, most)


def _differing(projection: Projection, dataspace: int, everywhere: bool) -> Bools:
    """[D]. Dimensions whose spatial loops the shared equations do not cover for a data space."""
    uncovered = np.full(projection.relevant.shape[1], everywhere)
    uncovered[list(projection.shared_dims(dataspace))] = True
    return uncovered


def _cell(tally: Delivery, level: int, dataspace: int) -> TransferTally:
    """A view of the counts of one level and data space."""
    assert tally.hop_words is not None
    words, multicast, scatter, hop_words = (
        array[:, level, dataspace] for array in (tally.words, tally.multicast, tally.scatter, tally.hop_words))
    return TransferTally(words, multicast, scatter, hop_words, tally.links[level, dataspace])


def _with_space(closed_form: Delivery, kinds: int) -> Delivery:
    """A copy of the tally with space for more kinds of transfer."""
    shape = (kinds, *closed_form.links.shape)
    words, multicast, scatter = np.zeros(shape), np.ones(shape), np.ones(shape)
    words[0], multicast[0], scatter[0] = closed_form.words[0], closed_form.multicast[0], closed_form.scatter[0]
    return Delivery(words, multicast, scatter, closed_form.fan, closed_form.links.copy(), np.zeros(shape))


def _with_kinds(tally: Delivery, kinds: int) -> Delivery:
    """The tally without the space that no mapping needs."""
    assert tally.hop_words is not None
    return replace(tally, words=tally.words[:kinds], multicast=tally.multicast[:kinds], scatter=tally.scatter[:kinds],
                   hop_words=tally.hop_words[:kinds])
