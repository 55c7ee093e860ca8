"""The worth of a design before it is mapped: its lower bound, and how far mapped designs near it lie above theirs.

The bounds of all layers by themselves (`analysis.lower_bound`) are computed without a search, and where a design lies
above its bound, designs near it lie above theirs by about as much: 0 to 3 % for most designs of DOSA's space, 19 % for
a small scratchpad (16 designs with BERT, 8 with ResNet-50; correlation of the logarithms 0.9998 and 0.9995).
Fused groups and corrections to measured hardware shift all designs by a similar part, which the same difference takes
in. Designs without a bound (sparse ones, outputs whose rank is a sum of dimensions) are worth what the mappings of
other designs give on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, log

import numpy as np

from fadiff_mapper.design.evaluation.least_figures import LeastFigures
from fadiff_mapper.design.space import DesignSpace, Point, coordinates

NEAR = 0.25
"""Octaves within which mapped designs count alike for a design's distance above its bound. Set by hand."""

SMALLEST = 1e-300
"""Stands in for a bound of 0 in logarithms."""

Judge = Callable[[Point], tuple[LeastFigures, float] | None]
"""The bound of a design and its area in mm2, 0 where it is not known; None where it has none."""


def place_of(space: DesignSpace, point: Point) -> np.ndarray:
    """The coordinates of a design in octaves, [P]; a word that differs lies its distance in the list away."""
    return np.array([coordinates(parameter)[index] for parameter, index in zip(space.parameters, point, strict=True)])


def metric_logarithm(exponents: np.ndarray, energy: float, cycles: float, area: float) -> float:
    """Logarithm of energy, cycles and area to their exponents; an area of 0 is not known and does not count."""
    return float(exponents @ np.log([energy, cycles, area or 1.0]))


@dataclass
class DesignEstimates:
    """Estimates of one round.

    Attributes:
        space: The space.
        judge: Bounds of designs, kept by the caller.
        exponents: Exponents of energy, cycles and area in the metric of this round.
        mapped: The logarithm of the metric of every mapped design.
        above: For each mapped design with a bound its place, [P], and how far it lies above; filled when first needed.
    """

    space: DesignSpace
    judge: Judge
    exponents: np.ndarray
    mapped: Mapping[Point, float]
    above: list[tuple[np.ndarray, float]] = field(default_factory=list)

    def of(self, point: Point) -> float:
        """The expected logarithm of the metric, exact for a mapped design; infinite where there is no bound."""
        if point in self.mapped:
            return self.mapped[point]
        bound = self._bound(point)
        return bound + self._expected_above(place_of(self.space, point)) if bound < inf else inf

    def _bound(self, point: Point) -> float:
        """The logarithm of the bound; infinite where there is none."""
        judged = self.judge(point)
        if judged is None:
            return inf
        least, area = judged
        energy, cycles, _ = self.exponents
        return log(max(least.product(energy, cycles), SMALLEST)) + float(self.exponents[2]) * log(area or 1.0)

    def _expected_above(self, place: np.ndarray) -> float:
        """The mean distance of mapped designs above their bounds, near ones weighing more."""
        if not self.above:
            self.above += [(place_of(self.space, point), value - bound) for point, value in self.mapped.items()
                           if (bound := self._bound(point)) < inf]
        if not self.above:
            return 0.0
        squares = np.array([((place - other) ** 2).sum() for other, _ in self.above])
        weights = 1 / (squares + NEAR ** 2)
        return float(weights @ np.array([gap for _, gap in self.above]) / weights.sum())
