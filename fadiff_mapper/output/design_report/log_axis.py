"""Axes of drawings: a logarithmic one, and round values to mark."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

WIDE = 5.0
"""Quotient of the ends from which on ticks are at 1, 2 and 5 times powers of ten; below, they are equally spaced."""

MOST_TICKS = 9
"""Ticks at most: with more, only powers of ten are marked."""


@dataclass(frozen=True)
class LogAxis:
    """An axis from `low` to `high`, drawn from pixel `start` to pixel `end`.

    Attributes:
        low: Least value, positive.
        high: Greatest value, above `low`.
        start: Pixel of `low`.
        end: Pixel of `high`; below `start` for an axis that points upwards.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value; a value beyond the axis stands at its end."""
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> tuple[float, ...]:
        """Round values on the axis in ascending order."""
        if self.high / self.low < WIDE:
            return round_ticks(self.low, self.high)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [digit * 10.0 ** decade for decade in decades for digit in (1, 2, 5)]
        inside = tuple(tick for tick in every if self.low <= tick <= self.high)
        powers = tuple(tick for tick in (10.0 ** decade for decade in decades) if self.low <= tick <= self.high)
        return inside if len(inside) <= MOST_TICKS else powers[::max(1, math.ceil(len(powers) / MOST_TICKS))]


def axis_of(values: Iterable[float], start: float, end: float) -> LogAxis:
    """An axis around positive values, with a little room at both ends.

    Args:
        values: The values; at least one.
        start: Pixel of the lower end.
        end: Pixel of the upper end.
    """
    given = list(values)
    low, high = min(given), max(given)
    room = max((high / low) ** 0.06, 1.02)
    return LogAxis(low / room, high * room, start, end)


def round_ticks(low: float, high: float) -> tuple[float, ...]:
    """Equally spaced round values from `low` to `high`, about five."""
    step = _round_step((high - low) / 4)
    return tuple(i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1))


def _round_step(width: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is at most `width`."""
    power: float = 10.0 ** math.floor(math.log10(width))
    return max(digit * power for digit in (1, 2, 5) if digit * power <= width * (1 + 1e-9))
