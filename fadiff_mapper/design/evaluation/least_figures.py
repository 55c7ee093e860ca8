"""Values that the figures of a design cannot undercut, and the metrics that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.design.evaluation.design_result import metric_exponents


@dataclass(frozen=True)
class LeastFigures:
    """Values that a sum over layers cannot undercut.

    Attributes:
        energy_pj: Energy in pJ.
        cycles: Cycles.
        root_edp: The root of the energy-delay product, which adds up over layers.
    """

    energy_pj: float
    cycles: float
    root_edp: float

    def times(self, count: float) -> LeastFigures:
        """The same for several runs."""
        return LeastFigures(self.energy_pj * count, self.cycles * count, self.root_edp * count)

    def __add__(self, other: LeastFigures) -> LeastFigures:
        return LeastFigures(self.energy_pj + other.energy_pj, self.cycles + other.cycles,
                            self.root_edp + other.root_edp)

    def __sub__(self, other: LeastFigures) -> LeastFigures:
        return LeastFigures(self.energy_pj - other.energy_pj, self.cycles - other.cycles,
                            self.root_edp - other.root_edp)

    def of(self, metric: str, area_mm2: float) -> float:
        """The bound on a metric of a design of known area, see `design_result.metric_exponents`."""
        energy, cycles, area = metric_exponents(metric)
        return float(self.product(energy, cycles) * area_mm2 ** area)

    def product(self, energy: float, cycles: float) -> float:
        """The bound on energy and cycles to these exponents, multiplied."""
        both = min(energy, cycles)
        edp = max(self.energy_pj * self.cycles, self.root_edp ** 2)
        return float(edp ** both * self.energy_pj ** (energy - both) * self.cycles ** (cycles - both))
