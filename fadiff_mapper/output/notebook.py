"""Figures and HTML for notebooks, for the results' methods `plot` and `_repr_html_`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fadiff_mapper.base.text_formats import html_table, paragraph
from fadiff_mapper.inputs.spec.spec import metric_of
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.output.layer_views import LayerShare, layer_views
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.search.lower_bound.assemble import sentence
from fadiff_mapper.search.result import Result

METRICS = {"edp": "EDP (pJ * cycles)", "energy": "energy (pJ)", "delay": "cycles",
           "last_level_accesses": "last level accesses (words)"}
"""Labels of the metrics that a search can minimise."""


def finish(axes: Axes, title: str, x: str = "", y: str = "", names: Sequence[str] = ()) -> None:
    """Adds title, labels, names below the x axis at 0, 1, 2 and so on, and a legend of all labelled artists.

    A dollar sign in a name is printed as it is. The two sides of the frame without a scale are removed.
    """
    if names:
        axes.set_xticks(range(len(names)), list(names), rotation=60, ha="right", parse_math=False)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    handles, labels = axes.get_legend_handles_labels()
    for text in axes.legend(handles, labels, frameon=False, fontsize=8).get_texts() if handles else ():
        text.set_parse_math(False)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def draw_history(axes: Axes, history: Sequence[Mapping[str, Any]], metric: str, value: float, time_s: float) -> None:
    """Draws the best value so far over the seconds since the start, as steps up to the end of the run.

    Entries of `history` before the first legal mapping have no value and are left out; `metric` is a key of `METRICS`.
    """
    known = [(step["time_s"], step["value"]) for step in history if step["value"] is not None]
    seconds, values = zip(*known, (max([time_s, *(at for at, _ in known)]), value), strict=True)
    axes.plot(seconds, values, drawstyle="steps-post", color="#1b6ca8", marker=".", markersize=4)
    axes.set_yscale("log")
    finish(axes, f"best {METRICS[metric].split(' (')[0]} over time", "seconds", METRICS[metric])


def layer_figure(result: Result) -> Figure:
    """Energy by component and data space on the left, the metric over the time of the search on the right.

    The figure is independent of pyplot's state; notebooks show it directly.
    """
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    energies, history = figure.subplots(1, 2)
    parts = energy_parts(result.stats)
    components = list(parts)
    bottoms = dict.fromkeys(components, 0.0)
    for purpose in dict.fromkeys(purpose for spent in parts.values() for purpose in spent):
        using = [component for component in components if purpose in parts[component]]
        energies.bar([components.index(component) for component in using],
                     [parts[component][purpose] for component in using], label=purpose,
                     bottom=[bottoms[component] for component in using])
        bottoms |= {component: bottoms[component] + parts[component][purpose] for component in using}
    finish(energies, "energy by component", y="energy (pJ)", names=components)
    draw_history(history, result.history, result.metric, result.value, result.time_s)
    return figure


def energy_parts(stats: Stats) -> dict[str, dict[str, float]]:
    """Component -> purpose of its energy -> pJ of all instances, outermost level first.

    Purposes: the data spaces and leakage of a storage level, the data spaces of a network, computes of the arithmetic.
    Components without energy are left out.
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


PLANNED, ALONE = "#1b6ca8", "#b3b8bf"
"""Colours of a layer in the plan, and unfused."""

BAR = 0.4  # width of a bar; two bars and a gap make up one unit of the x axis

QUANTITIES: dict[str, Callable[[LayerShare], float]] = {
    "energy (pJ)": lambda share: share.energy_pj,
    "cycles": lambda share: share.cycles,
    "EDP (pJ * cycles)": lambda share: share.energy_pj * share.cycles,
}
"""Quantities of a layer, all its runs together. The EDPs of layers do not add up to the EDP of the network."""


