"""The evaluation of one mapping on a sparse design, from its dense evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.energy_latency import slowdown
from fadiff_mapper.model.evaluate import Evaluation
from fadiff_mapper.model.legality import NOWHERE, LegalityCheck, rejection, violations
from fadiff_mapper.model.sparse_design import ACCESSES, KINDS, SparseDesign, StorageEnergies, millionths
from fadiff_mapper.model.sparse_savings import InstanceUse, Saving, UsedInstances, instance_use, read_savings
from fadiff_mapper.model.sparse_tiles import (
    Column,
    Occupancy,
    StoredMapping,
    StoredTile,
    metadata_bits,
    ordered_sum,
    stored_mapping,
)

WRAP = 2 ** 64
"""Timeloop counts in whole numbers of 64 bits without sign; the processor makes 0 of a double beyond them."""
TOLERANCE = 0.00001
"""By how much Timeloop lets a probability leave [0, 1]."""

Pair = tuple[int, int]
"""Accesses to metadata and to payloads of one rank."""


@dataclass(frozen=True)
class AccessSplit:
    """Reads, fills or updates over the whole run, per instance, by kind: actual (those that happen), gated, skipped.

    Attributes:
        words: Words.
        metadata: Accesses to the metadata of every rank, innermost rank first; none without a format.
    """

    words: dict[str, int]
    metadata: dict[str, tuple[Pair, ...]]

    @property
    def busy(self) -> int:
        """Accesses that take a cycle: actual and gated ones."""
        return (self.words["actual"] + self.words["gated"]) % WRAP


@dataclass(frozen=True)
class TileAccesses:
    """All accesses of a data space at one level.

    Attributes:
        reads: Words read.
        fills: Words written from outside.
        updates: Words written from inside.
        temporal_reductions: Sums of a word that arrives and one that is there.
        compressions: Words that are compressed on their way outwards.
        decompressions: Words that are decompressed on their way in.
        wrapped: Whether some count is negative.
    """

    reads: AccessSplit
    fills: AccessSplit
    updates: AccessSplit
    temporal_reductions: int
    compressions: int = 0
    decompressions: int = 0
    wrapped: bool = False


@dataclass(frozen=True)
class DenseCounts:
    """Dense counts of a data space at one level, and the metadata that they would touch without savings."""

    reads: int
    fills: int
    updates: int
    temporal_reductions: int
    format_reads: tuple[Pair, ...] = ()
    format_fills: tuple[Pair, ...] = ()
    format_updates: tuple[Pair, ...] = ()


@dataclass
class _Left:
    """The accesses of one level that are left while savings of outer levels are taken off."""

    reads: float
    fills: float
    updates: float
    format_reads: list[Pair]
    format_fills: list[Pair]
    format_updates: list[Pair]


def unsigned(value: float) -> int:
    """A double as the compiler makes a whole number of 64 bits without sign of it.

    Raises:
        FadiffError: The value is no number.
    """
    if not math.isfinite(value):
        raise FadiffError("Timeloop's counts are undefined here: a probability is no number, as where every tile of a "
                          "tensor is full and its level takes that for the share of empty tiles")
    return int(value) % WRAP


def saved_accesses(counts: dict[int, DenseCounts], column: Column, densities: dict[int, float],
                   savings: dict[int, Saving], skipped: dict[int, float], *,
                   written: bool) -> tuple[dict[int, TileAccesses], float | None]:
    """The accesses of one data space.

    A saving at a level takes away what all levels inside it would have done for the same words, up to the next level
    that saves by itself. Such a level saves only what is left for it to save: 1 - (1 - own) / (1 - outer).

    Args:
        counts: Dense counts of the levels that keep the data space.
        column: Its tiles.
        densities: Expected density of the tiles with a format.
        savings: Accesses that levels gate or skip.
        skipped: Share of the instances that levels skip.
        written: Whether the data space is an output.

    Returns:
        (accesses by level; the share that the innermost saving level saves, which reaches the computes, None without)

    Raises:
        FadiffError: Timeloop aborts, or its numbers are undefined.
    """
    left = {level: _before_savings(count, densities.get(level), written=written) for level, count in counts.items()}
    done: dict[int, TileAccesses] = {}
    share = None
    saving = sorted({*savings, *skipped}, reverse=True)
    for level, inner in zip(saving, [*saving[1:], -1], strict=False):
        if level in skipped and level in savings and savings[level].probability != 0:
            raise FadiffError("Timeloop aborts: it does not support applying spatial and temporal skipping at the "
                              "same time to one data space at one level")
        share = skipped[level] if level in skipped else savings[level].probability
        for other in (other for other in left if inner <= other < level):
            _take_off(left[other], share, len(left[level].format_reads) if level in left else 0)
        if inner in left and inner in savings and inner not in skipped:
            own = savings[inner]
            rest = 1 - (1 - own.probability) / (1 - share) if share != 1 else math.nan
            done.setdefault(inner, _split(counts[inner], left[inner], column, inner, Saving(own.kind, rest),
                                          written=written, below_another=True))
        if level not in done and level in left and level not in skipped:
            done[level] = _split(counts[level], left[level], column, level, savings[level], written=written,
                                 below_another=False)
    for level, count in counts.items():
        if level not in done:
            updates, reductions = unsigned(left[level].updates), count.temporal_reductions
            # With an option that saves nothing as the level skips instances they stay the dense ones, in Timeloop by a
            # case that it leaves out.
            if level not in savings:
                reductions = math.ceil(reductions * float(updates) / count.updates) if count.updates else 0
            done[level] = TileAccesses(
                _unsplit(left[level].reads, left[level].format_reads),
                _unsplit(left[level].fills, left[level].format_fills),
                _unsplit(updates, left[level].format_updates), reductions)
    return _with_conversions(done, column, written=written), share


def _before_savings(count: DenseCounts, density: float | None, *, written: bool) -> _Left:
    def nonzero(words: int) -> float:
        """A density a last digit above 1 adds one access (a fault of Timeloop's)."""
        if density is None:
            return float(words)
        sparsity = 1 - density
        return float(unsigned(words - math.floor(words * sparsity) if math.isfinite(sparsity) else sparsity))

    return _Left(nonzero(count.reads), nonzero(count.fills),
                 nonzero(count.updates) if written else float(count.updates), list(count.format_reads),
                 list(count.format_fills), list(count.format_updates))


def _take_off(left: _Left, probability: float, ranks_outside: int) -> None:
    """Takes the savings of an outer level off; of metadata only rank 0, and only below a format of one rank."""
    left.fills -= math.floor(left.fills * probability)
    left.reads -= math.floor(left.reads * probability)
    left.updates -= math.floor(left.updates * probability)
    if ranks_outside == 1 and left.format_reads:
        for ranks in (left.format_fills, left.format_reads):
            metadata, payload = (unsigned(count - math.floor(count * probability)) for count in ranks[0])
            ranks[0] = metadata, payload


def _split(count: DenseCounts, left: _Left, column: Column, level: int, saving: Saving, *, written: bool,
           below_another: bool) -> TileAccesses:
    """The accesses of a level that saves some."""
    p = saving.probability
    if not math.isfinite(p):
        raise FadiffError("Timeloop's counts are undefined here: a level further out saves every access")
    reads, updates = unsigned(left.reads), unsigned(left.updates)
    saved_reads = unsigned(math.ceil(reads * p) if written else math.floor(reads * p))
    saved_updates = math.floor(updates * p)
    # Timeloop takes the metadata of reads from that of updates below another level that saves (a fault of its own).
    format_reads = left.format_updates if below_another else left.format_reads
    child = column[level].child
    sent = len(column[level if child is None else child].ranks)
    if sent > len(format_reads):
        raise FadiffError("Timeloop reads beyond its tables: accesses are saved at a level without metadata whose "
                          "child has some")

    def split(actual: int, saved: int, ranks: list[Pair]) -> AccessSplit:
        """Only ranks that are sent to the child can be saved."""
        off = [tuple(math.floor(units * p) if rank < sent else 0 for units in pair) for rank, pair in enumerate(ranks)]
        metadata = {
            "actual": _pairs([[unsigned(all_ - less) for all_, less in zip(*pairs, strict=True)]
                              for pairs in zip(ranks, off, strict=True)]),
            "gated": _pairs([[0, 0]] * len(ranks)), "skipped": _pairs([[0, 0]] * len(ranks)),
            saving.kind: _pairs([[unsigned(units) for units in pair] for pair in off])}
        return AccessSplit({"actual": actual, "gated": 0, "skipped": 0, saving.kind: saved % WRAP}, metadata)

    actual_updates = unsigned(updates - saved_updates)
    reductions = math.ceil(count.temporal_reductions * float(actual_updates) / count.updates) if (
        written and count.updates) else count.temporal_reductions
    return TileAccesses(
        split((reads - saved_reads) % WRAP, saved_reads, format_reads), _unsplit(left.fills, left.format_fills),
        split(actual_updates, unsigned(saved_updates), left.format_updates), reductions, wrapped=p < 0)


def _unsplit(words: float, ranks: list[Pair]) -> AccessSplit:
    """Accesses of which none are saved."""
    nothing = _pairs([[0, 0]] * len(ranks))
    return AccessSplit({"actual": unsigned(words), "gated": 0, "skipped": 0},
                       {"actual": tuple(ranks), "gated": nothing, "skipped": nothing})


def _pairs(ranks: Sequence[Sequence[int]]) -> tuple[Pair, ...]:
    return tuple((pair[0], pair[1]) for pair in ranks)


def _with_conversions(accesses: dict[int, TileAccesses], column: Column, *,
                      written: bool) -> dict[int, TileAccesses]:
    """Adds compressions and decompressions, at levels that store plainly what their parent compresses.

    Raises:
        FadiffError: A level stores plainly what its child compresses, on which Timeloop aborts.
    """
    result = dict(accesses)
    for level, tile in column.items():
        if tile.compressed:
            continue
        if tile.child is not None and column[tile.child].compressed:
            raise FadiffError("Timeloop aborts on this design: it does not model a level that compresses what the "
                              "level further out stores plainly")
        if tile.parent is not None and column[tile.parent].compressed:
            compressions = accesses[tile.parent].updates.words["actual"] if written else 0
            result[level] = replace(accesses[level], compressions=compressions,
                                    decompressions=accesses[level].fills.words["actual"])
    return result


@dataclass(frozen=True)
class Operand:
    """One operand of the computes.

    Attributes:
        density: Its density, rounded to a millionth.
        has_metadata: Whether its innermost level stores it in a format.
        saved: The share of its accesses that its innermost saving level saves; None where no level saves any.
    """

    density: float
    has_metadata: bool
    saved: float | None


@dataclass(frozen=True)
class Computes:
    """Computes over the whole run, all units together.

    Attributes:
        algorithmic: Computes of the dense problem.
        actual: Computes that happen.
        gated: Gated ones.
        skipped: Skipped ones. Computes of which no operand exists are in none of these numbers.
    """

    algorithmic: int
    actual: int
    gated: int
    skipped: int


def saved_computes(algorithmic: int, operands: Sequence[Operand], *, gates: bool, skips: bool) -> Computes:
    """The computes of a run, from the states in which two operands may arrive.

    An operand that arrives exists and is nonzero, or exists and is zero, or, where its innermost level has metadata,
    does not exist. Probabilities are rounded to a millionth, as in Timeloop.

    Args:
        algorithmic: Computes of the dense problem.
        operands: The operands.
        gates: Whether computes on a zero are gated.
        skips: Whether computes on an operand without a partner are skipped.

    Raises:
        FadiffError: Timeloop aborts: there are not two operands, or a probability leaves [0, 1].
    """
    if len(operands) != 2:
        raise FadiffError(f"Timeloop aborts on sparse optimizations for a problem of {len(operands)} operands; "
                          "accepted: two read-only data spaces")
    left = float(algorithmic)
    for operand in operands:
        left -= 0 if operand.saved is None else math.floor(left * operand.saved)
    total = int(left)
    (nonzero_a, zero_a, absent_a), (nonzero_b, zero_b, absent_b) = (
        _states(operand, partner.saved) for operand, partner in zip(operands, reversed(operands), strict=True))
    actual, gated, skipped = total * (nonzero_a * nonzero_b), 0.0, 0.0
    on_zero = total * (nonzero_a * zero_b + zero_a * nonzero_b)
    alone = total * (nonzero_a * absent_b + absent_a * nonzero_b)
    both_zero = total * (zero_a * zero_b)
    zero_alone = total * (zero_a * absent_b + absent_a * zero_b)
    for amount, partnerless in ((on_zero, False), (alone, True), (both_zero, False), (zero_alone, True)):
        if partnerless and skips:
            skipped += amount
        elif gates:
            gated += amount
        else:
            actual += amount
    absent = total * (absent_a * absent_b)
    if not int(abs(skipped + actual + gated + absent - total)) < total * TOLERANCE:
        raise FadiffError("Timeloop aborts: no computes are left, as some level saves every access")
    lost = math.floor(skipped) + math.floor(gated) + math.floor(absent)
    return Computes(algorithmic, total - lost, math.floor(gated), math.floor(skipped))


def _states(operand: Operand, partner_saved: float | None) -> tuple[float, float, float]:
    """The probabilities that an operand is nonzero, zero, and absent, given that its partner was accessed.

    A partner whose accesses are saved where this operand is empty is only accessed where it is not.
    """
    nonzero = operand.density
    if partner_saved is not None:
        kept = 1 - millionths(partner_saved)
        nonzero = nonzero / kept if kept else math.nan if not nonzero else math.inf
    other = 1 - nonzero
    for probability in (nonzero, other):
        if not -TOLERANCE <= probability <= 1 + TOLERANCE:
            raise FadiffError(f"Timeloop aborts: an operand would be nonzero with a probability of {nonzero:.6g}, as "
                              "the option that saves accesses to its partner looks at other words of it")
    nonzero, other = min(max(nonzero, 0.0), 1.0), min(max(other, 0.0), 1.0)
    return (nonzero, 0.0, other) if operand.has_metadata else (nonzero, other, 0.0)


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


@dataclass(frozen=True)
class LevelUse:
    """One storage level.

    Attributes:
        cycles: Cycles that it needs.
        slowdown: Share of the asked bandwidth that it can give.
        instances: Largest average number of instances in use, at least 1.
        leakage: pJ.
        energy: pJ, all instances together, with leakage.
        tiles: Cost of each data space that the level keeps, by index.
    """

    cycles: int
    slowdown: float
    instances: float
    leakage: float
    energy: float
    tiles: dict[int, TileCost]


@dataclass(frozen=True)
class SparseEvaluation:
    """All numbers of one mapping.

    Attributes:
        mapping: The mapping with its tiles and occupancies.
        counts: Dense counts by data space and level.
        accesses: Accesses by data space and level.
        computes: Computes.
        compute_energy: pJ of the arithmetic.
        compute_cycles: Cycles of the arithmetic.
        use: Instances in use.
        levels: Storage levels, innermost first.
        cycles: Cycles of the whole run.
        energy: pJ, interconnects included.
        savings: Savings by (level, data space).
    """

    mapping: StoredMapping
    counts: tuple[dict[int, DenseCounts], ...]
    accesses: tuple[dict[int, TileAccesses], ...]
    computes: Computes
    compute_energy: float
    compute_cycles: int
    use: InstanceUse
    levels: tuple[LevelUse, ...]
    cycles: int
    energy: float
    savings: AnyMapping[tuple[int, int], Saving]


def evaluate_sparse(design: SparseDesign, dense: Evaluation, row: int, mapping: Mapping) -> SparseEvaluation:
    """Evaluates one mapping.

    Args:
        design: The layer on its design.
        dense: A dense evaluation of a batch with the mapping.
        row: Its column in the batch.
        mapping: The mapping itself.

    Raises:
        InvalidMapping: Timeloop would reject the mapping.
        FadiffError: Timeloop aborts on it, or its numbers are undefined.
    """
    arch, problem = design.layer.arch, design.layer.problem
    names = problem.dataspace_names()
    mapping = Mapping(tuple(replace(level, keep=frozenset(compress(names, dense.held[index, :, row])))
                            for index, level in enumerate(mapping.levels)))
    if any(all(name not in level.keep for level in mapping.levels) for name in names):
        raise InvalidMapping(arch.arithmetic.name, NOWHERE)
    untouched = [check for check in dense.checks if check.constraint == "untouched" and check.broken[row]]
    if untouched:
        raise InvalidMapping(untouched[0].level, untouched[0].reason(row))
    stored = stored_mapping(design, mapping)
    savings = read_savings(stored) if design.sparse.applied else {}
    use = instance_use(stored, tuple((int(x), int(y)) for x, y in zip(
        dense.use.expansion_x[:, row], dense.use.expansion_y[:, row], strict=True)))
    counts, accesses, shares = [], [], []
    for t, space in enumerate(problem.dataspaces):
        column, occupancies = stored.columns[t], stored.occupancies[t]
        counts.append(_dense_counts(dense, row, t, stored))
        done, share = saved_accesses(
            counts[t], column, {level: occupancies[level].density for level, tile in column.items() if tile.ranks},
            {level: saving for (level, target), saving in savings.items() if target == t},
            {level: skipped for (level, target), skipped in use.skipped.items() if target == t},
            written=space.read_write)
        accesses.append(done)
        shares.append(share)
    computes = Computes(problem.computes, problem.computes, 0, 0)
    if design.sparse.applied:
        operands = [Operand(millionths(design.word_densities[t]), bool(stored.columns[t][min(stored.columns[t])].ranks),
                            shares[t]) for t, space in enumerate(problem.dataspaces) if not space.read_write]
        computes = saved_computes(problem.computes, operands, gates=design.sparse.gates_computes,
                                  skips=design.sparse.skips_computes)
    check_arithmetic(arch.arithmetic, use.arithmetic)
    units = int(use.arithmetic.average)  # Timeloop counts whole units here
    if not units:
        raise FadiffError("Timeloop divides by 0 on this mapping: spatial skipping leaves no arithmetic unit")
    cycles = math.ceil((computes.actual + computes.gated) / units)
    levels = _levels(stored, accesses, use, cycles)
    prices = design.compute_energies
    compute_energy = (computes.actual * prices.actual + computes.skipped * prices.skipped
                      + computes.gated * prices.gated)
    energy = sum((level.energy for level in levels), compute_energy)
    energy += float(dense.network.total[row]) if dense.network is not None else 0.0
    total = max(cycles, *(level.cycles for level in levels)) + design.layer.machine.network_latency
    return SparseEvaluation(stored, tuple(counts), tuple(accesses), computes, compute_energy, cycles, use, levels,
                            int(total), energy, savings)


def _dense_counts(dense: Evaluation, row: int, dataspace: int, stored: StoredMapping) -> dict[int, DenseCounts]:
    """The dense counts of one data space, and the metadata that they touch without savings."""
    counts = {}
    for level, tile in stored.columns[dataspace].items():
        reads, fills, updates = (int(array[level, dataspace, row]) for array in (
            dense.counts.reads, dense.counts.fills, dense.counts.updates))
        formats: list[tuple[Pair, ...]] = [
            tuple((math.ceil(metadata * (count / tile.words)), math.ceil(payload * (count / tile.words)))
                  for metadata, payload in stored.occupancies[dataspace][level].metadata)
            for count in (reads, fills, updates)]
        reductions = reads if stored.spaces[dataspace].read_write else 0
        counts[level] = DenseCounts(reads, fills, updates, reductions, *formats)
    return counts


def _levels(stored: StoredMapping, accesses: list[dict[int, TileAccesses]], use: InstanceUse,
            compute_cycles: int) -> tuple[LevelUse, ...]:
    """Cycles and energy of all levels; the innermost one that the mapping does not fit is rejected."""
    design, levels = stored.design, stored.design.layer.arch.levels
    machine, models = design.layer.machine, design.models or (None,) * len(stored.spaces)
    tiles: list[dict[int, TileCost]] = []
    for number, level in enumerate(levels):
        spaces = {t: StoredSpace(level, column[number], stored.occupancies[t][number], models[t], accesses[t][number],
                                 use.levels[number][t], stored.spaces[t].read_write)
                  for t, column in enumerate(stored.columns) if number in column}
        check_level(level, list(spaces.values()), use.levels[number])
        tiles.append({t: tile_cost(one, design.energies[number], compute_cycles,
                                   level.bandwidth_scale.get(stored.spaces[t].name, 1.0)) for t, one in spaces.items()})
    read, write = (np.array([[sum(getattr(tile, way) for tile in own.values())] for own in tiles], dtype=np.float64)
                   for way in ("read", "write"))
    slow = slowdown(read, write, machine)[:, 0].tolist()
    cycles = [math.ceil(compute_cycles / share) for share in slow]
    busy = max(compute_cycles, *cycles)
    leaking = [max(1.0, *(instances.average for instances in units)) for units in use.levels]
    result = []
    for number, level in enumerate(levels):
        behind = float(machine.gated[number, 0])
        leakage = design.energies[number].leak * busy * (
            behind * leaking[machine.gate[number]] if behind > 1 else leaking[number])
        energy = 0.0  # added up as in Timeloop, data space by data space: the order decides how a half is printed
        for t in range(len(stored.spaces)):
            own = 0.0
            if t in tiles[number]:
                tile = tiles[number][t]
                address = tile.addresses * level.addr_gen_energy
                own = tile.energy * use.levels[number][t].average + address * tile.clusters
            energy += own + leakage / len(stored.spaces)
        result.append(LevelUse(cycles[number], slow[number], leaking[number], leakage, energy, tiles[number]))
    return tuple(result)
