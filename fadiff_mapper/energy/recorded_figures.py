"""Energies and areas recorded from Accelergy with its CACTI and Aladdin plug-ins, as tables of numbers.

The tables lie in `timeloop_specs/figures`; `validation/record_figures.py` records them.
"""

from __future__ import annotations

import csv
from functools import cache

import numpy as np

from fadiff_mapper.base import bundled_files

Figures = dict[str, np.ndarray]
"""The columns of a table by their names; numbers, all of one length. Energies in pJ, areas in um^2."""


@cache
def figures(name: str) -> Figures:
    """A recorded table, read once.

    Args:
        name: "sram", "sram_held_out", "regfile", "intmac" or "fpmac".

    Returns:
        Its columns by name, not to be written to; energies in pJ, areas in um^2.
    """
    header, *rows = _rows(name)
    columns = zip(*rows, strict=True)
    return {column: np.array(values, dtype=np.float64) for column, values in zip(header, columns, strict=True)}


@cache
def dram_bit_energies() -> dict[str, float]:
    """pJ per bit by the type of a DRAM, such as "LPDDR4"."""
    _, *rows = _rows("dram")
    return {dram_type: float(energy) for dram_type, energy in rows}


def _rows(name: str) -> list[list[str]]:
    """Header and rows of a table, without the comments that name its origin."""
    text = (bundled_files.root() / "figures" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.reader(line for line in text.splitlines() if not line.startswith("#")))
