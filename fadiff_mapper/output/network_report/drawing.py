"""Drawings as values: shapes with coordinates and the kind of thing they show.

A template turns them into SVG, escapes their texts, and decides by kind how they look, in light and in dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

COLOURS = 6
"""Of each family of kinds, such as group0 to group5; they come again where there are more groups."""

LETTER = 6.3
"""Width of a letter of the drawings' text in pixels, at most on average."""


@dataclass(frozen=True)
class Rect:
    """`title` is what a pointer that rests on it is shown."""

    tag: ClassVar[str] = "rect"
    x: float
    y: float
    width: float
    height: float
    kind: str
    title: str = ""
    radius: float = 0


@dataclass(frozen=True)
class Stroke:
    """A line; `path` in SVG's path commands."""

    tag: ClassVar[str] = "path"
    path: str
    kind: str


@dataclass(frozen=True)
class Dot:
    tag: ClassVar[str] = "circle"
    x: float
    y: float
    radius: float
    kind: str
    title: str = ""


@dataclass(frozen=True)
class Label:
    """`anchor`: start, middle or end of the text lies at x."""

    tag: ClassVar[str] = "text"
    x: float
    y: float
    text: str
    kind: str = ""
    anchor: str = "start"
    title: str = ""


Shape: TypeAlias = Rect | Stroke | Dot | Label


@dataclass(frozen=True)
class Drawing:
    """Width and height in pixels; `title` says in words what is seen."""

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def tint(family: str, number: int) -> str:
    """The kind that gives one member of a family its colour."""
    return f"{family}{number % COLOURS}"


def fitting(text: str, width: float) -> str:
    """The text, cut in the middle where it is wider than `width` pixels."""
    most = max(3, int(width / LETTER))
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}\u2026{text[len(text) - (most - 1 - head):]}"


def level_line(x: float, y: float, end: float, kind: str) -> Stroke:
    """A horizontal line."""
    return Stroke(f"M{x:.1f} {y:.1f}H{end:.1f}", kind)


def upright_line(x: float, y: float, end: float, kind: str) -> Stroke:
    """A vertical line."""
    return Stroke(f"M{x:.1f} {y:.1f}V{end:.1f}", kind)
