"""Another balance of a mixture of experts: its rows spread over more or fewer of the experts.

The data decide which expert a row goes to, so a network assumes a balance. The multiply-accumulates are the same
whatever it is; the weights that are read are those of the busy experts, each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.workload.graph import Workload, build_workload
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import make_operator

Lead = tuple[int, int]
"""(experts at work, rows of each): the leading extents of all tensors between the choice of rows and their return."""


def spread_over(network: Workload, busy: int) -> Workload:
    """Spreads the rows of every mixture of experts evenly over some of its experts.

    Args:
        network: A network whose products of experts say so (`Node.experts`).
        busy: Experts at work; as many as there are, or as there are rows, where these are fewer.

    Raises:
        FadiffError: The network has no mixture of experts, or rows do not divide evenly among so many.
    """
    if busy < 1:
        raise FadiffError(f"busy_experts: found {busy}; accepted: a whole number >= 1")
    products = [node for node in network.layers if node.experts]
    if not products:
        raise FadiffError(f"{network.name}: busy_experts: found {busy}, but no operator is a product of experts")
    leads: dict[str, tuple[Lead, Lead]] = {}
    for node in products:
        before = _lead(node)
        leads |= dict.fromkeys(_with_lead(network, node, before), (before, _spread(node, before, busy)))
    nodes = [_changed(node, leads) for node in network.nodes]
    return build_workload(network.name, nodes, network.outputs, folded=network.folded)


def balance(rows: int, busy: int, experts: int) -> str:
    """The assumption in words, as reports print it.

    Args:
        rows: Rows of all experts together.
        busy: Experts over which they are spread.
        experts: Experts that there are.
    """
    return f"{rows} rows spread evenly over {busy} of {experts} experts"


def _lead(node: Node) -> Lead:
    """Experts at work and rows of each, of a product of experts."""
    assert node.layer is not None
    return node.layer.repeat, node.layer.problem.bounds["N"]


def _spread(node: Node, before: Lead, busy: int) -> Lead:
    """The same rows over other experts. Raises FadiffError where they do not divide."""
    rows = before[0] * before[1]
    wanted = min(busy, node.experts, rows)
    if rows % wanted:
        accepted = [str(count) for count in range(1, min(node.experts, rows) + 1) if not rows % count]
        raise FadiffError(f"{node.name}: busy_experts: {rows} rows do not divide evenly among {wanted} experts; "
                          f"accepted: {listed(accepted)}")
    return wanted, rows // wanted


def _with_lead(network: Workload, node: Node, lead: Lead) -> set[str]:
    """The product and all nodes around it whose tensors have its leading extents, in one piece of the graph."""
    shapes = {other.name: other.shape for other in network.nodes}
    inputs = {other.name: other.inputs for other in network.nodes}
    readers: dict[str, list[str]] = {name: [] for name in inputs}
    for name, tensors in inputs.items():
        for tensor in tensors:
            readers[tensor].append(name)
    found, todo = {node.name}, [node.name]
    while todo:
        name = todo.pop()
        for other in (*inputs[name], *readers[name]):
            if other not in found and (shapes[other] or ())[:2] == lead:
                found.add(other)
                todo.append(other)
    return found


def _changed(node: Node, leads: Mapping[str, tuple[Lead, Lead]]) -> Node:
    """A node with its tensor, and where it is a product of experts its problem, for the new spread."""
    if node.name not in leads:
        return node
    before, after = leads[node.name]
    shape = node.shape and (*after, *node.shape[2:])
    if not node.experts or node.layer is None:
        return replace(node, shape=shape)
    dims = {**node.layer.problem.bounds, "N": after[1]}
    return replace(node, shape=shape, layer=make_operator(node.layer.op, dims, repeat=after[0]),
                   what=balance(before[0] * before[1], after[0], node.experts))
