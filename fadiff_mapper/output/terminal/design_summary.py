"""The end of a search of designs on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn

from fadiff_mapper.output.design_report.design_page import better_neighbour
from fadiff_mapper.output.terminal.console import console, progress_line, table

if TYPE_CHECKING:
    from fadiff_mapper.design.result import DesignOutcome, DesignResult
    from fadiff_mapper.design.search_design import DesignProgress

MOST_SHOWN = 20
"""Designs of a front that are printed; `front.csv` has all."""


def print_design(result: DesignResult, written_to: str) -> None:
    """Prints the front with its figures, how they differ with the final source of energies, and how the search ended.

    Args:
        result: The end of a search.
        written_to: The run folder.
    """
    out = console()
    if result.front:
        several = len(result.front) > 1
        rows = table("the front" if several else "the best design", *result.best.parameters, "energy uJ", "cycles",
                     "EDP pJ*cycles", "area mm2", text=0)
        for outcome in result.front[:MOST_SHOWN]:
            rows.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value)
                           for value in outcome.parameters.values()), *_figures(outcome))
        out.print(rows)
        if len(result.front) > MOST_SHOWN:
            out.print(f"... {len(result.front)} designs in all, in front.csv")
    else:
        out.print("no design of this part of the space is feasible")
    if result.hypervolume is not None:
        out.print(f"hypervolume of the front: {result.hypervolume:.6g}")
    if result.final:
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


def _figures(outcome: DesignOutcome) -> tuple[str, str, str, str]:
    """Energy, cycles, EDP and area as text."""
    return (f"{outcome.energy_pj / 1e6:.6g}", f"{outcome.cycles:,.0f}", f"{outcome.edp:.6g}",
            f"{outcome.area_mm2:.4g}" if outcome.area_mm2 else "not known")


def _change(after: float, before: float) -> str:
    """The difference in percent."""
    return f"{100 * (after / before - 1):+.1f} %" if before else "not known"


@contextmanager
def progress(metric: str, quiet: bool) -> Iterator[Callable[[DesignProgress], None]]:
    """A line on the terminal that follows the search; silent where there is no terminal.

    Args:
        metric: The metric whose best value is shown.
        quiet: Whether to stay silent in any case.

    Yields:
        A function to call after every design.
    """
    with progress_line("searching designs", quiet, BarColumn(bar_width=24)) as update:
        yield lambda state: update(description=described(state, metric), completed=state.evaluations,
                                   total=state.wanted if math.isfinite(state.wanted) else None)


def described(state: DesignProgress, metric: str) -> str:
    """How far a search is, in one line."""
    wanted = f" of {state.wanted:,.0f}" if math.isfinite(state.wanted) else ""
    left = f", {_clock(state.left_s)} left" if math.isfinite(state.left_s) else ""
    best = f"; best {metric} {state.best.of(metric):.6g}" if state.best else ""
    others = f", {state.pruned:,} left out, {state.refused:,} refused" if state.pruned or state.refused else ""
    return f"{state.evaluations:,}{wanted} designs{others}, {state.rate:.3g}/s{left}{best}"


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds, as on a clock."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
