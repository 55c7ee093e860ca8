"""Tiles, the fiber trees in which levels store them, and their occupancies: nonzeros, and units of metadata.

Timeloop's sparse analysis looks at single loops: at their order, and whether they are spatial. A format has a fixed
number of ranks; each takes one loop, or several loops that its flattening rule allows; loops of bound 1 are skipped. If
the level further out is compressed, its tile must consist of the tiles further in (pretiling): its inner ranks are then
the ranks of the child.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace
from fadiff_mapper.inputs.spec.sparse_optimizations import (
    BITMASK,
    COORDINATE_PAYLOAD,
    OFFSET_PAIR,
    RUN_LENGTH,
    RankFormat,
    Representation,
)
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.sparse_design import SparseDesign

Units = tuple[float, float]
"""Units of metadata and of payload."""


@dataclass(frozen=True)
class NestLoop:
    """One loop of a nest."""

    dim: str                # Its dimension
    bound: int
    axis: str               # "X" or "Y" of a spatial loop, "" of a temporal one
    points: dict[str, int]  # Points of the iterations that this loop and all inside it span, by dimension


@dataclass
class StoredTile:
    """The tile of a data space at a level that keeps it: its place, and then its fiber tree and its occupancy."""

    box: tuple[int, ...]                     # Its extents along the ranks of the tensor
    parent: int | None                       # The next level outwards that keeps the data space; None for the outermost
    child: int | None                        # The next level inwards that keeps the data space; None if its words go to
                                             # the arithmetic
    representation: Representation | None = None  # Its format; None if it is stored plainly
    fibers: tuple[int, ...] = ()             # Coordinates of a fiber of each rank of its tree, innermost first; empty
                                             # if no level has a format
    boxes: tuple[tuple[int, ...], ...] = ()  # One more than ranks: boxes[r] is the box below rank r, boxes[r + 1] the
                                             # box of its whole fiber
    used: float = 1.0                        # Share of the instances that get a tile at all: a parent that knows empty
                                             # tiles does not send them
    density: float = 1.0                     # Expected nonzeros over the words of the tile; of nonempty tiles only, if
                                             # empty tiles are not sent
    nonzeros: float = 0.0                    # Expected nonzeros
    metadata: tuple[Units, ...] = ()         # Expected units of every rank, innermost first; empty without a format
    most_words: int = 0                      # Words that the tile may need: the largest occupancy, or all words if
                                             # zeros are stored
    most_metadata: tuple[Units, ...] = ()    # Units of every rank at the largest occupancy

    @property
    def words(self) -> int:
        """Words of the tile, zeros included."""
        return math.prod(self.box)

    @property
    def ranks(self) -> tuple[RankFormat, ...]:
        """Formats of its ranks, innermost first; empty if the tile is stored plainly."""
        return self.representation.ranks if self.representation else ()

    @property
    def compressed(self) -> bool:
        """Whether the format leaves out zeros."""
        return self.representation is not None and self.representation.compressed

    @property
    def metadata_units(self) -> float:
        """Expected units of metadata of all ranks together."""
        return ordered_sum(np.array([metadata + payload for metadata, payload in self.metadata]))

    def counts(self, rank: int) -> bool:
        """Whether a rank takes metadata; ranks of a single coordinate do not, except the first one given."""
        first = 0 if self.representation and self.representation.inner_to_outer else len(self.fibers) - 1
        return self.fibers[rank] != 1 or rank == first

    def metadata_bits(self, units: tuple[Units, ...]) -> int:
        """Bits of the units of all ranks, rounded up; 0 without a format."""
        return math.ceil(ordered_sum(np.array([
            metadata * rank.metadata_bits + payload * rank.payload_bits
            for rank, (metadata, payload) in zip(self.ranks, units, strict=True)])))


@dataclass(frozen=True)
class StoredMapping:
    """One mapping with all inputs of the sparse analysis."""

    design: SparseDesign                        # The layer on its design
    loops: list[list[NestLoop]]                 # All loops by storage level, bounds of 1 included; innermost level and
                                                # innermost loop first
    columns: tuple[dict[int, StoredTile], ...]  # For every data space its tiles by level, innermost first; levels that
                                                # bypass it are left out

    @property
    def spaces(self) -> tuple[DataSpace, ...]:
        return self.design.layer.problem.dataspaces

    def source(self, dataspace: int, level: int) -> int | None:
        """The first level from `level` outwards that keeps a data space; None if there is none."""
        return next((outer for outer in self.columns[dataspace] if outer >= level), None)

    def empty(self, dataspace: int, points: dict[str, int]) -> float:
        """The probability that all words of a data space that some iterations touch are 0."""
        return self.design.models[dataspace].empty(self.spaces[dataspace].tile_extents(points))


def stored_mapping(design: SparseDesign, mapping: Mapping) -> StoredMapping:
    """Computes the tiles of a mapping with their fiber trees and occupancies.

    Raises InvalidMapping if formats do not fit each other or the loops of a tile, FadiffError if Timeloop ends.
    """
    arch, sparse, spaces = design.layer.arch, design.sparse, design.layer.problem.dataspaces
    points = dict.fromkeys(mapping.levels[0].order, 1)
    nest: list[list[NestLoop]] = []
    for number, own in enumerate(mapping.levels):
        loops = [(name, own.spatial[name], "X" if position < own.split else "Y")
                 for position, name in enumerate(own.spatial_order)] if math.prod(arch.fanout(number)) > 1 else []
        nest.append([])
        for name, bound, axis in (*loops, *((name, own.temporal[name], "") for name in own.order)):
            points = points | {name: points[name] * bound}
            nest[-1].append(NestLoop(name, bound, axis, points))
    columns: list[dict[int, StoredTile]] = []
    for space in spaces:
        levels = [level for level, own in enumerate(mapping.levels) if space.name in own.keep]
        column = {level: StoredTile(space.tile_extents(nest[level][-1].points), parent, child,
                                    sparse.levels[level].formats.get(space.name))
                  for level, parent, child in zip(levels, [*levels[1:], None], [None, *levels[:-1]], strict=True)}
        for outer, inner in pairwise(reversed(levels)):
            parent_ranks, ranks = (len(column[level].ranks) if column[level].compressed else 0
                                   for level in (outer, inner))
            if parent_ranks and not ranks and not arch.levels[inner].decompresses:
                raise InvalidMapping(arch.levels[inner].name,
                                     "decompression (from parent level) needed but not supported")
            if parent_ranks and not ranks and space.read_write and not arch.levels[inner].compresses:
                raise InvalidMapping(arch.levels[inner].name, "compression (to parent level) needed but not supported")
            if 0 < parent_ranks < ranks:
                raise InvalidMapping(arch.levels[outer].name,
                                     "runtime partition needed but not supported (NOT IMPLEMENTED YET)")
        columns.append(column)
    for space, column in zip(spaces, columns, strict=True):
        for level in column if sparse.formatted else ():
            _lay_fibers(nest, space, level, column, arch.level_names())
    for t, column in enumerate(columns):
        for tile in column.values():
            if sparse.applied:
                fill(tile, design.models[t],
                     known_empty=tile.parent is not None and column[tile.parent].representation is not None)
            else:
                tile.nonzeros, tile.most_words = float(tile.words), tile.words
    return StoredMapping(design, nest, tuple(columns))


def _lay_fibers(nest: list[list[NestLoop]], space: DataSpace, level: int, column: dict[int, StoredTile],
                names: Sequence[str]) -> None:
    """Assigns the loops of a tile to the ranks of its format; without a format one rank takes all loops.

    Raises InvalidMapping if there are fewer ranks than loops, or inner ranks differ from the child's.
    """
    tile, unit = column[level], (1,) * len(space.ranks)
    boxes: tuple[tuple[int, ...], ...] = (unit,)
    fibers, inside = tuple[int, ...](), 0 if tile.child is None else tile.child + 1
    moved = space.dimensions
    loops = [loop for inner in range(inside, level + 1) for loop in nest[inner] if loop.dim in moved]
    innermost, points = space.tile_extents(loops[0].points) if loops else unit, dict[str, int]()
    if tile.child is not None:
        child = column[tile.child]
        if tile.compressed and child.words > 1:
            kinds, inner_kinds = [rank.kind for rank in tile.ranks], [rank.kind for rank in child.ranks] or [""]
            if len(inner_kinds) > len(kinds) or (child.compressed and inner_kinds != kinds[:len(inner_kinds)]):
                raise InvalidMapping(names[level], f"pretiling for {space.name}required but level compression format "
                                                   f"does not align: {names[level]} {names[tile.child]}")
            boxes, fibers = child.boxes, child.fibers
        else:  # the innermost loop of each dimension also covers the loops of the child and all loops inside it
            points = dict(nest[tile.child][-1].points)
    left = [(loop.dim, bound, loop.points) for loop in loops if (bound := loop.bound * points.pop(loop.dim, 1)) > 1]

    def taken(end: int, rule: tuple[tuple[str, ...], ...] | None) -> int:
        """Takes the loops of one rank from an end of the remaining loops; returns the words they span, 0 for no loop.

        A rank takes a single loop if its rule names no groups of dimensions, and all loops without a rule; else
        neighbouring loops of one group.
        """
        group = None if rule is None else next((own for own in rule if left[end][0] in own), ())
        spanned: dict[str, int] = {}
        while left and (rule == () or group is None or left[end][0] in group):
            dim, bound, _ = left.pop(end)
            spanned[dim] = spanned.get(dim, 1) * bound
            if rule == ():
                break
        return math.prod(space.tile_extents(dict.fromkeys(moved, 1) | spanned)) if spanned else 0

    rules = ([rank.flattened for rank in tile.ranks] if tile.representation else [None])[len(fibers):]
    ranks: list[tuple[int, tuple[int, ...]]] = []  # coordinates of a fiber, and its box
    if tile.representation is None or not tile.representation.inner_to_outer:
        # inner ranks may stay empty; a rank whose rule forbids the loop comes after all others
        while rules and left:
            box, words = space.tile_extents(left[-1][2]), taken(-1, rules.pop())
            ranks = [(words, box), *ranks] if words else [*ranks, (1, innermost)]
        ranks = [(1, innermost)] * len(rules) + ranks
    else:
        while len(ranks) < len(rules) and left:
            box, words = space.tile_extents(left[0][2]), taken(0, rules[len(ranks)])
            ranks.append((words, box) if words else (1, unit))
        ranks += [(1, innermost)] * (len(rules) - len(ranks))
    if left:
        raise InvalidMapping(names[level], "more compression ranks needed than supported in hardware. "
                                           f"dataspace name: {space.name}")
    tile.fibers = (*fibers, *(words for words, _ in ranks))
    tile.boxes = (*boxes, *(box for _, box in ranks))


def fill(tile: StoredTile, model: _kernel.DensityModel, *, known_empty: bool) -> None:
    """Sets the occupancy of a tile: the sum over all numbers of nonzeros that it may have.

    If the parent has a format and a tile may be empty, Timeloop takes the first probability of the list as that of the
    empty tile, even if the list begins with another number of nonzeros. `known_empty`: whether the parent sends no
    empty tiles.
    """
    occupancies, probabilities = model.histogram(tile.box)
    least = model.least(tile.box)
    occupancies, probabilities = occupancies[occupancies >= least], probabilities[occupancies >= least]
    if known_empty and least == 0:
        tile.used = float(1.0 - probabilities[0])
        # with probability 1 (in doubles) of being empty, a tile has no other number of nonzeros
        probabilities = probabilities / tile.used if tile.used > 0 else np.zeros_like(probabilities)
        probabilities[0] = 0.0
    tile.nonzeros, tile.most_words = ordered_sum(probabilities * occupancies), tile.words
    tile.density = tile.nonzeros / tile.words
    if tile.ranks:
        tile.most_words = int(model.most(tile.box))
        units = metadata_units(tile, model, np.append(occupancies, float(tile.most_words)))
        tile.metadata = tuple((ordered_sum(metadata[:-1] * probabilities), ordered_sum(payload[:-1] * probabilities))
                              for metadata, payload in units)
        tile.most_metadata = tuple((float(metadata[-1]), float(payload[-1])) for metadata, payload in units)


def metadata_units(tile: StoredTile, model: _kernel.DensityModel,
                   occupancies: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The units that a tile in a format needs for each number of nonzeros in it, `occupancies` [X].

    Returns units of metadata and of payload, [X] each, by rank, innermost first. The innermost rank with any units has
    no payload: its payloads are the data.
    """
    fibers, nothing = 1, np.zeros(len(occupancies))
    units: list[tuple[np.ndarray, np.ndarray]] = []
    empty = model.empty_within(tile.box, tile.box, occupancies)
    for rank in reversed(range(len(tile.ranks))):
        empty_below = model.empty_within(tile.boxes[rank], tile.box, occupancies)
        units.insert(0, rank_units(tile.ranks[rank].kind, fibers, tile.fibers[rank], empty, empty_below)
                     if tile.counts(rank) else (nothing, nothing))
        fibers, empty = fibers * tile.fibers[rank], empty_below
    innermost = np.ones(len(occupancies), dtype=np.bool_)
    for rank, (metadata, payload) in enumerate(units):
        some = (metadata != 0) | (payload != 0)
        units[rank] = (metadata, np.where(innermost & some, 0.0, payload))
        innermost &= ~some
    return units


def rank_units(kind: str, fibers: int, coordinates: int, empty: np.ndarray,
               empty_below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Units of metadata and payload of one rank, [X] each.

    `fibers` counts empty fibers, too; `empty` and `empty_below` [X] are the probabilities that a fiber and a coordinate
    are empty.
    """
    present, filled = fibers * (1 - empty), coordinates * (1 - empty_below)
    if kind == OFFSET_PAIR:
        return np.zeros(len(empty)), present * (coordinates + 1)
    if kind == RUN_LENGTH:
        return filled * present, filled * present
    if kind == COORDINATE_PAYLOAD:
        return np.ceil(filled) * present, np.ceil(filled) * present
    if kind == BITMASK:
        return present * coordinates, present * np.ceil(filled)
    everything = np.full(len(empty), float(fibers * coordinates))
    return everything, everything


def ordered_sum(values: np.ndarray) -> float:
    """The sum from the first value to the last, whose order decides the last bit; 0 for none."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0
