"""Tiles, the fiber trees in which levels store them, and their occupancies: nonzeros, and units of metadata.

Timeloop's sparse analysis looks at loops one by one: which one is met first, which one is spatial. A format has a fixed
number of ranks, each of which takes one loop, or several that its flattening rule allows; loops of bound 1 are passed
over. Where the level further out is compressed, its tile must consist of the tiles further in (pretiling): its inner
ranks are then those of the child.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.inputs.spec.arch import Architecture
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

Box = tuple[int, ...]
"""Extents of a tile along the ranks of its tensor."""
Units = tuple[float, float]
"""Units of metadata and of payload."""


@dataclass(frozen=True)
class NestLoop:
    """One loop.

    Attributes:
        dim: Its dimension.
        bound: Its factor.
        axis: "X" or "Y" of a spatial loop, "" of a temporal one.
        points: Points of the iterations that this loop and all inside it span, by dimension.
    """

    dim: str
    bound: int
    axis: str
    points: dict[str, int]

    @property
    def trivial(self) -> bool:
        """Whether the loop runs once."""
        return self.bound == 1


CompleteNest = list[list[NestLoop]]
"""The loops of every storage level, bounds of 1 included; innermost level and innermost loop first."""


def complete_nest(mapping: Mapping, arch: Architecture) -> CompleteNest:
    """All loops of a mapping: of each level the spatial ones, where there is a fan-out, then the temporal ones."""
    points = dict.fromkeys(mapping.levels[0].order, 1)
    nest: CompleteNest = []
    for number, level in enumerate(mapping.levels):
        loops = [(name, level.spatial[name], "X" if position < level.split else "Y")
                 for position, name in enumerate(level.spatial_order)] if math.prod(arch.fanout(number)) > 1 else []
        nest.append([])
        for name, bound, axis in (*loops, *((name, level.temporal[name], "") for name in level.order)):
            points = points | {name: points[name] * bound}
            nest[-1].append(NestLoop(name, bound, axis, points))
    return nest


@dataclass(frozen=True)
class FiberTree:
    """The ranks of one tile, innermost first.

    Attributes:
        boxes: One more than ranks: boxes[r] is the box below rank r, boxes[r + 1] the one of its whole fiber.
        fibers: Coordinates of a fiber of each rank.
        inner_to_outer: The order in which loops were given to ranks.
    """

    boxes: tuple[Box, ...]
    fibers: tuple[int, ...]
    inner_to_outer: bool

    def counts(self, rank: int) -> bool:
        """Whether a rank costs anything: ranks of a single coordinate are passed over, except the first given one."""
        return self.fibers[rank] != 1 or rank == (0 if self.inner_to_outer else len(self.fibers) - 1)


@dataclass(frozen=True)
class StoredTile:
    """The tile of a data space at a level that keeps it.

    Attributes:
        box: Its extents along the ranks of the tensor.
        parent: The next level outwards that keeps the data space; None for the outermost.
        child: The next level inwards that keeps it; None where its words go to the arithmetic.
        representation: Its format; None where it is stored plainly.
        tree: Its fibers; None where no level has a format.
    """

    box: Box
    parent: int | None
    child: int | None
    representation: Representation | None = None
    tree: FiberTree | None = None

    @property
    def words(self) -> int:
        """Words of the tile, zeros included."""
        return math.prod(self.box)

    @property
    def ranks(self) -> tuple[RankFormat, ...]:
        """Formats of its ranks, innermost first; none where it is stored plainly."""
        return self.representation.ranks if self.representation else ()

    @property
    def compressed(self) -> bool:
        """Whether its zeros are not stored."""
        return self.representation is not None and self.representation.compressed


Column = dict[int, StoredTile]
"""The tiles of one data space by level, innermost first; levels that bypass it are left out."""


@dataclass(frozen=True)
class Occupancy:
    """The nonzeros and the metadata of one tile.

    Attributes:
        used: Share of the instances that get a tile at all: where the parent knows of empty tiles, it sends none.
        density: Expected nonzeros over the words of the tile; of tiles that are not empty, where empty ones are not
            sent.
        nonzeros: Expected nonzeros.
        metadata: Expected units of every rank, innermost first; none without a format.
        most_words: Words that the tile may need: the largest occupancy, or all words where zeros are stored.
        most_metadata: Units of every rank at the largest occupancy.
    """

    used: float
    density: float
    nonzeros: float
    metadata: tuple[Units, ...]
    most_words: int
    most_metadata: tuple[Units, ...]

    @property
    def metadata_units(self) -> float:
        """Expected units of all ranks together."""
        return ordered_sum(np.array([metadata + payload for metadata, payload in self.metadata]))


@dataclass(frozen=True)
class StoredMapping:
    """One mapping with everything that the steps of the sparse analysis read.

    Attributes:
        design: The layer on its design.
        nest: All loops of the mapping.
        columns: Tiles of every data space, in the order of the problem, by level.
        occupancies: Their occupancies by level.
    """

    design: SparseDesign
    nest: CompleteNest
    columns: tuple[Column, ...]
    occupancies: tuple[dict[int, Occupancy], ...]

    @property
    def spaces(self) -> tuple[DataSpace, ...]:
        """The data spaces."""
        return self.design.layer.problem.dataspaces

    def source(self, dataspace: int, level: int) -> int | None:
        """The first level from `level` outwards that keeps a data space; None where none does."""
        return next((outer for outer in self.columns[dataspace] if outer >= level), None)


def stored_mapping(design: SparseDesign, mapping: Mapping) -> StoredMapping:
    """Lays the tiles of a mapping, their fiber trees and occupancies.

    Raises:
        InvalidMapping: The formats do not suit each other or the loops of a tile.
        FadiffError: Timeloop ends on a tile.
    """
    arch, problem, sparse = design.layer.arch, design.layer.problem, design.sparse
    kept = [[level for level, own in enumerate(mapping.levels) if space.name in own.keep]
            for space in problem.dataspaces]
    formats = [[options.formats.get(space.name) for options in sparse.levels] for space in problem.dataspaces]
    for space, levels, own in zip(problem.dataspaces, kept, formats, strict=True):
        for outer, inner in pairwise(reversed(levels)):
            _check_conversion(arch, (outer, inner), (own[outer], own[inner]), written=space.read_write)
    nest = complete_nest(mapping, arch)
    columns = []
    for space, levels, own in zip(problem.dataspaces, kept, formats, strict=True):
        column: Column = {}
        for i, level in enumerate(levels):
            parent, child = levels[i + 1] if i + 1 < len(levels) else None, levels[i - 1] if i else None
            tile = StoredTile(space.tile_extents(nest[level][-1].points), parent, child, own[level])
            column[level] = replace(tile, tree=_fiber_tree(nest, space, level, tile, column, arch)) if (
                sparse.formatted) else tile
        columns.append(column)
    occupancies = tuple({level: occupancy(tile, design.models[t], known_empty=(
        tile.parent is not None and column[tile.parent].representation is not None)) if sparse.applied else Occupancy(
            1.0, 1.0, float(tile.words), (), tile.words, ()) for level, tile in column.items()}
        for t, column in enumerate(columns))
    return StoredMapping(design, nest, tuple(columns), occupancies)


def _check_conversion(arch: Architecture, levels: tuple[int, int],
                      formats: tuple[Representation | None, Representation | None], *, written: bool) -> None:
    """Whether a level can do the (de)compression that its format and its parent's ask for; `levels`: (outer, inner)."""
    outer, inner = (arch.levels[level] for level in levels)
    parent, own = (len(format_.ranks) if format_ and format_.compressed else 0 for format_ in formats)
    if parent and not own and not inner.decompresses:
        raise InvalidMapping(inner.name, "decompression (from parent level) needed but not supported")
    if written and parent and not own and not inner.compresses:
        raise InvalidMapping(inner.name, "compression (to parent level) needed but not supported")
    if 0 < parent < own:
        raise InvalidMapping(outer.name, "runtime partition needed but not supported (NOT IMPLEMENTED YET)")


