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
        FadiffError: The tensor is no square matrix, or the band is wider than it.
    """
    if len(tensor) != 2 or tensor[0] != tensor[1] or band_width > tensor[0]:
        shape = " x ".join(map(str, tensor))
        raise FadiffError(f"Timeloop aborts on a banded density of band width {band_width} for a tensor of {shape} "
                          "words; accepted: a square matrix of two ranks, at least as large as the band is wide")
    rows = tensor[0]
    nonzeros = rows + sum(2 * (rows - diagonal) for diagonal in range(1, band_width + 1))
    return nonzeros / (rows * rows)


def nonzeros_in(band_width: int, corner: Box, end: Box) -> int:
    """Nonzeros of the tile between two corners, the end exclusive."""
    return sum(max(0, min(end[1], row + band_width + 1) - max(corner[1], row - band_width, 0))
               for row in range(corner[0], end[0]))


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
        for column in range(columns):
            corner = (row * tile[0], column * tile[1])
            if corner[1] > corner[0] + tile[0] - 1 + band_width:  # this tile and all to its right are empty
                counts[0] += (columns - column) * weight
                break
            occupancy = nonzeros_in(band_width, corner, (corner[0] + tile[0], corner[1] + tile[1]))
            counts[occupancy] = counts.get(occupancy, 0) + weight
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
    empty = 0
    for row in range(rows):
        for column in range(columns):
            offset = (corner[0] + row * tile[0], corner[1] + column * tile[1])
            low = (corner[0] + offset[0], corner[1] + offset[1])
            empty += not nonzeros_in(band_width, low, (tile[0] + offset[0], tile[1] + offset[1]))
    return empty / (rows * columns)


def _first_with(band_width: int, tensor: Box, tile: Box, occupancy: int) -> Box:
    """The corner of the first tile with this occupancy, row by row."""
    rows, columns = tensor[0] // tile[0], tensor[1] // tile[1]
    for row in range(min(math.ceil(band_width / tile[0]) + 1, rows)):
        for column in range(columns):
            corner = (row * tile[0], column * tile[1])
            if corner[1] > corner[0] + tile[0] - 1 + band_width:
                if occupancy == 0:
                    return corner
                break
            if nonzeros_in(band_width, corner, (corner[0] + tile[0], corner[1] + tile[1])) == occupancy:
                return corner
    raise FadiffError(f"Timeloop aborts: it finds no tile of {tile[0]} x {tile[1]} words with {occupancy} nonzeros "
                      "in the banded matrix")


def _check_division(tensor: Box, tile: Box) -> None:
    if any(extent % part for extent, part in zip(tensor, tile, strict=True)):
        raise FadiffError(f"Timeloop aborts: tiles of {tile[0]} x {tile[1]} words do not divide the banded matrix of "
                          f"{tensor[0]} x {tensor[1]}")
