"""Drawings as values: shapes with coordinates in pixels and a CSS class each.

`svg.svg` turns them into SVG and escapes their texts; the template of the page decides by class how they look, in light
and in dark. Code that draws thus needs no markup, and tests read coordinates instead of text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from markupsafe import Markup, escape

COLOURS = 6
"""Colours of each family of CSS classes, such as group0 to group5; with more groups the colours come again."""

LETTER = 6.3
"""Width of a letter of the drawings' text in pixels, at most on average."""


@dataclass(frozen=True)
class Rect:
    """A rectangle.

    Attributes:
        x: Left edge.
        y: Upper edge.
        width: Extent to the right.
        height: Extent downwards.
        css_class: Decides the colour.
        title: Text for a pointer that rests on the rectangle.
        radius: Of the corners.
    """

    tag: ClassVar[str] = "rect"
    x: float
    y: float
    width: float
    height: float
    css_class: str
    title: str = ""
    radius: float = 0


@dataclass(frozen=True)
class Stroke:
    """A line; `path` in SVG's path commands."""

    tag: ClassVar[str] = "path"
    path: str
    css_class: str


@dataclass(frozen=True)
class Dot:
    """A circle around (x, y); `title` is the text for a pointer that rests on it."""

    tag: ClassVar[str] = "circle"
    x: float
    y: float
    radius: float
    css_class: str
    title: str = ""


@dataclass(frozen=True)
class Label:
    """A line of text on the base line y; `anchor` says whether its start, middle or end lies at x."""

    tag: ClassVar[str] = "text"
    x: float
    y: float
    text: str
    css_class: str = ""
    anchor: str = "start"
    title: str = ""


Shape: TypeAlias = Rect | Stroke | Dot | Label


@dataclass(frozen=True)
class Drawing:
    """Shapes from back to front; width and height in pixels, `title` describes the drawing for those who cannot see."""

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def tint(family: str, number: int) -> str:
    """The CSS class that gives one member of a family its colour."""
    return f"{family}{number % COLOURS}"


def fitting(text: str, width: float) -> str:
    """A name in as few letters as fit into `width` pixels.

    Names of equal blocks differ by a number in their middle and by their last word, as in
    `model.layers.7.self_attn.q_proj`. So the words in front of the last one shrink to their first letters, from the
    left and only as far as needed, but keep their numbers: `m.l.7.self_attn.q_proj`. Words without a number go next,
    and at last letters in the middle of the last word.
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


# Pages of large networks have some ten thousand shapes; a template takes five times as long for them.

MARKUP = re.compile("[&<>'\"]")
"""Signs that have a meaning in markup."""


def svg(shapes: Iterable[Shape]) -> Markup:
    """The elements of some shapes, one in each line, with all texts escaped.

    Args:
        shapes: From back to front.
    """
    return Markup("".join(map(_element, shapes)))


def _element(shape: Shape) -> str:
    """One shape as an element; its title is the element `title` inside."""
    css_class = _escaped(shape.css_class)
    if isinstance(shape, Rect):
        return (f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}" '
                f'rx="{shape.radius}" class="{css_class}">{_title(shape.title)}</rect>\n')
    if isinstance(shape, Stroke):
        return f'<path d="{_escaped(shape.path)}" class="{css_class}"/>\n'
    if isinstance(shape, Dot):
        return (f'<circle cx="{shape.x}" cy="{shape.y}" r="{shape.radius}" class="{css_class}">'
                f"{_title(shape.title)}</circle>\n")
    assert isinstance(shape, Label)
    return (f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}" class="{css_class}">'
            f"{_escaped(shape.text)}{_title(shape.title)}</text>\n")


def _title(text: str) -> str:
    """The text for a pointer that rests on a shape, or nothing."""
    return f"<title>{_escaped(text)}</title>" if text else ""


def _escaped(text: str) -> str:
    """The text for markup; few texts have a sign to escape, and looking for one takes a fourth of the time."""
    return escape(text) if MARKUP.search(text) else text


ENERGY = (("pJ", 1.0), ("nJ", 1e3), ("µJ", 1e6), ("mJ", 1e9), ("J", 1e12))
"""Units of values in pJ."""

EDP = tuple((f"{name}·cycles", size) for name, size in (*ENERGY, ("kJ", 1e15), ("MJ", 1e18), ("GJ", 1e21)))
"""Units of values in pJ * cycles."""

COUNT = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
"""Prefixes of plain counts."""

DIGITS = 4
"""Significant digits of the largest number that stands side by side with others."""


@dataclass(frozen=True)
class DisplayUnit:
    """A unit for all numbers that stand side by side.

    Attributes:
        name: Written behind the number.
        size: The unit in terms of pJ, pJ * cycles or 1.
        decimals: Decimals of every number.
    """

    name: str
    size: float
    decimals: int

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
    """The largest unit in which the largest value is at least 1.

    Args:
        values: All numbers that stand side by side.
        units: `(name, size)`, smallest first.
        counted: Noun behind the unit, such as "words".
    """
    largest = max((abs(value) for value in values), default=0.0)
    name, size = next(((name, size) for name, size in reversed(units) if largest >= size), units[0])
    whole = len(str(int(largest / size)))
    return DisplayUnit(f"{name} {counted}".strip(), size, max(0, DIGITS - whole))


def change(planned: float, before: float) -> str:
    """The difference between plan and unfused network in percent of the latter, with a typographic minus sign."""
    if not before:
        return "0 %"
    percent = 100 * (planned - before) / before
    return "0 %" if abs(percent) < 0.05 else f"{percent:+.1f} %".replace("-", "\u2212")