def _fiber_tree(nest: CompleteNest, space: DataSpace, level: int, tile: StoredTile, column: Column,
                arch: Architecture) -> FiberTree:
    """Gives the loops of a tile to the ranks of its format; without a format one rank takes all loops.

    Args:
        nest: All loops.
        space: The data space.
        level: The level that keeps the tile.
        tile: The tile.
        column: The tiles further in, with their trees.
        arch: Names of the levels.

    Raises:
        InvalidMapping: There are fewer ranks than loops, or inner ranks are not those of the child.
    """
    child = None if tile.child is None else column[tile.child]
    given: list[FiberTree] = []
    if tile.compressed and child is not None and tile.child is not None and child.words > 1:
        own, inner = [rank.kind for rank in tile.ranks], [rank.kind for rank in child.ranks] or [""]
        if len(inner) > len(own) or (child.compressed and inner != own[:len(inner)]):
            raise InvalidMapping(arch.levels[level].name,
                                 f"pretiling for {space.name}required but level compression format does not align: "
                                 f"{arch.levels[level].name} {arch.levels[tile.child].name}")
        assert child.tree is not None
        given = [child.tree]
    inside = 0 if tile.child is None else tile.child + 1
    loops = [loop for inner in range(inside, level + 1) for loop in nest[inner] if loop.dim in space.dimensions]
    boxes = [space.tile_extents(loop.points) for loop in loops]
    unit = (1,) * len(space.ranks)
    innermost = boxes[0] if boxes else unit
    if not given and inside:
        # the innermost loop of each dimension stands for the loops of the child and everything inside it, too
        points = dict(nest[inside - 1][-1].points)
        loops = [replace(loop, bound=loop.bound * points.pop(loop.dim, 1)) for loop in loops]
    left = [(loop.dim, loop.bound, box) for loop, box in zip(loops, boxes, strict=True) if not loop.trivial]
    rules = [rank.flattened for rank in tile.ranks] if tile.representation else [None]
    rules = rules[len(given[0].fibers) if given else 0:]
    outermost_first = tile.representation is None or not tile.representation.inner_to_outer
    ranks: list[tuple[int, Box]] = []  # coordinates of a fiber, and its box
    rank = len(rules)
    if outermost_first:  # inner ranks may stay empty; one whose rule forbids the loop is listed behind all others
        while rank and left:
            rank -= 1
            box, words = left[-1][2], _taken(left, -1, rules[rank], space)
            ranks = [(words, box), *ranks] if words else [*ranks, (1, innermost)]
        ranks = [(1, innermost)] * rank + ranks
    else:
        while len(ranks) < len(rules) and left:
            box, words = left[0][2], _taken(left, 0, rules[len(ranks)], space)
            ranks.append((words, box) if words else (1, unit))
        ranks += [(1, innermost)] * (len(rules) - len(ranks))
    if left:
        raise InvalidMapping(arch.levels[level].name, "more compression ranks needed than supported in hardware. "
                             f"dataspace name: {space.name}")
    return FiberTree((*(given[0].boxes if given else (unit,)), *(box for _, box in ranks)),
                     (*(given[0].fibers if given else ()), *(words for words, _ in ranks)), not outermost_first)


