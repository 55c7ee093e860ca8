"""The plan of a network as a figure: every layer with and without fusion, and how the search went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fadiff_mapper.output.network_report.layer_views import LayerShare, LayerView, layer_views
from fadiff_mapper.output.notebook.axes import draw_history, name_legend, name_ticks, plain_axes

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult

PLANNED, ALONE = "#1b6ca8", "#b3b8bf"
"""Colours of a layer as planned, and of the same layer by itself."""

BAR = 0.4
"""Width of a bar; two bars and a gap make up one unit of the x axis."""

QUANTITIES: dict[str, Callable[[LayerShare], float]] = {
    "energy (pJ)": lambda share: share.energy_pj,
    "cycles": lambda share: share.cycles,
    "EDP (pJ * cycles)": lambda share: share.energy_pj * share.cycles,
}
"""Quantities of a layer, all its runs together. The EDPs of layers do not add up to the EDP of the network."""


def network_figure(result: NetworkResult) -> Figure:
    """Energy, cycles and EDP of every layer as planned and by itself, energy over delay, and the metric over time.

    Args:
        result: The plan of a network.

    Returns:
        A figure that belongs to no window and to no state of pyplot; notebooks show it as it is. Its axes: one for
        each of `QUANTITIES` above one another, below them energy over delay and the network's value over time.
    """
    views = layer_views(result)
    figure = Figure(figsize=(min(max(9.6, 0.3 * len(views)), 40.0), 11.0), layout="constrained")
    grid = figure.add_gridspec(len(QUANTITIES) + 1, 2)
    shared: Axes | None = None
    for row, (label, quantity) in enumerate(QUANTITIES.items()):
        shared = figure.add_subplot(grid[row, :], sharex=shared)
        _draw_layers(shared, views, label, quantity)
        shared.tick_params(labelbottom=row == len(QUANTITIES) - 1)
    _draw_points(figure.add_subplot(grid[-1, 0]), views)
    metric = str(result.options.get("metric", "edp"))
    final = {"edp": result.stats.edp, "energy": result.stats.energy_pj, "delay": float(result.stats.cycles)}[metric]
    draw_history(figure.add_subplot(grid[-1, 1]), result.history, metric, final, result.time_s)
    return figure


def _draw_layers(axes: Axes, views: Sequence[LayerView], label: str, quantity: Callable[[LayerShare], float]) -> None:
    """Two bars per layer: as planned on the left, by itself on the right."""
    ticks = range(len(views))
    axes.bar([tick - BAR / 2 for tick in ticks], [quantity(view.planned) for view in views], BAR, color=PLANNED,
             label="planned")
    axes.bar([tick + BAR / 2 for tick in ticks], [quantity(view.alone) for view in views], BAR, color=ALONE,
             label="by itself")
    name_ticks(axes, [view.name for view in views])
    name_legend(axes)
    plain_axes(axes, f"{label} by layer")


def _draw_points(axes: Axes, views: Sequence[LayerView]) -> None:
    """Energy over delay of every layer: by itself, and as planned; a line leads from the one to the other."""
    for view in views:
        axes.plot([view.alone.cycles, view.planned.cycles], [view.alone.energy_pj, view.planned.energy_pj], "-",
                  color=ALONE, linewidth=0.8, zorder=1)
    for share, colour, label in (("alone", ALONE, "by itself"), ("planned", PLANNED, "planned")):
        points: list[LayerShare] = [getattr(view, share) for view in views]
        axes.plot([point.cycles for point in points], [point.energy_pj for point in points], ".", color=colour,
                  label=label)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("cycles", fontsize=8)
    axes.set_ylabel("energy (pJ)", fontsize=8)
    name_legend(axes)
    plain_axes(axes, "energy over delay by layer")
