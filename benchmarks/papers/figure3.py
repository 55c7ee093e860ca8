"""FADiff's Figure 3: cost of fused stacks over tile sizes beside DeFiNES, from the recording of `fadiff-validate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from validation import defines

from .part import Job, Key, Part, Picture, Record, Shown, Table
from .pictures import COLOURS, plain, svg_of

TEXT = ("Stacks of two and three convolutions in tiles of many sizes, evaluated by DeFiNES (recorded) and by our model "
        "of fused groups. As in the paper, values are Z-scores: distances from the mean of a curve in its standard "
        "deviations. Latency is counted as DeFiNES counts it, with an array that waits for loads. The paper shows one "
        "curve for each of its stacks, whose shapes it does not publish, so that only the agreement compares.",)


def jobs(quick: bool) -> list[Job]:
    """A single job, of all curves."""
    return [Job(("curves",), curves)]


def curves() -> Record:
    """All curves with ours beside them."""
    version, points = defines.recorded()
    return {"version": version, "curves": [curve.as_dict() for curve in defines.curves(points)]}


def shown(records: Mapping[Key, Record]) -> Shown:
    """A picture for two and one for three layers, and the rank correlations."""
    if not records:
        return Shown()
    found = records["curves",]["curves"]
    columns = ("layers", "output", "halos", "tile sizes", "rho energy", "rho latency", "rho latency, loads overlapped")
    rows = tuple((curve["layers"], f"{curve['size']} x {curve['size']}", curve["mode"], len(curve["points"]),
                  curve["rho"]["energy"], curve["rho"]["latency"], curve["rho"]["overlapped"]) for curve in found)
    table = Table("figure3", "Spearman's rank correlation with DeFiNES over tile sizes", columns, rows,
                  f"DeFiNES {records['curves',]['version']}.", ("", "", "", "", ".3f", ".3f", ".3f"))
    return Shown(TEXT, (table,), tuple(drawn(layers, [curve for curve in found if curve["layers"] == layers])
                                       for layers in sorted({curve["layers"] for curve in found})))


def drawn(layers: int, found: Sequence[Mapping[str, Any]]) -> Picture:
    """Z-scores of the curves of so many layers: a row for energy and one for latency."""
    figure = Figure(figsize=(2.6 * len(found), 4.6), layout="constrained")
    grid = np.atleast_2d(figure.subplots(2, len(found), sharex="col", squeeze=False))
    for column, curve in enumerate(found):
        for row, quantity in enumerate(defines.QUANTITIES):
            axes, pairs = grid[row, column], np.array([point[quantity] for point in curve["points"]])
            sizes = [f"{point['tile_x']} x {point['tile_y']}" for point in curve["points"]]
            for values, name, colour, line in zip(pairs.T, ("DeFiNES", "ours"), COLOURS, ("-", "--"), strict=False):
                axes.plot(sizes, defines.normalized(values), line, color=colour, label=name, marker="o", markersize=3)
            plain(axes)
            axes.tick_params(axis="x", rotation=90, labelsize=7)
            axes.set(title=f"{curve['size']} x {curve['size']}, {curve['mode']}" if not row else "",
                     ylabel=f"{quantity}, Z-score" if not column else "")
            axes.title.set_fontsize(8)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return Picture(f"figure3_{layers}_layers", f"Stacks of {layers} layers over tile sizes, Z-scores", svg_of(figure))


PART = Part("figure3", "FADiff, Figure 3: fused stacks beside DeFiNES", jobs, shown)
