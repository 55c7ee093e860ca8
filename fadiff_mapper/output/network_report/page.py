"""A mapped network as one page: self-contained, without scripts, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fadiff_mapper.fusion.groups.live_words import live_words
from fadiff_mapper.output.network_report.draw_graph import draw_graph
from fadiff_mapper.output.network_report.draw_layers import component_kind, draw_layers
from fadiff_mapper.output.network_report.draw_schedule import draw_schedule
from fadiff_mapper.output.network_report.drawing import COLOURS, Drawing, tint
from fadiff_mapper.output.network_report.layer_views import (
    LayerView,
    component_names,
    dataspace_names,
    layer_views,
    outermost_words,
)
from fadiff_mapper.output.network_report.rounded_units import COUNT, EDP, ENERGY, change, unit_for
from fadiff_mapper.output.timeloop_files.versions import versions

if TYPE_CHECKING:
    from fadiff_mapper.results.mapped_network import GroupInNetwork, MappedNetwork

TEMPLATE = "network.html.jinja"


@dataclass(frozen=True)
class HeadlineFigure:
    """A number with and without fusion, as it is and as it is written."""

    name: str
    planned: float
    before: float
    planned_text: str
    before_text: str
    change: str


@dataclass(frozen=True)
class LevelOccupancy:
    """How full a level is while a group runs; `room` is None where it is unlimited."""

    level: str
    words: float
    room: int | None


@dataclass(frozen=True)
class GroupSection:
    """What the page says of one group."""

    number: int
    nodes: tuple[str, ...]
    figures: tuple[HeadlineFigure, ...]
    loops: tuple[str, ...]
    steps: int
    repeat: int
    held: tuple[LevelOccupancy, ...]
    schedule: Drawing


def network_html(result: MappedNetwork) -> str:
    """The page as text. Every number on it carries its exact value in a `data` element's `value`."""
    views = layer_views(result)
    components, outermost = component_names(result), result.hardware.arch.levels[-1].name
    spaces = dataspace_names(views)
    traffic = _figure(f"{outermost} traffic", *outermost_words(views), COUNT, "words")
    return _template().render(
        result=result, views=views, outermost=outermost, versions=versions(),
        figures=[*_figures(result.stats, result.unfused_stats), traffic], colours=COLOURS, tint=tint,
        components=[(name, component_kind(components, outermost, name)) for name in components],
        spaces=[(name, tint("space", k)) for k, name in enumerate(spaces)],
        layers=draw_layers(views, components, spaces, outermost), graph=draw_graph(result, views),
        groups=[_group(result, outcome, number) for number, outcome in enumerate(result.groups, 1)],
        table=_table(views), recomputed=any(view.recomputed for view in views))


def _template() -> Template:
    environment = ImmutableSandboxedEnvironment(autoescape=True, undefined=StrictUndefined, trim_blocks=True,
                                                lstrip_blocks=True)
    text = resources.files("fadiff_mapper.output.network_report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(text)


def _figures(planned: Any, before: Any) -> list[HeadlineFigure]:
    """EDP, energy and cycles of two `Totals` or costs."""
    return [_figure("EDP", planned.edp, before.edp, EDP),
            _figure("energy", planned.energy_pj, before.energy_pj, ENERGY),
            _figure("cycles", planned.cycles, before.cycles, COUNT)]


def _figure(name: str, planned: float, before: float, units: tuple[tuple[str, float], ...],
            what: str = "") -> HeadlineFigure:
    unit = unit_for((planned, before), units, what)
    return HeadlineFigure(name, planned, before, unit.written(planned), unit.written(before), change(planned, before))


def _group(result: MappedNetwork, outcome: GroupInNetwork, number: int) -> GroupSection:
    group, last = outcome.group, outcome.group.layers[-1].problem
    loops = tuple(f"{loop.dim}: {last.bounds[loop.dim]} in tiles of {loop.tile}" for loop in group.loops)
    levels = result.hardware.arch.levels
    held = tuple(LevelOccupancy(level.name, live_words(result.hardware, group, place), level.usable)
                 for place, level in enumerate(levels[:-1]) if not level.is_dummy)
    return GroupSection(number, outcome.nodes, tuple(_figures(outcome.cost, outcome.unfused)), loops, group.steps,
                        group.repeat, held, draw_schedule(group, outcome.nodes, number))


def _table(views: Sequence[LayerView]) -> dict[str, Any]:
    """Units of the columns, one for each."""
    shares = [share for view in views for share in (view.planned, view.alone)]
    return {"macs": unit_for((view.macs for view in views), COUNT),
            "energy": unit_for((share.energy_pj for share in shares), ENERGY),
            "cycles": unit_for((share.cycles for share in shares), COUNT),
            "words": unit_for((share.outermost_words for share in shares), COUNT)}
