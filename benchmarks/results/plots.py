"""Plots of recorded data as SVG: transparent, in colours that are readable on light and dark pages, and on a phone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from .data import Table, read_record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

BLUE, ORANGE, GREEN, PURPLE, GREY = "#3d87c9", "#d9822b", "#3f9c6b", "#a46bc2", "#808080"
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "fadiff_mapper", "savefig.transparent": True, "font.size": 11,
         "font.family": "sans-serif", "text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY,
         "xtick.color": GREY, "ytick.color": GREY, "axes.spines.top": False, "axes.spines.right": False,
         "axes.grid": True, "axes.axisbelow": True, "grid.color": GREY, "grid.alpha": 0.25, "legend.frameon": False,
         "legend.fontsize": 9}
Find = Callable[..., Table]


def draw(data: Path, folder: Path) -> None:
    """Draws every plot whose data are there.

    Args:
        data: The folder of the records.
        folder: Where the pictures go, NAME.svg.
    """
    def find(source: str, title: str = "") -> Table:
        return next(table for table in read_record(data / f"{source}.json").tables if title in ("", table.title))

    folder.mkdir(exist_ok=True)
    for name, (plot, sources) in PLOTS.items():
        if all((data / f"{source}.json").exists() for source in sources):
            with matplotlib.rc_context(STYLE):
                figure = Figure(figsize=(4.8, 3.2), layout="constrained")
                plot(figure.subplots(), find)
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


def numbers(cells: Sequence[str]) -> np.ndarray:
    """Cells as numbers: the first word of each, in percent where it says so; not a number where there is none."""
    def number(cell: str) -> float:
        try:
            return float(cell.split()[0].rstrip("%").replace(",", ""))
        except (ValueError, IndexError):
            return float("nan")
    return np.array([number(cell) for cell in cells])


def bars(axes: Axes, names: Sequence[str], series: dict[str, Sequence[float]], label: str,
         text: str = "{:.1f}") -> None:
    """Horizontal bars, side by side for several series, with their values."""
    height = 0.8 / len(series)
    for index, ((name, values), colour) in enumerate(zip(series.items(), (BLUE, ORANGE, GREEN, PURPLE), strict=False)):
        places = np.arange(len(names)) + (index - (len(series) - 1) / 2) * height
        axes.bar_label(axes.barh(places, np.nan_to_num(values), height * 0.92, color=colour, label=name),
                       [text.format(value) for value in values], padding=3, color=GREY, fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.margins(x=0.12)
    axes.set_xlabel(label)
    if len(series) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(series))


def plain_numbers(axis: Axis) -> None:
    """Numbers such as 0.5, 1, 2 and 5 on a logarithmic axis, in place of powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def edp_over_time(axes: Axes, find: Find) -> None:
    table = find("edp_over_time")
    ours = [cells for cells in table.rows if cells[0] == "fadiff_mapper"]
    theirs = [cells for cells in table.rows if cells[0] == "timeloop-mapper"]
    seconds, _, low, median, high, worst = np.array([cells[1:] for cells in ours], float).T
    axes.fill_between(seconds, low, high, color=BLUE, alpha=0.25, linewidth=0, label="5 to 95 % of the layers")
    axes.plot(seconds, median, color=BLUE, label="median")
    axes.plot(seconds, worst, color=BLUE, linewidth=1, linestyle="--", label="worst layer")
    for cells in theirs:
        second, _, low, median, high, _ = map(float, cells[1:])
        axes.errorbar([second], [median], [[median - low], [high - median]], fmt="s", color=ORANGE, markersize=5,
                      label="timeloop-mapper, 5 to 95 %")
    axes.set(xscale="log", yscale="log", xlabel="seconds a layer", ylabel="EDP / best known")
    axes.legend(loc="upper left")


def throughput(axes: Axes, find: Find) -> None:
    table = find("throughput")
    rates: dict[str, list[float]] = {}
    for design, batch, rate in zip(*(table.column(name) for name in ("design", "batch", "mappings/s")), strict=True):
        if batch == "4096":
            rates.setdefault(design, []).append(float(rate.replace(",", "")) / 1e6)
    bars(axes, list(rates), {"": [float(np.mean(own)) for own in rates.values()]},
         "million legal mappings a second")


def proven_layers(axes: Axes, find: Find) -> None:
    table = find("proofs")
    bars(axes, table.column("design"), {"layers": numbers(table.column("layers")).tolist(),
                                        "proved": numbers(table.column("proved")).tolist()}, "layers", "{:.0f}")


