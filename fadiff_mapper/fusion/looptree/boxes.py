"""Sets of whole-number vectors as NumPy rows, compared by one code per row.

LoopTree computes with symbolic sets and relations (isl). Here layers are small enough to list every point: a row of
whole numbers inside a `Box` has a code, the number of rows before it in lexicographic order, so that codes sort as rows
do. A relation between steps and words is an array of pairs of codes in one number (`paired`), and set operations are
operations on sorted integers: `np.unique`, `np.isin`, `np.searchsorted`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.errors import FadiffError

MOST_ROWS = 1 << 21
"""Operations of one layer that are enumerated at most: a plain safety limit on memory, for which nothing
was measured (rows of seven ranks then take 117 MB)."""

MOST_CODES = 1 << 62
"""Pairs of a step and a word that have different codes, so that codes and their differences fit into int64."""


@dataclass(frozen=True)
class Box:
    """The points x with low[k] <= x[k] < low[k] + size[k].

    Attributes:
        low: the smallest value of each of the K columns.
        size: the number of values of each column.
    """

    low: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def points(self) -> int:
        """Number of points."""
        return math.prod(self.size)

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """The code of every row, [N], of rows [N, K] that lie in the box."""
        code = np.zeros(len(rows), dtype=np.int64)
        for k, (low, size) in enumerate(zip(self.low, self.size, strict=True)):
            code = code * size + (rows[:, k] - low)
        return code

    def decode(self, code: np.ndarray) -> np.ndarray:
        """The rows, [N, K], of codes [N]."""
        rows = np.empty((len(code), len(self.size)), dtype=np.int64)
        for k in reversed(range(len(self.size))):
            code, rest = np.divmod(code, self.size[k])
            rows[:, k] = rest + self.low[k]
        return rows

    def take(self, columns: Sequence[int]) -> Box:
        """The box of some columns, in the given order."""
        return Box(tuple(self.low[k] for k in columns), tuple(self.size[k] for k in columns))


def paired(box: Box, rows: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    """A code for each row together with a second number; codes sort by the row first.

    Args:
        box: a box around the rows.
        rows: [N, K], such as steps.
        second: [N], whole numbers below `count`, such as codes of words.
        count: number of values of `second`.

    Returns:
        Codes [N], from which `divmod(code, count)` gives the row's code and the second number.

    Raises:
        FadiffError: there are more pairs than `MOST_CODES`.
    """
    if box.points * count > MOST_CODES:
        raise FadiffError(f"the fused mapping spans {box.points * count:.1e} pairs of a step and a word; "
                          f"accepted: at most {MOST_CODES:.1e}")
    codes: np.ndarray = box.encode(rows) * count + second
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


def all_rows(box: Box, what: str) -> np.ndarray:
    """Every point of a box, in the order of the codes.

    Args:
        box: the box.
        what: the owner of the points, for the message.

    Returns:
        Rows [N, K].

    Raises:
        FadiffError: there are more points than `MOST_ROWS`.
    """
    if box.points > MOST_ROWS:
        raise FadiffError(f"{what} has {box.points} operations; accepted: at most {MOST_ROWS} per layer")
    return box.decode(np.arange(box.points, dtype=np.int64))
