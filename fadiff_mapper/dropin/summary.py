"""The lines that Timeloop's programs print and scripts look for."""

from __future__ import annotations

import math

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.sparse.sparse_stats import SparseStats


def summary_line(stats: Stats) -> str:
    """Utilization, pJ per compute and cycles, as Timeloop prints them at the end of a run.

    On a sparse design per algorithmic compute, too; pJ per compute is per one that happens.
    """
    each = stats.energy_pj / stats.actual_computes if stats.actual_computes else math.inf
    algorithmic = (f"pJ/Algorithmic-Compute = {stats.energy_pj / stats.computes:8.3f} | "
                   if isinstance(stats, SparseStats) and stats.sections else "")
    return (f"Utilization = {stats.utilization:4.2f} | {algorithmic}pJ/Compute = {each:8.3f} | "
            f"Cycles = {stats.cycles}")
