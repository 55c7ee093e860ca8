"""Another balance of a mixture of experts: its rows spread over more or fewer of the experts.

The data decide which expert a row goes to, so a network assumes a balance. The multiply-accumulates are the same
for every balance; the weights of the busy experts are read, each once.
"""

from __future__ import annotations

import math
from dataclasses import replace

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.workload.graph import Workload, build_workload
from fadiff_mapper.workload.operator import make_operator

Lead = tuple[int, int]
"""(experts at work, rows of each): the leading extents of all tensors between the choice of rows and their return."""


def spread_over(network: Workload, busy: int) -> Workload:
    """Spreads the rows of every mixture of experts evenly over so many busy experts; over as many as there are experts,
    or rows, where these are fewer.

    Raises FadiffError where the network has no mixture of experts (`Node.experts`), or rows do not divide evenly.
    """
    if busy < 1:
        raise FadiffError(f"busy_experts: found {busy}; accepted: a whole number >= 1")
    products = [node for node in network.layers if node.experts]
    if not products:
        raise FadiffError(f"{network.name}: busy_experts: found {busy}, but no operator is a product of experts")
    neighbours: dict[str, list[str]] = {node.name: list(node.inputs) for node in network.nodes}
    for node in network.nodes:
        for tensor in node.inputs:
            neighbours[tensor].append(node.name)
    shapes = {node.name: node.shape or () for node in network.nodes}
    leads: dict[str, tuple[Lead, Lead]] = {}
    for node in products:
        assert node.layer is not None
        before = node.layer.repeat, node.layer.problem.bounds["N"]
        rows, wanted = before[0] * before[1], min(busy, node.experts, before[0] * before[1])
        if rows % wanted:
            accepted = [str(count) for count in range(1, min(node.experts, rows) + 1) if not rows % count]
            raise FadiffError(f"{node.name}: busy_experts: {rows} rows do not divide evenly among {wanted} experts; "
                              f"accepted: {listed(accepted)}")
        todo = [node.name]  # the product and all around it with its leading extents, in one piece of the graph
        found = set(todo)
        while todo:
            around = {other for other in neighbours[todo.pop()] if shapes[other][:2] == before} - found
            found |= around
            todo += around
        leads |= dict.fromkeys(found, (before, (wanted, rows // wanted)))
    nodes = []
    for node in network.nodes:
        if node.name in leads:
            before, after = leads[node.name]
            node = replace(node, shape=node.shape and (*after, *node.shape[2:]))
            if node.experts and node.layer is not None:
                dims = {**node.layer.problem.bounds, "N": after[1]}
                node = replace(node, layer=make_operator(node.layer.op, dims, repeat=after[0]),
                               what=balance(math.prod(before), after[0], node.experts))
        nodes.append(node)
    return build_workload(network.name, nodes, network.outputs, folded=network.folded)


def balance(rows: int, busy: int, experts: int) -> str:
    """The assumption in words, as reports print it: rows of all experts together, experts at work, and all there are.
    """
    return f"{rows} rows spread evenly over {busy} of {experts} experts"