def _taken(left: list[tuple[str, int, Box]], end: int, rule: tuple[tuple[str, ...], ...] | None,
           space: DataSpace) -> int:
    """Takes the loops of one rank from an end of those that are left; returns the words that they span, 0 for none.

    A rank takes a single loop where its rule names no groups of dimensions, all loops without a rule; else those next
    to each other of one group.
    """
    group = None if rule is None else next((own for own in rule if left[end][0] in own), ())
    single = rule == ()
    points: dict[str, int] = {}
    while left and (single or group is None or left[end][0] in group):
        dim, bound, _ = left.pop(end)
        points[dim] = points.get(dim, 1) * bound
        if single:
            break
    return math.prod(space.tile_extents(dict.fromkeys(space.dimensions, 1) | points)) if points else 0


def occupancy(tile: StoredTile, model: _kernel.DensityModel, *, known_empty: bool) -> Occupancy:
    """The occupancy of one tile: the sum over all numbers of nonzeros that it may have.

    Where the parent has a format and a tile may be empty, the first probability of the list is taken for that of
    the empty tile, as Timeloop does, even where the list begins with another number of nonzeros.

    Args:
        tile: The tile with its tree.
        model: Density of the data space.
        known_empty: Whether the parent sends no empty tiles.
    """
    occupancies, probabilities = model.histogram(tile.box)
    least = model.least(tile.box)
    occupancies, probabilities = occupancies[occupancies >= least], probabilities[occupancies >= least]
    used = 1.0
    if known_empty and least == 0:
        used = float(1.0 - probabilities[0])
        # a tile that is always empty, as far as doubles tell, has no other number of nonzeros
        probabilities = probabilities / used if used > 0 else np.zeros_like(probabilities)
        probabilities[0] = 0.0
    nonzeros = ordered_sum(probabilities * occupancies)
    if not tile.ranks:
        return Occupancy(used, nonzeros / tile.words, nonzeros, (), tile.words, ())
    most = int(model.most(tile.box))
    expected = tuple((ordered_sum(metadata * probabilities), ordered_sum(payload * probabilities))
                     for metadata, payload in metadata_units(tile, model, occupancies))
    largest = tuple((float(metadata[0]), float(payload[0]))
                    for metadata, payload in metadata_units(tile, model, np.array([float(most)])))
    return Occupancy(used, nonzeros / tile.words, nonzeros, expected, most, largest)


