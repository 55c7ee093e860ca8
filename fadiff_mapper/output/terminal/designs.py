"""Designs on the terminal: a space, and a search of designs, while it runs and at its end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.result import DesignResult, better_neighbour
from fadiff_mapper.design.space import DesignSpace, Point, Value, design_architecture, parameter_values
from fadiff_mapper.inputs.spec.tables import BITS_PER_KIB
from fadiff_mapper.output.terminal.console import Screen, progress_line, table

if TYPE_CHECKING:
    from fadiff_mapper.design.search_design import DesignProgress

MOST_LISTED = 8  # values of a parameter that are shown one by one


def print_space(space: DesignSpace) -> None:
    """Prints parameters, ties and limits of a space, the designs of all least and all greatest values, and the size.

    Raises SpecError if a tie cannot be computed.
    """
    out = Screen()
    out.print(table(f"parameters of {space.name}", "name", "path", "values", "count", text=3, rows=(
        (parameter.name, parameter.path or ("variable of the templates" if parameter.template else "through ties"),
         ", ".join(map(_short, parameter.values)) if len(parameter.values) <= MOST_LISTED else
         "{}, {}, ... {}".format(*(_short(parameter.values[place]) for place in (0, 1, -1))),
         f"{len(parameter.values):,}")
        for parameter in space.parameters)))
    if space.ties:
        out.print(table("ties", "path", "expression", text=2, rows=(
            (path, tie.expression) for path, tie in space.ties.items())))
    for limit in space.limits:
        out.print(f"limit: {limit.name} at most {limit.most:.6g}")
    if space.energy:
        out.print(f"energies: {space.energy}")
    out.print(f"least values: {_design(space, tuple(0 for _ in space.parameters))}")
    greatest = tuple(len(parameter.values) - 1 for parameter in space.parameters)
    out.print(f"greatest values: {_design(space, greatest)}")
    out.print(f"size: {space.size:,} designs" if space.size < 10 ** 60 else f"size: {space.size:.4g} designs")


def _short(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _design(space: DesignSpace, point: Point) -> str:
    """The values of a design, its units and the KB of all storage levels together, or the reason why it is invalid."""
    chosen = ", ".join(f"{name} {_short(value)}" for name, value in parameter_values(space, point).items())
    try:
        arch = design_architecture(space, point)
    except SpecError as error:
        return f"{chosen}: no architecture: {error.problems[0]}"
    bits = sum(level.instances * (level.size or 0) * level.word_bits for level in arch.levels if not level.is_dummy)
    return f"{chosen}: {arch.arithmetic.instances:,} units, {bits / BITS_PER_KIB:,.6g} KB on the chip"


MOST_SHOWN = 20  # designs of a front that are printed; `front.csv` has all


def print_design(result: DesignResult, written_to: str) -> None:
    """Prints the front, the differences with the final source of energies, and the end of the search."""
    out = Screen()
    if result.front:
        out.print(table("the front" if len(result.front) > 1 else "the best design", *result.best.parameters,
                        "energy uJ", "cycles", "EDP pJ*cycles", "area mm2", text=0, rows=(
            (*map(_short, outcome.parameters.values()), f"{outcome.energy_pj / 1e6:.6g}", f"{outcome.cycles:,.0f}",
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


@contextmanager
def progress(metric: str, quiet: bool) -> Iterator[Callable[[DesignProgress], None]]:
    """A line on the terminal that follows the search's best `metric`; silent without a terminal or if `quiet`.

    Yields:
        A function to call after every design.
    """
    with progress_line("searching designs", quiet, BarColumn(bar_width=24)) as update:
        yield lambda state: update(description=described(state, metric), completed=state.evaluations,
                                   total=state.wanted if math.isfinite(state.wanted) else None)


def described(state: DesignProgress, metric: str) -> str:
    """The progress of a search in one line, with the remaining time in hours, minutes and seconds."""
    wanted = f" of {state.wanted:,.0f}" if math.isfinite(state.wanted) else ""
    left = ""
    if math.isfinite(state.left_s):
        minutes, seconds = divmod(round(state.left_s), 60)
        hours, minutes = divmod(minutes, 60)
        left = f", {f'{hours}:{minutes:02}' if hours else minutes}:{seconds:02} left"
    best = f"; best {metric} {state.best.of(metric):.6g}" if state.best else ""
    others = f", {state.pruned:,} left out, {state.refused:,} refused" if state.pruned or state.refused else ""
    return f"{state.evaluations:,}{wanted} designs{others}, {state.rate:.3g}/s{left}{best}"
