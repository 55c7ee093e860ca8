"""Computes that happen, are gated, are skipped, or do not exist, from the states in which two operands may arrive.

An operand that arrives exists and is nonzero, or exists and is zero, or, where its innermost level has metadata, does
not exist. Probabilities are rounded to a millionth, as in Timeloop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.base.errors import FadiffError

TOLERANCE = 0.00001
"""By how much Timeloop lets a probability leave [0, 1]."""


@dataclass(frozen=True)
class Operand:
    """One operand of the computes.

    Attributes:
        density: Its density.
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


def millionths(value: float) -> float:
    """A probability rounded to a millionth, half away from zero."""
    return math.floor(value * 1e6 + 0.5) / 1e6


def saved_computes(algorithmic: int, shares: Sequence[float], operands: Sequence[Operand], *, gates: bool,
                   skips: bool) -> Computes:
    """The computes of a run.

    Args:
        algorithmic: Computes of the dense problem.
        shares: The shares that savings at the innermost saving levels take away, in the order of the operands.
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
    for share in shares:
        left -= math.floor(left * share)
    total = int(left)
    first, second = operands
    nonzero_a, other_a = _states(first, second.saved)
    nonzero_b, other_b = _states(second, first.saved)
    zero_a, zero_b = (0.0 if operand.has_metadata else other
                      for operand, other in ((first, other_a), (second, other_b)))
    absent_a, absent_b = (other if operand.has_metadata else 0.0
                          for operand, other in ((first, other_a), (second, other_b)))
    actual = total * (nonzero_a * nonzero_b)
    gated = skipped = 0.0
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


def _states(operand: Operand, partner_saved: float | None) -> tuple[float, float]:
    """The probabilities that an operand is nonzero, and that it is not, given that its partner was accessed.

    A partner whose accesses are saved where this operand is empty is only accessed where it is not.
    """
    density = millionths(operand.density)
    nonzero = density
    if partner_saved is not None:
        kept = 1 - millionths(partner_saved)
        nonzero = density / kept if kept else math.nan if not density else math.inf
    other = 1 - nonzero
    for probability in (nonzero, other):
        if not -TOLERANCE <= probability <= 1 + TOLERANCE:
            raise FadiffError(f"Timeloop aborts: an operand would be nonzero with a probability of {nonzero:.6g}, as "
                              "the option that saves accesses to its partner looks at other words of it")
    return min(max(nonzero, 0.0), 1.0), min(max(other, 0.0), 1.0)
