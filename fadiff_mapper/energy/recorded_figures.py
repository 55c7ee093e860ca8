"""Energies recorded from Accelergy, which come along as tables of numbers."""

from __future__ import annotations

import csv

import numpy as np

from fadiff_mapper.base import bundled_files

Figures = dict[str, np.ndarray]
"""The columns of a table by their names; numbers, all of one length. Energies in pJ."""


def figures(name: str) -> Figures:
    """The recorded table of this name, such as "sram"."""
    header, *rows = _rows(name)
    columns = zip(*rows, strict=True)
    return {column: np.array(values, dtype=np.float64) for column, values in zip(header, columns, strict=True)}


def dram_bit_energies() -> dict[str, float]:
    """pJ per bit by the type of a DRAM, such as "LPDDR4"."""
    _, *rows = _rows("dram")
    return {kind: float(energy) for kind, energy in rows}


def _rows(name: str) -> list[list[str]]:
    """Header and rows; lines that begin with # say where the table comes from."""
    text = (bundled_files.root() / "figures" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.reader(line for line in text.splitlines() if not line.startswith("#")))


def between(table: Figures, key: str, value: float, column: str) -> float:
    """A recorded column at a value of the column `key`: a power law between neighbours, continued at the ends.

    The table is sorted by `key`, and both columns are above 0.
    """
    x, y = np.log(table[key]), np.log(table[column])
    at = float(np.log(value))
    right = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    slope = (y[right] - y[right - 1]) / (x[right] - x[right - 1])
    return float(np.exp(y[right - 1] + slope * (at - x[right - 1])))
