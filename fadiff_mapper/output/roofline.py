"""The roofline of some work: multiply-accumulates per time against multiply-accumulates per outermost word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.output.drawing import COUNT, Dot, Drawing, Label, Shape, Stroke, axis_of, field, unit_for

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1080.0, 320.0, 92.0, 980.0, 22.0, 276.0
"""Pixels of the drawing, and of the edges of its field."""


@dataclass(frozen=True)
class RooflinePoint:
    """One piece of work, such as a layer or a fused group."""

    name: str
    macs: float  # multiply-accumulates
    words: float  # words that the outermost memory reads and writes for the work
    time: float  # time of the work
    colour: str  # class of its dot


def draw_roofline(points: Sequence[RooflinePoint], peak: float, bandwidth: float | None, per: str) -> Drawing | None:
    """The work below the roof of array and memory; None where the memory is unlimited, or no point can be drawn.

    Args:
        points: The work; points without words, time or multiply-accumulates are left out.
        peak: Multiply-accumulates of the array in a unit of time.
        bandwidth: Words of the outermost memory, reads and writes together, in a unit of time; None is unlimited.
        per: The unit of time.
    """
    shown = [(point, point.macs / point.words, point.macs / point.time) for point in points
             if point.macs and point.words and point.time]
    if bandwidth is None or not shown:
        return None
    ridge = peak / bandwidth
    x = axis_of([*(intensity for _, intensity, _ in shown), ridge], LEFT, RIGHT)
    y = axis_of([*(rate for *_, rate in shown), peak], BOTTOM, TOP)
    unit = unit_for([peak], COUNT, f"MAC/{per}")
    shapes: list[Shape] = field(LEFT, RIGHT, y, unit.size, x)
    low = max(x.low, y.low / bandwidth)
    start, bend = ((x.at(at), y.at(at * bandwidth)) for at in (low, ridge))
    shapes += [Stroke(f"M{start[0]:.1f} {start[1]:.1f}L{bend[0]:.1f} {bend[1]:.1f}H{RIGHT:.1f}", "edge"),
               Label(RIGHT, BOTTOM + 34, "multiply-accumulates a word", "head", "end"),
               Label(4, TOP - 8, unit.name, "head")]
    shapes += [Dot(x.at(intensity), y.at(rate), 4, point.colour, f"{point.name}: {unit.written(rate)}")
               for point, intensity, rate in shown]
    return Drawing(WIDTH, HEIGHT, "roofline", tuple(shapes))
