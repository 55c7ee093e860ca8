"""Means and ranges over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; infinite where a value is."""
    return math.exp(statistics.fmean(map(math.log, values))) if max(values) < math.inf else math.inf


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean, the least and the greatest value."""
    return geometric_mean(values), min(values), max(values)


def spread_text(values: Sequence[float]) -> str:
    """Mean and range, such as "1.23e+10 (1.20 to 1.31)", where the range has the mean's power of ten.

    Args:
        values: One value per seed, infinite where nothing legal was found; none: an empty text.
    """
    found = [value for value in values if value < math.inf]
    if not values:
        return ""
    if len(found) < len(values):
        return f"none legal in {len(values) - len(found)} of {len(values)}"
    mean, least, most = spread(values)
    power = math.floor(math.log10(mean))
    if len(values) == 1 or most / least - 1 < 5e-3:
        return f"{mean:.3g}" if power < 4 else f"{mean:.2e}"
    return f"{mean:.2e} ({least / 10 ** power:.2f} to {most / 10 ** power:.2f})"
