"""Energy and cycles of parts of a network, their price in the network's metric, and the best cover of chains by groups.

Problem. FADiff's objective is the EDP of the network (below its eq. 19), a product of two sums. The mapping of least
EDP of a layer is not the best for the network: a layer that costs much energy and few cycles should save energy. And
groups overlap, so that the gain of a group depends on the other groups.

Method. At a plan with the sums E and T, dE/E + dT/T is the relative change of the EDP. So a part of the network has the
price energy/E + cycles/T, the tangent of the metric. Of several mappings for the part, the mapping with the lowest
price is chosen (`chosen`). The cheapest cover of a chain by groups and single layers follows by dynamic programming
along the chain (`partition`), again and again at the resulting sums, until nothing changes.

The other input of an element-wise operator (`workload.other_inputs`), such as a residual operand, is read once from the
outermost level, where its producer wrote it, at the level's energy per word and bandwidth. The cycles are added, since
operators run one after the other. Timeloop has no such nodes. This holds with fusion and without, unless a group reads
the operand on the chip (`candidates.with_second_reads`), which counts the reads of its own steps. Halos that a group
reads again are not counted, and the sum itself costs nothing. On a design with compute units all operators without
multiply-accumulates cost time and energy (`model.vector_cost`), by themselves or in a group
(`group_cost.operator_costs`), and these reads are part of that cost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Generic, TypeVar

import numpy as np

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS, Spec, metric_of
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.energy_latency import narrowest_port
from fadiff_mapper.model.prepared_layer import UNLIMITED, element_shares, prepare_layer, word_energy
from fadiff_mapper.model.vector_cost import VectorCost, vector_costs
from fadiff_mapper.workload import OperatingPoint, Workload
from fadiff_mapper.workload.operations import VectorOperator
from fadiff_mapper.workload.producer_consumer import other_inputs

Plan = TypeVar("Plan")
Step = TypeVar("Step")
State = TypeVar("State", bound=Hashable)


NOTHING = OperatingPoint(0.0, 0)
"""The operating point of an empty part."""


def summed(points: Sequence[OperatingPoint]) -> OperatingPoint:
    """Energy and cycles of parts that run one after the other."""
    return OperatingPoint(sum(point.energy_pj for point in points), sum(point.cycles for point in points))


def metric_value(point: OperatingPoint | VectorCost, metric: str) -> float:
    """The value of "edp" in pJ * cycles, "energy" in pJ, or "delay" in cycles, to be minimised."""
    return float(metric_of(metric, point.energy_pj, point.cycles))


def on_best_unit(costs: Iterable[VectorCost], metric: str) -> VectorCost:
    """The cost of an operator on the unit that is best in a metric; ties go to the least EDP."""
    return min(costs, key=lambda cost: (metric_value(cost, metric), cost.edp))


@dataclass(frozen=True)
class NetworkPrice:
    """The price of parts of a network at one plan with the finite sums `total`."""

    total: OperatingPoint
    metric: str = "edp"

    def __call__(self, point: OperatingPoint) -> float:
        """The share of a part in the network's metric; for "edp" to first order the change of its logarithm."""
        energy_pj, cycles = self.sums
        return point.energy_pj / energy_pj + point.cycles / cycles

    @cached_property
    def sums(self) -> tuple[float, float]:
        """Divisors for the energy and the cycles of a part; infinite if the metric does not count them."""
        energy_power, cycles_power = METRIC_EXPONENTS[self.metric]
        return self.total.energy_pj if energy_power else inf, self.total.cycles if cycles_power else inf


def chosen(choices: Sequence[Sequence[OperatingPoint]], metric: str = "edp") -> list[int]:
    """For every part the index of one of its operating points: a descent on the metric ("edp", "energy" or "delay") of
    the sums, from the first points on, at prices and then part by part."""
    picks = [0] * len(choices)
    total = summed([part[0] for part in choices])
    while True:
        price = NetworkPrice(total, metric)
        proposal = [min(range(len(part)), key=lambda i: (price(part[i]), i)) for part in choices]
        after = summed([part[i] for part, i in zip(choices, proposal, strict=True)])
        if metric_value(after, metric) >= metric_value(total, metric) * (1 - 1e-12):    # no gain beyond rounding
            break
        picks, total = proposal, after
    # The price is a tangent: where changing all parts at once goes too far, they still change one by one.
    for index, part in enumerate(choices):
        now = part[picks[index]]
        for i, point in enumerate(part):
            other = summed([total.less(now), point])
            if metric_value(other, metric) < metric_value(total, metric):
                picks[index], now, total = i, point, other
    return picks


@dataclass(frozen=True)
class CoverPart(Generic[Plan]):
    """Layers of a chain, by name, that run as one group, its energy and cycles, and the group itself (`plan`)."""

    nodes: tuple[str, ...]
    point: OperatingPoint
    plan: Plan


def covered_total(alone: Mapping[str, OperatingPoint], groups: Sequence[CoverPart[Plan]],
                  besides: OperatingPoint) -> OperatingPoint:
    """Energy and cycles of a network: disjoint groups, the other layers by themselves, and the cost besides layers."""
    fused = {name for part in groups for name in part.nodes}
    return summed([*(point for name, point in alone.items() if name not in fused), *(part.point for part in groups),
                   besides])


