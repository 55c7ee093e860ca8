"""How often a tile brings its operands in again, where neither they nor all its sums fit on the chip at once.

A layer of two operands X and W multiplies `a` rows of outputs that X moves with `b` columns that W moves, as a matrix
product does. Either a block of outputs is summed up while both stream by, or a block of one operand stays while the
other streams by; the better of these is taken. Arrays are [B].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fadiff_mapper.spec.problem import DataSpace, Problem

PARTS = 2.0 ** np.arange(9)[:, None]
"""Widths of the block of outputs that are tried: all columns, half of them, and so on, [H, 1]."""


@dataclass(frozen=True)
class Again:
    """How often each operand comes in, and where any way of doing it fits."""

    times: dict[str, np.ndarray]
    fits: np.ndarray


def refetched(problem: Problem, tile: Mapping[str, Any], passing: Collection[str], staying: Collection[str],
              room: np.ndarray, sums_room: float, lanes: Mapping[str, int]) -> Again:
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
        return Again({name: np.ones_like(room) for name in passing}, enough & (room >= 0))
    left, right = operands
    both = left.dimensions & right.dimensions & problem.output.dimensions
    groups = prod((tile[dim] for dim in both), start=1.0)

    def side(space: DataSpace, other: DataSpace) -> _Side:
        rows = problem.output.dimensions & space.dimensions - other.dimensions
        return _Side(space.name, size[space.name] / groups, space.name in passing,
                     prod((tile[dim] for dim in rows), start=1.0),
                     float(prod(min(lanes.get(dim, 1), problem.bounds[dim]) for dim in rows)))

    sides = first, second = side(left, right), side(right, left)
    summed = prod((tile[dim] for dim in tile if dim not in problem.output.dimensions), start=1.0)
    depth = np.minimum(prod(lanes.get(dim, 1) for dim in tile if dim not in problem.output.dimensions), summed) / summed
    ways = (_blocks(first, second, room), _blocks(second, first, room)[::-1],
            _outputs(first, second, room, sums_room, depth))
    times = [np.concatenate([np.broadcast_to(way[k], (np.shape(way[k])[0] if np.ndim(way[k]) > 1 else 1, len(room)))
                             for way in ways]) for k in range(2)]                                   # [way, B]
    moved = np.asarray(sum(one.size * often if one.passing else np.where(np.isinf(often), np.inf, 0)
                           for one, often in zip(sides, times, strict=True)))
    best, row = moved.argmin(axis=0), np.arange(len(room))
    return Again({one.name: often[best, row] for one, often in zip(sides, times, strict=True) if one.passing},
                 np.isfinite(moved[best, row]) & enough & (room >= 0))


@dataclass(frozen=True)
class _Side:
    """One operand: words of one group, whether it passes, output rows that it alone moves, and the fewest of them."""

    name: str
    size: np.ndarray
    passing: bool
    rows: Any
    unit: float


def _blocks(stays: _Side, streams: _Side, room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(times of the one, times of the other) where a block of the one stays while the other streams by in slices."""
    slice_words = streams.size * np.minimum(streams.unit, streams.rows) / streams.rows if streams.passing else 0.0
    left = room - slice_words
    block = np.floor(stays.rows * left / stays.size) if stays.passing else np.where(left >= 0, stays.rows, 0.0)
    ok = block >= np.minimum(stays.unit, stays.rows)
    return (np.where(ok, 1.0, np.inf),
            np.where(ok, np.ceil(stays.rows / np.clip(block, 1, stays.rows)), np.inf))


def _outputs(first: _Side, second: _Side, room: np.ndarray, sums_room: float,
             depth: Any) -> tuple[np.ndarray, np.ndarray]:
    """(times of the one, times of the other) where a block of outputs is summed up while both stream by, by the
    block's width, [H, B]; depth: the part of what is summed that is there at once."""
    width = np.maximum(second.rows / PARTS, np.minimum(second.unit, second.rows))
    height = np.minimum(np.floor(sums_room / width), first.rows)
    words = sum(one.size * rows / one.rows * depth for one, rows in ((first, height), (second, width)) if one.passing)
    ok = (height >= np.minimum(first.unit, first.rows)) & (words <= room)
    return (np.where(ok, np.ceil(second.rows / width), np.inf),
            np.where(ok, np.ceil(first.rows / np.maximum(height, 1)), np.inf))
