"""Accesses and computes that really happen, are gated, or are skipped, from the dense counts and the probabilities of
savings.

Numbers are rounded where Timeloop rounds them, and its whole numbers without sign are kept: a negative count is
2^64 less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.sparse.design import millionths
from fadiff_mapper.model.sparse.formats import Column
from fadiff_mapper.model.sparse.savings import Saving

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
