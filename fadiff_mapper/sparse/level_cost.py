"""Vector accesses, energy, bandwidth and cycles of storage levels, from accesses that happen, are gated or skipped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.sparse.action_energies import KINDS, StorageEnergies
from fadiff_mapper.sparse.banded_matrix import Box
from fadiff_mapper.sparse.density_models import WRAP, DensityModel, ordered_sum
from fadiff_mapper.sparse.instances import UsedInstances
from fadiff_mapper.sparse.saved_accesses import MetadataSplit, Pair, TileAccesses
from fadiff_mapper.sparse.stored_tiles import StoredTile
from fadiff_mapper.sparse.tile_occupancy import Occupancy
from fadiff_mapper.spec.arch import StorageLevel

VECTOR_THRESHOLDS = {
    2: (251, 125, 84, 63, 51, 42, 36, 32, 28, 1), 4: (375, 188, 125, 94, 75, 63, 54, 47, 42, 1),
    8: (438, 219, 146, 110, 88, 73, 63, 55, 49, 1), 16: (469, 235, 157, 118, 94, 79, 67, 59, 52, 1),
    32: (485, 243, 162, 122, 97, 81, 70, 61, 52, 1)}
"""Words per vector access -> blocks of a tile from which on compressed words are taken to fill their blocks, for
densities from 0.1, 0.2, ..., 1.0 on: Timeloop's table. Smaller tiles are summed up occupancy by occupancy."""


@dataclass(frozen=True)
class TileCost:
    """Cost of the accesses of one data space at one level.

    Attributes:
        energy: pJ per instance in use.
        read: Words per cycle and instance that are asked for, metadata included.
        write: The same for fills and updates.
        format_shares: Shares of metadata in reads and writes together, in reads, in writes.
        clusters: Clusters in use.
        addresses: Addresses generated per cluster.
    """

    energy: float
    read: float
    write: float
    format_shares: tuple[float, float, float]
    clusters: int
    addresses: int


@dataclass(frozen=True)
class Stored:
    """A data space at a level, with everything that its cost depends on."""

    level: StorageLevel
    tile: StoredTile
    occupancy: Occupancy
    model: DensityModel | None
    accesses: TileAccesses
    instances: UsedInstances
    written: bool


