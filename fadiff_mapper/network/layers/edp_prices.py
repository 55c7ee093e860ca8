"""The trade between energy and cycles for a whole network, whose EDP is the product of two sums.

Problem. FADiff's objective is the EDP of the network (below its eq. 19). The mapping with the best EDP of its own is
not the best for the network: a layer that costs much energy and few cycles should save energy.

Method. At a plan with the sums E and T, dE/E + dT/T is the relative change of the EDP. So a part of the network has
the price energy/E + cycles/T, and of several mappings or groups for it the one with the lowest price is chosen, again
and again with the sums that come out, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf


@dataclass(frozen=True)
class OperatingPoint:
    """Energy and cycles of a part of a network as some mapping or group runs it.

    Attributes:
        energy_pj: pJ, all repeats together.
        cycles: Cycles, all repeats together.
    """

    energy_pj: float
    cycles: float

    def price(self, total: OperatingPoint) -> float:
        """The part's share in the network's energy plus that in its cycles; to first order the change of the log EDP.

        Args:
            total: Energy and cycles of the network.
        """
        return NetworkPrice(total)(self)

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles


NOTHING = OperatingPoint(0.0, 0)
"""The operating point of no part at all."""


def summed(points: Sequence[OperatingPoint]) -> OperatingPoint:
    """Energy and cycles of parts that run one after the other."""
    return OperatingPoint(sum(point.energy_pj for point in points), sum(point.cycles for point in points))


def metric_value(point: OperatingPoint, metric: str) -> float:
    """The value of a metric to be minimised.

    Args:
        point: Energy and cycles.
        metric: "edp" in pJ * cycles, "energy" in pJ, or "delay" in cycles.
    """
    return {"edp": point.edp, "energy": point.energy_pj, "delay": point.cycles}[metric]


@dataclass(frozen=True)
class NetworkPrice:
    """The price of parts at one plan of a network; energies and cycles of all are finite.

    Attributes:
        total: Energy and cycles of the network.
        metric: "edp", "energy" or "delay".
    """

    total: OperatingPoint
    metric: str = "edp"

    def __call__(self, point: OperatingPoint) -> float:
        """The share of a part in the metric of the network."""
        energy_pj, cycles = self.sums
        return point.energy_pj / energy_pj + point.cycles / cycles

    @cached_property
    def sums(self) -> tuple[float, float]:
        """Energy and cycles by which those of a part are divided; infinite where they do not count."""
        return (inf if self.metric == "delay" else self.total.energy_pj,
                inf if self.metric == "energy" else self.total.cycles)


def chosen(choices: Sequence[Sequence[OperatingPoint]], metric: str = "edp") -> list[int]:
    """Chooses one operating point for every part, so that the metric of the sums cannot be improved part by part.

    Args:
        choices: For every part its operating points; the first of each is the starting point.
        metric: "edp", "energy" or "delay".

    Returns:
        For every part the index of its point.
    """
    picks = [0] * len(choices)
    total = summed([part[0] for part in choices])
    while True:
        price = NetworkPrice(total, metric)
        proposal = [min(range(len(part)), key=lambda i: (price(part[i]), i)) for part in choices]
        after = summed([part[i] for part, i in zip(choices, proposal, strict=True)])
        if metric_value(after, metric) >= metric_value(total, metric) * (1 - 1e-12):    # no gain beyond rounding
            break
        picks, total = proposal, after
    # The price is a tangent; where a step along it is too long, parts still change one by one.
    for index, part in enumerate(choices):
        now = part[picks[index]]
        for i, point in enumerate(part):
            other = OperatingPoint(total.energy_pj - now.energy_pj + point.energy_pj,
                                   total.cycles - now.cycles + point.cycles)
            if metric_value(other, metric) < metric_value(total, metric):
                picks[index], now, total = i, point, other
    return picks
