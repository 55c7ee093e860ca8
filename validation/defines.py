"""Fused stacks over tile sizes beside DeFiNES: the same curves, as in Figure 3 of the FADiff paper.

`recorded/defines.json` has DeFiNES's energy (pJ) and latency (cycles) of stacks of two and three convolutions, in tiles
of many sizes and with halos kept or computed again. In DeFiNES's latency the array waits while tiles and weights are
loaded; `StackCost.in_sequence` is our count of the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from .stacks import StackCost, stack_cost

RECORDED = Path(__file__).parent / "recorded" / "defines.json"

QUANTITIES = ("energy", "latency")
"""Quantities that DeFiNES reports."""


@dataclass(frozen=True)
class TileSizeCost:
    """One tile size of a curve.

    Attributes:
        tile_x: Columns of a tile of the last output.
        tile_y: Its rows.
        energy: pJ by DeFiNES.
        latency: Cycles by DeFiNES.
        ours: Our cost of the same stack in the same tiles.
    """

    tile_x: int
    tile_y: int
    energy: float
    latency: float
    ours: StackCost


@dataclass(frozen=True)
class Curve:
    """One stack in one mode over tile sizes.

    Attributes:
        layers: Convolutions in the stack.
        size: Rows and columns of the last output.
        mode: The treatment of halos, a key of `stacks.HALOS`, or layer by layer.
        points: The tile sizes, smallest first.
    """

    layers: int
    size: int
    mode: str
    points: tuple[TileSizeCost, ...]

    @property
    def name(self) -> str:
        """The curve as a heading."""
        return f"{self.layers} layers of {self.size} x {self.size}, {self.mode}"

    @cached_property
    def theirs(self) -> dict[str, np.ndarray]:
        """DeFiNES's values over the points by quantity."""
        return {name: np.array([getattr(point, name) for point in self.points]) for name in QUANTITIES}

    @cached_property
    def ours(self) -> dict[str, np.ndarray]:
        """Our values over the points: energy, latency as in DeFiNES, and latency with loads overlapped."""
        return {"energy": np.array([point.ours.energy for point in self.points]),
                "latency": np.array([point.ours.in_sequence for point in self.points]),
                "overlapped": np.array([point.ours.overlapped for point in self.points])}

    @cached_property
    def as_asked(self) -> np.ndarray:
        """Whether our plan keeps at a point the halos that DeFiNES keeps (they may not fit on the chip)."""
        return np.array([point.ours.mode == self.mode for point in self.points])

    def rho(self, ours: str, points: np.ndarray | None = None) -> float:
        """Spearman's rank correlation with DeFiNES.

        Args:
            ours: A key of `self.ours`; both latencies are compared with DeFiNES's one.
            points: Marks of the points to take (booleans), all by default.
        """
        chosen = np.ones(len(self.points), bool) if points is None else points
        theirs = self.theirs["energy" if ours == "energy" else "latency"]
        return float(spearmanr(theirs[chosen], self.ours[ours][chosen]).statistic)

    def error(self, quantity: str) -> float:
        """Mean relative difference of a quantity over the points at which both keep the same halos."""
        return float(np.abs(self.ours[quantity] / self.theirs[quantity] - 1)[self.as_asked].mean())

    def as_dict(self) -> dict[str, Any]:
        """The curve and its measures as JSON values; pairs are DeFiNES's value and ours."""
        return {"layers": self.layers, "size": self.size, "mode": self.mode,
                "rho": {name: self.rho(name) for name in self.ours},
                "rho_where_all_fits": {name: self.rho(name, self.as_asked) for name in self.ours},
                "points": [{"tile_x": point.tile_x, "tile_y": point.tile_y, "runs": point.ours.mode,
                            **{name: [float(self.theirs[name][k]), float(self.ours[name][k])] for name in QUANTITIES},
                            "overlapped": point.ours.overlapped} for k, point in enumerate(self.points)]}


def normalized(values: np.ndarray) -> np.ndarray:
    """Z-scores: distances from the mean in standard deviations, as in the paper's Figure 3."""
    scores: np.ndarray = (values - values.mean()) / values.std()
    return scores


def recorded(path: Path = RECORDED) -> tuple[str, list[dict[str, Any]]]:
    """The version of DeFiNES that was recorded, and its points."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["version"], content["points"]


def curves(points: Sequence[dict[str, Any]], fewest: int = 3) -> list[Curve]:
    """Groups recorded points into curves and evaluates our cost of each point.

    Args:
        points: Entries of the recording.
        fewest: Curves of fewer tile sizes are left out: two points have no shape to compare.
    """
    groups: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    for point in sorted(points, key=lambda point: (point["layers"], point["size"], point["tile_x"] * point["tile_y"])):
        groups.setdefault((point["layers"], point["size"], point["mode"]), []).append(point)
    return [Curve(layers, size, mode, tuple(_point(layers, size, mode, entry) for entry in group))
            for (layers, size, mode), group in groups.items() if len(group) >= fewest]


def _point(layers: int, size: int, mode: str, entry: dict[str, Any]) -> TileSizeCost:
    x, y = entry["tile_x"], entry["tile_y"]
    return TileSizeCost(x, y, entry["energy"], entry["latency"], stack_cost(layers, size, mode, x, y))
