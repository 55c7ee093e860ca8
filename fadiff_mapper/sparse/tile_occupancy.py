"""Expected and largest occupancies of tiles: nonzeros, and units of metadata in every rank of their formats."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fadiff_mapper.sparse.banded_matrix import Box
from fadiff_mapper.sparse.density_models import DensityModel, ordered_sum
from fadiff_mapper.sparse.fiber_tree import FiberTree
from fadiff_mapper.sparse.stored_tiles import Column, StoredTile
from fadiff_mapper.spec.sparse_optimizations import (
    BITMASK,
    COORDINATE_PAYLOAD,
    OFFSET_PAIR,
    RUN_LENGTH,
    RankFormat,
    Representation,
)

Units = tuple[float, float]
"""Units of metadata and of payload."""


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


def dense_occupancy(tile: StoredTile) -> Occupancy:
    """The occupancy that Timeloop assumes where the input names no optimization."""
    return Occupancy(1.0, 1.0, float(tile.words), (), tile.words, ())


def expected_occupancy(tile: StoredTile, column: Column, model: DensityModel) -> Occupancy:
    """The occupancy of one tile: the sum over all numbers of nonzeros that it may have.

    Where the parent has a format and a tile may be empty, the first probability of the list is taken for that of
    the empty tile, as Timeloop does, even where the list begins with another number of nonzeros.

    Args:
        tile: The tile.
        column: The tiles of the same data space.
        model: Its density model.
    """
    known_empty = tile.parent is not None and column[tile.parent].has_metadata
    return occupancy_of(tile.box, known_empty, tile.representation, tile.tree, model)


@lru_cache(maxsize=1 << 16)  # a search meets the same tiles again and again
def occupancy_of(box: Box, known_empty: bool, representation: Representation | None, tree: FiberTree | None,
                 model: DensityModel) -> Occupancy:
    """The occupancy of one tile by all that it depends on.

    Args:
        box: The box of the tile.
        known_empty: Whether the parent sends no empty tiles.
        representation: Its format; None where it is stored plainly.
        tree: Its fibers.
        model: Density of the data space.
    """
    words = math.prod(box)
    occupancies, probabilities = model.histogram(box)
    least = model.least(box)
    if least:
        occupancies, probabilities = occupancies[occupancies >= least], probabilities[occupancies >= least]
    used = 1.0
    if known_empty and least == 0:
        used = 1.0 - probabilities[0]
        # a tile that is always empty, as far as doubles tell, has no other number of nonzeros
        probabilities = probabilities / used if used > 0 else np.zeros_like(probabilities)
        probabilities[0] = 0.0
    nonzeros = ordered_sum(probabilities * occupancies)
    if representation is None or tree is None:
        return Occupancy(float(used), nonzeros / words, nonzeros, (), words, ())
    most = model.most(box)
    units = metadata_units(representation, tree, box, model, occupancies)
    expected = tuple((ordered_sum(metadata * probabilities), ordered_sum(payload * probabilities))
                     for metadata, payload in units)
    largest = metadata_units(representation, tree, box, model, np.array([most]))
    return Occupancy(float(used), nonzeros / words, nonzeros, expected, most,
                     tuple((float(metadata[0]), float(payload[0])) for metadata, payload in largest))


def metadata_units(representation: Representation, tree: FiberTree, tile: Box, model: DensityModel,
                   occupancies: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The units that a tile needs for each number of nonzeros in it.

    Args:
        representation: The format.
        tree: The fibers of the tile.
        tile: The box of the tile.
        model: Density of the data space.
        occupancies: [X]. Nonzeros of the tile.

    Returns:
        For each rank, innermost first, units of metadata and of payload, [X] each. The innermost rank with any units
        has no payload: its payloads are the data.
    """
    fibers = 1
    units: list[tuple[np.ndarray, np.ndarray]] = []
    empty = model.empty_within(tile, tile, occupancies)
    for rank in reversed(range(len(representation.ranks))):
        coordinates = tree.fibers[rank]
        empty_below = model.empty_within(tree.boxes[rank], tile, occupancies)
        if tree.counts(rank):
            units.insert(0, _rank_units(representation.ranks[rank], fibers, coordinates, empty, empty_below))
        else:
            units.insert(0, (np.zeros(len(occupancies)), np.zeros(len(occupancies))))
        fibers *= coordinates
        empty = empty_below
    innermost = np.ones(len(occupancies), dtype=np.bool_)
    for rank, (metadata, payload) in enumerate(units):
        filled = (metadata != 0) | (payload != 0)
        units[rank] = (metadata, np.where(innermost & filled, 0.0, payload))
        innermost &= ~filled
    return units


def _rank_units(rank: RankFormat, fibers: int, coordinates: int, empty: np.ndarray,
                empty_below: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Units of metadata and payload of one rank, [X] each.

    Args:
        rank: Its format.
        fibers: Fibers of the rank, empty ones included.
        coordinates: Coordinates of a fiber.
        empty: [X]. Probability that a fiber is empty.
        empty_below: [X]. Probability that a coordinate is empty.
    """
    present = fibers * (1 - empty)
    filled = coordinates * (1 - empty_below)
    if rank.kind == OFFSET_PAIR:
        return np.zeros(len(empty)), present * (coordinates + 1)
    if rank.kind == RUN_LENGTH:
        return filled * present, filled * present
    if rank.kind == COORDINATE_PAYLOAD:
        return np.ceil(filled) * present, np.ceil(filled) * present
    if rank.kind == BITMASK:
        return present * coordinates, present * np.ceil(filled)
    everything = np.full(len(empty), float(fibers * coordinates))
    return everything, everything


def metadata_bits(representation: Representation | None, tree: FiberTree | None, units: tuple[Units, ...]) -> int:
    """Bits that units of all ranks take, rounded up.

    Args:
        representation: The format; None where there is no metadata.
        tree: The fibers; ranks that cost nothing have no width either.
        units: Units of every rank.
    """
    if representation is None or tree is None:
        return 0
    return math.ceil(ordered_sum(np.array([
        metadata * rank.metadata_bits + payload * rank.payload_bits
        for rank, (metadata, payload) in zip(representation.ranks, units, strict=True)])))
