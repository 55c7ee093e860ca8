"""Tiles of a banded matrix, counted as Timeloop counts them.

The tiles of the first rows, up to the first one whose band is not cut off by the upper left corner, are counted one by
one; those stand for the last rows, too, and the first full row stands for all rows between.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fadiff_mapper.base.errors import FadiffError

Box = tuple[int, ...]
"""Extents of a tile along the ranks of its tensor."""
Histogram = tuple[np.ndarray, np.ndarray]
"""Occupancies, ascending, and their probabilities."""


def global_density(band_width: int, tensor: Box) -> float:
    """The share of nonzeros of the whole matrix.

    Raises:
        FadiffError: The tensor is no square matrix, or Timeloop counts fewer than 0 nonzeros.
    """
    rows = tensor[0]
    # the diagonal and 2 * (rows - d) on the d-th ones beside it; those beyond the matrix count as less than nothing
    nonzeros = rows + 2 * rows * band_width - band_width * (band_width + 1)
    if len(tensor) != 2 or rows != tensor[1] or nonzeros < 0:
        shape = " x ".join(map(str, tensor))
        raise FadiffError(f"Timeloop aborts on a banded density of band width {band_width} for a tensor of {shape} "
                          "words; accepted: a square matrix of two ranks, at least half as large as the band is wide")
    return nonzeros / (rows * rows)


def nonzeros_in(band_width: int, corner: Box, end: Box) -> int:
    """Nonzeros of the tile between two corners, the end exclusive."""
    return int(_nonzeros(band_width, (corner[0], end[0]), np.array([corner[1]]), np.array([end[1]]))[0])


def _nonzeros(band_width: int, rows: Box, first: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Nonzeros of tiles side by side.

    Row r has its nonzeros in the columns r - width to r + width, so min(max(x + width - r, 0), 2 width + 1) of them lie
    left of the column x; summed over the rows that is a difference of two sums from 0 on.

    Args:
        band_width: Diagonals on either side of the main one.
        rows: The first row of all tiles, and the one behind their last.
        first: [X]. First column of each tile, from 0.
        end: [X]. The column behind its last one.

    Returns:
        [X].
    """
    width = 2 * band_width + 1

    def up_to(most: np.ndarray) -> np.ndarray:
        rising: np.ndarray = np.clip(most, 0, width)
        return np.asarray(rising * (rising + 1) // 2 + np.maximum(most - width, 0) * width)

    def left_of(column: np.ndarray) -> np.ndarray:
        return np.asarray(up_to(column + band_width - rows[0]) - up_to(column + band_width - rows[1]))

    return np.asarray(left_of(end) - left_of(first))


def _tile_row(band_width: int, tensor: Box, tile: Box, row: int) -> np.ndarray:
    """Nonzeros of the tiles of one row of tiles, from the left, without those to the right of the band."""
    top = row * tile[0]
    reached = min((top + tile[0] - 1 + band_width) // tile[1] + 1, tensor[1] // tile[1])
    first = np.arange(reached) * tile[1]
    return _nonzeros(band_width, (top, top + tile[0]), first, first + tile[1])


@lru_cache(maxsize=4096)
def banded_histogram(band_width: int, tensor: Box, tile: Box) -> Histogram:
    """Occupancies of the tiles of a matrix; 0 is listed first, even where no tile is empty.

    Args:
        band_width: Diagonals on either side of the main one.
        tensor: Extents of the matrix.
        tile: Extents of a tile.

    Raises:
        FadiffError: The tile is larger than the matrix.
    """
    rows, columns = tensor[0] // tile[0], tensor[1] // tile[1]
    if not rows * columns:
        raise FadiffError(f"a tile of {tile[0]} x {tile[1]} words exceeds the banded matrix of "
                          f"{tensor[0]} x {tensor[1]}; Timeloop divides by 0 here")
    warm_up = math.ceil(band_width / tile[0])
    steady = max(rows - 2 * warm_up, 0)
    counts: dict[int, int] = {0: 0}
    for row in range(min(warm_up + 1, rows)):
        weight = steady if row >= warm_up else 2 if warm_up != rows else 1
        nonzeros = _tile_row(band_width, tensor, tile, row)
        counts[0] += (columns - len(nonzeros)) * weight
        for occupancy, times in zip(*(part.tolist() for part in np.unique(nonzeros, return_counts=True)), strict=True):
            counts[occupancy] = counts.get(occupancy, 0) + times * weight
    occupancies = sorted(counts)
    return (np.array(occupancies, dtype=np.int64),
            np.array([counts[occupancy] / (rows * columns) for occupancy in occupancies]))


@lru_cache(maxsize=65536)
def empty_share(band_width: int, tensor: Box, tile: Box, outer: Box, occupancy: int) -> float:
    """The share of empty tiles within the first tile of the box `outer` that has this occupancy.

    Raises:
        FadiffError: Tiles do not divide the matrix, on which Timeloop aborts.
    """
    _check_division(tensor, outer)
    corner = _first_with(band_width, tensor, outer, occupancy)
    _check_division(tensor, tile)
    rows, columns = outer[0] // tile[0], outer[1] // tile[1]
    # Timeloop adds the corner of the outer tile twice to the lower corner of an inner one, and never to the upper one
    # beyond the offset: an inner tile is [2 * corner + offset, tile + corner + offset).
    if corner[0] >= tile[0] or corner[1] >= tile[1]:
        return 1.0
    low = 2 * corner[0] + tile[0] * np.arange(rows)
    high = low - corner[0] + tile[0]
    # Of a row of tiles those have nonzeros whose columns meet the bands of the rows [low, high).
    first = np.maximum(-((corner[1] + tile[1] + band_width - low - 1) // tile[1]), 0)
    last = np.minimum((high - 1 + band_width - 2 * corner[1]) // tile[1], columns - 1)
    empty = rows * columns - int(np.maximum(last - first + 1, 0).sum())
    return empty / (rows * columns)


def _first_with(band_width: int, tensor: Box, tile: Box, occupancy: int) -> Box:
    """The corner of the first tile with this occupancy, row by row."""
    rows, columns = tensor[0] // tile[0], tensor[1] // tile[1]
    for row in range(min(math.ceil(band_width / tile[0]) + 1, rows)):
        nonzeros = _tile_row(band_width, tensor, tile, row)
        found = np.flatnonzero(nonzeros == occupancy)
        if len(found) or (occupancy == 0 and len(nonzeros) < columns):
            return row * tile[0], (int(found[0]) if len(found) else len(nonzeros)) * tile[1]
    raise FadiffError(f"Timeloop aborts: it finds no tile of {tile[0]} x {tile[1]} words with {occupancy} nonzeros "
                      "in the banded matrix")


def _check_division(tensor: Box, tile: Box) -> None:
    if any(extent % part for extent, part in zip(tensor, tile, strict=True)):
        raise FadiffError(f"Timeloop aborts: tiles of {tile[0]} x {tile[1]} words do not divide the banded matrix of "
                          f"{tensor[0]} x {tensor[1]}")