def tile_cost(stored: Stored, energies: StorageEnergies, compute_cycles: int, scale: float) -> TileCost:
    """The cost of one data space at one level.

    Args:
        stored: The data space at the level.
        energies: pJ of the level's actions.
        compute_cycles: Cycles over which accesses spread.
        scale: Factor on the bandwidth that the data space asks for.

    Raises:
        FadiffError: Timeloop aborts on the block size of a compressed tile.
    """
    clusters = min(stored.instances.most, stored.level.instances // stored.level.cluster_size)
    energy = _cluster_energy(stored, energies)
    energy = energy / (stored.instances.most / clusters) if stored.instances.average > 0 and clusters else 0.0
    read, write, shares = _bandwidth(stored, compute_cycles, scale)
    accesses = stored.accesses
    from_inside = accesses.updates if stored.written else accesses.reads
    return TileCost(energy, read, write, shares, clusters, (from_inside.busy + accesses.fills.busy) % WRAP)


def _cluster_energy(stored: Stored, energies: StorageEnergies) -> float:
    """pJ of all actions of one cluster, added up in Timeloop's order."""
    accesses, block = stored.accesses, stored.level.block_size
    ratio = _block_ratio(stored)
    splits = (("read", accesses.reads), ("fill", accesses.fills), ("update", accesses.updates))
    energy = 0.0
    for kind in KINDS:
        for access, split in splits:
            words = getattr(split, kind)
            if words:
                energy += -(-words // block) * ratio * energies.data[kind, access]
    for access, formats in () if stored.tile.representation is None else (
            ("read", accesses.format_reads), ("fill", accesses.format_fills), ("update", accesses.format_updates)):
        for kind in KINDS:
            bits = format_bits(stored, formats, kind)
            lines = math.ceil(bits / stored.level.metadata.width) if stored.level.metadata.width else 0
            energy += lines * energies.metadata[kind, access]
    energy += accesses.decompressions * energies.decompression
    return energy + accesses.compressions * energies.compression


def _block_ratio(stored: Stored) -> float:
    """The `block_ratio` of a data space; 1 where it is stored plainly."""
    if not stored.tile.compressed:
        return 1.0
    assert stored.model is not None
    return block_ratio(stored.level, stored.tile.box, stored.occupancy.density, stored.model)


def block_ratio(level: StorageLevel, box: Box, density: float, model: DensityModel) -> float:
    """Vector accesses per compressed tile over those of words that fill their blocks.

    Args:
        level: The level.
        box: The box of the tile.
        density: Its expected density.
        model: Density of the data space.

    Returns:
        The ratio; 1 where nonzeros are taken to fill their blocks.

    Raises:
        FadiffError: Timeloop aborts on the block size of a compressed tile.
    """
    block, words = level.block_size, math.prod(box)
    if block <= 1 or not density < 1.0:
        return 1.0
    if block not in VECTOR_THRESHOLDS:
        raise FadiffError(f'Timeloop aborts: "{level.name}" stores compressed data in blocks of {block} words; '
                          f"accepted: {', '.join(map(str, VECTOR_THRESHOLDS))}, or 1")
    tenth = math.floor(density / 0.1) - 1 if density >= 0.1 else 0
    if VECTOR_THRESHOLDS[block][tenth] <= words // block:
        return 1.0
    occupancies, probabilities = model.histogram(box)
    nonzero = occupancies > 0
    total = ordered_sum(np.ceil(occupancies[nonzero] / block) * probabilities[nonzero])
    naive = words * density / block
    return total / naive if naive else math.nan


def format_bits(stored: Stored, formats: MetadataSplit, kind: str) -> int:
    """Bits of metadata that accesses of one kind touch."""
    if not stored.level.metadata.width or stored.tile.representation is None:
        return 0
    ranks, tree = stored.tile.representation.ranks, stored.tile.tree
    assert tree is not None
    units: tuple[Pair, ...] = getattr(formats, kind)
    return sum(rank.metadata_bits * metadata + rank.payload_bits * payload
               for number, (rank, (metadata, payload)) in enumerate(zip(ranks, units, strict=True))
               if tree.counts(number)) % WRAP


def _bandwidth(stored: Stored, compute_cycles: int, scale: float) -> tuple[float, float, tuple[float, float, float]]:
    """Words per cycle and instance read and written, and the shares of metadata in them.

    Metadata count in words of data, cut off. An instance that is used part of the time asks for less.
    """
    accesses, word = stored.accesses, stored.level.word_bits
    bits_read = _busy_bits(stored, accesses.format_reads)
    bits_written = (_busy_bits(stored, accesses.format_fills) + _busy_bits(stored, accesses.format_updates)) % WRAP
    read = (accesses.reads.busy + bits_read // word) % WRAP
    written = (accesses.fills.busy + accesses.updates.busy + bits_written // word) % WRAP
    shares = (_share((bits_read + bits_written) // word, read + written), _share(bits_read // word, read),
              _share(bits_written // word, written))
    average = stored.instances.average
    if average <= 0:
        return 0.0, 0.0, shares
    spread = stored.instances.most / average
    if not spread or not compute_cycles:
        raise FadiffError("Timeloop divides by 0 on this mapping: no instances or no computes are left")
    return (math.ceil(read / spread) / compute_cycles * scale, math.ceil(written / spread) / compute_cycles * scale,
            shares)


def _busy_bits(stored: Stored, formats: MetadataSplit) -> int:
    return (format_bits(stored, formats, "actual") + format_bits(stored, formats, "gated")) % WRAP


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def slowdown(level: StorageLevel, costs: list[TileCost]) -> float:
    """The share of the asked bandwidth that a level can give, at most 1."""
    read = write = 0.0
    for cost in costs:
        read += cost.read
        write += cost.write
    result = 1.0
    for limit, asked in ((level.read_bandwidth, read), (level.write_bandwidth, write),
                         (level.shared_bandwidth, write + read)):
        if limit is not None and limit < asked:
            result = min(result, limit / asked)
    return result
