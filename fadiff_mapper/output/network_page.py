"""A mapped network as one page of HTML: self-contained, without scripts, in light and in dark.

Python gathers numbers and drawings; the folder `templates` holds all markup and styles.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fadiff_mapper.fusion.group_legality import live_words
from fadiff_mapper.output.drawing import COLOURS, COUNT, EDP, ENERGY, DisplayUnit, change, svg, tint, unit_for
from fadiff_mapper.output.layer_views import (
    LayerView,
    component_names,
    dataspace_names,
    layer_views,
    outermost_words,
)
from fadiff_mapper.output.network_drawings import component_kind, draw_graph, draw_layers, draw_schedule
from fadiff_mapper.output.run_files import versions
from fadiff_mapper.workload import coverage

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult


def number(value: float, unit: DisplayUnit) -> Markup:
    """A number in a unit, with its exact value; a template macro would be slower for the thousands of a table."""
    return Markup(f'<data value="{value}">{unit.number(value)}</data>')


@cache
def page_template(name: str) -> Template:
    """A template of `fadiff_mapper/output/templates`; an unknown name in it raises instead of printing nothing.

    Templates escape what they print, because names come from input files.
    """
    environment = Environment(
        loader=PackageLoader("fadiff_mapper", "output/templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["svg"] = svg
    environment.globals["number"] = number
    return environment.get_template(name)


MOST_LAYERS, MOST_GROUPS, MOST_NODES = 1000, 200, 4000
"""Layers and groups that the page shows at most, by their share, and nodes up to which it draws the graph: larger pages
take long to make, and browsers longer to show."""


def network_html(result: NetworkResult) -> str:
    """The page as HTML; every number is in a `data` element whose `value` is exact, however rounded its text."""
    views = layer_views(result)
    components, outermost = component_names(result, views), result.hardware.arch.levels[-1].name
    spaces, shown = dataspace_names(views), _weightiest(result, views)
    shares = [share for view in shown for share in (view.planned, view.alone)]
    return page_template("network.html.jinja").render(
        result=result, views=shown, every_view=views, coverage=coverage(result.workload), outermost=outermost,
        versions=versions(),
        figures=[*_figures(result.stats, result.unfused_stats),
                 _figure(f"{outermost} traffic", *outermost_words(views), COUNT, "words")],
        joined=_figures(result.planned_joined, result.joined)[1:] if result.joined.energy_pj or result.joined.cycles
        else [],
        colours=COLOURS, tint=tint,
        components=[(name, component_kind(components, outermost, name)) for name in components],
        spaces=[(name, tint("space", k)) for k, name in enumerate(spaces)],
        layers=draw_layers(shown, components, spaces, outermost),
        graph=draw_graph(result, views) if len(result.workload.nodes) <= MOST_NODES else None,
        groups=_groups(result), alone={layer.node: layer for layer in result.alone},
        table={"macs": unit_for((view.macs for view in shown), COUNT),
               "energy": unit_for((share.energy_pj for share in shares), ENERGY),
               "cycles": unit_for((share.cycles for share in shares), COUNT),
               "words": unit_for((share.outermost_words for share in shares), COUNT)},
        recomputed=any(view.recomputed for view in shown))


def _weightiest(result: NetworkResult, views: tuple[LayerView, ...]) -> tuple[LayerView, ...]:
    """The layers with the largest shares in energy and cycles, with fusion or without, in the network's order."""
    if len(views) <= MOST_LAYERS:
        return views
    shares = [max(result.share(cost.energy_pj, cost.cycles) for cost in (view.planned, view.alone)) for view in views]
    kept = sorted(range(len(views)), key=lambda index: -shares[index])[:MOST_LAYERS]
    return tuple(views[index] for index in sorted(kept))


def _figures(planned: Any, before: Any) -> list[dict[str, Any]]:
    """EDP, energy and cycles of two `Totals` or costs."""
    return [_figure("EDP", planned.edp, before.edp, EDP),
            _figure("energy", planned.energy_pj, before.energy_pj, ENERGY),
            _figure("cycles", planned.cycles, before.cycles, COUNT)]


def _figure(name: str, planned: float, before: float, units: tuple[tuple[str, float], ...],
            counted: str = "") -> dict[str, Any]:
    """A total in the plan and without fusion: exact values, texts in one unit, and the difference in percent."""
    unit = unit_for((planned, before), units, counted)
    return {"name": name, "planned": planned, "before": before, "planned_text": unit.written(planned),
            "before_text": unit.written(before), "change": change(planned, before)}


def _groups(result: NetworkResult) -> list[dict[str, Any]]:
    """The sections of the groups that save most.

    `held` are the levels inside the outermost one with their most live words, by which legality was judged, and their
    capacities (None: unlimited); equal groups share it.
    """
    sections, held = [], dict[int, list[dict[str, Any]]]()
    for number, outcome in result.weightiest_groups(MOST_GROUPS):
        group, bounds = outcome.group, outcome.group.layers[-1].problem.bounds
        if id(group) not in held:
            held[id(group)] = [
                {"level": level.name, "words": live_words(result.hardware, group, index), "room": level.usable}
                for index, level in enumerate(result.hardware.arch.levels[:-1]) if not level.is_dummy]
        sections.append({
            "number": number, "nodes": outcome.nodes, "figures": _figures(outcome.cost, outcome.unfused),
            "loops": [f"{loop.dim}: {bounds[loop.dim]} in tiles of {loop.tile}" for loop in group.loops],
            "steps": group.steps, "repeat": group.repeat, "held": held[id(group)],
            "schedule": draw_schedule(group, outcome.nodes, number)})
    return sections
