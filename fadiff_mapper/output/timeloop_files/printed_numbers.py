"""Numbers as Timeloop's statistics print them: two decimals, and single precision where its program uses it."""

from __future__ import annotations

import math

import numpy as np


def fixed(value: float) -> str:
    """The value with two decimals; 0 / 0 as the C++ library prints it, "-nan"."""
    return "-nan" if math.isnan(value) else f"{value:.2f}"


def specified(value: float | None) -> str:
    """The value with two decimals, or "-" where the specification leaves it open (None)."""
    return "-" if value is None else fixed(value)


def single(value: float) -> float:
    """The value rounded to single precision."""
    return float(np.float32(value))


def single_ratio(above: int, below: int) -> float:
    """above / below, computed in single precision; infinite over zero."""
    return float(np.float32(above) / np.float32(below)) if below else math.inf


def unsigned(value: int) -> int:
    """The value of an unsigned 64-bit counter after `value` steps: a negative count wraps around, as in Timeloop."""
    return value % 2**64
