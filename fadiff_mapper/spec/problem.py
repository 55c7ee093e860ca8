"""A problem: dimensions with bounds, and data spaces whose ranks are sums of coefficient * dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Term:
    """`coefficient * dimension` in the projection of a rank; `coefficient` is already a number."""

    dimension: str
    coefficient: int = 1
    name: str | None = None
    """The coefficient's name in the shape (such as "Wstride"), None where the term has none."""


@dataclass(frozen=True)
class DataSpace:
    """A tensor: its name and ranks. A rank is the sum of its terms."""

    name: str
    ranks: tuple[tuple[Term, ...], ...]
    read_write: bool = False

    @cached_property
    def dimensions(self) -> frozenset[str]:
        """The dimensions that are relevant to this data space."""
        return frozenset(term.dimension for rank in self.ranks for term in rank)

    def tile_extents(self, tile: dict[str, int]) -> tuple[int, ...]:
        """Extent of every rank for a tile of `tile[dimension]` points, counting holes (Timeloop's rule).

        A rank spans 1 + sum(coefficient * (points - 1)).
        """
        return tuple(1 + sum(term.coefficient * (tile[term.dimension] - 1) for term in rank) for rank in self.ranks)


@dataclass(frozen=True)
class Problem:
    """One layer. `bounds` maps each dimension, in the order of the shape, to its extent."""

    name: str
    bounds: dict[str, int]
    dataspaces: tuple[DataSpace, ...]

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.bounds)

    @property
    def computes(self) -> int:
        """Number of multiply-accumulates: the product of all bounds."""
        return math.prod(self.bounds.values())

    @property
    def output(self) -> DataSpace:
        """The read-write data space (Timeloop problems have one; the first is taken)."""
        return next(ds for ds in self.dataspaces if ds.read_write)

    def dataspace_names(self) -> tuple[str, ...]:
        return tuple(ds.name for ds in self.dataspaces)

    def tensor_size(self, dataspace: DataSpace) -> int:
        """Words of the whole tensor."""
        return math.prod(dataspace.tile_extents(self.bounds))


def single_letter(dimensions: Sequence[str]) -> bool:
    """Whether permutations can be written as one string of letters, as the native dialect wants them."""
    return all(len(name) == 1 for name in dimensions)
