"""Occupancies of tiles: how many nonzeros a tile of a tensor may hold, and how likely each number is.

A *box* is the extents of a tile along the ranks of its tensor. The rules, rounding included, are those of Timeloop's
density models; `banded_matrix.py` has the one of banded matrices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.sparse.banded_matrix import Box, Histogram, banded_histogram, empty_share, global_density
from fadiff_mapper.sparse.hypergeometric_pdf import hypergeometric_pdf
from fadiff_mapper.spec.densities import BANDED, FIXED, Density

FARTHEST = 50
"""A number of nonzeros further than sqrt(FARTHEST * draws) from its mean has a probability of at most
exp(-2 * FARTHEST), 4e-44, by Hoeffding's inequality, which also holds for draws without replacement: no sum of doubles
changes without it."""

WRAP = 2 ** 64
"""Timeloop counts in whole numbers of 64 bits without sign; the processor makes 0 of a double beyond them."""


class DensityModel(Protocol):
    """The distribution of the nonzeros of one tensor; a value that can be a key."""

    def __hash__(self) -> int:
        """Equal models have equal hashes."""

    def histogram(self, box: Box) -> Histogram:
        """The occupancies of tiles of this box that have a probability, and these probabilities."""

    def least(self, box: Box) -> int:
        """The least occupancy that Timeloop looks at."""

    def most(self, box: Box) -> int:
        """The largest occupancy."""

    def empty(self, box: Box) -> float:
        """The probability that a tile of this box holds no nonzero."""

    def empty_within(self, box: Box, outer: Box, occupancies: np.ndarray) -> np.ndarray:
        """The same within a tile of the box `outer`, for each number of nonzeros in it, [X]."""

    def most_elements(self, fiber: Box, element: Box) -> int:
        """The most tiles of the box `element` with a nonzero in one tile of the box `fiber`."""

    def expected(self, box: Box) -> float:
        """The expected occupancy."""


def density_model(density: Density, tensor: Box) -> DensityModel:
    """The model of a tensor; `check_model` says whether Timeloop knows what to do with it.

    Args:
        density: Its density.
        tensor: Its extents along its ranks.
    """
    if density.distribution == FIXED:
        return FixedStructured(density.density)
    if density.distribution == BANDED:
        return Banded(density.band_width, tensor)
    words = math.prod(tensor)
    return Hypergeometric(math.ceil(density.density * words), words)


def check_model(model: DensityModel) -> None:
    """Raises FadiffError for a banded tensor that is no square matrix, on which Timeloop aborts."""
    if isinstance(model, Banded):
        global_density(model.band_width, model.tensor)


@dataclass(frozen=True)
class FixedStructured:
    """Every tile has the same density; where that is no whole number of words, the next ones below and above occur.

    Attributes:
        density: Share of nonzeros.
    """

    density: float

    def histogram(self, box: Box) -> Histogram:
        """See `DensityModel`; the fraction of words * density is the probability of the number above."""
        exact = math.prod(box) * self.density
        below, above = math.floor(exact), math.ceil(exact)
        share = exact - below
        pairs = [(below, 1 - share), *([(above, share)] if above > below else [])]
        kept = [(occupancy, p) for occupancy, p in pairs if p != 0]
        return np.array([o for o, _ in kept], dtype=np.int64), np.array([p for _, p in kept])

    def least(self, box: Box) -> int:
        """See `DensityModel`."""
        words = math.prod(box)
        return math.floor(math.floor(words * self.density) / words * words)

    def most(self, box: Box) -> int:
        """See `DensityModel`."""
        return math.ceil(math.prod(box) * self.density)

    def empty(self, box: Box) -> float:
        """See `DensityModel`."""
        exact = math.prod(box) * self.density
        return 1 - exact if exact < 1 else 0.0

    def empty_within(self, box: Box, outer: Box, occupancies: np.ndarray) -> np.ndarray:
        """See `DensityModel`."""
        exact = math.prod(box) * (occupancies / math.prod(outer))
        return np.where(exact < 1, 1 - exact, 0.0)

    def most_elements(self, fiber: Box, element: Box) -> int:
        """See `DensityModel`."""
        return min(self.most(fiber), _elements(fiber, element))

    def expected(self, box: Box) -> float:
        """See `DensityModel`."""
        return math.prod(box) * self.density


@dataclass(frozen=True)
class Hypergeometric:
    """Nonzeros are drawn without replacement from the words of the tensor.

    Attributes:
        nonzeros: Nonzeros of the tensor.
        words: Words of the tensor.
    """

    nonzeros: int
    words: int

    def histogram(self, box: Box) -> Histogram:
        """See `DensityModel`."""
        return _drawn(self.nonzeros, math.prod(box), self.words)

    def least(self, box: Box) -> int:
        """See `DensityModel`.

        Timeloop subtracts the tensor's words from the tile's in whole numbers of 64 bits without sign, so that the
        least occupancy of a tile that cannot be empty is 0, or beyond all others, unless it is the whole tensor.
        """
        words = math.prod(box)
        if words <= self.words - self.nonzeros:
            return 0
        missing = float((words - self.words) % WRAP) + self.nonzeros
        least = math.floor(missing / words * words)
        return least if least < WRAP else 0

    def most(self, box: Box) -> int:
        """See `DensityModel`."""
        return min(math.prod(box), self.nonzeros)

    def empty(self, box: Box) -> float:
        """See `DensityModel`."""
        return _undrawn(self.nonzeros, math.prod(box), self.words)

    def empty_within(self, box: Box, outer: Box, occupancies: np.ndarray) -> np.ndarray:
        """See `DensityModel`."""
        return _undrawn_within(math.prod(box), math.prod(outer), occupancies)

    def most_elements(self, fiber: Box, element: Box) -> int:
        """See `DensityModel`."""
        return min(self.most(fiber), _elements(fiber, element))

    def expected(self, box: Box) -> float:
        """See `DensityModel`; the sum of occupancy times probability, in ascending order."""
        occupancies, probabilities = self.histogram(box)
        return ordered_sum(probabilities * occupancies)


@dataclass(frozen=True)
class Banded:
    """A square matrix whose nonzeros lie along the diagonal.

    Attributes:
        band_width: Diagonals on either side of the main one.
        tensor: Extents of the matrix.
    """

    band_width: int
    tensor: Box

    def histogram(self, box: Box) -> Histogram:
        """See `DensityModel`."""
        occupancies, probabilities = banded_histogram(self.band_width, self.tensor, box)
        return occupancies[probabilities != 0], probabilities[probabilities != 0]

    def least(self, box: Box) -> int:
        """See `DensityModel`."""
        return 0

    def most(self, box: Box) -> int:
        """See `DensityModel`."""
        return int(banded_histogram(self.band_width, self.tensor, box)[0][-1])

    def empty(self, box: Box) -> float:
        """See `DensityModel`."""
        return float(banded_histogram(self.band_width, self.tensor, box)[1][0])

    def empty_within(self, box: Box, outer: Box, occupancies: np.ndarray) -> np.ndarray:
        """See `DensityModel`."""
        return np.array([empty_share(self.band_width, self.tensor, box, outer, int(o)) for o in occupancies])

    def most_elements(self, fiber: Box, element: Box) -> int:
        """See `DensityModel`; Timeloop multiplies with the share of empty elements."""
        elements = _elements(fiber, element)
        return math.ceil(elements * empty_share(self.band_width, self.tensor, element, fiber, self.most(fiber)))

    def expected(self, box: Box) -> float:
        """See `DensityModel`."""
        return math.prod(box) * global_density(self.band_width, self.tensor)


def ordered_sum(values: np.ndarray) -> float:
    """The sum from the first value to the last, whose order decides the last bit; 0 for none."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


