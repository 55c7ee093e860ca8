"""The lines that Timeloop's programs print and scripts look for."""

from __future__ import annotations

from fadiff_mapper.model.exact.stats import Stats


def summary_line(stats: Stats) -> str:
    """Utilization, pJ per compute and cycles, as Timeloop prints them at the end of a run."""
    return (f"Utilization = {stats.utilization:4.2f} | pJ/Compute = {stats.energy_pj / stats.computes:8.3f} | "
            f"Cycles = {stats.cycles}")