def fusion_savings(axes: Axes, find: Find) -> None:
    by_design(axes, find("network_fusion"), "saved", "EDP saved, %")


def network_gaps(axes: Axes, find: Find) -> None:
    by_design(axes, find("network_fusion"), "gap", "EDP above the best plan at most, %")


def by_design(axes: Axes, table: Table, column: str, label: str) -> None:
    """Bars of a column for the networks that are planned on both designs."""
    cells = dict(zip(zip(table.column("network"), table.column("design"), strict=True),
                     numbers(table.column(column)), strict=True))
    names = [name for name, design in cells if design == "small"]
    axes.figure.set_size_inches(4.8, 4.6)
    bars(axes, names, {f"{design} design": [cells[name, design] for name in names] for design in ("large", "small")},
         label)


def design_methods(axes: Axes, find: Find) -> None:
    table = find("design_methods", "Equal numbers of designs")
    counts = [name for name in table.columns if name.endswith("designs")]
    networks, methods = table.column("network"), table.column("method")
    values = np.array([numbers(table.column(name)) for name in counts])
    least = {name: np.nanmin(values[:, [network == name for network in networks]]) for name in networks}
    ratios = values / np.array([least[name] for name in networks])
    for method, colour in zip(dict.fromkeys(methods), (BLUE, ORANGE, GREEN, PURPLE), strict=False):
        chosen = [own == method for own in methods]
        axes.plot([int(name.split()[0]) for name in counts], np.exp(np.log(ratios[:, chosen]).mean(axis=1)),
                  marker="o", color=colour, label=method)
    axes.set(xlabel="designs mapped", ylabel="EDP / least, mean of networks",
             xticks=[int(name.split()[0]) for name in counts])
    axes.legend()


def design_front(axes: Axes, find: Find) -> None:
    table = find("design_front")
    area, edp = numbers(table.column("area, mm2")), numbers(table.column("EDP, pJ x cycles"))
    front = np.array([cell == "yes" for cell in table.column("on the front")])
    axes.plot(area[~front], edp[~front], "o", color=GREY, markersize=4, alpha=0.7, label="mapped")
    order = np.argsort(area[front])
    axes.plot(area[front][order], edp[front][order], "o-", color=BLUE, markersize=5, label="on the front")
    axes.set(xlabel="area, mm²", ylabel="EDP, pJ x cycles", yscale="log")
    axes.legend()


def methods(axes: Axes, find: Find) -> None:
    title = "EDP over that of our plan, after 0.4 s of processor time a layer, beside FADiff's Table 1"
    table = find("papers", title)
    rows = {cells[1]: cells for cells in table.rows if cells[0] == "geometric mean"}
    names = ["ours without fusion", "gradient, DOSA's settings", "genetic", "random", "Bayesian"]
    bars(axes, names, {design.replace("gemmini_", "") + " design": numbers(
        [rows[design][table.columns.index(name)] for name in names]).tolist()
        for design in rows}, "EDP / our plan's, mean of networks", "{:.3g}")
    axes.set_xscale("log")
    plain_numbers(axes.xaxis)


def scaling(axes: Axes, find: Find) -> None:
    table = find("network_scaling")
    layers, distinct, seconds = (numbers(table.column(name)) for name in ("layers", "distinct", "CPU s"))
    own = distinct == layers
    axes.plot(layers[own], seconds[own], "o-", color=BLUE, label="all layers distinct")
    axes.plot(layers[~own], seconds[~own], "s-", color=ORANGE, label="two problems repeated")
    axes.set(xscale="log", yscale="log", xlabel="layers", ylabel="CPU s")
    plain_numbers(axes.yaxis)
    axes.legend()


PLOTS: dict[str, tuple[Callable[[Axes, Find], None], tuple[str, ...]]] = {
    "edp_over_time": (edp_over_time, ("edp_over_time",)),
    "throughput": (throughput, ("throughput",)),
    "proven_layers": (proven_layers, ("proofs",)),
    "fusion_savings": (fusion_savings, ("network_fusion",)),
    "network_gaps": (network_gaps, ("network_fusion",)),
    "design_methods": (design_methods, ("design_methods",)),
    "design_front": (design_front, ("design_front",)),
    "methods": (methods, ("papers",)),
    "scaling": (scaling, ("network_scaling",)),
}
"""Name -> the function that draws, and the runs whose data it needs."""
