"""Drawings as values: shapes with coordinates in pixels and a CSS class each, the units of their numbers, and axes.

`svg` turns shapes into SVG and escapes their texts; the page's template styles the classes, in light and in dark.
Drawing code needs no markup, and tests read coordinates instead of text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup, escape

COLOURS = 6  # colours of each family of CSS classes, such as group0 to group5; more groups repeat the colours
LETTER = 6.3  # width of a letter of the drawings' text in pixels: an upper estimate of the average


@dataclass(frozen=True)
class Rect:
    """A rectangle with its upper left corner at (x, y); `title` is its tooltip."""

    x: float
    y: float
    width: float
    height: float
    css_class: str
    title: str = ""
    radius: float = 0  # of the corners


@dataclass(frozen=True)
class Stroke:
    """A line; `path` in SVG's path commands."""

    path: str
    css_class: str


@dataclass(frozen=True)
class Dot:
    """A circle around (x, y); `title` is its tooltip."""

    x: float
    y: float
    radius: float
    css_class: str
    title: str = ""


@dataclass(frozen=True)
class Label:
    """A line of text on the base line y; `anchor`: whether x is its start, middle or end."""

    x: float
    y: float
    text: str
    css_class: str = ""
    anchor: str = "start"
    title: str = ""


Shape: TypeAlias = Rect | Stroke | Dot | Label


@dataclass(frozen=True)
class Drawing:
    """Shapes from back to front, the size in pixels, and a `title` for screen readers."""

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def tint(family: str, number: int) -> str:
    """The CSS class with the colour of one member of a family."""
    return f"{family}{number % COLOURS}"


def fitting(text: str, width: float) -> str:
    """A name in as few letters as fit into `width` pixels.

    Names of equal blocks differ by a number in their middle and by their last word, as in
    `model.layers.7.self_attn.q_proj`. So words before the last one shrink to their first letters, from the left and as
    far as needed, but keep their numbers: `m.l.7.self_attn.q_proj`. If this is too long, words without a number are
    dropped, then letters in the middle of the last word.
    """
    most = max(3, int(width / LETTER))
    *front, last = re.split(r"(?<=[./])", text)
    for index, word in enumerate(front):
        if len("".join((*front, last))) > most:
            front[index] = re.sub(r"([^\W\d_])[^\W\d_]+", r"\1", word)
    gone = ""
    for index, word in enumerate(front):
        if len("".join((gone, *front, last))) > most and not re.search(r"\d", word):
            front[index], gone = "", "\u2026"
    head = "".join((gone, *front))
    room = most - len(head)
    if len(last) <= room:
        return head + last
    if room < 3:
        head, last, room = "", text, most
    return f"{head}{last[:(room - 1) // 2]}\u2026{last[len(last) - room // 2:]}"


def level_line(x: float, y: float, end: float, css_class: str) -> Stroke:
    """A horizontal line from (x, y) to x = `end`."""
    return Stroke(f"M{x:.1f} {y:.1f}H{end:.1f}", css_class)


def upright_line(x: float, y: float, end: float, css_class: str) -> Stroke:
    """A vertical line from (x, y) to y = `end`."""
    return Stroke(f"M{x:.1f} {y:.1f}V{end:.1f}", css_class)


def svg(shapes: Iterable[Shape]) -> Markup:
    """The elements of some shapes from back to front, one per line, with their titles inside and all texts escaped.

    Written in Python, as pages of large networks have some ten thousand shapes and templates are slower.
    """
    elements = []
    for shape in shapes:
        css_class = _escaped(shape.css_class)
        title = f"<title>{_escaped(shape.title)}</title>" if not isinstance(shape, Stroke) and shape.title else ""
        if isinstance(shape, Stroke):
            elements.append(f'<path d="{_escaped(shape.path)}" class="{css_class}"/>\n')
        elif isinstance(shape, Rect):
            elements.append(f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" '
                            f'height="{shape.height:.1f}" rx="{shape.radius}" class="{css_class}">{title}</rect>\n')
        elif isinstance(shape, Dot):
            elements.append(f'<circle cx="{shape.x}" cy="{shape.y}" r="{shape.radius}" class="{css_class}">'
                            f"{title}</circle>\n")
        else:
            elements.append(f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}" '
                            f'class="{css_class}">{_escaped(shape.text)}{title}</text>\n')
    return Markup("".join(elements))