@lru_cache(maxsize=65536)
def _drawn(nonzeros: int, tile: int, words: int) -> Histogram:
    draws = min(tile, nonzeros)
    likely, reach = tile * nonzeros // words, math.isqrt(FARTHEST * draws) + 2
    occupancies = np.arange(max(0, tile + nonzeros - words, likely - reach), min(draws, likely + reach) + 1,
                            dtype=np.int64)
    probabilities = hypergeometric_pdf(occupancies, np.full_like(occupancies, nonzeros), tile, words)
    return occupancies[probabilities != 0], probabilities[probabilities != 0]


@lru_cache(maxsize=65536)
def _undrawn(nonzeros: int, tile: int, words: int) -> float:
    """The probability that a tile holds none of the nonzeros; a tile that cannot be without one has 0."""
    if tile + nonzeros > words:
        return 0.0
    return float(hypergeometric_pdf(np.zeros(1, dtype=np.int64), np.array([nonzeros]), tile, words)[0])


def _undrawn_within(tile: int, outer: int, occupancies: np.ndarray) -> np.ndarray:
    possible = tile + occupancies <= outer
    result = np.zeros(len(occupancies))
    result[possible] = hypergeometric_pdf(np.zeros(possible.sum(), dtype=np.int64), occupancies[possible], tile, outer)
    return result


def _elements(fiber: Box, element: Box) -> int:
    words, each = math.prod(fiber), math.prod(element)
    if words % each:
        raise FadiffError(f"Timeloop aborts on this mapping: {words} words of a fan-out are no multiple of the "
                          f"{each} words of one instance, where instances are skipped")
    return words // each
