"""Parts that the figures of layers and networks share: plain axes, names as plain text, a metric over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

METRICS = {"edp": "EDP (pJ * cycles)", "energy": "energy (pJ)", "delay": "cycles",
           "last_level_accesses": "last level accesses (words)"}
"""Labels of the metrics that a search can minimise."""


def plain_axes(axes: Axes, title: str) -> None:
    """Sets a title and takes away the two sides of the frame that carry no scale."""
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def name_ticks(axes: Axes, names: Sequence[str]) -> None:
    """Names below the x axis at 0, 1, 2 and so on; a dollar sign in a name begins no formula."""
    axes.set_xticks(range(len(names)), list(names), rotation=60, ha="right", parse_math=False)


def name_legend(axes: Axes) -> None:
    """A legend of all labelled artists, where there are any; a dollar sign in a name begins no formula."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        for text in axes.legend(handles, labels, frameon=False, fontsize=8).get_texts():
            text.set_parse_math(False)


def draw_history(axes: Axes, history: Sequence[Mapping[str, Any]], metric: str, value: float, time_s: float) -> None:
    """Draws the best value so far over the seconds since the start, as steps that go on to the end of the run.

    Args:
        axes: Where to draw.
        history: Improvements, each with `time_s` and `value`; entries from before the first legal mapping have no
            value and are left out.
        metric: A key of `METRICS`.
        value: The final value of the metric, at which the line ends.
        time_s: Seconds that the run took.
    """
    known = [(step["time_s"], step["value"]) for step in history if step["value"] is not None]
    seconds, values = zip(*known, (max([time_s, *(at for at, _ in known)]), value), strict=True)
    axes.plot(seconds, values, drawstyle="steps-post", color="#1b6ca8", marker=".", markersize=4)
    axes.set_yscale("log")
    axes.set_xlabel("seconds", fontsize=8)
    axes.set_ylabel(METRICS[metric], fontsize=8)
    plain_axes(axes, f"best {METRICS[metric].split(' (')[0]} over time")
