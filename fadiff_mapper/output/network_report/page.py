"""A mapped network as one page of HTML: self-contained, without scripts, in light and in dark.

Python gathers numbers and drawings; the templates beside this file hold all markup and styles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fadiff_mapper.fusion.fused_group import FusedGroup, Hardware
from fadiff_mapper.fusion.group_legality import live_words
from fadiff_mapper.output.network_report.draw_graph import draw_graph
from fadiff_mapper.output.network_report.draw_layers import component_kind, draw_layers
from fadiff_mapper.output.network_report.draw_schedule import draw_schedule
from fadiff_mapper.output.network_report.drawing import (
    COLOURS,
    COUNT,
    EDP,
    ENERGY,
    DisplayUnit,
    Drawing,
    change,
    svg,
    tint,
    unit_for,
)
from fadiff_mapper.output.network_report.layer_views import (
    LayerView,
    component_names,
    dataspace_names,
    layer_views,
    outermost_words,
)
from fadiff_mapper.output.timeloop_files.run_files import versions
from fadiff_mapper.workload import coverage

if TYPE_CHECKING:
    from fadiff_mapper.network.result import GroupInNetwork, NetworkResult

# They run in jinja's sandbox with escaping on, because names come from input files.

def number(value: float, unit: DisplayUnit) -> Markup:
    """A number in a unit, with its exact value; a macro takes three times as long for the thousands of a table."""
    return Markup(f'<data value="{value}">{unit.number(value)}</data>')


@cache
def page_template(name: str) -> Template:
    """A page's template; a name that is misspelt in it raises instead of printing nothing.

    Args:
        name: Folder and file below `fadiff_mapper/output`, such as "network_report/network.html.jinja".
    """
    environment = Environment(
        loader=PackageLoader("fadiff_mapper", "output"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["svg"] = svg
    environment.globals["number"] = number
    return environment.get_template(name)


TEMPLATE = "network_report/network.html.jinja"

MOST_LAYERS, MOST_GROUPS, MOST_NODES = 1000, 200, 4000
"""Layers and groups that the page shows at most, those that matter most, and nodes up to which it draws the graph. A
page takes 0.25 s for each 1,000 layers, or 100 groups, and browsers longer; the graph of SDXL's U-Net has 3,592
nodes."""


@dataclass(frozen=True)
class HeadlineFigure:
    """A total with and without fusion.

    Attributes:
        name: The quantity.
        planned: Its exact value in the plan.
        before: Its exact value without fusion.
        planned_text: The value with its unit, rounded.
        before_text: The same without fusion, in the same unit.
        change: The difference in percent of `before`.
    """

    name: str
    planned: float
    before: float
    planned_text: str
    before_text: str
    change: str


@dataclass(frozen=True)
class LevelOccupancy:
    """How full a level is while a group runs: most words that live at once, and `room` for them (None: unlimited)."""

    level: str
    words: float
    room: int | None


@dataclass(frozen=True)
class GroupSection:
    """The section of the page on one group.

    Attributes:
        number: Number of the group, counted from 1.
        nodes: Its layers.
        figures: EDP, energy and cycles with and without fusion.
        loops: The shared loops as text, outermost first.
        steps: Steps of all shared loops together.
        repeat: How often the group runs.
        held: Occupancy of the levels inside the outermost one.
        schedule: The tile schedule.
    """

    number: int
    nodes: tuple[str, ...]
    figures: tuple[HeadlineFigure, ...]
    loops: tuple[str, ...]
    steps: int
    repeat: int
    held: tuple[LevelOccupancy, ...]
    schedule: Drawing


def network_html(result: NetworkResult) -> str:
    """The page as text.

    Args:
        result: The plan.

    Returns:
        HTML in which every number stands in a `data` element whose `value` is exact, however rounded its text.
    """
    views = layer_views(result)
    components, outermost = component_names(result, views), result.hardware.arch.levels[-1].name
    spaces, shown = dataspace_names(views), _weightiest(result, views)
    traffic = _figure(f"{outermost} traffic", *outermost_words(views), COUNT, "words")
    return page_template(TEMPLATE).render(
        result=result, views=shown, every_view=views, coverage=coverage(result.workload), outermost=outermost,
        versions=versions(),
        figures=[*_figures(result.stats, result.unfused_stats), traffic],
        joined=_figures(result.planned_joined, result.joined)[1:] if result.joined.energy_pj or result.joined.cycles
        else [],
        colours=COLOURS, tint=tint,
        components=[(name, component_kind(components, outermost, name)) for name in components],
        spaces=[(name, tint("space", k)) for k, name in enumerate(spaces)],
        layers=draw_layers(shown, components, spaces, outermost),
        graph=draw_graph(result, views) if len(result.workload.nodes) <= MOST_NODES else None,
        groups=_groups(result), alone={layer.node: layer for layer in result.alone},
        table=_table(shown), recomputed=any(view.recomputed for view in shown))


def _weightiest(result: NetworkResult, views: tuple[LayerView, ...]) -> tuple[LayerView, ...]:
    """The layers with the largest shares in energy and cycles, with fusion or without, in the network's order."""
    if len(views) <= MOST_LAYERS:
        return views
    shares = [max(result.share(cost.energy_pj, cost.cycles) for cost in (view.planned, view.alone)) for view in views]
    kept = sorted(range(len(views)), key=lambda index: -shares[index])[:MOST_LAYERS]
    return tuple(views[index] for index in sorted(kept))


