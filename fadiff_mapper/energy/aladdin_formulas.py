"""Register files and arithmetic as Accelergy's Aladdin plug-in composes them, with constants from recorded figures.

A register file is one register and a comparator of the address for every row, so that its width costs nothing; a
multiply-accumulate is an adder, linear in the bits, and a multiplier, quadratic in them. Both reproduce the recorded
figures to their digits. All figures are those of 40 and 45 nm.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from fadiff_mapper.energy.recorded_figures import figures

REGISTER_FILE = ("access_pj", "leak_pj", "area_um2")
"""Outputs of `register_file`, in order; leakage in 1 ns."""
ARITHMETIC = ("compute_pj", "area_um2")
"""Outputs of `arithmetic`, in order."""
SINGLE_BITS = 32
"""Bits of exponent and mantissa up to which a floating-point unit is a share of one of single precision."""
FASTEST_NS, SLOWEST_NS, WHOLE_NS = 0.75, 10.0, 6
"""Aladdin has a figure of its own below the first clock and above the second, else one per ns, up to the third."""


def register_file(depth: Any, address_bits: Any) -> tuple[Any, ...]:
    """Energies and area of a register file.

    Args:
        depth: Rows.
        address_bits: Bits of an address of a row, a whole number in hardware.

    Returns:
        `REGISTER_FILE`, each of the shape of the arguments.
    """
    return tuple(register + comparator * depth * address_bits for register, comparator in _register_file_constants())


@cache
def _register_file_constants() -> tuple[tuple[float, float], ...]:
    """(register, comparator per row and bit of the address) of each of `REGISTER_FILE`.

    From the shallowest register file, which compares nothing, and the deepest.
    """
    table = figures("regfile")
    deepest = table["depth"][-1] * math.log2(table["depth"][-1])
    return tuple((float(table[name][0]), float((table[name][-1] - table[name][0]) / deepest)) for name in REGISTER_FILE)


def arithmetic(unit_class: str, bits: Any, cycle_seconds: float) -> tuple[Any, ...]:
    """Energy and area of a multiply-accumulate unit.

    Args:
        unit_class: "intmac" or "fpmac".
        bits: Bits of an operand, an array of NumPy or torch; exponent and mantissa of a floating-point unit together.
        cycle_seconds: Length of a clock cycle.

    Returns:
        `ARITHMETIC`, each of the shape of `bits`.
    """
    clock = clock_ns(cycle_seconds)
    integer = unit_class == "intmac"
    single, double = (_arithmetic_constants(unit_class, clock, wide and not integer) for wide in (False, True))
    if integer:
        return tuple(adder * bits + multiplier * bits * bits for adder, multiplier in single)
    where = array_namespace(bits).where
    return tuple(where(bits <= SINGLE_BITS, a * bits + m * bits * bits, da * bits + dm * bits * bits)
                 for (a, m), (da, dm) in zip(single, double, strict=True))


def clock_ns(cycle_seconds: float) -> float:
    """The clock in the recorded tables that Aladdin takes for one."""
    cycle = cycle_seconds * 1e9
    if cycle <= FASTEST_NS:
        return 0.5
    return 11.0 if cycle > SLOWEST_NS else float(min(WHOLE_NS, math.ceil(round(cycle, 6))))


@cache
def _arithmetic_constants(unit_class: str, clock: float, wide: bool) -> tuple[tuple[float, float], ...]:
    """(adder per bit, multiplier per square of bits) of each of `ARITHMETIC`, fitted to the recorded figures.

    Args:
        unit_class: "intmac" or "fpmac".
        clock: The clock in ns as in the tables.
        wide: Whether the figures are those of a unit of double precision.
    """
    table = figures(unit_class)
    rows = table["cycle_ns"] == clock
    if unit_class == "fpmac":
        rows &= (table["width_bits"] > SINGLE_BITS) == wide
    bits = table["width_bits"][rows]
    # Divided by the figures, so that the digits of small ones count as much as those of large ones.
    solutions = [np.linalg.lstsq(np.stack([bits, bits ** 2], axis=-1) / table[name][rows, None],
                                 np.ones_like(bits), rcond=None)[0] for name in ARITHMETIC]
    return tuple((float(adder), float(multiplier)) for adder, multiplier in solutions)
