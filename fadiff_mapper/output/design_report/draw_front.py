"""EDP against area: every feasible design a dot, the front numbered, the best design ringed, the limit a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fadiff_mapper.output.design_report.log_axis import LogAxis, axis_of
from fadiff_mapper.output.network_report.drawing import (
    Dot,
    Drawing,
    Label,
    Rect,
    Shape,
    Stroke,
    level_line,
    upright_line,
)
from fadiff_mapper.output.network_report.rounded_units import EDP, DisplayUnit, unit_for

if TYPE_CHECKING:
    from fadiff_mapper.design.evaluation.design_result import DesignOutcome, DesignResult

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1080.0, 400.0, 92.0, 1060.0, 16.0, 356.0
"""Pixels: of the drawing, and of the edges of its field."""

MOST_NUMBERED = 40
"""Designs of the front that have a number beside their dot: more would cover one another."""


def draw_front(result: DesignResult) -> Drawing | None:
    """The drawing, or None where fewer than two designs are feasible or no area is known.

    Args:
        result: The end of a search.
    """
    feasible = [outcome for outcome in result.outcomes if outcome.feasible and outcome.area_mm2 > 0]
    if len(feasible) < 2:
        return None
    areas = [outcome.area_mm2 for outcome in feasible]
    limit = result.limits.get("area_mm2")
    x = axis_of([*areas, *([limit] if limit and limit < 4 * max(areas) else [])], LEFT, RIGHT)
    y = axis_of([outcome.edp for outcome in feasible], BOTTOM, TOP)
    unit = unit_for([max(outcome.edp for outcome in feasible)], EDP)
    front = {outcome.point for outcome in result.front}
    shapes: list[Shape] = [*_axes(x, y, unit)]
    if limit and x.low <= limit <= x.high:
        shapes += [Rect(x.at(limit), TOP, RIGHT - x.at(limit), BOTTOM - TOP, "strip", f"beyond the limit of {limit:g}"),
                   upright_line(x.at(limit), TOP, BOTTOM, "edge"),
                   Label(x.at(limit) - 6, TOP + 12, f"limit {limit:g} mm²", "quiet", "end")]
    shapes.append(Stroke(_staircase(least_of_both(feasible), x, y), "edge"))
    shapes += [Dot(x.at(outcome.area_mm2), y.at(outcome.edp), 3, "other", described(outcome, unit))
               for outcome in feasible if outcome.point not in front]
    for number, outcome in enumerate(result.front, 1):
        here = x.at(outcome.area_mm2), y.at(outcome.edp)
        if number == 1:
            shapes.append(Dot(*here, 9, "ring", described(outcome, unit)))
        shapes.append(Dot(*here, 5, "chosen", described(outcome, unit)))
        if number <= MOST_NUMBERED and len(result.front) > 1:
            shapes.append(Label(here[0] + 8, here[1] - 7, str(number), "value"))
    return Drawing(WIDTH, HEIGHT, "EDP against area of every feasible design", tuple(shapes))


def described(outcome: DesignOutcome, unit: DisplayUnit) -> str:
    """A design in one line: its parameters, its EDP and its area."""
    values = ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                       for name, value in outcome.parameters.items())
    return f"{values}: {unit.written(outcome.edp)}, {outcome.area_mm2:.4g} mm²"


def least_of_both(outcomes: Sequence[DesignOutcome]) -> list[DesignOutcome]:
    """The designs that no other one beats in both EDP and area, by rising area."""
    front: list[DesignOutcome] = []
    for outcome in sorted(outcomes, key=lambda each: (each.area_mm2, each.edp)):
        if not front or outcome.edp < front[-1].edp:
            front.append(outcome)
    return front


def _axes(x: LogAxis, y: LogAxis, unit: DisplayUnit) -> Iterator[Shape]:
    """Both axes with their ticks and names."""
    yield level_line(LEFT, BOTTOM, RIGHT, "rule")
    yield upright_line(LEFT, TOP, BOTTOM, "rule")
    for tick in x.ticks():
        yield upright_line(x.at(tick), TOP, BOTTOM, "grid")
        yield Label(x.at(tick), BOTTOM + 16, f"{tick:.4g}", "value", "middle")
    for tick in y.ticks():
        yield level_line(LEFT, y.at(tick), RIGHT, "grid")
        yield Label(LEFT - 8, y.at(tick) + 4, f"{tick / unit.size:.4g}", "value", "end")
    yield Label(RIGHT, BOTTOM + 34, "area (mm²)", "head", "end")
    yield Label(4, TOP - 2, f"EDP ({unit.name})", "head")


def _staircase(front: Sequence[DesignOutcome], x: LogAxis, y: LogAxis) -> str:
    """The border of the designs that are beaten, as a path."""
    start = f"M{x.at(front[0].area_mm2):.1f} {TOP:.1f}V{y.at(front[0].edp):.1f}"
    return start + "".join(f"H{x.at(outcome.area_mm2):.1f}V{y.at(outcome.edp):.1f}" for outcome in front[1:]) + (
        f"H{RIGHT:.1f}")