def partition(chains: Sequence[tuple[str, ...]], alone: Mapping[str, OperatingPoint], parts: Sequence[CoverPart[Plan]],
              metric: str = "edp", besides: OperatingPoint = NOTHING) -> list[CoverPart[Plan]]:
    """Picks the groups that make the metric of the whole network smallest; optimal at each price, else a descent.

    Args:
        chains: Names of the layers of each chain; every layer of the network is in one.
        alone: Energy and cycles of each layer by itself, all repeats together.
        parts: Groups to choose from; several may cover the same layers.
        metric: "edp", "energy" or "delay".
        besides: Energy and cycles of the network that no group changes.
    """
    by_end: dict[str, list[CoverPart[Plan]]] = {}
    for part in parts:
        by_end.setdefault(part.nodes[-1], []).append(part)
    # per chain: layers by themselves and groups, with numbers of layers before and after each
    steps: list[list[tuple[int, int, OperatingPoint, CoverPart[Plan] | None]]] = []
    for chain in chains:
        steps.append([])
        for stop, name in enumerate(chain, 1):
            steps[-1].append((stop - 1, stop, alone[name], None))
            steps[-1] += [(stop - len(part.nodes), stop, part.point, part) for part in by_end.get(name, ())
                          if len(part.nodes) <= stop and chain[stop - len(part.nodes):stop] == part.nodes]
    best: list[CoverPart[Plan]] = []
    total = covered_total(alone, (), besides)
    while True:
        price = NetworkPrice(total, metric)
        cover = [part for chain, own in zip(chains, steps, strict=True) for part in least_path(
            ((before, stop, price(point), part) for before, stop, point, part in own), 0, len(chain))[1] if part]
        after = covered_total(alone, cover, besides)
        if metric_value(after, metric) >= metric_value(total, metric) * (1 - 1e-12):    # no gain beyond rounding
            return best
        best, total = cover, after


def least_path(steps: Iterable[tuple[State, State, float, Step]], start: State,
               end: State) -> tuple[float, list[Step]]:
    """A shortest path from one state to another: its price and its steps in order; ties go to the first path.

    `steps`: the states before and after each step, its price and the step; a step into a state comes before all steps
    from that state.
    """
    least, last = defaultdict[State, float](lambda: inf, {start: 0.0}), dict[State, tuple[State, Step]]()
    for before, after, price, step in steps:
        value = least[before] + price
        if value < least[after]:
            least[after], last[after] = value, (before, step)
    way, state = list[Step](), end
    while state != start:
        state, step = last[state]
        way.append(step)
    return least[end], way[::-1]


@dataclass(frozen=True)
class WordCosts:
    """Costs of words on a design."""

    read: tuple[float, ...]  # pJ of a word read from each level, innermost first
    written: float  # pJ of a word written at the outermost level
    width: float  # words that all instances of the outermost level read in a cycle
    # words per cycle of one instance of the outermost level: the least of its shared, read and write bandwidths
    bandwidth: float
    most: float  # words that all instances of the outermost level read and write in a cycle

    def fetched(self, words: int) -> OperatingPoint:
        """Energy in pJ and whole cycles of reading words from the outermost level."""
        return OperatingPoint(words * self.read[-1], math.ceil(words / self.width) if self.width < UNLIMITED else 0)


def word_costs(spec: Spec) -> WordCosts:
    """Costs of output words of a layer on a design; pJ per word is pJ per access over words per access."""
    machine = prepare_layer(spec.arch, spec.problem, spec.tables).machine
    energy = word_energy(machine)
    share = element_shares(spec.arch, spec.problem)[0][:, spec.problem.dataspaces.index(spec.problem.output)]
    read, either = (float(narrowest_port(writes, machine)[-1]) for writes in (False, True))
    both = float(np.minimum(machine.shared_bandwidth, machine.read_bandwidth + machine.write_bandwidth)[-1, 0])
    instances, last = spec.arch.levels[-1].instances, float(share[-1])
    return WordCosts(tuple(map(float, energy.read[:, 0] * share)), float(energy.update[-1, 0]) * last,
                     read * instances / last, either / last,
                     both * instances / last / scale if (scale := float(machine.bandwidth_scale[-1].min())) else inf)


def other_reads(workload: Workload, spec: Spec, metric: str | None = None) -> OperatingPoint:
    """Energy in pJ and cycles of a network besides its layers; `spec`: of any layer on the design.

    Without compute units: reads of the other inputs of all element-wise operators, in whole cycles. With units: all
    operators without multiply-accumulates, one after the other, including these reads (`operators_alone`, also for
    `metric` and errors).
    """
    if spec.arch.units:
        return operators_alone(workload.vector_operators(), spec.arch, spec.tables, metric)
    costs = word_costs(spec)
    return summed([costs.fetched(operand.words) for operand in other_inputs(workload.nodes)])


def operators_alone(operators: Iterable[VectorOperator], arch: Architecture, tables: Tables,
                    metric: str | None = None) -> OperatingPoint:
    """Energy and cycles of operators outside of groups, one after the other, on compute units.

    `metric`: chooses the unit of each operator; None: the least energy and the least cycles over all units, for bounds.
    Raises FadiffError where no unit can do an operator.
    """
    found = [vector_costs(operator, arch, tables) for operator in operators]
    energies, delays = ([on_best_unit(costs, metric or least) for costs in found] for least in ("energy", "delay"))
    return OperatingPoint(sum(own.energy_pj for own in energies), sum(own.cycles for own in delays))
