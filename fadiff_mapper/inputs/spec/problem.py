"""A problem: dimensions with bounds, and data spaces whose ranks are sums of coefficient * dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from typing import Any

from fadiff_mapper.inputs.spec.sparse_optimizations import DENSE, Density


@dataclass(frozen=True)
class Term:
    """`coefficient * dimension` in the projection of a rank."""

    dimension: str  # a dimension of the problem
    coefficient: int = 1  # its coefficient, such as a stride or dilation, already a number
    name: str | None = None  # the coefficient's name in the shape, such as "Wstride"; None where the term has none


def extent(terms: Sequence[tuple[int, Any]]) -> Any:
    """Extent of a rank between the first and the last word that a tile of iterations touches.

    A rank spans 1 + sum of coefficient * (points - 1): the holes of a strided or dilated tile count, as in Timeloop.
    Written as sum(coefficient * points) - (sum(coefficients) - 1), one subtraction instead of one for each term. A term
    is (coefficient, points of the tile), with whole numbers, or arrays or tensors of several tiles.
    """
    if not terms:
        return 1
    reach = reduce(add, [points if coefficient == 1 else coefficient * points for coefficient, points in terms])
    surplus = sum(coefficient for coefficient, _ in terms) - 1
    return reach - surplus if surplus else reach


def extent_along(rank: Sequence[Term], tile: Mapping[str, Any]) -> Any:
    """`extent` of a rank from the points of a tile by dimension."""
    return extent([(term.coefficient, tile[term.dimension]) for term in rank])


@dataclass(frozen=True)
class Bits:
    """Bits of the elements of a tensor."""

    bits: int  # bits of an element
    scale: int = 0  # bits of the scale factor that a block of elements shares
    per: int = 1  # elements of such a block
    partial: int | None = None  # bits of a partial sum; None: a word of the level, or an element's bits if more

    @property
    def element(self) -> Fraction:
        """Bits of an element with its share in the scale factor."""
        return self.bits + Fraction(self.scale, self.per)


@dataclass(frozen=True)
class DataSpace:
    """A tensor of the problem."""

    name: str  # name of the tensor
    ranks: tuple[tuple[Term, ...], ...]  # the projection: each rank is the sum of its terms
    read_write: bool = False  # whether the tensor is accumulated, as the output is
    bits: Bits | None = None  # bits of its elements; None: an element is a word of whatever level

    def __repr__(self) -> str:  # bits only where given: seeds and checkpoints are made of this text
        given = "" if self.bits is None else f", bits={self.bits!r}"
        return f"DataSpace(name={self.name!r}, ranks={self.ranks!r}, read_write={self.read_write!r}{given})"

    def words(self, word_bits: int, partial: bool = False) -> Fraction:
        """Words of `word_bits` bits that an element takes, or a partial sum of the output if `partial`."""
        if self.bits is None:
            return Fraction(1)
        bits = self.bits.element
        if partial and self.read_write:
            bits = max(bits, Fraction(self.bits.partial or word_bits))
        return bits / word_bits

    def room(self, elements: int, word_bits: int, partial: bool = False) -> int:
        """Whole words of `word_bits` bits that so many elements take, or so many partial sums if `partial`."""
        return elements if self.bits is None else math.ceil(elements * self.words(word_bits, partial))

    @cached_property
    def dimensions(self) -> frozenset[str]:
        """The dimensions that are relevant to this data space."""
        return frozenset(term.dimension for rank in self.ranks for term in rank)

    def tile_extents(self, tile: dict[str, int]) -> tuple[int, ...]:
        """Words along each rank of the box that a tile of iterations, its points by dimension, touches."""
        return tuple(extent_along(rank, tile) for rank in self.ranks)


RankWindow = tuple[str, tuple[int, ...], int, tuple[int, ...]]
"""A rank as one of its dimensions sees it: name of its data space, bounds of the dimensions of its terms (ascending),
the dimension's own coefficient, coefficients of all terms (ascending)."""


@dataclass(frozen=True)
class Problem:
    """One layer as a loop nest over dimensions, with a multiply-accumulate in its body."""

    name: str  # name of the shape
    bounds: dict[str, int]  # extent of each dimension, in the order of the shape
    dataspaces: tuple[DataSpace, ...]  # operands and output
    densities: dict[str, Density] = field(default_factory=dict)  # by data space, dense where not named

    @cached_property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions, in the order of the shape."""
        return tuple(self.bounds)

    @property
    def computes(self) -> int:
        """Number of multiply-accumulates: the product of all bounds."""
        return math.prod(self.bounds.values())

    @cached_property
    def output(self) -> DataSpace:
        """The read-write data space, of which the readers of a problem accept exactly one."""
        return next(ds for ds in self.dataspaces if ds.read_write)

    def dataspace_names(self) -> tuple[str, ...]:
        """Names of the data spaces, in the order of the shape."""
        return tuple(ds.name for ds in self.dataspaces)

    @cached_property
    def windows(self) -> dict[str, tuple[RankWindow, ...]]:
        """For each dimension the ranks that it moves; equal for dimensions that move all data spaces alike."""
        found: dict[str, list[RankWindow]] = {name: [] for name in self.bounds}
        for space in self.dataspaces:
            for rank in space.ranks:
                bounds = tuple(sorted(self.bounds[term.dimension] for term in rank))
                coefficients = tuple(sorted(term.coefficient for term in rank))
                for term in rank:
                    found[term.dimension].append((space.name, bounds, term.coefficient, coefficients))
        return {name: tuple(ranks) for name, ranks in found.items()}

    def density(self, dataspace: str) -> Density:
        """The density of a data space."""
        return self.densities.get(dataspace, DENSE)

    def resized(self, shape: Sequence[int]) -> Problem:
        """A tile of a layer, its extents in the order of the dimensions, as a problem of its own."""
        return replace(self, bounds=dict(zip(self.dimensions, shape, strict=True)))

    def tensor_size(self, dataspace: DataSpace) -> int:
        """Words of the whole tensor, holes of strided ranks counted."""
        return math.prod(dataspace.tile_extents(self.bounds))


def single_letter(dimensions: Sequence[str]) -> bool:
    """Whether permutations can be written as one string of letters, as the native dialect wants them."""
    return all(len(name) == 1 for name in dimensions)
