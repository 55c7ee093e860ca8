"""The best value so far against designs mapped and against seconds, as steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fadiff_mapper.output.design_report.draw_front import LogAxis, axis_of, round_ticks
from fadiff_mapper.output.network_report.drawing import (
    COUNT,
    EDP,
    ENERGY,
    DisplayUnit,
    Dot,
    Drawing,
    Label,
    Shape,
    Stroke,
    level_line,
    unit_for,
    upright_line,
)

if TYPE_CHECKING:
    from fadiff_mapper.design.result import DesignResult

WIDTH, HEIGHT, GAP, LEFT, TOP, BELOW = 1080.0, 250.0, 36.0, 78.0, 22.0, 40.0
"""Pixels: of the drawing, between its two panels, and around a panel's field."""

UNITS = {"edp": EDP, "energy": ENERGY, "delay": COUNT}
PLAIN = (("", 1.0),)
"""Units of the metrics' values; products with an area have none."""


def draw_convergence(result: DesignResult) -> Drawing | None:
    """Two panels that share an axis, or None where nothing feasible was found.

    Args:
        result: The end of a search.
    """
    steps = [step for step in result.history if step["value"] > 0]
    if not steps:
        return None
    y = axis_of([step["value"] for step in steps], HEIGHT - BELOW, TOP)
    unit = unit_for([steps[0]["value"]], UNITS.get(result.metrics[0], PLAIN))
    width = (WIDTH - GAP) / 2
    panels = (("designs mapped", [step["evaluations"] for step in steps], float(max(1, result.evaluations)), 0.0),
              ("seconds", [step["time_s"] for step in steps], max(result.time_s, 1e-3), width + GAP))
    shapes: list[Shape] = []
    for name, places, end, left in panels:
        shapes += _panel(name, places, [step["value"] for step in steps], end, (left + LEFT, left + width - 8), y,
                         unit)
    shapes.append(Label(4, 12, f"{result.metrics[0]} ({unit.name})" if unit.name else result.metrics[0], "head"))
    return Drawing(WIDTH, HEIGHT, "best value so far", tuple(shapes))


def _panel(name: str, places: Sequence[float], values: Sequence[float], end: float, field: tuple[float, float],
           y: LogAxis, unit: DisplayUnit) -> Iterator[Shape]:
    """One panel: a linear axis from 0 to `end`, and the best value so far, which falls in steps."""
    left, right = field
    scale = (right - left) / end
    yield level_line(left, y.start, right, "rule")
    yield upright_line(left, y.end, y.start, "rule")
    for tick in y.ticks():
        yield level_line(left, y.at(tick), right, "grid")
        yield Label(left - 8, y.at(tick) + 4, f"{tick / unit.size:.4g}", "value", "end")
    for tick in round_ticks(0.0, end):
        yield Label(left + tick * scale, y.start + 16, f"{tick:.4g}", "value", "middle")
    yield Label(right, y.start + 32, name, "head", "end")
    points = [(left + min(place, end) * scale, y.at(value)) for place, value in zip(places, values, strict=True)]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{px:.1f}V{py:.1f}" for px, py in points[1:])
    yield Stroke(f"{path}H{right:.1f}", "course")
    for (px, py), value in zip(points, values, strict=True):
        yield Dot(px, py, 3, "chosen", unit.written(value))
