"""The worth of a design before it is mapped: its lower bound, and how far mapped designs near it lie above theirs.

The bounds of all layers by themselves (`analysis.lower_bound`) are computed without a search, and how far a design lies
above its bound follows from the mapped ones (`bound_gaps`): 0 to 3 % for most designs of DOSA's space, 19 % for a small
scratchpad (16 designs with BERT, 8 with ResNet-50; correlation of the logarithms 0.9998 and 0.9995), but 14 to 59 % for
seven designs with U-Net, the more the smaller the memories are.
Fused groups and corrections to measured hardware shift all designs by a similar part, which the same difference takes
in. Designs without a bound (sparse ones, outputs whose rank is a sum of dimensions) are worth what the mappings of
other designs give on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, log

import numpy as np

from fadiff_mapper.design.descent.bound_gaps import expected_gaps
from fadiff_mapper.design.evaluation.least_figures import LeastFigures
from fadiff_mapper.design.space import DesignSpace, Point, coordinate

SMALLEST = 1e-300
"""Stands in for a bound of 0 in logarithms."""

Judge = Callable[[Point], tuple[LeastFigures, float] | None]
"""The bound of a design and its area in mm2, 0 where it is not known; None where it has none."""


def place_of(space: DesignSpace, point: Point) -> np.ndarray:
    """The coordinates of a design in octaves, [P]; a word that differs lies its distance in the list away."""
    return np.array([coordinate(parameter, index) for parameter, index in zip(space.parameters, point, strict=True)])


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
    """

    space: DesignSpace
    judge: Judge
    exponents: np.ndarray
    mapped: Mapping[Point, float]

    def of(self, point: Point) -> float:
        """The expected logarithm of the metric, exact for a mapped design; infinite where there is no bound."""
        if point in self.mapped:
            return self.mapped[point]
        bound = self._bound(point)
        return bound + self._gap_at(place_of(self.space, point)) if bound < inf else inf

    def _bound(self, point: Point) -> float:
        """The logarithm of the bound; infinite where there is none."""
        judged = self.judge(point)
        if judged is None:
            return inf
        least, area = judged
        energy, cycles, _ = self.exponents
        return log(max(least.product(energy, cycles), SMALLEST)) + float(self.exponents[2]) * log(area or 1.0)

    @cached_property
    def _gap_at(self) -> Callable[[np.ndarray], float]:
        """The expected distance above the bound, from the mapped designs that have one."""
        gaps = {point: value - bound for point, value in self.mapped.items() if (bound := self._bound(point)) < inf}
        return expected_gaps([place_of(self.space, point) for point in gaps], list(gaps.values()))
