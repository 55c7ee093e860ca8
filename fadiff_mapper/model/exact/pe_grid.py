"""The receivers of one fan-out: who wants the same words, and who finds them at a neighbour (compiled, one mapping).

Receivers are numbered along X first, X loops from the innermost, as the mapping says. They stand in the rows of the
hardware's grid (or of the mapped one, where that is larger) one after the other.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.exact.sliding_window_walk import CompiledBatch, same

Floats: TypeAlias = np.ndarray
Ints: TypeAlias = np.ndarray
Bools: TypeAlias = np.ndarray


class FanOut(NamedTuple):
    """The spatial loops of a batch, [L, D, B], laid out for compiled code; see `Nest`."""

    spatial: Floats
    on_y: Bools
    spatial_order: Ints


class PeGrid(NamedTuple):
    """The receivers below one level in one row of a batch: scratch that every row fills anew.

    offsets [E, R]   where the words of each receiver lie, relative to those of the first
    group   [E]      receivers that want the same words have the same number
    taken   [E]      receivers that take their words from a neighbour
    table            the first member of each group, by hash; its length is a power of two of at least 2 E
    """

    offsets: Floats
    group: Ints
    taken: Bools
    table: Ints


@compiled
def grid_of(most: int, ranks: int) -> PeGrid:
    """Room for so many receivers of a data space with so many ranks."""
    size = 2
    while size < 2 * most:
        size *= 2
    return PeGrid(np.zeros((most, ranks)), np.zeros(most, np.int64), np.zeros(most, np.bool_), np.zeros(size, np.int64))


@compiled
def most_receivers(fan: FanOut, level: int) -> int:
    """The largest fan-out of a batch below a level."""
    most = 1.0
    for row in range(fan.spatial.shape[2]):
        here = 1.0
        for d in range(fan.spatial.shape[1]):
            here *= fan.spatial[level, d, row]
        most = max(most, here)
    return int(most)


@compiled
def receivers(grid: PeGrid, fan: FanOut, batch: CompiledBatch, coefficient: Floats, level: int,
              row: int) -> tuple[int, int]:
    """Fills in the offsets; returns how many receivers there are along X and along Y."""
    offsets, extent = grid.offsets, [1, 1]
    offsets[0] = 0.0
    count = 1
    for axis in range(2):
        for slot in range(fan.spatial_order.shape[1]):
            d = fan.spatial_order[level, slot, row]
            if fan.on_y[level, d, row] != (axis == 1):
                continue
            bound = int(fan.spatial[level, d, row])
            for e in range(count, bound * count):
                for r in range(len(coefficient)):
                    offsets[e, r] = offsets[e - count, r] + coefficient[r, d] * batch.below[level, d, row]
            count *= bound
            extent[axis] *= bound
    return extent[0], extent[1]


@compiled
def find_groups(grid: PeGrid, count: int) -> int:
    """Fills in the groups of the first `count` receivers; returns how many there are."""
    table, groups, last = grid.table, 0, len(grid.table) - 1
    table[:] = -1
    for e in range(count):
        code = 0
        for offset in grid.offsets[e]:
            code = code * 31 + int(offset)
        at = (code * 2654435761 >> 16) & last
        while table[at] >= 0 and not same(grid.offsets[table[at]], grid.offsets[e]):
            at = (at + 1) & last
        if table[at] < 0:
            table[at] = e
            grid.group[e] = groups
            groups += 1
        else:
            grid.group[e] = grid.group[table[at]]
    return groups


@compiled
def separate_groups(grid: PeGrid, count: int) -> int:
    """Makes a group of each of the first `count` receivers; returns how many there are."""
    for e in range(count):
        grid.group[e] = e
    return count


@compiled
def find_linked(grid: PeGrid, move: Floats, count: int, width: int, height: int) -> int:
    """Fills in which receivers find their words at a neighbour, where they were before a move; returns how many."""
    found = 0
    wanted = np.empty(len(move))
    for r in range(len(move)):
        if abs(move[r]) > grid.offsets[count - 1, r]:  # beyond the last receiver's words, and so beyond all words
            grid.taken[:count] = False
            return 0
    for e in range(count):
        across, down = e % width, e // width
        for r in range(len(move)):
            wanted[r] = grid.offsets[e, r] + move[r]
        grid.taken[e] = ((across > 0 and same(grid.offsets[e - 1], wanted))
                         or (across < width - 1 and e + 1 < count and same(grid.offsets[e + 1], wanted))
                         or (down > 0 and same(grid.offsets[e - width], wanted))
                         or (down < height - 1 and e + width < count and same(grid.offsets[e + width], wanted)))
        found += grid.taken[e]
    return found


@compiled
def group_sizes(grid: PeGrid, count: int, groups: int) -> Ints:
    """Members of every group that are not taken care of, [G]."""
    sizes = np.zeros(groups, dtype=np.int64)
    for e in range(count):
        sizes[grid.group[e]] += not grid.taken[e]
    return sizes


@compiled
def groups_left(grid: PeGrid, count: int, groups: int) -> int:
    """Groups with a member that is not taken care of."""
    left = 0
    for size in group_sizes(grid, count, groups):
        left += size > 0
    return left


@compiled
def group_hops(grid: PeGrid, count: int, groups: int, width: int, height: int) -> Floats:
    """Hops to every group, [G]: along X to its farthest member, and in each column it touches from the middle of the
    grid to its ends."""
    farthest, hops, middle = np.zeros(groups), np.zeros(groups), (height - 1) / 2
    for e in range(count):
        if grid.taken[e]:
            continue
        across, down, group = e % width, e // width, grid.group[e]
        lowest, highest = True, True
        for other in range(across, count, width):
            if grid.group[other] == group and not grid.taken[other]:
                lowest &= other >= e
                highest &= other <= e
        hops[group] += lowest * max(0.0, middle - down) + highest * max(0.0, down - middle)
        hops[group] += max(0.0, across - farthest[group])
        farthest[group] = max(farthest[group], across)
    return hops
