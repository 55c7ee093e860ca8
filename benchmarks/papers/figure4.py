"""FADiff's Figure 4: EDP against processor time and against evaluations on the large design, a picture per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .course import Axis, course, edp_after
from .methods import FUSED, METHODS, ONE_TILING, UNFUSED
from .networks import NETWORKS
from .part import Key, Part, Picture, Record, Shown
from .pictures import COLOURS, plain, svg_of
from .table1 import columns, jobs, spent

DESIGN = "gemmini_large"

LINES = {UNFUSED: (0, (4, 1.5)), ONE_TILING: ":"}
"""Styles other than a whole line: not told apart by colours alone where lines meet."""

LABELS: dict[Axis, str] = {"cpu_s": "processor time, s", "evaluations": "evaluations"}

HIGHEST = 1e4
"""Times the least EDP up to which a picture goes; first mappings lie up to 1e5 times above, and nothing shows there."""


def shown(records: Mapping[Key, Record]) -> Shown:
    """A picture for every network with records."""
    pictures = [drawn(network, own) for network in NETWORKS
                if (own := {key: record for key, record in records.items() if key[:2] == (network, DESIGN)})]
    text = ("Lines are medians over the seeds, bands reach from the first to the third quartile. A line begins where "
            "all seeds have a legal mapping of every layer, and ends where the first run ends; EDPs above "
            f"{HIGHEST:,.0f} times the least one are cut off. Runs are those of Table 1, evaluations legal mappings. "
            "Methods with one seed have no band.",)
    return Shown(text, (), tuple(pictures))


def drawn(network: str, records: Mapping[Key, Record]) -> Picture:
    """The picture of a network: time on the left, evaluations on the right."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    methods = columns(records)
    least = min((pairs[-1][1] for record in records.values() if (pairs := course(record, "cpu_s"))), default=1.0)
    for axes, axis in ((left, "cpu_s"), (right, "evaluations")):
        for method in methods:
            runs = [record for key, record in records.items() if key[2] == method]
            _line(axes, axis, runs, method)    # type: ignore[arg-type]
        axes.set(xscale="log", yscale="log", xlabel=LABELS[axis])    # type: ignore[index]
        plain(axes)
    left.set(ylabel="EDP, pJ x cycles", ylim=(least / 1.5, least * HIGHEST))
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return Picture(f"figure4_{network}", f"{network} on {DESIGN}: EDP against processor time and against evaluations",
                   svg_of(figure))


def _line(axes: Axes, axis: Axis, runs: Sequence[Record], method: str) -> None:
    """Median and quartiles of one method."""
    courses = [course(run, axis) for run in runs]
    if not all(courses):
        return
    first = max(pairs[0][0] for pairs in courses)
    last = max(first, min(spent(run, axis) for run in runs))
    at = np.array(sorted({first, last, *(where for pairs in courses for where, _ in pairs if first < where < last)}))
    values = np.array([[edp_after(pairs, where) for where in at] for pairs in courses])
    colour = COLOURS[METHODS.index(method)]
    if len(runs) > 1:
        axes.fill_between(at, *np.quantile(values, [0.25, 0.75], axis=0), color=colour, alpha=0.2,
                          linewidth=0, step="post")
    axes.plot(at, np.median(values, axis=0), linestyle=LINES.get(method, "-"), color=colour, label=method,
              drawstyle="steps-post", linewidth=2.2 if method == FUSED else 1.5, zorder=3 if method == FUSED else 2,
              marker="o" if first == last else "")    # a single value is a dot


PART = Part("figure4", "FADiff, Figure 4: EDP over time", jobs, shown, source="table1")