def network_figure(result: NetworkResult) -> Figure:
    """Energy, cycles and EDP of every layer as planned and unfused, energy over delay, and the metric over time.

    The figure is independent of pyplot's state. Its axes: one for each of `QUANTITIES` above one another, below them
    energy over delay and the network's value over time.
    """
    views = layer_views(result)
    series = (([view.planned for view in views], PLANNED, "planned"),
              ([view.unfused for view in views], ALONE, "by itself"))
    figure = Figure(figsize=(min(max(9.6, 0.3 * len(views)), 40.0), 11.0), layout="constrained")
    grid = figure.add_gridspec(len(QUANTITIES) + 1, 2)
    shared: Axes | None = None
    for row, (label, quantity) in enumerate(QUANTITIES.items()):
        shared = figure.add_subplot(grid[row, :], sharex=shared)
        for side, (shares, colour, name) in enumerate(series):
            shared.bar([tick + (side - 0.5) * BAR for tick in range(len(views))], [quantity(share) for share in shares],
                       BAR, color=colour, label=name)
        finish(shared, f"{label} by layer", names=[view.name for view in views])
        shared.tick_params(labelbottom=row == len(QUANTITIES) - 1)
    points = figure.add_subplot(grid[-1, 0])
    for view in views:      # a line from the unfused to the planned point
        points.plot([view.unfused.cycles, view.planned.cycles], [view.unfused.energy_pj, view.planned.energy_pj], "-",
                    color=ALONE, linewidth=0.8, zorder=1)
    for shares, colour, name in reversed(series):
        points.plot([share.cycles for share in shares], [share.energy_pj for share in shares], ".", color=colour,
                    label=name)
    points.set(xscale="log", yscale="log")
    finish(points, "energy over delay by layer", "cycles", "energy (pJ)")
    metric = str(result.options.get("metric", "edp"))
    final = float(metric_of(metric, result.stats.energy_pj, result.stats.cycles))
    draw_history(figure.add_subplot(grid[-1, 1]), result.history, metric, final, result.time_s)
    return figure


PAGE_HEIGHT = 720  # pixels of the frame with a plan's page: two thirds of a usual screen; the page scrolls


def layer_html(result: Result) -> str:
    """A mapped layer as HTML without styles or scripts: end of the search, statistics, the metric's bound, and loop
    nest.

    Names of the problem, levels and data spaces may be any text.
    """
    spec, metric = result.spec, result.metric
    bound = None if result.bound is None else result.bound.of(metric)
    return "".join((
        paragraph(f"{spec.problem.name} on {spec.arch.name}: {result.status} ({result.evaluations:,} evaluations, "
                  f"{result.time_s:.2f} s)"),
        html_table("metric", ("metric", "value", "lower bound"), [(metric, result.value, bound)]),
        paragraph(sentence(result.bound, metric, result.value)),
        result.stats._repr_html_(),
        result.mapping.loop_nest_html(spec.arch.level_names())))


def plan_html(result: NetworkResult) -> str:
    """A mapped network as HTML without scripts: totals, fused groups, and the page of the run folder in a frame.

    The frame's `srcdoc` keeps the page's style sheet off the notebook, and `sandbox` forbids scripts. Tables come
    before the frame, because viewers that do not trust a notebook leave frames out.
    """
    besides = "operators by themselves" if result.operators else "joined operands"
    totals = [(name, total.energy_pj, total.cycles, total.edp)
              for name, total in (("plan", result.stats), ("layers one by one", result.unfused_stats),
                                  (f"of the plan, {besides}", result.planned_joined),
                                  (f"of the layers, {besides}", result.joined)) if total.energy_pj or total.cycles]
    groups = [(number, " + ".join(group.nodes),
               ", ".join(f"{loop.dim} in tiles of {loop.tile}" for loop in group.group.loops) or "none",
               group.cost.energy_pj, group.cost.cycles, group.cost.edp, group.unfused.edp)
              for number, group in enumerate(result.groups, 1)]
    return "".join((
        paragraph(f"{result.workload.name} on {result.design}: {len(result.workload.layers)} layers, "
                  f"{len(groups)} fused groups, {result.gain:.2%} of the EDP saved; {result.status} "
                  f"({result.time_s:.2f} s)"),
        html_table("network", ("", "energy (pJ)", "cycles", "EDP (pJ * cycles)"), totals),
        html_table("fused groups", ("group", "layers", "shared loops", "energy (pJ)", "cycles", "EDP (pJ * cycles)",
                                    "EDP one by one"), groups) if groups else "",
        f'<iframe title="{escape(result.workload.name)}" sandbox="" style="width: 100%; border: 0" '
        f'height="{PAGE_HEIGHT}" srcdoc="{escape(network_html(result))}"></iframe>'))
