"""Numbers for people: a few digits, and one unit for all that stands side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ENERGY = (("pJ", 1.0), ("nJ", 1e3), ("µJ", 1e6), ("mJ", 1e9), ("J", 1e12))
"""Units of values in pJ."""

EDP = tuple((f"{name}·cycles", size) for name, size in (*ENERGY, ("kJ", 1e15), ("MJ", 1e18), ("GJ", 1e21)))
"""Units of values in pJ * cycles."""

COUNT = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
"""Prefixes of plain counts."""

DIGITS = 4
"""Significant digits of the largest number that stands side by side with others."""


@dataclass(frozen=True)
class DisplayUnit:
    """A unit for all numbers that stand side by side.

    Attributes:
        name: Written behind the number.
        size: The unit in terms of pJ, pJ * cycles or 1.
        decimals: Decimals of every number.
    """

    name: str
    size: float
    decimals: int

    def number(self, value: float) -> str:
        """The value in this unit, without its name; two digits where the decimals would show none."""
        scaled = value / self.size
        if scaled and abs(scaled) < 0.5 * 10.0 ** -self.decimals:
            return f"{scaled:.2g}"
        return f"{scaled:,.{self.decimals}f}" if scaled else "0"

    def written(self, value: float) -> str:
        """The value in this unit with its name."""
        return f"{self.number(value)} {self.name}".rstrip()


def unit_for(values: Iterable[float], units: tuple[tuple[str, float], ...], counted: str = "") -> DisplayUnit:
    """The largest unit in which the largest value is at least 1.

    Args:
        values: All numbers that stand side by side.
        units: `(name, size)`, smallest first.
        counted: Noun behind the unit, such as "words".
    """
    largest = max((abs(value) for value in values), default=0.0)
    name, size = next(((name, size) for name, size in reversed(units) if largest >= size), units[0])
    whole = len(str(int(largest / size)))
    return DisplayUnit(f"{name} {counted}".strip(), size, max(0, DIGITS - whole))


def change(planned: float, before: float) -> str:
    """The difference between plan and unfused network in percent of the latter, with a typographic minus sign."""
    if not before:
        return "0 %"
    percent = 100 * (planned - before) / before
    return "0 %" if abs(percent) < 0.05 else f"{percent:+.1f} %".replace("-", "\u2212")
