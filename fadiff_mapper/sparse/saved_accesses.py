"""Accesses that really happen, are gated, or are skipped, from the dense counts and the probabilities of savings.

Numbers are rounded where Timeloop rounds them, and its whole numbers without sign are kept: a negative count is
2^64 less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.sparse.density_models import WRAP
from fadiff_mapper.sparse.read_savings import GATED, SKIPPED, Saving
from fadiff_mapper.sparse.stored_tiles import Column

Pair = tuple[int, int]
"""Accesses to metadata and to payloads of one rank."""


@dataclass(frozen=True)
class AccessSplit:
    """Accesses of one kind over the whole run, per instance, in words.

    Attributes:
        actual: Accesses that happen.
        gated: Gated ones.
        skipped: Skipped ones.
    """

    actual: int
    gated: int = 0
    skipped: int = 0

    @property
    def busy(self) -> int:
        """Accesses that take a cycle: actual and gated ones."""
        return (self.actual + self.gated) % WRAP


@dataclass(frozen=True)
class MetadataSplit:
    """The same for the metadata of every rank, innermost rank first; none without a format."""

    actual: tuple[Pair, ...] = ()
    gated: tuple[Pair, ...] = ()
    skipped: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class TileAccesses:
    """All accesses of a data space at one level.

    Attributes:
        reads: Words read.
        fills: Words written from outside.
        updates: Words written from inside.
        format_reads: Metadata read.
        format_fills: Metadata written from outside.
        format_updates: Metadata written from inside.
        temporal_reductions: Sums of a word that arrives and one that is there.
        compressions: Words that are compressed on their way outwards.
        decompressions: Words that are decompressed on their way in.
        wrapped: Whether some count is negative.
    """

    reads: AccessSplit
    fills: AccessSplit
    updates: AccessSplit
    format_reads: MetadataSplit = field(default_factory=MetadataSplit)
    format_fills: MetadataSplit = field(default_factory=MetadataSplit)
    format_updates: MetadataSplit = field(default_factory=MetadataSplit)
    temporal_reductions: int = 0
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
    format_reads: list[list[int]]
    format_fills: list[list[int]]
    format_updates: list[list[int]]


def unsigned(value: float) -> int:
    """A double as the compiler makes a whole number of 64 bits without sign of it.

    Raises:
        FadiffError: The value is no number.
    """
    if not math.isfinite(value):
        raise FadiffError("Timeloop's counts are undefined here: a probability is no number, as where every tile of a "
                          "tensor is full and its level takes that for the share of empty tiles")
    return int(value) % WRAP


def without_zeros(count: int, density: float) -> float:
    """Accesses to words that are stored: count - floor(count * (1 - density)).

    A density a last digit above 1 adds one access (a fault of Timeloop's).
    """
    sparsity = 1 - density
    if not math.isfinite(sparsity):
        unsigned(sparsity)
    return float(unsigned(count - math.floor(count * sparsity)))


@dataclass(frozen=True)
class ColumnSavings:
    """Saved and remaining accesses of one data space.

    Attributes:
        written: Whether it is an output.
        temporal: Savings by level.
        spatial: Share of instances skipped, by the levels that skip instances.
    """

    written: bool
    temporal: dict[int, Saving]
    spatial: dict[int, float]

    def probability(self, level: int) -> float | None:
        """The share that a level saves; None where it saves nothing.

        Raises:
            FadiffError: The level saves accesses and skips instances of the same data space.
        """
        given = self.temporal[level].probability if level in self.temporal else 0.0
        if level in self.spatial:
            if given != 0:
                raise FadiffError("Timeloop aborts: it does not support applying spatial and temporal skipping at the "
                                  "same time to one data space at one level")
            return self.spatial[level]
        return given if level in self.temporal else None

    @property
    def levels(self) -> list[int]:
        """Levels that save anything, outermost first."""
        return sorted({*self.temporal, *self.spatial}, reverse=True)


def saved_accesses(counts: dict[int, DenseCounts], column: Column, densities: dict[int, float],
                   savings: ColumnSavings) -> tuple[dict[int, TileAccesses], list[float]]:
    """The accesses of one data space.

    A saving at a level takes away what all levels inside it would have done for the same words, up to the next level
    that saves by itself. Such a level saves only what is left for it to save: 1 - (1 - own) / (1 - outer).

    Args:
        counts: Dense counts of the levels that keep the data space.
        column: Its tiles.
        densities: Expected density of the tiles with a format.
        savings: Savings by level.

    Returns:
        (accesses by level; the shares that reach the arithmetic)

    Raises:
        FadiffError: Timeloop aborts, or its numbers are undefined.
    """
    left = {level: _before_savings(count, densities.get(level), written=savings.written)
            for level, count in counts.items()}
    done: dict[int, TileAccesses] = {}
    computes = []
    for level in savings.levels:
        probability = savings.probability(level)
        assert probability is not None
        inner = next((other for other in savings.levels if other < level), None)
        for other in (other for other in left if (-1 if inner is None else inner) <= other < level):
            _take_off(left[other], probability, len(left[level].format_reads) if level in left else 0)
        if inner is not None and inner in left and inner in savings.temporal and inner not in savings.spatial:
            own = savings.temporal[inner]
            rest = 1 - (1 - own.probability) / (1 - probability) if probability != 1 else math.nan
            done.setdefault(inner, _split(counts[inner], left[inner], column, inner, Saving(own.kind, rest),
                                          savings.written, below_another=True))
        if level not in done and level in left and level not in savings.spatial:
            done[level] = _split(counts[level], left[level], column, level, savings.temporal[level], savings.written,
                                 below_another=False)
        if inner is None:
            computes.append(probability)
    for level in counts:
        if level not in done:
            done[level] = _unsaved(counts[level], left[level], reductions_stay=level in savings.temporal)
    return _with_conversions(done, column, written=savings.written), computes


def _before_savings(count: DenseCounts, density: float | None, *, written: bool) -> _Left:
    def stored(words: int) -> float:
        return float(words) if density is None else without_zeros(words, density)

    return _Left(stored(count.reads), stored(count.fills), stored(count.updates) if written else float(count.updates),
                 [list(pair) for pair in count.format_reads], [list(pair) for pair in count.format_fills],
                 [list(pair) for pair in count.format_updates])


def _take_off(left: _Left, probability: float, ranks_outside: int) -> None:
    """Takes the savings of an outer level off; of metadata only rank 0, and only below a format of one rank."""
    left.fills -= math.floor(left.fills * probability)
    left.reads -= math.floor(left.reads * probability)
    left.updates -= math.floor(left.updates * probability)
    if ranks_outside == 1 and left.format_reads:
        for ranks in (left.format_fills, left.format_reads):
            ranks[0] = [unsigned(count - math.floor(count * probability)) for count in ranks[0]]


def _split(count: DenseCounts, left: _Left, column: Column, level: int, saving: Saving, written: bool, *,
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
    ranks = column[level if child is None else child].metadata_ranks
    if ranks > len(format_reads):
        raise FadiffError("Timeloop reads beyond its tables: accesses are saved at a level without metadata whose "
                          "child has some")

    def parts(actual: int, saved: int) -> AccessSplit:
        return AccessSplit(actual, **{saving.kind: saved % WRAP})

    actual_updates = unsigned(updates - saved_updates)
    reductions = math.ceil(count.temporal_reductions * float(actual_updates) / count.updates) if (
        written and count.updates) else count.temporal_reductions
    return TileAccesses(
        parts((reads - saved_reads) % WRAP, saved_reads), AccessSplit(unsigned(left.fills)),
        parts(actual_updates, unsigned(saved_updates)),
        _format_split(format_reads, p, ranks, saving.kind), _plain_formats(left.format_fills),
        _format_split(left.format_updates, p, ranks, saving.kind), reductions, wrapped=p < 0)


def _format_split(ranks: list[list[int]], probability: float, saved_ranks: int, kind: str) -> MetadataSplit:
    """Only ranks that are sent to the child can be saved."""
    saved = [[math.floor(count * probability) if rank < saved_ranks else 0 for count in pair]
             for rank, pair in enumerate(ranks)]
    actual = [[unsigned(count - off) for count, off in zip(pair, offs, strict=True)]
              for pair, offs in zip(ranks, saved, strict=True)]
    nothing = _pairs([[0, 0]] * len(ranks))
    taken = _pairs([[unsigned(count) for count in pair] for pair in saved])
    return MetadataSplit(_pairs(actual), taken if kind == GATED else nothing, taken if kind == SKIPPED else nothing)


def _plain_formats(ranks: list[list[int]]) -> MetadataSplit:
    nothing = _pairs([[0, 0]] * len(ranks))
    return MetadataSplit(_pairs(ranks), nothing, nothing)


def _pairs(ranks: list[list[int]]) -> tuple[Pair, ...]:
    return tuple((pair[0], pair[1]) for pair in ranks)


def _unsaved(count: DenseCounts, left: _Left, *, reductions_stay: bool) -> TileAccesses:
    """The accesses of a level that saves nothing itself.

    Where it has an option that saves nothing because it skips instances instead, its reductions stay the dense ones, in
    Timeloop by a case that it leaves out.
    """
    updates = unsigned(left.updates)
    reductions = (count.temporal_reductions if reductions_stay else
                  math.ceil(count.temporal_reductions * float(updates) / count.updates) if count.updates else 0)
    return TileAccesses(AccessSplit(unsigned(left.reads)), AccessSplit(unsigned(left.fills)), AccessSplit(updates),
                        _plain_formats(left.format_reads), _plain_formats(left.format_fills),
                        _plain_formats(left.format_updates), reductions)


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
            compressions = accesses[tile.parent].updates.actual if written else 0
            result[level] = replace(accesses[level], compressions=compressions,
                                    decompressions=accesses[level].fills.actual)
    return result
