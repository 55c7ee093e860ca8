"""Pictures by matplotlib as `svg` elements that stand inside a page."""

from __future__ import annotations

import io

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#1b6ca8", "#d1602b", "#3a7d44", "#8a4f9e", "#b8952a", "#6b6b6b", "#c23b55", "#2a9d9d")
"""Told apart by people who see colours differently, light enough for lines on white."""


def svg_of(figure: Figure) -> str:
    """A figure as one `svg` element, the same for the same figure.

    Args:
        figure: The figure; not to be drawn on afterwards.
    """
    text = io.StringIO()
    with rc_context({"svg.hashsalt": "papers", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg"):]


def plain(axes: Axes) -> None:
    """Takes away what carries no data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", alpha=0.25)