def _figures(planned: Any, before: Any) -> list[HeadlineFigure]:
    """EDP, energy and cycles of two `Totals` or costs."""
    return [_figure("EDP", planned.edp, before.edp, EDP),
            _figure("energy", planned.energy_pj, before.energy_pj, ENERGY),
            _figure("cycles", planned.cycles, before.cycles, COUNT)]


def _figure(name: str, planned: float, before: float, units: tuple[tuple[str, float], ...],
            counted: str = "") -> HeadlineFigure:
    unit = unit_for((planned, before), units, counted)
    return HeadlineFigure(name, planned, before, unit.written(planned), unit.written(before), change(planned, before))


def _groups(result: NetworkResult) -> list[GroupSection]:
    """The sections of the groups that save most; the occupancy of equal ones is worked out once."""
    groups, held = result.weightiest_groups(MOST_GROUPS), dict[int, tuple[LevelOccupancy, ...]]()
    for _, outcome in groups:
        if id(outcome.group) not in held:
            held[id(outcome.group)] = _occupancy(result.hardware, outcome.group)
    return [_group(outcome, number, held[id(outcome.group)]) for number, outcome in groups]


def _occupancy(hardware: Hardware, group: FusedGroup) -> tuple[LevelOccupancy, ...]:
    """How full the levels are: `live_words`, with which legality was judged."""
    return tuple(LevelOccupancy(level.name, live_words(hardware, group, index), level.usable)
                 for index, level in enumerate(hardware.arch.levels[:-1]) if not level.is_dummy)


def _group(outcome: GroupInNetwork, number: int, held: tuple[LevelOccupancy, ...]) -> GroupSection:
    """The section of group `number`."""
    group, last = outcome.group, outcome.group.layers[-1].problem
    loops = tuple(f"{loop.dim}: {last.bounds[loop.dim]} in tiles of {loop.tile}" for loop in group.loops)
    return GroupSection(number, outcome.nodes, tuple(_figures(outcome.cost, outcome.unfused)), loops, group.steps,
                        group.repeat, held, draw_schedule(group, outcome.nodes, number))


def _table(views: Sequence[LayerView]) -> dict[str, Any]:
    """The unit of every numeric column of the table of layers."""
    shares = [share for view in views for share in (view.planned, view.alone)]
    return {"macs": unit_for((view.macs for view in views), COUNT),
            "energy": unit_for((share.energy_pj for share in shares), ENERGY),
            "cycles": unit_for((share.cycles for share in shares), COUNT),
            "words": unit_for((share.outermost_words for share in shares), COUNT)}
