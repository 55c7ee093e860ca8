"""Choosing between energy and cycles for a whole network: its EDP is the product of two sums.

At a plan with the sums E and T, dE/E + dT/T is the relative change of the EDP. So a part of the network is worth
T * energy + E * cycles, and of several ways to run it the one of the lowest price is taken, again and again, until
nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class OperatingPoint:
    """One way to run a part of a network: energy in pJ and cycles, all its repeats together."""

    energy_pj: float
    cycles: float

    def price(self, total: OperatingPoint) -> float:
        """The part's share of the network's energy and cycles, `total`; to first order the change of the log EDP."""
        return self.energy_pj / total.energy_pj + self.cycles / total.cycles

    @property
    def edp(self) -> float:
        return self.energy_pj * self.cycles


def summed(points: Sequence[OperatingPoint]) -> OperatingPoint:
    """Energy and cycles of parts that run one after the other."""
    return OperatingPoint(sum(point.energy_pj for point in points), sum(point.cycles for point in points))


def metric_value(point: OperatingPoint, metric: str) -> float:
    """What is minimised: "edp", "energy" or "delay"."""
    return {"edp": point.edp, "energy": point.energy_pj, "delay": point.cycles}[metric]


def metric_price(point: OperatingPoint, total: OperatingPoint, metric: str) -> float:
    """The share of a part in the metric of the network."""
    return {"edp": point.price(total), "energy": point.energy_pj / total.energy_pj,
            "delay": point.cycles / total.cycles}[metric]


def chosen(ways: Sequence[Sequence[OperatingPoint]], metric: str = "edp") -> list[int]:
    """For every part the way that makes the metric of the sums smallest, none of them better alone.

    Each part's first way is where it starts.
    """
    picks = [0] * len(ways)
    total = summed([part[0] for part in ways])
    while True:
        proposal = [min(range(len(part)), key=lambda i: (metric_price(part[i], total, metric), i)) for part in ways]
        found = summed([part[i] for part, i in zip(ways, proposal, strict=True)])
        if metric_value(found, metric) >= metric_value(total, metric) * (1 - 1e-12):
            break
        picks, total = proposal, found
    for place, part in enumerate(ways):  # the price is a tangent: steps that are too long are tried one by one
        here = part[picks[place]]
        for i, point in enumerate(part):
            other = OperatingPoint(total.energy_pj - here.energy_pj + point.energy_pj,
                                   total.cycles - here.cycles + point.cycles)
            if metric_value(other, metric) < metric_value(total, metric):
                picks[place], here, total = i, point, other
    return picks