def metadata_units(tile: StoredTile, model: _kernel.DensityModel,
                   occupancies: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The units that a tile in a format needs for each number of nonzeros in it.

    Args:
        tile: The tile with its tree.
        model: Density of the data space.
        occupancies: [X]. Nonzeros of the tile.

    Returns:
        For each rank, innermost first, units of metadata and of payload, [X] each. The innermost rank with any units
        has no payload: its payloads are the data.
    """
    assert tile.tree is not None
    fibers, nothing = 1, np.zeros(len(occupancies))
    units: list[tuple[np.ndarray, np.ndarray]] = []
    empty = model.empty_within(tile.box, tile.box, occupancies)
    for rank in reversed(range(len(tile.ranks))):
        coordinates = tile.tree.fibers[rank]
        empty_below = model.empty_within(tile.tree.boxes[rank], tile.box, occupancies)
        units.insert(0, rank_units(tile.ranks[rank].kind, fibers, coordinates, empty, empty_below)
                     if tile.tree.counts(rank) else (nothing, nothing))
        fibers, empty = fibers * coordinates, empty_below
    innermost = np.ones(len(occupancies), dtype=np.bool_)
    for rank, (metadata, payload) in enumerate(units):
        filled = (metadata != 0) | (payload != 0)
        units[rank] = (metadata, np.where(innermost & filled, 0.0, payload))
        innermost &= ~filled
    return units


def rank_units(kind: str, fibers: int, coordinates: int, empty: np.ndarray,
               empty_below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Units of metadata and payload of one rank, [X] each.

    Args:
        kind: Its format.
        fibers: Fibers of the rank, empty ones included.
        coordinates: Coordinates of a fiber.
        empty: [X]. Probability that a fiber is empty.
        empty_below: [X]. Probability that a coordinate is empty.
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


def metadata_bits(tile: StoredTile, units: tuple[Units, ...]) -> int:
    """Bits that units of all ranks of a tile take, rounded up; 0 without a format."""
    return math.ceil(ordered_sum(np.array([
        metadata * rank.metadata_bits + payload * rank.payload_bits
        for rank, (metadata, payload) in zip(tile.ranks, units, strict=True)])))


def ordered_sum(values: np.ndarray) -> float:
    """The sum from the first value to the last, whose order decides the last bit; 0 for none."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0
