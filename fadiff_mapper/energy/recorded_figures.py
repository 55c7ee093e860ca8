"""Energies recorded from Accelergy with its CACTI and Aladdin plug-ins, as tables of numbers.

The tables lie in `timeloop_specs/figures`; `validation/record_figures.py` records them.
"""

from __future__ import annotations

import csv
import math

import numpy as np

from fadiff_mapper.base import bundled_files

Figures = dict[str, np.ndarray]
"""The columns of a table by their names; numbers, all of one length. Energies in pJ."""


def figures(name: str) -> Figures:
    """A recorded table.

    Args:
        name: "sram", "sram_held_out", "regfile", "intmac" or "fpmac".

    Returns:
        Its columns by name; energies in pJ.
    """
    header, *rows = _rows(name)
    columns = zip(*rows, strict=True)
    return {column: np.array(values, dtype=np.float64) for column, values in zip(header, columns, strict=True)}


def dram_bit_energies() -> dict[str, float]:
    """pJ per bit by the type of a DRAM, such as "LPDDR4"."""
    _, *rows = _rows("dram")
    return {dram_type: float(energy) for dram_type, energy in rows}


def _rows(name: str) -> list[list[str]]:
    """Header and rows of a table, without the comments that name its origin."""
    text = (bundled_files.root() / "figures" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.reader(line for line in text.splitlines() if not line.startswith("#")))


def between(table: Figures, key: str, value: float, column: str) -> float:
    """Interpolates a recorded column: a power law between neighbours, continued beyond the ends.

    Args:
        table: The table, sorted by the column `key`; both columns are above 0.
        key: The column that is known.
        value: Its value, above 0.
        column: The column that is sought.

    Returns:
        The value of `column`, infinite beyond a float's range.
    """
    x, y = np.log(table[key]), np.log(table[column])
    at = math.log(value)
    right = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    slope = (y[right] - y[right - 1]) / (x[right] - x[right - 1])
    with np.errstate(over="ignore"):  # a power of a large number: infinite, which `estimated` refuses
        return float(np.exp(y[right - 1] + slope * (at - x[right - 1])))
