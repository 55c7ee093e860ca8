"""Layer by layer: energy by component, cycles, and words at the outermost level.

Three panels of horizontal bars share one row per layer. The bar of the plan stands above, the same layer by itself
below it, so that a reader sees in each quantity what fusion changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fadiff_mapper.output.network_report.drawing import (
    COUNT,
    ENERGY,
    DisplayUnit,
    Drawing,
    Label,
    Rect,
    Shape,
    fitting,
    level_line,
    tint,
    unit_for,
    upright_line,
)
from fadiff_mapper.output.network_report.layer_views import LayerShare, LayerView

WIDTH, NAMES, GAP, VALUE = 1080.0, 176.0, 26.0, 52.0
"""Pixels: of the drawing, of the names on the left, between panels, and of the number behind the longest bar."""

HEAD, ROW, BAR, THIN = 34.0, 24.0, 9.0, 4.0
"""Pixels: of the headings, of a row, and of a bar as planned and by itself."""


@dataclass(frozen=True)
class LayerPanel:
    """One panel of bars.

    Attributes:
        title: The heading, with the unit.
        unit: The unit of all numbers in the panel.
        parts: `(name, CSS class)` of the parts of every bar, in the order in which they are stacked.
        values: From a layer's share to the value of each part by name; missing parts are 0.
    """

    title: str
    unit: DisplayUnit
    parts: tuple[tuple[str, str], ...]
    values: Callable[[LayerShare], dict[str, float]]


def draw_layers(views: Sequence[LayerView], components: Sequence[str], spaces: Sequence[str],
                outermost: str) -> Drawing:
    """One row per layer. A layer that runs by itself has one bar, a fused one a second, pale one of before.

    Args:
        views: The plan's layers, from `layer_views`.
        components: Names of the components in the order in which energies are stacked.
        spaces: Names of the data spaces in the order in which traffic is stacked.
        outermost: Name of the outermost level.
    """
    panels = _panels(views, components, spaces, outermost)
    width = (WIDTH - NAMES) / len(panels)
    shapes: list[Shape] = []
    for row, view in enumerate(views):
        top = HEAD + row * ROW
        shapes.append(Label(NAMES - 22, top + 15, fitting(view.name, NAMES - 26), "name", "end", view.name))
        if view.group is not None:
            shapes.append(Rect(NAMES - 14, top + 2, 4, ROW - 4, tint("group", view.group), f"group {view.group}", 2))
    for column, panel in enumerate(panels):
        gap = GAP if column else 0
        shapes += _panel(panel, views, NAMES + column * width + gap, width - gap)
    return Drawing(WIDTH, HEAD + len(views) * ROW + 8, "energy, cycles and outermost traffic of every layer",
                   tuple(shapes))


def component_kind(components: Sequence[str], outermost: str, name: str) -> str:
    """The CSS class that colours a component; the outermost level always has the same one."""
    return "outer" if name == outermost else tint("part", list(components).index(name))


def _panels(views: Sequence[LayerView], components: Sequence[str], spaces: Sequence[str],
            outermost: str) -> tuple[LayerPanel, ...]:
    """The three panels, each in the unit that fits its largest number, planned or not."""
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
    """Heading, axis and bars of one panel; all bars of a panel have one scale."""
    bars = width - VALUE
    largest = max((sum(panel.values(share).values()) for view in views for share in (view.planned, view.alone)),
                  default=0.0) or 1.0
    yield Label(left, 14, panel.title, "head")
    yield level_line(left, HEAD - 8, left + width, "rule")
    yield upright_line(left, HEAD - 8, HEAD + len(views) * ROW, "rule")
    for row, view in enumerate(views):
        top = HEAD + row * ROW
        fused = view.group is not None
        bar_top = top + (4 if fused else (ROW - BAR) / 2)
        yield from _bar(panel, view.planned, view.name, left, bar_top, BAR, bars / largest, "")
        if fused:
            yield from _bar(panel, view.alone, f"{view.name} by itself", left, bar_top + BAR + 2, THIN, bars / largest,
                            " before")
        longest = max(sum(panel.values(share).values()) for share in (view.planned, view.alone))
        yield Label(left + longest * bars / largest + 5, top + 15, panel.unit.number(
            sum(panel.values(view.planned).values())), "value")


def _bar(panel: LayerPanel, share: LayerShare, name: str, left: float, top: float, height: float, scale: float,
         suffix: str) -> Iterator[Shape]:
    """The parts of one bar side by side; `scale` in pixels per unit of the value, `suffix` a further CSS class."""
    values = panel.values(share)
    for part, css_class in panel.parts:
        width = values.get(part, 0.0) * scale
        if width > 0:
            yield Rect(left, top, width, height, css_class + suffix,
                       f"{name}, {part}: {panel.unit.written(values[part])}")
            left += width
