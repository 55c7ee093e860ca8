"""The figures of a report, as markup that stands inside a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..accuracy import AccessAccuracy, pooled
from ..defines import QUANTITIES, Curve, normalized
from ..fused import Fused
from ..models import ACTIONS, MODELS, AnsweredTask
from ..stacks import HALOS

INK = "#333333"
COLOURS = ("#1b6ca8", "#d1602b", "#3a7d44", "#8a4f9e", "#b8952a", "#6b6b6b", "#c23b55", "#2a9d9d")

UNITS = {"cycles": "cycles", "energy": "energy, pJ"}


def scatter(batches: Sequence[AnsweredTask]) -> str:
    """Predicted against measured cycles and energy of every mapping under every model, coloured by operator.

    Args:
        batches: Measured and predicted numbers.

    Returns:
        An `img` element, because thousands of marks are too many for SVG.
    """
    figure = Figure(figsize=(3.1 * len(MODELS), 6.4), layout="constrained")
    axes = figure.subplots(len(UNITS), len(MODELS), sharex="row", sharey="row")
    operators = list(dict.fromkeys(batch.task.operator for batch in batches))
    for row, (quantity, label) in enumerate(UNITS.items()):
        limits = _limits([pooled(batches, model, quantity) for model in (None, *MODELS)])
        for column, model in enumerate(MODELS):
            axis = axes[row, column]
            for operator, colour in zip(operators, COLOURS, strict=False):
                part = [batch for batch in batches if batch.task.operator == operator]
                axis.plot(pooled(part, None, quantity), pooled(part, model, quantity), ".", markersize=4, alpha=0.45,
                          color=colour, label=operator, markeredgewidth=0)
            axis.plot(limits, limits, color=INK, linewidth=0.7)
            axis.set(xscale="log", yscale="log", xlim=limits, ylim=limits, title=model if row == 0 else "",
                     xlabel=f"Timeloop: {label}", ylabel=f"model: {label}" if column == 0 else "")
            plain_axis(axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(operators), frameon=False, markerscale=5,
                  fontsize=9)
    return _png(figure)


def _limits(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """Limits of a logarithmic axis, a little beyond the smallest positive and the greatest value."""
    together = np.concatenate(values)
    return float(together[together > 0].min()) / 1.5, float(together.max()) * 1.5


def heat(cells: Sequence[AccessAccuracy], model: str) -> str:
    """Mean access-count accuracy of one model by level (rows) and data space and action (columns), per design.

    Args:
        cells: The accuracies.
        model: A key of `MODELS`.

    Returns:
        An `svg` element.
    """
    designs = list(dict.fromkeys(cell.design for cell in cells))
    columns = [(tensor, action) for tensor in dict.fromkeys(cell.tensor for cell in cells) for action in ACTIONS]
    columns = [at for at in columns if any((cell.tensor, cell.action) == at for cell in cells)]
    levels = {design: list(dict.fromkeys(cell.level for cell in cells if cell.design == design))[::-1]
              for design in designs}
    across = min(3, len(designs))
    down = -(-len(designs) // across)
    figure = Figure(figsize=(4.3 * across, 2.9 * down), layout="constrained")
    axes = np.atleast_1d(figure.subplots(down, across)).ravel()
    for axis, design in zip(axes, designs, strict=False):
        table = np.array([[_mean([cell for cell in cells if cell.model == model and cell.design == design
                                  and cell.level == level and (cell.tensor, cell.action) == column])
                           for column in columns] for level in levels[design]])
        axis.imshow(table, vmin=0, vmax=1, cmap="RdYlGn", aspect="auto", alpha=0.75)
        axis.set_title(design, fontsize=10)
        axis.set_xticks(range(len(columns)), [f"{tensor}\n{action}" for tensor, action in columns], fontsize=6)
        axis.set_yticks(range(len(levels[design])), levels[design], fontsize=7)
        for (i, j), value in np.ndenumerate(table):
            axis.text(j, i, "" if np.isnan(value) else _share(value), ha="center", va="center", fontsize=6.5)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    for axis in axes[len(designs):]:
        axis.set_visible(False)
    return drawn(figure)


def _share(value: float) -> str:
    """Percent; 100 only where the share is 1 exactly."""
    return "100" if value == 1 else f"{min(100 * value, 99.9):.1f}"


def _mean(cells: Sequence[AccessAccuracy]) -> float:
    """Mean accuracy of some cells weighted by their mappings; not a number where there are none."""
    if not cells:
        return float("nan")
    return float(np.average([cell.accuracy for cell in cells], weights=[cell.mappings for cell in cells]))


def plain_axis(axis: Any) -> None:
    """Takes away the sides of the frame that carry no scale, and sets small letters."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
    axis.title.set_fontsize(10)
    axis.xaxis.label.set_fontsize(8)
    axis.yaxis.label.set_fontsize(8)


def _png(figure: Figure) -> str:
    """The figure as an `img` element, for very many marks; the same bytes for the same figure."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, metadata={"Software": None})
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def drawn(figure: Figure) -> str:
    """The figure as an `svg` element, without the head of a file of its own."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg"):]


def curve_picture(fused: Fused) -> str:
    """Z-scores over tile sizes, one column per stack, DeFiNES as circles, ours as lines: an `svg` element.

    FADiff's Figure 3 compares the two in the same way.
    """
    stacks = list(dict.fromkeys((curve.layers, curve.size) for curve in fused.curves))
    figure = Figure(figsize=(3.3 * len(stacks), 6.2), layout="constrained")
    axes = figure.subplots(len(QUANTITIES), len(stacks), squeeze=False)
    for column, (layers, size) in enumerate(stacks):
        curves = [curve for curve in fused.curves if (curve.layers, curve.size) == (layers, size)]
        for row, quantity in enumerate(QUANTITIES):
            axis = axes[row, column]
            _draw(axis, curves, quantity)
            axis.set(title=f"{layers} layers, {size} x {size}" if row == 0 else "",
                     ylabel=f"{quantity}, z-score" if column == 0 else "",
                     xlabel="tile of the last output" if row else "")
            plain_axis(axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    return drawn(figure)


def _draw(axis: Axes, curves: list[Curve], quantity: str) -> None:
    """One quantity of the curves of one stack, a colour per treatment of halos; smallest tile on the left."""
    tiles = sorted({(p.tile_x * p.tile_y, p.tile_x, p.tile_y) for curve in curves for p in curve.points})
    for mode, colour in zip(HALOS, COLOURS, strict=False):
        for curve in (curve for curve in curves if curve.mode == mode):
            at = np.array([tiles.index((p.tile_x * p.tile_y, p.tile_x, p.tile_y)) for p in curve.points])
            axis.plot(at, normalized(curve.ours[quantity]), "-", color=colour, linewidth=1.3, label=f"{mode}, ours")
            axis.plot(at, normalized(curve.theirs[quantity]), "o", color=colour, markersize=6,
                      markerfacecolor="none", label=f"{mode}, DeFiNES")
    axis.set_xticks(range(len(tiles)), [f"{x}x{y}" for _, x, y in tiles], rotation=60)
