"""Sets of whole-number vectors as NumPy rows, compared by one code per row.

A `Box` is a box of points; a row inside it has a code, and codes sort as their rows do. Relations between steps
and points are pairs of codes in one number, so that set operations are those of sorted integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.errors import FadiffError

MOST_ROWS = 1 << 21
"""Operations of one layer that are enumerated at most."""
MOST_CODES = 1 << 62


@dataclass(frozen=True)
class Box:
    """The box of points low[k] <= x[k] < low[k] + size[k]."""

    low: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def points(self) -> int:
        return math.prod(self.size)

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """The code of every row of [N, K], [N]; all lie in the box."""
        code = np.zeros(len(rows), dtype=np.int64)
        for k, (low, size) in enumerate(zip(self.low, self.size, strict=True)):
            code = code * size + (rows[:, k] - low)
        return code

    def decode(self, code: np.ndarray) -> np.ndarray:
        """The rows of codes, [N, K]."""
        rows = np.empty((len(code), len(self.size)), dtype=np.int64)
        for k in reversed(range(len(self.size))):
            code, rest = np.divmod(code, self.size[k])
            rows[:, k] = rest + self.low[k]
        return rows

    def take(self, columns: Sequence[int]) -> Box:
        """The grid of some columns."""
        return Box(tuple(self.low[k] for k in columns), tuple(self.size[k] for k in columns))


def paired(grid: Box, rows: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    """One code for each row of the grid together with a number below `count`, [N]; sorts by the row first.

    Raises FadiffError where the codes would not fit into 62 bits.
    """
    if grid.points * count > MOST_CODES:
        raise FadiffError(f"the fused mapping spans {grid.points * count:.1e} pairs of a step and a word; "
                          f"accepted: at most {MOST_CODES:.1e}")
    codes: np.ndarray = grid.encode(rows) * count + second
    return codes


def box_of(ranges: Sequence[range]) -> Box:
    """The box of all vectors over these ranges."""
    return Box(tuple(values.start for values in ranges), tuple(len(values) for values in ranges))


def box_around(rows: np.ndarray) -> Box:
    """The smallest box around rows [N, K]; one point where there is no row."""
    if not len(rows):
        return Box((0,) * rows.shape[1], (1,) * rows.shape[1])
    low = rows.min(axis=0)
    return Box(tuple(int(v) for v in low), tuple(int(v) for v in rows.max(axis=0) - low + 1))


def all_rows(grid: Box, what: str) -> np.ndarray:
    """Every point of a grid, [N, K], in the order of the codes. Raises FadiffError where there are too many."""
    if grid.points > MOST_ROWS:
        raise FadiffError(f"{what} has {grid.points} operations; accepted: at most {MOST_ROWS} per layer")
    return grid.decode(np.arange(grid.points, dtype=np.int64))
