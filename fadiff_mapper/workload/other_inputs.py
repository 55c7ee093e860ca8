"""The other inputs of element-wise operators, such as residual operands.

Problem. A plan charges operators: each writes its output once, and reads its operands. Where a node joins two tensors
(a residual sum, the two projections of a gated feed-forward part), the result takes the place of one of them. The other
one is read besides, and no operator accounts for it.

Method. A tensor lies in memory where an operator writes it, where it enters the network, or where a join makes it of
several such tensors; all others are computed from those on their way, as the points of an activation are. Of the
operands of a join, the largest flows on, of equally large ones that which is ready last. Each other one is read
besides, unless it is computed from the same tensors: x * sigmoid(x), x / mean(x) and rotated halves read nothing
else. Operands that are repeated count the words that they have before, constants nothing.

    y = x + f(x)                                 x is read besides
    silu(gate(x)) * up(x)                        one of the two projections
    image * sigmoid(fc(mean(image)))             the factor: one word per channel
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fadiff_mapper.workload.node import INPUT, Node


@dataclass(frozen=True)
class OtherInput:
    """A tensor that a join reads besides the one that flows on.

    Attributes:
        node: name of the join.
        tensor: name of the operand.
        words: its elements.
    """

    node: str
    tensor: str
    words: int


def other_inputs(nodes: Sequence[Node]) -> tuple[OtherInput, ...]:
    """All tensors that joins read besides those that flow on; operands of unknown shape are left out.

    Args:
        nodes: the nodes of a network in topological order, with shapes.
    """
    by_name = {node.name: node for node in nodes}
    place = {name: index for index, name in enumerate(by_name)}
    lying: dict[str, frozenset[str]] = {}
    found: list[OtherInput] = []
    for node in nodes:
        operands = sorted(set(node.inputs), key=place.__getitem__) if node.kind == "join" else []
        besides = _besides(node.name, [by_name[name] for name in operands], by_name, lying)
        own = besides or node.layer is not None or node.op == INPUT
        lying[node.name] = frozenset({node.name}) if own else frozenset().union(*(lying[name] for name in node.inputs))
        found += besides
    return tuple(found)


def _besides(join: str, operands: Sequence[Node], by_name: Mapping[str, Node],
             lying: Mapping[str, frozenset[str]]) -> list[OtherInput]:
    """The operands of a join, in topological order, that are read besides.

    `lying`: the tensors in memory that each tensor is computed from.
    """
    if len(operands) < 2:
        return []
    words = {operand.name: _words(operand, by_name) for operand in operands}
    flows = max(reversed(words), key=lambda name: words[name])
    return [OtherInput(join, name, count) for name, count in words.items()
            if name != flows and count and not lying[name] <= lying[flows]]


def _words(node: Node, by_name: Mapping[str, Node]) -> int:
    """Elements of a tensor, before it is repeated; 0 where its shape is not known."""
    while node.op == "expand":
        node = by_name[node.inputs[0]]
    return math.prod(node.shape) if node.shape is not None else 0
