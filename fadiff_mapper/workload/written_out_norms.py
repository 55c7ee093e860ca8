"""RMSNorm and LayerNorm written out in elementary nodes, as one node that needs whole rows.

Problem. Most language models, and ONNX models before version 17 of the operator set, normalise in five to nine nodes.
Tiles pass them as they pass the norm (`tensor_routes` merges the paths), but a reader of a network looks for the norm.

    rmsnorm      x / sqrt(mean(x^2) + e)
    layernorm    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e)

Squares are a power, a square or a product with itself; the root may be taken before a division or as a factor; scales
and shifts by constants behind the norm stay nodes of their own. Only nodes that nothing else reads are put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.workload.node import Node

ROOTS = ("rsqrt", "sqrt")
"""Nodes that take the root of the mean square."""

BESIDE_ROOT = ("add", "clip", "max", "reciprocal")
"""Nodes of one operand that stand between a mean and its use: the small constant, a bound, an inverse."""

SQUARES = ("pow", "square")
"""Nodes of one operand that square it; the exponent of a power is a constant."""


@dataclass(frozen=True)
class _Norm:
    """A norm that was found: the tensor, its axes of whole rows, and the nodes in between."""

    op: str
    source: str
    axes: tuple[int, ...]
    inner: frozenset[str]


def with_named_norms(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """Puts together the nodes of each norm that is written out.

    Args:
        nodes: the nodes of a network in topological order, with shapes.
        outputs: names of the tensors that it returns.

    Returns:
        The nodes with a node "rmsnorm" or "layernorm" in place of each norm's last one, without its others.
    """
    by_name = {node.name: node for node in nodes}
    readers: dict[str, set[str]] = {node.name: set() for node in nodes}
    for node in nodes:
        for tensor in node.inputs:
            readers[tensor].add(node.name)
    result, gone = {}, set[str]()
    for node in nodes:
        norm = _norm(node, by_name) if node.op in ("mul", "div") and len(node.inputs) == 2 else None
        apart = norm is not None and all(readers[name] <= norm.inner | {node.name} and name not in outputs
                                         for name in norm.inner)
        if norm is not None and apart:
            gone |= norm.inner
            node = replace(node, op=norm.op, inputs=(norm.source,), axes=norm.axes)
        result[node.name] = node
    return tuple(node for name, node in result.items() if name not in gone)


def _norm(node: Node, by_name: Mapping[str, Node]) -> _Norm | None:
    """The norm whose last node this is; a product's factors may stand in either order."""
    pairs = [node.inputs] if node.op == "div" else [node.inputs, node.inputs[::-1]]
    for scaled, factor in pairs:
        chain, root = [], by_name[factor]
        while root.op in (*ROOTS, *BESIDE_ROOT) and len(root.inputs) == 1:
            chain.append(root)
            root = by_name[root.inputs[0]]
        square = by_name[root.inputs[0]] if root.op == "mean" and any(step.op in ROOTS for step in chain) else None
        if square is None or _squared(square) != scaled:
            continue
        inner = frozenset({root.name, square.name, *(step.name for step in chain)})
        rms = _Norm("rmsnorm", scaled, root.axes, inner)
        return _centred(rms, by_name) or rms
    return None


def _squared(node: Node) -> str | None:
    """The tensor that a node squares, None where it does not."""
    if node.op in SQUARES and len(node.inputs) == 1:
        return node.inputs[0]
    return node.inputs[0] if node.op == "mul" and len(node.inputs) == 2 and len(Counter(node.inputs)) == 1 else None


def _centred(norm: _Norm, by_name: Mapping[str, Node]) -> _Norm | None:
    """A norm over the difference to a mean over the same axes is a layer norm."""
    centred = by_name[norm.source]
    if centred.op != "sub" or len(centred.inputs) != 2:
        return None
    source, mean = centred.inputs
    if by_name[mean].op != "mean" or by_name[mean].inputs != (source,) or by_name[mean].axes != norm.axes:
        return None
    return _Norm("layernorm", source, norm.axes, norm.inner | {centred.name, mean})
