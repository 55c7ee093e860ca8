"""Energy and cycles of parts of a network, the trade between them, and the costs of words.

Problem. FADiff's objective is the EDP of the network (below its eq. 19), a product of two sums. The mapping with the
best EDP of its own is not the best for the network: a layer that costs much energy and few cycles should save energy.

Method. At a plan with the sums E and T, dE/E + dT/T is the relative change of the EDP. So a part of the network has
the price energy/E + cycles/T, and of several mappings or groups for it the one with the lowest price is chosen, again
and again with the sums that come out, until nothing changes.

The other input of an element-wise operator (`workload.other_inputs`), such as a residual operand, is read once from the
outermost level, where its producer wrote it: at its energy per word, and at its bandwidth for the cycles, which are
added, since operators run one after the other. Timeloop has no such nodes. The same holds with fusion and without,
unless a group reads the operand on the chip (`candidates.with_second_reads`), which counts the reads of its own steps.
Halos of it that a group reads again are not counted, and the sum itself costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.prepared_layer import UNLIMITED, prepare_layer, word_energy
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.producer_consumer import other_inputs


@dataclass(frozen=True)
class OperatingPoint:
    """Energy in pJ and cycles of a part of a network as some mapping or group runs it, all repeats together."""

    energy_pj: float
    cycles: float

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles

    def price(self, total: OperatingPoint) -> float:
        """The part's price in the EDP of a network with the sums `total` (`NetworkPrice`)."""
        return NetworkPrice(total)(self)

    def times(self, count: int) -> OperatingPoint:
        """The part, run so many times."""
        return OperatingPoint(count * self.energy_pj, count * self.cycles)

    def less(self, other: OperatingPoint) -> OperatingPoint:
        """The part without another one."""
        return OperatingPoint(self.energy_pj - other.energy_pj, self.cycles - other.cycles)


NOTHING = OperatingPoint(0.0, 0)
"""The operating point of no part at all."""


def summed(points: Sequence[OperatingPoint]) -> OperatingPoint:
    """Energy and cycles of parts that run one after the other."""
    return OperatingPoint(sum(point.energy_pj for point in points), sum(point.cycles for point in points))


def metric_value(point: OperatingPoint, metric: str) -> float:
    """The value of "edp" in pJ * cycles, "energy" in pJ, or "delay" in cycles, to be minimised."""
    return {"edp": point.edp, "energy": point.energy_pj, "delay": point.cycles}[metric]


@dataclass(frozen=True)
class NetworkPrice:
    """The price of parts at one plan of a network with the sums `total`; energies and cycles of all are finite."""

    total: OperatingPoint
    metric: str = "edp"

    def __call__(self, point: OperatingPoint) -> float:
        """The share of a part in the metric of the network; of "edp" to first order the change of its logarithm."""
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


@dataclass(frozen=True)
class WordCosts:
    """Costs of words on a design.

    Attributes:
        read: pJ of a word read, for every level, innermost first.
        written: pJ of a word written at the outermost level.
        width: Words that all instances of the outermost level read in a cycle.
        bandwidth: Words per cycle of one instance: the least of its shared bandwidth, that of reads and that of writes.
    """

    read: tuple[float, ...]
    written: float
    width: float
    bandwidth: float

    def fetched(self, words: int) -> OperatingPoint:
        """Energy in pJ and whole cycles of reading words from the outermost level."""
        return OperatingPoint(words * self.read[-1], math.ceil(words / self.width) if self.width < UNLIMITED else 0)


def word_costs(spec: Spec) -> WordCosts:
    """The costs of words for a layer on a design; pJ per word is pJ per access over words per access."""
    machine = prepare_layer(spec.arch, spec.problem, spec.tables).machine
    energy = word_energy(machine)
    shared, read, written = (float(limit[-1, 0]) for limit in (
        machine.shared_bandwidth, machine.read_bandwidth, machine.write_bandwidth))
    return WordCosts(tuple(map(float, energy.read[:, 0])), float(energy.update[-1, 0]),
                     min(read, shared) * spec.arch.levels[-1].instances, min(shared, read, written))


def other_reads(workload: Workload, spec: Spec) -> OperatingPoint:
    """Energy in pJ and whole cycles of reading the other inputs of all element-wise operators of a network.

    `spec`: any of its layers on the design.
    """
    costs = word_costs(spec)
    return summed([costs.fetched(operand.words) for operand in other_inputs(workload.nodes)])
