"""A designed machine as one page of HTML: self-contained, without scripts, in light and in dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.output.design_report.draw_convergence import draw_convergence
from fadiff_mapper.output.design_report.draw_front import draw_front, least_of_both
from fadiff_mapper.output.design_report.level_shares import draw_levels, level_shares
from fadiff_mapper.output.design_report.parameter_steps import better_neighbour, parameter_worths
from fadiff_mapper.output.network_report.draw_layers import component_kind, draw_layers
from fadiff_mapper.output.network_report.drawing import COLOURS, Drawing, tint
from fadiff_mapper.output.network_report.layer_views import component_names, dataspace_names, layer_views
from fadiff_mapper.output.network_report.page_templates import page_template
from fadiff_mapper.output.network_report.rounded_units import COUNT, EDP, ENERGY, change, unit_for
from fadiff_mapper.output.timeloop_files.versions import versions
from fadiff_mapper.workload import Totals

if TYPE_CHECKING:
    from fadiff_mapper.analysis.sensitivity.sensitivities import Sensitivity
    from fadiff_mapper.design.evaluation.design_result import DesignOutcome, DesignResult
    from fadiff_mapper.network.result import NetworkResult

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
    from fadiff_mapper.analysis.sensitivity.several_layers import RepeatedLayer, combined_sensitivities
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
