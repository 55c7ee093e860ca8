"""The numbers of one mapping: summary, sources of energies, and accesses level by level."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.terminal.energy_sources import print_sources
from fadiff_mapper.sparse.sparse_stats import SparseStats


def print_stats(stats: Stats) -> None:
    """Prints a summary line and a table of accesses, outermost level first.

    Reads, fills and updates are words per instance, as `timeloop-model` counts them; energies are pJ of all instances.
    """
    out = console()
    out.print(f"cycles {stats.cycles}   energy {stats.energy_pj / 1e6:.6g} uJ   EDP {stats.edp:.6g} pJ*cycles   "
                  f"utilization {stats.utilization:.2%}   computes {_accesses(stats.arithmetic['computes'])}"
                  + (f"   area {stats.area_mm2:.6g} mm^2" if stats.area_mm2 else ""))
    print_sources("energies", stats.energy_source)
    if stats.area_mm2:
        print_sources("areas", stats.area_source)
    rows = table("accesses per instance, outermost level first", "level", "data space", "instances", "tile",
                   "reads", "fills", "updates", "energy pJ", "cycles", text=2)
    if isinstance(stats, SparseStats):
        rows.caption = "accesses that happen / of the dense problem; tiles as stored"
        rows.caption_justify = "left"
    for level in reversed(stats.levels):
        for name, space in level["dataspaces"].items():
            rows.add_row(level["name"], name, f"{space['utilized_instances']:.6g}", str(space["utilized_capacity"]),
                          *(_accesses(space[access]) for access in ("reads", "fills", "updates")),
                          f"{space['energy_pj_total']:.6g}", str(level["cycles"]))
        if level["leakage_energy_pj"]:
            rows.add_row(level["name"], "leakage", "", "", "", "", "", f"{level['leakage_energy_pj']:.6g}", "")
    mac = stats.arithmetic
    rows.add_row(mac["name"], "computes", str(mac["utilized_instances"]), "", "", "", "", f"{mac['energy_pj']:.6g}",
                  str(mac["cycles"]))
    if stats.network_energy_pj:
        rows.add_row("networks", "", "", "", "", "", "", f"{stats.network_energy_pj:.6g}", "")
    out.print(rows)
    for warning in stats.warnings:
        out.print(f"warning: {warning}")


def _accesses(count: Any) -> str:
    """A number, or of one that is split the part that happens before the whole."""
    return f"{count['actual']}/{count['algorithmic']}" if isinstance(count, dict) else str(count)
