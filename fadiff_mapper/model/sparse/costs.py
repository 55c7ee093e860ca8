"""Vector accesses, energy, bandwidth and limits of storage levels, from accesses that happen, are gated or skipped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.legality import LegalityCheck, rejection, violations
from fadiff_mapper.model.sparse.accesses import WRAP, AccessSplit, TileAccesses
from fadiff_mapper.model.sparse.design import ACCESSES, KINDS, StorageEnergies
from fadiff_mapper.model.sparse.formats import Occupancy, StoredTile, metadata_bits, ordered_sum
from fadiff_mapper.model.sparse.instances import UsedInstances

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
class StoredSpace:
    """A data space at a level, with everything that its cost depends on; the model is None where none is applied."""

    level: StorageLevel
    tile: StoredTile
    occupancy: Occupancy
    model: _kernel.DensityModel | None
    accesses: TileAccesses
    instances: UsedInstances
    written: bool


def tile_cost(stored: StoredSpace, energies: StorageEnergies, compute_cycles: int, scale: float) -> TileCost:
    """The cost of one data space at one level.

    Metadata count in words of data, cut off. An instance that is used part of the time asks for less.

    Args:
        stored: The data space at the level.
        energies: pJ of the level's actions.
        compute_cycles: Cycles over which accesses spread.
        scale: Factor on the bandwidth that the data space asks for.

    Raises:
        FadiffError: Timeloop aborts on the block size of a compressed tile, or divides by 0.
    """
    accesses, instances, word = stored.accesses, stored.instances, stored.level.word_bits
    clusters = min(instances.most, stored.level.instances // stored.level.cluster_size)
    energy = _cluster_energy(stored, energies)
    energy = energy / (instances.most / clusters) if instances.average > 0 and clusters else 0.0
    bits_read, bits_filled, bits_updated = (
        sum(format_bits(stored, split, kind) for kind in ("actual", "gated")) % WRAP
        for split in (accesses.reads, accesses.fills, accesses.updates))
    bits_written = (bits_filled + bits_updated) % WRAP
    read = (accesses.reads.busy + bits_read // word) % WRAP
    written = (accesses.fills.busy + accesses.updates.busy + bits_written // word) % WRAP
    shares = (_ratio((bits_read + bits_written) // word, read + written), _ratio(bits_read // word, read),
              _ratio(bits_written // word, written))

    def asked(words: int) -> float:
        """Words per cycle."""
        if instances.average <= 0:
            return 0.0
        spread = instances.most / instances.average
        if not spread or not compute_cycles:
            raise FadiffError("Timeloop divides by 0 on this mapping: no instances or no computes are left")
        return math.ceil(words / spread) / compute_cycles * scale

    from_inside = accesses.updates if stored.written else accesses.reads
    return TileCost(energy, asked(read), asked(written), shares, clusters,
                    (from_inside.busy + accesses.fills.busy) % WRAP)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _cluster_energy(stored: StoredSpace, energies: StorageEnergies) -> float:
    """pJ of all actions of one cluster, added up in Timeloop's order."""
    accesses, ratio = stored.accesses, block_ratio(stored)
    splits = dict(zip(ACCESSES, (accesses.reads, accesses.fills, accesses.updates), strict=True))
    energy = 0.0
    for kind in KINDS:
        for access, split in splits.items():
            if split.words[kind]:
                energy += -(-split.words[kind] // stored.level.block_size) * ratio * energies.data[kind, access]
    for access, split in splits.items():
        for kind in KINDS if stored.level.metadata.width else ():
            lines = math.ceil(format_bits(stored, split, kind) / stored.level.metadata.width)
            energy += lines * energies.metadata[kind, access]
    energy += accesses.decompressions * energies.decompression
    return energy + accesses.compressions * energies.compression


def block_ratio(stored: StoredSpace) -> float:
    """Vector accesses per compressed tile over those of words that fill their blocks.

    Returns:
        The ratio; 1 where nonzeros are taken to fill their blocks, or the tile is stored plainly.

    Raises:
        FadiffError: Timeloop aborts on the block size of a compressed tile.
    """
    block, words, density = stored.level.block_size, stored.tile.words, stored.occupancy.density
    if not stored.tile.compressed or stored.model is None or block <= 1 or not density < 1.0:
        return 1.0
    if block not in VECTOR_THRESHOLDS:
        raise FadiffError(f'Timeloop aborts: "{stored.level.name}" stores compressed data in blocks of {block} words; '
                          f"accepted: {', '.join(map(str, VECTOR_THRESHOLDS))}, or 1")
    tenth = math.floor(density / 0.1) - 1 if density >= 0.1 else 0
    if VECTOR_THRESHOLDS[block][tenth] <= words // block:
        return 1.0
    occupancies, probabilities = stored.model.histogram(stored.tile.box)
    total = ordered_sum(np.ceil(occupancies / block) * probabilities)
    naive = words * density / block
    return total / naive if naive else math.nan


def format_bits(stored: StoredSpace, split: AccessSplit, kind: str) -> int:
    """Bits of metadata that accesses of one kind touch."""
    tree = stored.tile.tree
    if not stored.level.metadata.width or tree is None:
        return 0
    return sum(rank.metadata_bits * metadata + rank.payload_bits * payload
               for number, (rank, (metadata, payload)) in enumerate(
                   zip(stored.tile.ranks, split.metadata[kind], strict=True)) if tree.counts(number)) % WRAP


def check_arithmetic(arithmetic: Arithmetic, use: UsedInstances) -> None:
    """Raises InvalidMapping where there are fewer units than the mapping needs."""
    _raise_broken(arithmetic.name, [("arithmetic", use.most, arithmetic.instances),
                                    ("arithmetic x", use.x, arithmetic.mesh_x),
                                    ("arithmetic y", use.y, arithmetic.mesh_y)])


def check_level(level: StorageLevel, stored: Sequence[StoredSpace], use: Sequence[UsedInstances]) -> None:
    """Checks one storage level. Tiles count with their largest occupancy; a level with a size has a limit of metadata,
    too.

    Args:
        level: The level.
        stored: The data spaces that it keeps.
        use: Its instances in use for every data space, kept or not.

    Raises:
        InvalidMapping: The level is too small.
    """
    limits: list[tuple[str, float, float]] = []
    if level.usable is not None:
        words = sum(one.occupancy.most_words for one in stored)
        bits = sum(metadata_bits(one.tile, one.occupancy.most_metadata) for one in stored)
        limits = [("capacity", words, level.usable), ("metadata", bits, level.usable_metadata_bits),
                  ("utilization", -words, -level.usable * level.min_utilization)]  # at least as many
    _raise_broken(level.name, [*limits, ("instances", max(one.average for one in use), level.instances),
                               ("x", max(one.x for one in use), level.mesh_x),
                               ("y", max(one.y for one in use), level.mesh_y)])


def _raise_broken(name: str, limits: Sequence[tuple[str, float, float]]) -> None:
    """Raises InvalidMapping with Timeloop's sentences on the limits (key, amount, most) that are exceeded."""
    broken = violations([LegalityCheck(key, name, np.array([abs(amount)]), abs(most), np.array([amount > most]))
                         for key, amount, most in limits], 0)
    if broken:
        raise rejection(broken)