def _escaped(text: str) -> str:
    """The text escaped for markup; most texts have no such character, and checking first is faster."""
    return escape(text) if re.search("[&<>'\"]", text) else text


ENERGY = (("pJ", 1.0), ("nJ", 1e3), ("µJ", 1e6), ("mJ", 1e9), ("J", 1e12))  # units of values in pJ

EDP = tuple((f"{name}·cycles", size) for name, size in (*ENERGY, ("kJ", 1e15), ("MJ", 1e18), ("GJ", 1e21)))
"""Units of values in pJ * cycles."""

COUNT = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))  # prefixes of plain counts
DIGITS = 4  # significant digits of the largest of several numbers in one unit


@dataclass(frozen=True)
class DisplayUnit:
    """One unit for several numbers."""

    name: str  # written behind the number
    size: float  # in terms of pJ, pJ * cycles or 1
    decimals: int  # of every number

    def number(self, value: float) -> str:
        """The value in this unit, without its name; two digits where the decimals would show none."""
        scaled = value / self.size
        if scaled and abs(scaled) < 0.5 * 10.0 ** -self.decimals:
            return f"{scaled:.2g}"
        return f"{scaled:,.{self.decimals}f}" if scaled else "0"

    def written(self, value: float) -> str:
        """The value in this unit with its name."""
        return f"{self.number(value)} {self.name}".rstrip()


def unit_for(values: Iterable[float], units: tuple[tuple[str, float], ...], counted: str = "") -> DisplayUnit:
    """The largest unit in which the largest of all values is at least 1.

    `units` are pairs (name, size), the smallest first; `counted` is the noun behind the unit, such as "words".
    """
    largest = max((abs(value) for value in values), default=0.0)
    name, size = next(((name, size) for name, size in reversed(units) if largest >= size), units[0])
    whole = len(str(int(largest / size)))
    return DisplayUnit(f"{name} {counted}".strip(), size, max(0, DIGITS - whole))


def change(planned: float, before: float) -> str:
    """The difference of the plan to the unfused network in percent, with a typographic minus sign."""
    if not before:
        return "0 %"
    percent = 100 * (planned - before) / before
    return "0 %" if abs(percent) < 0.05 else f"{percent:+.1f} %".replace("-", "\u2212")


WIDE = 5.0  # from this quotient of the ends on, ticks are at 1, 2 and 5 times powers of ten; below, equally spaced
MOST_TICKS = 9  # ticks at most: beyond, only powers of ten are marked


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis of positive values."""

    low: float
    high: float  # above `low`
    start: float  # pixel of `low`
    end: float  # pixel of `high`; below `start` for an upward axis

    def at(self, value: float) -> float:
        """The pixel of a value, clipped to the axis."""
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
    """An axis around positive values from pixel `start` to pixel `end`, with a margin at both ends."""
    given = list(values)
    low, high = min(given), max(given)
    room = max((high / low) ** 0.06, 1.02)
    return LogAxis(low / room, high * room, start, end)


def field(left: float, right: float, y: LogAxis, unit: float = 1.0, x: LogAxis | None = None) -> list[Shape]:
    """The frame of a field and the ticks of its axes, y in multiples of a unit; x if that is logarithmic, too."""
    shapes: list[Shape] = [level_line(left, y.start, right, "rule"), upright_line(left, y.end, y.start, "rule")]
    for tick, at in [(tick, x.at(tick)) for tick in x.ticks()] if x else ():
        shapes += [upright_line(at, y.end, y.start, "grid"), Label(at, y.start + 16, f"{tick:.4g}", "value", "middle")]
    for tick in y.ticks():
        shapes += [level_line(left, y.at(tick), right, "grid"),
                   Label(left - 8, y.at(tick) + 4, f"{tick / unit:.4g}", "value", "end")]
    return shapes


def round_ticks(low: float, high: float) -> tuple[float, ...]:
    """Equally spaced round values from `low` to `high`, about five: multiples of 1, 2 or 5 times a power of ten."""
    width = (high - low) / 4
    power: float = 10.0 ** math.floor(math.log10(width))
    step = max(digit * power for digit in (1, 2, 5) if digit * power <= width * (1 + 1e-9))
    return tuple(i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1))
