"""The fused part of a report: two tables and the curves of the paper's Figure 3."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..defines import QUANTITIES, Curve, normalized
from ..fused import Fused
from ..stacks import HALOS
from .figures import COLOURS, drawn, plain_axis
from .tables import Table, percent


def looptree_table(fused: Fused) -> Table:
    """The share of LoopTree's numbers that are equal, field by field."""
    comparison = fused.looptree
    return Table("Fused mappings beside LoopTree", f"Every number of the recorded mappings ({comparison.version}): "
                 "accesses per tensor, layer and action, operations with recomputation, occupancy, energy.",
                 ("field", "mappings", "numbers", "equal"),
                 tuple((share.field, str(share.cases), f"{share.numbers:,}", percent(share.equal / share.numbers))
                       for share in comparison.shares))


def curve_table(fused: Fused) -> Table:
    """Rank correlations and mean differences of every curve from DeFiNES's."""
    return Table(
        "Fused stacks beside DeFiNES", f"DeFiNES ({fused.defines_version}) over tile sizes, each tile with its best "
        "mapping. Rho is Spearman's over the tile sizes of a curve; the second one leaves out tiles that do not fit "
        "with all halos kept, so that we run the stack layer by layer. Mean difference over the tiles that fit. "
        "Latency: the array waits while words are loaded, as in DeFiNES; with loads overlapped, as Timeloop counts, "
        "tiles beyond some size take equally long.",
        ("stack", "tiles", "that fit", "energy: rho", "where all fits", "difference", "latency: rho", "where all fits",
         "difference", "overlapped: rho"), tuple(_curve(curve) for curve in fused.curves))


def _curve(curve: Curve) -> tuple[str, ...]:
    measures = (text for name in QUANTITIES for text in (
        f"{curve.rho(name):.4f}", f"{curve.rho(name, curve.as_asked):.4f}", percent(curve.error(name))))
    return (curve.name, str(len(curve.points)), str(int(curve.as_asked.sum())), *measures,
            f"{curve.rho('overlapped'):.4f}")


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
