"""EDP against area: every feasible design a dot, the front numbered, the best design ringed, the limit a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff_mapper.output.network_report.drawing import (
    EDP,
    DisplayUnit,
    Dot,
    Drawing,
    Label,
    Rect,
    Shape,
    Stroke,
    level_line,
    unit_for,
    upright_line,
)

if TYPE_CHECKING:
    from fadiff_mapper.design.result import DesignOutcome, DesignResult

WIDE = 5.0
"""Quotient of the ends from which on ticks are at 1, 2 and 5 times powers of ten; below, they are equally spaced."""

MOST_TICKS = 9
"""Ticks at most: with more, only powers of ten are marked."""


@dataclass(frozen=True)
class LogAxis:
    """An axis from `low` to `high`, drawn from pixel `start` to pixel `end`.

    Attributes:
        low: Least value, positive.
        high: Greatest value, above `low`.
        start: Pixel of `low`.
        end: Pixel of `high`; below `start` for an axis that points upwards.
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value; a value beyond the axis stands at its end."""
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> tuple[float, ...]:
        """Round values on the axis in ascending order."""
        if self.high / self.low < WIDE:
            return round_ticks(self.low, self.high)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        every = [digit * 10.0 ** decade for decade in decades for digit in (1, 2, 5)]
        inside = tuple(tick for tick in every if self.low <= tick <= self.high)
        powers = tuple(tick for tick in (10.0 ** decade for decade in decades) if self.low <= tick <= self.high)
        return inside if len(inside) <= MOST_TICKS else powers[::max(1, math.ceil(len(powers) / MOST_TICKS))]


def axis_of(values: Iterable[float], start: float, end: float) -> LogAxis:
    """An axis around positive values, with a little room at both ends.

    Args:
        values: The values; at least one.
        start: Pixel of the lower end.
        end: Pixel of the upper end.
    """
    given = list(values)
    low, high = min(given), max(given)
    room = max((high / low) ** 0.06, 1.02)
    return LogAxis(low / room, high * room, start, end)


def round_ticks(low: float, high: float) -> tuple[float, ...]:
    """Equally spaced round values from `low` to `high`, about five."""
    step = _round_step((high - low) / 4)
    return tuple(i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1))


def _round_step(width: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is at most `width`."""
    power: float = 10.0 ** math.floor(math.log10(width))
    return max(digit * power for digit in (1, 2, 5) if digit * power <= width * (1 + 1e-9))


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
