"""The fused-layer models beside LoopTree and DeFiNES, from the recordings that come along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.text_formats import csv_text

from . import defines
from .defines import QUANTITIES, Curve
from .looptree import compare as looptree
from .looptree.compare import Comparison


@dataclass(frozen=True)
class Fused:
    """The fused-layer models beside other tools.

    Attributes:
        looptree: LoopTree's numbers compared with ours.
        defines_version: The version of DeFiNES that was recorded.
        curves: DeFiNES's costs over tile sizes beside ours.
    """

    looptree: Comparison
    defines_version: str
    curves: tuple[Curve, ...]

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return {"looptree": self.looptree.as_dict(),
                "defines": {"version": self.defines_version, "curves": [curve.as_dict() for curve in self.curves]}}


def measure_fused() -> Fused:
    """Evaluates all recorded cases and points; takes some fifteen seconds."""
    version, points = defines.recorded()
    return Fused(looptree.compare(*looptree.recorded()), version, tuple(defines.curves(points)))


def points_csv(fused: Fused) -> str:
    """The curves as CSV: a row per stack, mode and tile size with pJ and cycles of DeFiNES and ours.

    The column `runs` is the mode in which our plan runs, which differs from DeFiNES's where halos do not fit.
    """
    columns = ["layers", "size", "mode", "tile_x", "tile_y", "runs", *(
        f"{name}_{whose}" for name in QUANTITIES for whose in ("defines", "ours")), "latency_overlapped"]
    return csv_text(columns, (
        [curve.layers, curve.size, curve.mode, point.tile_x, point.tile_y, point.ours.mode, *(
            whose[name][k] for name in QUANTITIES for whose in (curve.theirs, curve.ours)), point.ours.overlapped]
        for curve in fused.curves for k, point in enumerate(curve.points)))
