"""Why layers of a network are in no fused group of its plan."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf

from fadiff_mapper.fusion.candidates import candidates
from fadiff_mapper.fusion.prices import CoverPart
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.network.planning import PlanningRun, SegmentState
from fadiff_mapper.network.result import EvaluatedGroup, LayerAlone


def layers_alone(run: PlanningRun, plan: Sequence[CoverPart[EvaluatedGroup]]) -> tuple[LayerAlone, ...]:
    """The reason of every layer outside the groups of a plan, in the order of the network.

    If planning evaluated no group with a layer, its smallest groups are estimated once more, whatever they cost, to see
    whether none fits on the chip or none saves anything.
    """
    price = run.price
    fused = {name for part in plan for name in part.nodes}
    around: dict[str, list[tuple[tuple[str, ...], SegmentState]]] = {
        node.name: [] for node in run.workload.layers if node.name not in fused}
    for nodes, state in run.by_nodes.items():
        for name in around.keys() & set(nodes):
            around[name].append((nodes, state))
    estimated: dict[Hashable, float] = {}

    def change(nodes: Sequence[str], together: float) -> float:
        """The price of layers as a group over their price one by one, minus 1."""
        return together / sum(price(run.alone[name]) for name in nodes) - 1

    def estimate(nodes: tuple[str, ...], segment: Segment) -> tuple[float, tuple[str, ...]]:
        """The change by the best group, with any tile sizes; infinite where no group fits."""
        if segment.key not in estimated:
            found = candidates(run.compiled(segment), price, inf)
            estimated[segment.key] = min((price(candidate.estimate) for candidate in found), default=inf)
        return change(nodes, estimated[segment.key]), nodes

    def reason(name: str) -> tuple[str, str]:
        known = [(change(nodes, price(group.point)), nodes) for nodes, state in around[name] for group in state.exact]
        if known:
            least, nodes = min(known)
            group = " + ".join(nodes)
            if least < 0:
                return "other groups save more", f"{group} would save {-least:.1%} of the cost of these layers"
            return "no gain", f"{group}, the best group with it, costs {least:.1%} more than its layers one by one"
        if any(state.tried for _, state in around[name]):
            return "no legal mapping", "tiles of the groups with it have no legal mapping"
        if not around[name]:
            links = [link for link in run.workload.links() if name in (link.producer, link.consumer)]
            obstacles = dict.fromkeys(link.obstacle.sentence for link in links if link.obstacle)
            if not links:
                return "no neighbour", "no other layer makes what it reads or reads what it makes"
            if len(obstacles) and all(link.obstacle for link in links):
                return "operators between", "; ".join(obstacles)
            if run.cut:
                return "no time", "planning ended before all groups with it were listed"
            return "not in one go", "its neighbours pass their tiles to other layers, or wait for layers in between"
        if run.over():
            return "no time", "planning ended before groups with it were evaluated"
        # pairs with a neighbour, or larger groups for a layer that makes a second operand
        smallest = min(len(nodes) for nodes, _ in around[name])
        least, nodes = min(estimate(nodes, state.segment) for nodes, state in around[name] if len(nodes) == smallest)
        if least == inf:
            return "no room", "tiles of it and of a neighbour do not fit on the chip together"
        size = "pair" if smallest == 2 else "small group"
        return "no gain", (f"{' + '.join(nodes)}, the best {size} with it, is estimated to cost "
                           f"{max(least, 0.0):.1%} more")

    return tuple(LayerAlone(name, *reason(name)) for name in around)
