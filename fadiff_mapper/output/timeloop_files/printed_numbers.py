"""How Timeloop's statistics print numbers: two decimals, and single precision where its program uses it."""

from __future__ import annotations

import math

import numpy as np


def fixed(value: float) -> str:
    """Two decimals. What has no value (0 / 0) is printed as the C++ library prints it."""
    return "-nan" if math.isnan(value) else f"{value:.2f}"


def specified(value: float | None) -> str:
    """Two decimals, or "-" for what the specification leaves open."""
    return "-" if value is None else fixed(value)


def single(value: float) -> float:
    """The value in single precision."""
    return float(np.float32(value))


def single_ratio(above: int, below: int) -> float:
    """above / below, computed in single precision; infinite over zero."""
    return float(np.float32(above) / np.float32(below)) if below else math.inf


def unsigned(value: int) -> int:
    """What a 64-bit counter without sign holds: a negative count wraps around."""
    return value % 2**64
