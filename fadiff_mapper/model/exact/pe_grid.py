"""The receivers of one fan-out: groups that want the same words, and neighbours that hold them already.

Compiled, for one mapping at a time. Receivers are numbered along X first, X loops from the innermost, then along Y, as
the mapping says. They stand in the rows of the hardware's grid (or of the mapped grid, where that is larger) one after
the other: Timeloop packs them along the row even where the mapping puts them in a column.
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
    """The E receivers below one level for one mapping of a batch: scratch that every mapping fills anew.

    Attributes:
        offsets: [E, R]. Position of each receiver's words in each rank of the data space, relative to the first's.
        group: [E]. Number of the multicast group; receivers that want the same words have the same number.
        linked: [E]. Whether the receiver takes its words from a neighbour.
        table: Hash table of the first member of each group; -1 is empty. The length is a power of two of at least 2 E.
    """

    offsets: Floats
    group: Ints
    linked: Bools
    table: Ints


@compiled
def grid_of(most: int, ranks: int) -> PeGrid:
    """Scratch for at most `most` receivers of a data space with `ranks` ranks."""
    size = 2
    while size < 2 * most:
        size *= 2
    return PeGrid(np.zeros((most, ranks)), np.zeros(most, np.int64), np.zeros(most, np.bool_), np.zeros(size, np.int64))


@compiled
def most_receivers(fan: FanOut, level: int) -> int:
    """The most receivers below a level in any mapping of a batch: the product of the spatial factors."""
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
    """Fills in the offsets of the receivers of one mapping.

    Args:
        grid: Scratch, whose `offsets` are written.
        fan: Spatial loops of the batch.
        batch: Gives the tile of one receiver, `below`.
        coefficient: [R, D]. Move of each rank per point of each dimension.
        level: Level outside the fan-out.
        row: Column of the batch.

    Returns:
        Number of receivers along X and along Y.
    """
    offsets, extent = grid.offsets, [1, 1]
    offsets[0] = 0.0
    count = 1
    for axis in range(2):
        for position in range(fan.spatial_order.shape[1]):
            d = fan.spatial_order[level, position, row]
            if fan.on_y[level, d, row] != (axis == 1):
                continue
            bound = int(fan.spatial[level, d, row])
            # a further loop repeats the receivers so far, `bound` - 1 times, each time one more step away
            for e in range(count, bound * count):
                for r in range(len(coefficient)):
                    offsets[e, r] = offsets[e - count, r] + coefficient[r, d] * batch.below[level, d, row]
            count *= bound
            extent[axis] *= bound
    return extent[0], extent[1]


@compiled
def find_groups(grid: PeGrid, count: int) -> int:
    """Fills in the groups of the first `count` receivers; returns the number of groups.

    Groups are numbered in the order of their first members. A hash table of open addressing, at most half full, finds
    earlier members. The hash decides speed alone, never the groups: offsets are compared in full. Nothing was measured
    to choose its constants: 31 is the usual multiplier of polynomial hashes, 2654435761 is Knuth's for multiplicative
    hashing (2^32 over the golden ratio), whose upper bits are the mixed ones.
    """
    table, groups, last = grid.table, 0, len(grid.table) - 1
    table[:] = -1
    for e in range(count):
        code = 0
        for offset in grid.offsets[e]:
            code = code * 31 + int(offset)
        at = (code * 2654435761 >> 16) & last
        while table[at] >= 0 and not same(grid.offsets[table[at]], grid.offsets[e]):
            at = (at + 1) & last  # linear probing; `last` is a mask because the length is a power of two
        if table[at] < 0:
            table[at] = e
            grid.group[e] = groups
            groups += 1
        else:
            grid.group[e] = grid.group[table[at]]
    return groups


@compiled
def separate_groups(grid: PeGrid, count: int) -> int:
    """Makes each of the first `count` receivers a group of its own (no multicast); returns the number of groups."""
    for e in range(count):
        grid.group[e] = e
    return count


@compiled
def find_linked(grid: PeGrid, move: Floats, count: int, width: int, height: int) -> int:
    """Marks the receivers that find their words at a neighbour, who held them before the tile moved.

    A receiver wants the words at offset + move, relative to the call before; the neighbours are those to the left and
    right in the row, above and below, without wrap-around.

    Args:
        grid: Receivers, whose `linked` is written.
        move: [R]. Move of the tile in every rank since the call before.
        count: Number of receivers.
        width: Receivers in a row of the grid.
        height: Rows of the grid.

    Returns:
        Number of receivers marked.
    """
    linked = 0
    wanted = np.empty(len(move))
    for r in range(len(move)):
        if abs(move[r]) > grid.offsets[count - 1, r]:  # beyond the last receiver's words, and so beyond all words
            grid.linked[:count] = False
            return 0
    for e in range(count):
        across, down = e % width, e // width
        for r in range(len(move)):
            wanted[r] = grid.offsets[e, r] + move[r]
        grid.linked[e] = ((across > 0 and same(grid.offsets[e - 1], wanted))
                         or (across < width - 1 and e + 1 < count and same(grid.offsets[e + 1], wanted))
                         or (down > 0 and same(grid.offsets[e - width], wanted))
                         or (down < height - 1 and e + width < count and same(grid.offsets[e + width], wanted)))
        linked += grid.linked[e]
    return linked


@compiled
def group_sizes(grid: PeGrid, count: int, groups: int) -> Ints:
    """Members of every group that take nothing from a neighbour, [G]."""
    sizes = np.zeros(groups, dtype=np.int64)
    for e in range(count):
        sizes[grid.group[e]] += not grid.linked[e]
    return sizes


@compiled
def groups_left(grid: PeGrid, count: int, groups: int) -> int:
    """Number of groups with a member that takes nothing from a neighbour."""
    left = 0
    for size in group_sizes(grid, count, groups):
        left += size > 0
    return left


@compiled
def group_hops(grid: PeGrid, count: int, groups: int, width: int, height: int) -> Floats:
    """Hops of a word to every group, as Timeloop counts them.

    Along X to the farthest member, and in each column with a member from the middle of the grid, (height - 1) / 2, to
    the outermost members above and below. Members that take their words from a neighbour are left out.

    Args:
        grid: Receivers with their groups and links.
        count: Number of receivers.
        groups: Number of groups, G.
        width: Receivers in a row of the grid.
        height: Rows of the grid.

    Returns:
        [G]. Hops, halves possible.
    """
    farthest, hops, middle = np.zeros(groups), np.zeros(groups), (height - 1) / 2
    for e in range(count):
        if grid.linked[e]:
            continue
        across, down, group = e % width, e // width, grid.group[e]
        # only the outermost members of a column count: those without another member of the group beyond
        lowest, highest = True, True
        for other in range(across, count, width):
            if grid.group[other] == group and not grid.linked[other]:
                lowest &= other >= e
                highest &= other <= e
        hops[group] += lowest * max(0.0, middle - down) + highest * max(0.0, down - middle)
        hops[group] += max(0.0, across - farthest[group])
        farthest[group] = max(farthest[group], across)
    return hops
