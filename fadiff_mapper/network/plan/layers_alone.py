"""The reasons why layers of a plan run by themselves."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf

from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.plan.group_prices import price_of
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.tilings.candidates import candidates
from fadiff_mapper.network.tilings.layer_estimate import group_bases
from fadiff_mapper.results.mapped_network import LayerAlone


def layers_alone(board: PlanningBoard, plan: Sequence[CoverPart[EvaluatedGroup]]) -> tuple[LayerAlone, ...]:
    """Finds out for every layer outside of the groups of a plan why it is in none.

    Args:
        board: All segments, as planning left them.
        plan: The groups of the plan.

    Returns:
        The layers in the order of the network. Where planning evaluated no group with a layer, its pairs with a
        neighbour are estimated once more, however dear: none fits on the chip, or none saves anything.
    """
    run, price = board.run, price_of(board.run)
    fused = {name for part in plan for name in part.nodes}
    around: dict[str, list[tuple[tuple[str, ...], PlanningFacts]]] = {
        node.name: [] for node in run.workload.layers if node.name not in fused}
    for segment, facts in board.every:
        for name in around.keys() & set(segment.nodes):
            around[name].append((segment.nodes, facts))
    estimated: dict[Hashable, float] = {}

    def change(nodes: Sequence[str], together: float) -> float:
        """The price of some layers as a group, as a part of their price one by one, less 1."""
        return together / sum(price(run.alone[name]) for name in nodes) - 1

    def estimate(nodes: tuple[str, ...], facts: PlanningFacts) -> tuple[float, tuple[str, ...]]:
        """The change by the best pair of tiles in any size, infinite where none fits."""
        segment = facts.segment
        if segment.key not in estimated:
            found = candidates(run.hardware, segment, group_bases(segment, run.bases), price, inf)
            estimated[segment.key] = min((price(candidate.estimate) for candidate in found), default=inf)
        return change(nodes, estimated[segment.key]), nodes

    def reason(name: str) -> tuple[str, str]:
        known = [(change(nodes, price(group.point)), nodes) for nodes, facts in around[name] for group in facts.exact]
        if known:
            least, nodes = min(known)
            group = " + ".join(nodes)
            if least < 0:
                return "other groups save more", f"{group} would save {-least:.1%} of the cost of these layers"
            return "no gain", f"{group}, the best group with it, costs {least:.1%} more than its layers one by one"
        if any(facts.tried for _, facts in around[name]):
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
        pairs = [(nodes, facts) for nodes, facts in around[name] if len(nodes) == 2]
        if run.over() or not pairs:
            return "no time", "planning ended before groups with it were evaluated"
        least, nodes = min(estimate(*pair) for pair in pairs)
        if least == inf:
            return "no room", "tiles of it and of a neighbour do not fit on the chip together"
        return "no gain", f"{' + '.join(nodes)}, the best pair with it, is estimated to cost {max(least, 0.0):.1%} more"

    return tuple(LayerAlone(name, *reason(name)) for name in around)
