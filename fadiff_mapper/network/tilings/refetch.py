"""Refetches of a tile's operands, where neither they nor all its sums fit on the chip at once.

Problem. A tile that is larger than the home level streams its operands through it, some of them several times. How
often decides whether a fused group pays, and must be known for thousands of tile sizes before any is mapped.

Method. A layer of two operands X and W multiplies `a` rows of outputs that X moves with `b` columns that W moves, as a
matrix product does. Three schedules are compared in closed form, known as input, weight and output stationary: a block
of X stays while W streams by, a block of W stays while X streams by, or a block of outputs is summed up while both
stream by. The schedule with the fewest words moved counts. Operands stream by in slices along the
reduction dimensions, as thin as the lanes allow. A sliding window is there whole, or it comes again for the points of
all its dimensions but one.

Arrays are [B], one entry per choice of tile sizes; H widths of the block of outputs are tried.
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
"""Parts into which the columns of the block of outputs are divided: none, two, four, up to 256, [H, 1]."""


@dataclass(frozen=True)
class Refetch:
    """Refetches of one layer's tiles.

    Attributes:
        times: How often each passing operand comes in, by data space, [B].
        fits: Whether any schedule fits, [B].
    """

    times: dict[str, np.ndarray]
    fits: np.ndarray


def refetched(problem: Problem, tile: Mapping[str, Any], passing: Collection[str], staying: Collection[str],
              room: np.ndarray, sums_room: np.ndarray, lanes: Mapping[str, int]) -> Refetch:
    """Estimates how often a layer's tile brings in the operands that do not stay.

    No loop outside may move an operand that stays, so along its dimensions the others come in whole.

    Args:
        problem: The layer.
        tile: Extents of its tile by dimension, numbers or [B].
        passing: Operands that are fetched in every step.
        staying: Operands that are there already.
        room: Words of the home for the passing ones, [B].
        sums_room: Words of output that can be summed up at once, [B].
        lanes: Units that work side by side, by dimension.
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
    schedules = [_block_stays(first, second, room), _block_stays(second, first, room)[::-1]]
    windows = sorted(first.windows.keys() | second.windows.keys())
    schedules += [_outputs_stay(first, second, room, sums_room, set(inside))
                  for count in range(len(windows) + 1) for inside in combinations(windows, count)]
    times = [np.concatenate([np.broadcast_to(often[k], (np.shape(often[k])[0] if np.ndim(often[k]) > 1 else 1,
                                                        len(room))) for often in schedules])
             for k in range(2)]    # [schedule and width, B] for each operand
    moved = np.asarray(sum(operand.size * often if operand.passing else np.where(np.isinf(often), np.inf, 0)
                           for operand, often in zip(sides, times, strict=True)))
    best, row = moved.argmin(axis=0), np.arange(len(room))
    return Refetch({operand.name: often[best, row] for operand, often in zip(sides, times, strict=True)
                    if operand.passing}, np.isfinite(moved[best, row]) & enough & (room >= 0))


def _slides(space: DataSpace, dim: str) -> bool:
    """Whether a dimension shares its rank with others, as in the windows of a convolution."""
    return len(moved_rank(space, dim)[1]) > 1


@dataclass(frozen=True)
class _Side:
    """Either of the two operands.

    Attributes:
        name: The data space.
        size: Words of its tile, of one group where both operands and the output share dimensions, [B].
        passing: Whether it is fetched in every step.
        rows: Outputs that it alone moves, [B].
        unit: Rows that work side by side, and so are needed at once.
        steps: Reduction dimensions apart from windows -> the part of each that is needed at once.
        windows: Reduction dimensions along which the operand slides -> extents.
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
        """Rows needed at once: the rows of one step of the array, or all rows where there are fewer."""
        return np.minimum(self.unit, self.rows)

    def slice(self, rows: Any, whole: Collection[str] = ()) -> Any:
        """Words of so many rows in one reduction step, which takes the dimensions `whole` at once."""
        part = prod((part for dim, part in self.steps.items() if dim not in whole), start=1.0)
        return self.size * rows / self.rows * part if self.passing else 0.0

    def again(self, whole: Collection[str]) -> Any:
        """Times the operand is streamed, by the dimensions `whole` that a reduction step takes at once.

        Of the window loops outside a reduction step the longest only slides it; each other one restarts it, so their
        extents multiply.
        """
        apart = sorted((extent for dim, extent in self.windows.items() if dim not in whole), key=np.max)
        return prod(apart[:-1], start=1.0)


def _block_stays(stays: _Side, streams: _Side, room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times that each operand comes in where a block of the one stays while the other streams by, [B] each.

    The other comes in rows with all reduction dimensions whole: loops over these would move the block.
    """
    left = room - (streams.size * streams.fewest / streams.rows if streams.passing else 0.0)
    block = np.floor(stays.rows * left / stays.size) if stays.passing else np.where(left >= 0, stays.rows, 0.0)
    ok = block >= stays.fewest
    return (np.where(ok, 1.0, np.inf),
            np.where(ok, np.ceil(stays.rows / np.clip(block, 1, stays.rows)), np.inf))


def _outputs_stay(first: _Side, second: _Side, room: np.ndarray, sums_room: np.ndarray,
                  whole: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
    """Times that each operand comes in where a block of outputs is summed up while both stream by, [H, B] each.

    Windows `whole` are there at once. The block is as high as room and sums allow at each width.
    """
    width = np.maximum(second.rows / PARTS, second.fewest)
    left = room - second.slice(width, whole)
    most = np.floor(left / first.slice(1.0, whole)) if first.passing else np.where(left >= 0, first.rows, 0.0)
    height = np.minimum(np.minimum(np.floor(sums_room / width), first.rows), most)
    ok = height >= first.fewest
    return (np.where(ok, np.ceil(second.rows / width) * first.again(whole), np.inf),
            np.where(ok, np.ceil(first.rows / np.maximum(height, 1)) * second.again(whole), np.inf))
