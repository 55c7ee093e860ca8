"""The candidate groups of a network on a design with their exact cost: what every method of this comparison picks from.

Every segment of a chain has a single group: the candidate with the best estimate, evaluated exactly. So a plan is a
cut of the chains into segments, its EDP is exact, and dynamic programming over all of them is the optimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import log

from fadiff_mapper.fusion.prices import NOTHING, CoverPart, partition, summed
from fadiff_mapper.fusion.segments import runs_in_order
from fadiff_mapper.workload import OperatingPoint, Workload

Nodes = tuple[str, ...]
"""Names of the layers of a segment, in order."""


@dataclass(frozen=True)
class SpaceGroup:
    """The group of a segment, and of all segments equal to it.

    Attributes:
        estimate: Estimated energy and cycles, all repeats together.
        exact: Exact ones; None where the group cannot run.
        searches: Exact evaluations that it takes: two where the first falls short of the estimate.
        cpu_s: Seconds of processor time that they took.
    """

    estimate: OperatingPoint
    exact: OperatingPoint | None
    searches: int
    cpu_s: float


@dataclass(frozen=True)
class FusionSpace:
    """A network on a design, cut into groups in any way.

    Attributes:
        workload: The network.
        design: Name of the design.
        chains: Names of the layers of every chain; each layer is in one.
        alone: Energy and cycles of each layer by itself, all repeats together.
        joined: Energy and cycles that no group changes.
        number: For every segment the number of its group.
        groups: The groups.
    """

    workload: Workload
    design: str
    chains: tuple[Nodes, ...]
    alone: Mapping[str, OperatingPoint]
    joined: OperatingPoint
    number: Mapping[Nodes, int]
    groups: tuple[SpaceGroup, ...]

    @cached_property
    def unfused(self) -> OperatingPoint:
        """Energy and cycles of the network layer by layer."""
        return summed([*self.alone.values(), self.joined])

    def group(self, nodes: Nodes) -> SpaceGroup:
        """The group of a segment."""
        return self.groups[self.number[nodes]]

    def exact(self, nodes: Nodes) -> OperatingPoint | None:
        """Exact energy and cycles of a segment; of a layer by itself for one."""
        return self.alone[nodes[0]] if len(nodes) == 1 else self.group(nodes).exact

    def layers_alone(self, nodes: Nodes) -> OperatingPoint:
        """Energy and cycles of the layers of a segment one by one."""
        return summed([self.alone[name] for name in nodes])

    def log_edp(self, plan: Iterable[tuple[Nodes, OperatingPoint]] = ()) -> float:
        """Logarithm of the network's EDP, in pJ * cycles, with some groups and all other layers one by one."""
        groups = list(plan)
        fused = {name for nodes, _ in groups for name in nodes}
        total = summed([*(point for name, point in self.alone.items() if name not in fused),
                        *(point for _, point in groups), self.joined])
        return log(total.edp)

    def best_cut(self, points: Mapping[Nodes, OperatingPoint]) -> list[tuple[Nodes, OperatingPoint]]:
        """The best plan with some groups: dynamic programming, as the planner's, in an order that can run.

        Args:
            points: Energy and cycles of the groups that may be picked.
        """
        parts = [CoverPart(nodes, point, nodes) for nodes, point in points.items()]
        while True:
            plan = partition(self.chains, self.alone, parts, "edp", self.joined)
            if runs_in_order(self.workload, [part.nodes for part in plan]):
                return [(part.nodes, part.point) for part in plan]
            parts = [part for part in parts if part is not plan[-1]]


def space_of_points(workload: Workload, chains: tuple[Nodes, ...], alone: Mapping[str, OperatingPoint],
                    exact: Mapping[Nodes, OperatingPoint | None]) -> FusionSpace:
    """A space from costs that are known, each taken for its own estimate.

    Args:
        workload: The network.
        chains: Names of the layers of every chain.
        alone: Energy and cycles of each layer.
        exact: Energy and cycles of each segment; None where it cannot run.
    """
    groups = tuple(SpaceGroup(point or summed([alone[name] for name in nodes]), point, 1, 0.0)
                   for nodes, point in exact.items())
    number = {nodes: index for index, nodes in enumerate(exact)}
    return FusionSpace(workload, "", chains, alone, NOTHING, number, groups)
