"""Drawings as values: shapes with coordinates in pixels and a CSS class each.

`svg.svg` turns them into SVG and escapes their texts; the template of the page decides by class how they look, in light
and in dark. Code that draws thus needs no markup, and tests read coordinates instead of text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

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
