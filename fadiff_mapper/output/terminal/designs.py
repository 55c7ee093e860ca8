"""The designs that a search has found, on the terminal."""

from __future__ import annotations

from fadiff_mapper.design.result import DesignResult, better_neighbour
from fadiff_mapper.output.terminal.console import Screen, short, table

MOST_SHOWN = 20  # designs of a front that are printed; `front.csv` has all


def print_design(result: DesignResult, written_to: str) -> None:
    """Prints the front, the differences with the final source of energies, and the end of the search."""
    out = Screen()
    if result.front:
        out.print(table("the front" if len(result.front) > 1 else "the best design", *result.best.parameters,
                        "energy uJ", "cycles", "EDP pJ*cycles", "area mm2", text=0, rows=(
            (*map(short, outcome.parameters.values()), f"{outcome.energy_pj / 1e6:.6g}", f"{outcome.cycles:,.0f}",
             f"{outcome.edp:.6g}", f"{outcome.area_mm2:.4g}" if outcome.area_mm2 else "not known")
            for outcome in result.front[:MOST_SHOWN])))
        if len(result.front) > MOST_SHOWN:
            out.print(f"... {len(result.front)} designs in all, in front.csv")
    else:
        out.print("no design of this part of the space is feasible")
    if result.hypervolume is not None:
        out.print(f"hypervolume of the front: {result.hypervolume:.6g}")
    if result.front and not result.priced_anew:
        out.print(f"energies and areas: {result.final_source}")
    elif result.front:
        before, after = result.front[0], result.final[0]
        out.print(f"with {result.final_source}: energy {_change(after.energy_pj, before.energy_pj)}, area "
                  f"{_change(after.area_mm2, before.area_mm2)}, EDP {after.edp:.6g} pJ*cycles")
    better = better_neighbour(result)
    if better is not None:
        metric, changed = result.metrics[0], better.parameters.items() - result.best.parameters.items()
        out.print(f"not the best of its neighbours: with {', '.join(f'{name} {value}' for name, value in changed)} "
                  f"{metric} is {_change(better.of(metric), result.best.of(metric))}; more evaluations are worth their "
                  "time")
    for network in result.mapped_networks:
        if network.corrected_cycles is not None:
            out.print(f"{network.workload.name}: {network.corrected_cycles:.0f} cycles corrected to measured hardware, "
                      f"{network.stats.cycles} of the exact model; EDP "
                      f"{network.stats.energy_pj * network.corrected_cycles:.6g} and {network.stats.edp:.6g} pJ*cycles")
    out.print(f"{result.name}: {result.space_size:,} designs, {len(result.outcomes):,} proposed, "
              f"{result.evaluations:,} mapped, {result.pruned:,} left out for their lower bounds, {result.refused:,} "
              f"refused; {result.status} ({result.time_s:.1f} s); written to {written_to}")
    out.print(result.proven)


def _change(after: float, before: float) -> str:
    return f"{100 * (after / before - 1):+.1f} %" if before else "not known"
