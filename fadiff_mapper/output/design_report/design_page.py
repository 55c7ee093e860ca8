"""A designed machine as one page of HTML: self-contained, without scripts, in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.base.text_formats import csv_text
from fadiff_mapper.output.design_report.draw_convergence import draw_convergence
from fadiff_mapper.output.design_report.draw_front import draw_front, least_of_both
from fadiff_mapper.output.network_report.draw_layers import component_kind, draw_layers
from fadiff_mapper.output.network_report.drawing import (
    COLOURS,
    COUNT,
    EDP,
    ENERGY,
    DisplayUnit,
    Drawing,
    Label,
    Rect,
    Shape,
    change,
    fitting,
    tint,
    unit_for,
    upright_line,
)
from fadiff_mapper.output.network_report.layer_views import component_names, dataspace_names, layer_views
from fadiff_mapper.output.network_report.page import page_template
from fadiff_mapper.output.timeloop_files.run_files import versions
from fadiff_mapper.workload import Totals

if TYPE_CHECKING:
    from fadiff_mapper.design.result import DesignOutcome, DesignResult
    from fadiff_mapper.network.result import NetworkResult
    from fadiff_mapper.search.explanation.sensitivities import Sensitivity

WIDTH, NAMES, GAP, VALUE, HEAD, ROW, BAR = 1080.0, 176.0, 40.0, 110.0, 26.0, 22.0, 12.0
"""Pixels: of the drawing, names, between panels, of the number behind a bar, of the heading, of a row, of a bar."""


@dataclass(frozen=True)
class LevelShare:
    """One component of the machine over a whole run of all networks.

    Attributes:
        name: The level, the arithmetic, or the wires.
        css_class: Its colour.
        energy_pj: Energy in pJ as planned.
        cycles: Cycles that it is busy, layer by layer, every layer by itself; None for wires.
    """

    name: str
    css_class: str
    energy_pj: float
    cycles: float | None


def level_shares(networks: Sequence[tuple[float, NetworkResult]]) -> tuple[LevelShare, ...]:
    """The shares of every component, the outermost level first.

    Args:
        networks: How often each network runs, and its mappings; all on one machine.
    """
    names = tuple(dict.fromkeys(name for _, network in networks for name in component_names(
        network, layer_views(network))))
    outermost = networks[0][1].hardware.arch.levels[-1].name
    energies, cycles = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for weight, network in networks:
        for view in layer_views(network):
            for name, energy in view.planned.components.items():
                energies[name] = energies.get(name, 0.0) + weight * energy
        for outcome in network.layers:
            busy = {level["name"]: level["cycles"] for level in outcome.stats.levels}
            busy[outcome.stats.arithmetic["name"]] = outcome.stats.arithmetic["cycles"]
            for name in names:
                cycles[name] += weight * outcome.count * busy.get(name, 0.0)
    built = {level.name for level in networks[0][1].hardware.arch.levels}
    built.add(networks[0][1].hardware.arch.arithmetic.name)
    return tuple(LevelShare(name, component_kind(names, outermost, name), energies[name],
                            cycles[name] if name in built else None) for name in reversed(names))


def draw_levels(shares: Sequence[LevelShare]) -> Drawing:
    """Two panels of bars, energy and busy cycles, with a row per component."""
    width = (WIDTH - NAMES - GAP) / 2
    energy = unit_for((share.energy_pj for share in shares), ENERGY)
    cycles = unit_for((share.cycles or 0.0 for share in shares), COUNT, "cycles")
    shapes: list[Shape] = [Label(NAMES - 10, HEAD + row * ROW + 14, fitting(share.name, NAMES - 14), "", "end")
                           for row, share in enumerate(shares)]
    shapes += _bars(f"energy ({energy.name})", shares, [share.energy_pj for share in shares], energy, NAMES, width)
    shapes += _bars("busy cycles, layers by themselves", shares, [share.cycles or 0.0 for share in shares], cycles,
                    NAMES + width + GAP, width)
    return Drawing(WIDTH, HEAD + len(shares) * ROW + 6, "energy and busy cycles by level", tuple(shapes))


def _bars(title: str, shares: Sequence[LevelShare], values: Sequence[float], unit: DisplayUnit, left: float,
          width: float) -> Iterator[Shape]:
    """One panel; its longest bar leaves room for its number."""
    scale = (width - VALUE) / (max(values) or 1.0)
    yield Label(left, 14, title, "head")
    yield upright_line(left, HEAD - 4, HEAD + len(shares) * ROW, "rule")
    for row, (share, value) in enumerate(zip(shares, values, strict=True)):
        top = HEAD + row * ROW
        if value > 0:
            yield Rect(left, top + (ROW - BAR) / 2, value * scale, BAR, share.css_class,
                       f"{share.name}: {unit.written(value)}")
        yield Label(left + value * scale + 6, top + 15, unit.written(value), "value")


@dataclass(frozen=True)
class ParameterStep:
    """The best design with one parameter at a neighbouring value.

    Attributes:
        value: The neighbouring value.
        outcome: The design with it.
        edp: Its EDP against the best design's in percent, as text; empty where it is not feasible.
        area: Its area likewise; empty where it is not known.
    """

    value: int | float | str
    outcome: DesignOutcome
    edp: str
    area: str


@dataclass(frozen=True)
class ParameterWorth:
    """One parameter at the best design.

    Attributes:
        name: Its name.
        value: Its value in the best design.
        below: The design with the value before it; None at the end of the values, or where it was not evaluated.
        above: The design with the value after it, likewise.
    """

    name: str
    value: int | float | str
    below: ParameterStep | None
    above: ParameterStep | None


def parameter_worths(result: DesignResult) -> tuple[ParameterWorth, ...]:
    """Every parameter of the best design with its neighbouring values.

    Args:
        result: The end of a search with a feasible design.
    """
    known = {outcome.point: outcome for outcome in (*result.outcomes, *result.neighbours)}
    best = result.best
    return tuple(ParameterWorth(name, value, *(_step(best, known.get(_moved(best.point, axis, by)), name)
                                               for by in (-1, 1)))
                 for axis, (name, value) in enumerate(best.parameters.items()))


def better_neighbour(result: DesignResult) -> DesignOutcome | None:
    """The best of the neighbours of the best design that are better than it, as after too short a search; else None.

    Args:
        result: The end of a search. For several metrics there is none: such a neighbour may still be off the front.
    """
    if not result.front or len(result.metrics) > 1:
        return None
    metric = result.metrics[0]
    better = [each for each in result.neighbours if each.of(metric) < result.best.of(metric)]
    return min(better, key=lambda each: each.of(metric), default=None)


def _moved(point: Sequence[int], axis: int, by: int) -> tuple[int, ...]:
    """The point with one index moved."""
    return (*point[:axis], point[axis] + by, *point[axis + 1:])


def _step(best: DesignOutcome, outcome: DesignOutcome | None, name: str) -> ParameterStep | None:
    """The neighbour beside the best design; None where it was not evaluated, be it for its lower bound."""
    if outcome is None or outcome.pruned:
        return None
    edp = change(outcome.edp, best.edp) if outcome.feasible else ""
    area = change(outcome.area_mm2, best.area_mm2) if outcome.area_mm2 < float("inf") else ""
    return ParameterStep(outcome.parameters[name], outcome, edp, area)


FIGURES = ("energy_pj", "cycles", "edp", "area_mm2")
ABOUT = ("number", "feasible", "reason", "mapped", "least_energy_pj", "least_cycles")
"""Columns besides the figures and the parameters. `least_` are lower bounds, of designs that they left out."""


def front_csv(result: DesignResult) -> str:
    """The best design, or the front of several metrics: number among all designs, parameters, figures, metrics."""
    numbers = {outcome.point: number for number, outcome in enumerate(result.outcomes, 1)}
    metrics = [metric for metric in result.metrics if metric not in FIGURES]
    rows = [{"number": numbers[outcome.point], **_parameters(outcome), **_table_figures(outcome),
             **{metric: outcome.of(metric) for metric in metrics}, **_networks(outcome)} for outcome in result.front]
    return _written(("number", *_parameter_columns(result.outcomes), *FIGURES, *metrics,
                     *_network_columns(result.outcomes)), rows)


def designs_csv(outcomes: Sequence[DesignOutcome]) -> str:
    """Every design that was proposed, in the order of proposal; a figure that is not known is an empty cell."""
    rows = ({"number": number, "feasible": outcome.feasible, "reason": outcome.reason, "mapped": outcome.mapped,
             "least_energy_pj": outcome.bounds[0] if outcome.bounds else None,
             "least_cycles": outcome.bounds[1] if outcome.bounds else None,
             **_parameters(outcome), **_table_figures(outcome), **_networks(outcome)}
            for number, outcome in enumerate(outcomes, 1))
    return _written(("number", *_parameter_columns(outcomes), *FIGURES, *ABOUT[1:], *_network_columns(outcomes)), rows)


def _column(parameter: str) -> str:
    """The heading of a parameter, told apart from a figure of the same name."""
    return f"parameter.{parameter}" if parameter in (*FIGURES, *ABOUT) else parameter


def _parameter_columns(outcomes: Sequence[DesignOutcome]) -> tuple[str, ...]:
    return tuple(map(_column, outcomes[0].parameters)) if outcomes else ()


def _parameters(outcome: DesignOutcome) -> dict[str, Any]:
    return {_column(name): value for name, value in outcome.parameters.items()}


def _table_figures(outcome: DesignOutcome) -> dict[str, Any]:
    """The figures of a design, without those that are not known."""
    figures = {name: getattr(outcome, name) for name in FIGURES}
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def _network_columns(outcomes: Sequence[DesignOutcome]) -> tuple[str, ...]:
    """The columns of all networks; a single network is what the figures are of already, but for its fused groups."""
    names = next((tuple(_networks(outcome)) for outcome in outcomes if outcome.networks), ())
    return names


def _networks(outcome: DesignOutcome) -> dict[str, Any]:
    """The figures of each network by itself, by column."""
    return {f"{network.name}.{figure}": getattr(network, figure) for network in outcome.networks
            for figure in ("energy_pj", "cycles", "unfused_energy_pj", "unfused_cycles", "fused_groups")}


def _written(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """CSV with a heading; a column that a row lacks is an empty cell."""
    return csv_text(columns, (map(row.get, columns) for row in rows))


TEMPLATE = "design_report/design.html.jinja"

MOST_LISTED = 40
"""Designs in the table of the front; `front.csv` has all."""

MOST_SENSITIVITIES = 12
"""Constants in the table of sensitivities."""


@dataclass(frozen=True)
class BestFigure:
    """A figure of the best design.

    Attributes:
        name: The quantity.
        value: Its exact value.
        text: The value with its unit, rounded.
        final: With the best source of energies at hand: its difference in percent as text; empty where that source
            is the search's own.
    """

    name: str
    value: float
    text: str
    final: str


@dataclass(frozen=True)
class NetworkSection:
    """The section of the page on one network.

    Attributes:
        name: The network.
        weight: How often it runs.
        folder: The folder of its files, beside the page.
        stats: Its totals as planned.
        unfused: Its totals without fusion.
        stats_text: EDP, energy and cycles as planned, with units.
        saved: EDP saved by fusion in percent, as text.
        groups: For every fused group its layers, joined.
        layers: The drawing of its layers.
        components: Components with their CSS classes, for the legend.
        spaces: Data spaces likewise.
        outermost: Name of the outermost level.
    """

    name: str
    weight: float
    folder: str
    stats: Totals
    unfused: Totals
    stats_text: tuple[str, str, str]
    saved: str
    groups: tuple[str, ...]
    layers: Drawing
    components: tuple[tuple[str, str], ...]
    spaces: tuple[tuple[str, str], ...]
    outermost: str


def design_html(result: DesignResult, folders: Sequence[str],
                sensitivities: Sequence[Sensitivity] = (), unknown: str = "") -> str:
    """The page as text.

    Args:
        result: The end of a search.
        folders: The folder of each network's files, relative to the page.
        sensitivities: Of the best design's EDP, the largest first.
        unknown: Why there are none, where there should be.

    Returns:
        HTML in which every number of the tables stands in a `data` element whose `value` is exact.
    """
    weighted = [(figures.weight, network) for figures, network in
                zip(result.best.networks, result.mapped_networks, strict=True)] if result.mapped_networks else []
    edp = unit_for((outcome.edp for outcome in result.front), EDP)
    return page_template(TEMPLATE).render(
        result=result, versions=versions(), colours=COLOURS, figures=_figures(result) if result.front else (),
        front=draw_front(result), listed=_listed(result), edp=edp,
        energy=unit_for((outcome.energy_pj for outcome in result.front), ENERGY),
        cycles=unit_for((outcome.cycles for outcome in result.front), COUNT),
        convergence=draw_convergence(result), worths=parameter_worths(result) if result.front else (),
        better=better_neighbour(result),
        sensitivities=sensitivities[:MOST_SENSITIVITIES], unknown=unknown,
        levels=draw_levels(level_shares(weighted)) if weighted else None,
        networks=[_network(weight, network, folder)
                  for (weight, network), folder in zip(weighted, folders, strict=True)],
        refusals=_refusals(result.outcomes))


def best_sensitivities(result: DesignResult, over: Callable[[], bool] = lambda: False) -> tuple[Sensitivity, ...]:
    """The sensitivities of the best design's EDP, every layer by itself.

    Args:
        result: The end of a search; takes about 0.2 s per distinct layer.
        over: Asked again and again; once true, there is no time for them.

    Raises:
        FadiffError: The design is sparse.
        OutOfTime: There was no time.
    """
    if not result.mapped_networks:
        return ()
    if over():
        raise OutOfTime
    from fadiff_mapper.search.explanation.sensitivities import RepeatedLayer, combined_sensitivities
    layers = [RepeatedLayer(figures.weight * outcome.count, outcome.spec, outcome.mapping, outcome.stats.energy_pj,
                        outcome.stats.cycles)
              for figures, network in zip(result.best.networks, result.mapped_networks, strict=True)
              for outcome in network.layers]
    return combined_sensitivities(layers, over)


def _figures(result: DesignResult) -> tuple[BestFigure, ...]:
    """EDP, energy, cycles and area of the best design, and how they differ with the best source of energies."""
    best = result.best
    final = result.final[0] if result.final else None
    units = (("EDP", "edp", EDP), ("energy", "energy_pj", ENERGY), ("cycles", "cycles", COUNT))
    found = [BestFigure(name, getattr(best, key), unit_for([getattr(best, key)], unit).written(getattr(best, key)),
                        change(getattr(final, key), getattr(best, key)) if final else "") for name, key, unit in units]
    return (*found, BestFigure("area", best.area_mm2, f"{best.area_mm2:.4g} mm²" if best.area_mm2 else "not known",
                               change(final.area_mm2, best.area_mm2) if final else ""))


def _listed(result: DesignResult) -> tuple[DesignOutcome, ...]:
    """The designs of the table: the front; for one metric the designs that are best in EDP or area, or both."""
    if len(result.metrics) > 1 or not result.front:
        return result.front[:MOST_LISTED]
    both = least_of_both([outcome for outcome in result.outcomes if outcome.feasible])
    return (result.best, *(outcome for outcome in both if outcome.point != result.best.point))[:MOST_LISTED]


def _network(weight: float, network: NetworkResult, folder: str) -> NetworkSection:
    views = layer_views(network)
    components = component_names(network, views)
    outermost, spaces = network.hardware.arch.levels[-1].name, dataspace_names(views)
    stats = network.stats
    text = (unit_for([stats.edp], EDP).written(stats.edp), unit_for([stats.energy_pj], ENERGY).written(stats.energy_pj),
            unit_for([stats.cycles], COUNT, "cycles").written(stats.cycles))
    return NetworkSection(
        network.workload.name, weight, folder, stats, network.unfused_stats, text,
        change(stats.edp, network.unfused_stats.edp), tuple(" → ".join(group.nodes) for group in network.groups),
        draw_layers(views, components, spaces, outermost),
        tuple((name, component_kind(components, outermost, name)) for name in components),
        tuple((name, tint("space", k)) for k, name in enumerate(spaces)), outermost)


def _refusals(outcomes: Sequence[DesignOutcome]) -> tuple[tuple[str, int], ...]:
    """Reasons why designs are not feasible, without their figures, with how many they hold for, most first."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        if not outcome.feasible and not outcome.pruned:
            reason = outcome.reason.split(" is ")[0] if "; the limit is " in outcome.reason else outcome.reason
            counts[reason] = counts.get(reason, 0) + 1
    return tuple(sorted(counts.items(), key=lambda entry: -entry[1]))[:8]
