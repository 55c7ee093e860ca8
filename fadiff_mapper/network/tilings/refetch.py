"""How often a tile brings its operands in again, where neither they nor all its sums fit on the chip at once.

A layer of two operands X and W multiplies `a` rows of outputs that X moves with `b` columns that W moves, as a matrix
product does. Either a block of outputs is summed up while both stream by, or a block of one operand stays while the
other streams by; the better of these is taken. What streams by comes in slices of what is summed, as thin as the lanes
allow; a window that slides is there whole, or it comes again for the points of all its dimensions but one.
Arrays are [B].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion.groups.tile_steps import moved_rank
from fadiff_mapper.spec.problem import DataSpace, Problem

PARTS = 2.0 ** np.arange(9)[:, None]
"""Widths of the block of outputs that are tried: all columns, half of them, and so on, [H, 1]."""


@dataclass(frozen=True)
class Refetch:
    """How often each operand comes in, and where any way of doing it fits."""

    times: dict[str, np.ndarray]
    fits: np.ndarray


def refetched(problem: Problem, tile: Mapping[str, Any], passing: Collection[str], staying: Collection[str],
              room: np.ndarray, sums_room: np.ndarray, lanes: Mapping[str, int]) -> Refetch:
    """For tiles of these extents with `room` words for the operands that are `passing`, the others being there.

    No loop outside may move an operand that is `staying`, so along its dimensions the others come in whole.

    sums_room   outputs that can be summed up at once; lanes: dimension -> units that work side by side on it
    """
    operands = [space for space in problem.dataspaces if not space.read_write]
    whole = {dim for space in operands if space.name in staying for dim in space.dimensions}
    least = {dim: extent if dim in whole else 1 for dim, extent in tile.items()}
    pieces = [prod(space.tile_extents(least), start=1.0) for space in operands if space.name in passing]
    enough = sum(pieces, 0.0) <= room
    size = {space.name: np.asarray(prod(space.tile_extents(dict(tile)), start=1.0)) for space in operands}
    if len(operands) != 2 or not passing:
        return Refetch({name: np.ones_like(room) for name in passing}, enough & (room >= 0))
    left, right = operands
    both = left.dimensions & right.dimensions & problem.output.dimensions
    groups = prod((tile[dim] for dim in both), start=1.0)
    summed = set(problem.dimensions) - problem.output.dimensions - whole

    def side(space: DataSpace, other: DataSpace) -> _Side:
        rows = problem.output.dimensions & space.dimensions - other.dimensions
        return _Side(space.name, size[space.name] / groups, space.name in passing,
                     prod((tile[dim] for dim in rows), start=1.0),
                     float(prod(min(lanes.get(dim, 1), problem.bounds[dim]) for dim in rows)),
                     {dim: np.minimum(lanes.get(dim, 1), tile[dim]) / tile[dim] for dim in summed & space.dimensions
                      if not _slides(space, dim)},
                     {dim: tile[dim] for dim in summed & space.dimensions if _slides(space, dim)})

    sides = first, second = side(left, right), side(right, left)
    ways = [_blocks(first, second, room), _blocks(second, first, room)[::-1]]
    windows = sorted(first.windows.keys() | second.windows.keys())
    ways += [_outputs(first, second, room, sums_room, set(inside))
             for count in range(len(windows) + 1) for inside in combinations(windows, count)]
    times = [np.concatenate([np.broadcast_to(way[k], (np.shape(way[k])[0] if np.ndim(way[k]) > 1 else 1, len(room)))
                             for way in ways]) for k in range(2)]                                   # [way, B]
    moved = np.asarray(sum(one.size * often if one.passing else np.where(np.isinf(often), np.inf, 0)
                           for one, often in zip(sides, times, strict=True)))
    best, row = moved.argmin(axis=0), np.arange(len(room))
    return Refetch({one.name: often[best, row] for one, often in zip(sides, times, strict=True) if one.passing},
                   np.isfinite(moved[best, row]) & enough & (room >= 0))


def _slides(space: DataSpace, dim: str) -> bool:
    """Whether a dimension shares its rank with others, as in the windows of a convolution."""
    return len(moved_rank(space, dim)[1]) > 1


@dataclass(frozen=True)
class _Side:
    """One operand: words of one group, whether it passes, output rows that it alone moves, and the fewest of them.

    steps     what is summed over, apart from windows -> the part of it that is needed at once
    windows   what is summed over while the operand slides along -> extents
    """

    name: str
    size: np.ndarray
    passing: bool
    rows: Any
    unit: float
    steps: dict[str, Any]
    windows: dict[str, Any]

    @property
    def fewest(self) -> Any:
        """The fewest rows, where there may be fewer than lanes."""
        return np.minimum(self.unit, self.rows)

    def slice(self, rows: Any, whole: Collection[str] = ()) -> Any:
        """Words of so many rows in one step of the sums, which takes these dimensions whole."""
        part = prod((part for dim, part in self.steps.items() if dim not in whole), start=1.0)
        return self.size * rows / self.rows * part if self.passing else 0.0

    def again(self, whole: Collection[str]) -> Any:
        """How often it slides by, where a step takes these dimensions whole: the loop of one other window only moves
        it on, any further one brings it in again."""
        apart = sorted((extent for dim, extent in self.windows.items() if dim not in whole), key=np.max)
        return prod(apart[:-1], start=1.0)


def _blocks(stays: _Side, streams: _Side, room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(times of the one, times of the other) where a block of the one stays while the other streams by in slices, whole
    in what is summed: loops over that would move the block."""
    left = room - (streams.size * streams.fewest / streams.rows if streams.passing else 0.0)
    block = np.floor(stays.rows * left / stays.size) if stays.passing else np.where(left >= 0, stays.rows, 0.0)
    ok = block >= stays.fewest
    return (np.where(ok, 1.0, np.inf),
            np.where(ok, np.ceil(stays.rows / np.clip(block, 1, stays.rows)), np.inf))


def _outputs(first: _Side, second: _Side, room: np.ndarray, sums_room: np.ndarray,
             whole: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """(times of the one, times of the other) where a block of outputs is summed up while both stream by, by the
    block's width, [H, B]; whole: windows that are there at once."""
    width = np.maximum(second.rows / PARTS, second.fewest)
    left = room - second.slice(width, whole)
    most = np.floor(left / first.slice(1.0, whole)) if first.passing else np.where(left >= 0, first.rows, 0.0)
    height = np.minimum(np.minimum(np.floor(sums_room / width), first.rows), most)
    ok = height >= first.fewest
    return (np.where(ok, np.ceil(second.rows / width) * first.again(whole), np.inf),
            np.where(ok, np.ceil(first.rows / np.maximum(height, 1)) * second.again(whole), np.inf))
