"""The numbers of one mapping: summary, sources of energies, and accesses level by level."""

from __future__ import annotations

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.terminal.energy_sources import print_energy_sources


def print_stats(stats: Stats) -> None:
    """Prints a summary line and a table of accesses, outermost level first.

    Reads, fills and updates are words per instance, as `timeloop-model` counts them; energies are pJ of all instances.
    """
    out = console()
    out.print(f"cycles {stats.cycles}   energy {stats.energy_pj / 1e6:.6g} uJ   EDP {stats.edp:.6g} pJ*cycles   "
                  f"utilization {stats.utilization:.2%}   computes {stats.computes}"
                  + (f"   area {stats.area_mm2:.6g} mm^2" if stats.area_mm2 else ""))
    print_energy_sources(stats.energy_source)
    rows = table("accesses per instance, outermost level first", "level", "data space", "instances", "tile",
                   "reads", "fills", "updates", "energy pJ", "cycles", text=2)
    for level in reversed(stats.levels):
        for name, space in level["dataspaces"].items():
            rows.add_row(level["name"], name, str(space["utilized_instances"]), str(space["utilized_capacity"]),
                          str(space["reads"]), str(space["fills"]), str(space["updates"]),
                          f"{space['energy_pj_total']:.6g}", str(level["cycles"]))
        if level["leakage_energy_pj"]:
            rows.add_row(level["name"], "leakage", "", "", "", "", "", f"{level['leakage_energy_pj']:.6g}", "")
    mac = stats.arithmetic
    rows.add_row(mac["name"], "computes", str(mac["utilized_instances"]), "", "", "", "", f"{mac['energy_pj']:.6g}",
                  str(mac["cycles"]))
    if stats.network_energy_pj:
        rows.add_row("networks", "", "", "", "", "", "", f"{stats.network_energy_pj:.6g}", "")
    out.print(rows)
