"""Layer by layer: energy by component, cycles, and words at the outermost level, planned above, by itself below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fadiff_mapper.output.network_report.drawing import (
    Drawing,
    Label,
    Rect,
    Shape,
    fitting,
    level_line,
    tint,
    upright_line,
)
from fadiff_mapper.output.network_report.layer_views import LayerShare, LayerView
from fadiff_mapper.output.network_report.rounded_units import COUNT, ENERGY, DisplayUnit, unit_for

WIDTH, NAMES, GAP, VALUE = 1080.0, 176.0, 26.0, 52.0
HEAD, ROW, BAR, THIN = 34.0, 24.0, 9.0, 4.0


@dataclass(frozen=True)
class LayerPanel:
    """One of the columns: the parts of each layer's bar, `(name, kind)` in the order in which they are stacked."""

    title: str
    unit: DisplayUnit
    parts: tuple[tuple[str, str], ...]
    values: Callable[[LayerShare], dict[str, float]]


def draw_layers(views: Sequence[LayerView], components: Sequence[str], spaces: Sequence[str],
                outermost: str) -> Drawing:
    """One row per layer. A layer that runs by itself has one bar, a fused one a second, pale one of before."""
    panels = _panels(views, components, spaces, outermost)
    width = (WIDTH - NAMES) / len(panels)
    shapes: list[Shape] = []
    for row, view in enumerate(views):
        top = HEAD + row * ROW
        shapes.append(Label(NAMES - 22, top + 15, fitting(view.name, NAMES - 26), "name", "end", view.name))
        if view.group is not None:
            shapes.append(Rect(NAMES - 14, top + 2, 4, ROW - 4, tint("group", view.group), f"group {view.group}", 2))
    for place, panel in enumerate(panels):
        shapes += _panel(panel, views, NAMES + place * width + (GAP if place else 0), width - (GAP if place else 0))
    return Drawing(WIDTH, HEAD + len(views) * ROW + 8, "energy, cycles and outermost traffic of every layer",
                   tuple(shapes))


def component_kind(components: Sequence[str], outermost: str, name: str) -> str:
    """The colour of a component; the outermost level always has the same one."""
    return "outer" if name == outermost else tint("part", list(components).index(name))


def _panels(views: Sequence[LayerView], components: Sequence[str], spaces: Sequence[str],
            outermost: str) -> tuple[LayerPanel, ...]:
    shares = [share for view in views for share in (view.planned, view.alone)]
    energy = unit_for((share.energy_pj for share in shares), ENERGY)
    cycles = unit_for((share.cycles for share in shares), COUNT)
    words = unit_for((share.outermost_words for share in shares), COUNT)
    return (
        LayerPanel(f"energy ({energy.name})", energy,
                   tuple((name, component_kind(components, outermost, name)) for name in components),
                   lambda share: share.components),
        LayerPanel(f"cycles ({cycles.name})" if cycles.name else "cycles", cycles, (("cycles", "time"),),
                   lambda share: {"cycles": share.cycles}),
        LayerPanel(f"{outermost} traffic ({words.name} words)".replace("( ", "("), words,
                   tuple((name, tint("space", k)) for k, name in enumerate(spaces)), lambda share: share.outermost))


def _panel(panel: LayerPanel, views: Sequence[LayerView], left: float, width: float) -> Iterator[Shape]:
    bars = width - VALUE
    largest = max((sum(panel.values(share).values()) for view in views for share in (view.planned, view.alone)),
                  default=0.0) or 1.0
    yield Label(left, 14, panel.title, "head")
    yield level_line(left, HEAD - 8, left + width, "rule")
    yield upright_line(left, HEAD - 8, HEAD + len(views) * ROW, "rule")
    for row, view in enumerate(views):
        top = HEAD + row * ROW
        fused = view.group is not None
        lead = top + (4 if fused else (ROW - BAR) / 2)
        yield from _bar(panel, view.planned, view.name, left, lead, BAR, bars / largest, "")
        if fused:
            yield from _bar(panel, view.alone, f"{view.name} by itself", left, lead + BAR + 2, THIN, bars / largest,
                            " before")
        longest = max(sum(panel.values(share).values()) for share in (view.planned, view.alone))
        yield Label(left + longest * bars / largest + 5, top + 15, panel.unit.number(
            sum(panel.values(view.planned).values())), "value")


def _bar(panel: LayerPanel, share: LayerShare, name: str, left: float, top: float, height: float, scale: float,
         suffix: str) -> Iterator[Shape]:
    values = panel.values(share)
    for part, kind in panel.parts:
        width = values.get(part, 0.0) * scale
        if width > 0:
            yield Rect(left, top, width, height, kind + suffix, f"{name}, {part}: {panel.unit.written(values[part])}")
            left += width
