"""Shapes of drawings as SVG.

Pages of large networks have some ten thousand shapes; a template takes five times as long for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

from fadiff_mapper.output.network_report.drawing import Dot, Label, Rect, Shape, Stroke

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
