"""A mapped layer as a figure: where its energy goes, and how its search went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.output.notebook.axes import draw_history, name_legend, name_ticks, plain_axes

if TYPE_CHECKING:
    from fadiff_mapper.search.result import Result


def layer_figure(result: Result) -> Figure:
    """Energy by component and data space on the left, the metric over the time of the search on the right.

    Args:
        result: A mapped layer.

    Returns:
        A figure that belongs to no window and to no state of pyplot; notebooks show it as it is.
    """
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    energies, history = figure.subplots(1, 2)
    _draw_energies(energies, result.stats)
    draw_history(history, result.history, result.metric, result.value, result.time_s)
    return figure


def energy_parts(stats: Stats) -> dict[str, dict[str, float]]:
    """Component -> purpose of its energy -> pJ of all instances, outermost level first.

    A storage level spends it on the accesses of each data space and on leakage, a network on each data space, the
    arithmetic on computes. Components without energy are left out.
    """
    parts: dict[str, dict[str, float]] = {}
    for level in reversed(stats.levels):
        parts[level["name"]] = {name: space["energy_pj_total"] for name, space in level["dataspaces"].items()}
        parts[level["name"]]["leakage"] = level["leakage_energy_pj"]
    for network in stats.networks:
        parts[network["name"]] = {name: space.get("energy_pj_total", 0.0)
                                  for name, space in network["dataspaces"].items()}
    parts[stats.arithmetic["name"]] = {"computes": stats.arithmetic["energy_pj"]}
    return {component: {purpose: energy for purpose, energy in spent.items() if energy}
            for component, spent in parts.items() if any(spent.values())}


def _draw_energies(axes: Axes, stats: Stats) -> None:
    """One bar per component, its parts on top of each other, one colour per data space."""
    parts = energy_parts(stats)
    components = list(parts)
    bottoms = dict.fromkeys(components, 0.0)
    for purpose in dict.fromkeys(purpose for spent in parts.values() for purpose in spent):
        using = [component for component in components if purpose in parts[component]]
        heights = [parts[component][purpose] for component in using]
        axes.bar([components.index(component) for component in using], heights, label=purpose,
                 bottom=[bottoms[component] for component in using])
        bottoms |= {component: bottoms[component] + height for component, height in zip(using, heights, strict=True)}
    axes.set_ylabel("energy (pJ)", fontsize=8)
    name_ticks(axes, components)
    name_legend(axes)
    plain_axes(axes, "energy by component")
