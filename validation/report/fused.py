"""The fused part of a report: two tables and the curves of the paper's Figure 3."""

from __future__ import annotations

from ..defines import QUANTITIES, Curve
from ..fused import Fused
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
