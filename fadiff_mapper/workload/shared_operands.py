"""Products of a batch that share a factor become rows of one product, as grouped-query attention runs.

Problem. Frameworks write attention over query heads that share keys and values as one product per query head, with the
keys and values repeated. Run so, each query head would fetch them again.

Method. Where the right factor of a repeated product leads back, over reshapes and transposes, to a node that repeats
elements, and the repetition is the innermost part of the runs, the products that share a factor are one product: their
rows stand one under the other in memory already. The right factor is then the tensor before the repetition.

    Llama-3-8B, 32 query heads on 8 heads of keys and values, one token against 2048:
        before    32 runs of  1 x 128 times 128 x 2048
        after      8 runs of  4 x 128 times 128 x 2048

Repetitions along the outer part of the runs (a factor shared over the batch) stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.workload.axis_algebra import AxisPiece, TensorAxis, axis_of, regrouped
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Operator, Shape, make_operator

AGAIN = "again"
"""Prefix of the dimensions of a tensor's pieces that repeat elements; those of the source are numbers."""

SHARED = "Weights"
"""The operand that products share: the right factor."""


@dataclass(frozen=True)
class _Repetition:
    """A right factor as a tensor that is repeated on its way to the product.

    Attributes:
        source: the tensor before the repetition.
        axes: the axes of the product's operand (runs, inner extent, columns) in the dimensions of the source.
        way: nodes between the source and the product.
    """

    source: Node
    axes: tuple[TensorAxis, ...]
    way: tuple[str, ...]


def with_shared_operands(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """Puts together the products of each node that share their right factor.

    Args:
        nodes: the nodes of a network in topological order, with shapes.
        outputs: names of the tensors that it returns.

    Returns:
        The nodes in topological order; equal ones where no product shares a factor. Nodes that repeated a factor and
        are read no more are left out.
    """
    by_name = {node.name: node for node in nodes}
    result: list[Node] = []
    unread: set[str] = set()
    for node in nodes:
        found = _repetition(node, by_name) if node.op == "gemm" and SHARED in node.operands else None
        merged = _merged(node, found) if found is not None else None
        if found is not None and merged is not None:
            result += merged
            unread |= set(found.way)
        else:
            result.append(node)
    return _without(result, unread - set(outputs)) if unread else tuple(nodes)


def _repetition(node: Node, by_name: Mapping[str, Node]) -> _Repetition | None:
    """The tensor behind a right factor that is repeated; None where there is none, or its way is not followed."""
    layer = node.layer
    assert layer is not None
    way: list[Node] = []
    tensor = by_name[node.inputs[node.operands.index(SHARED)]]
    while tensor.op in ("reshape", "transpose"):
        way.insert(0, tensor)
        tensor = by_name[tensor.inputs[0]]
    source = by_name[tensor.inputs[0]] if tensor.op == "expand" else None
    if layer.repeat == 1 or source is None or source.shape is None or tensor.shape is None:
        return None
    axes = _repeated(source.shape, tensor.shape)
    for passed in way:
        if axes is not None and passed.shape is not None:
            axes = (tuple(axes[axis] for axis in passed.axes) if passed.op == "transpose"
                    else regrouped(axes, passed.shape))
    axes = regrouped(axes, layer.tensor_shape(SHARED)) if axes is not None else None
    names = (tensor.name, *(passed.name for passed in way))
    return _Repetition(source, axes, names) if axes is not None else None


def _repeated(before: Shape, after: Shape) -> tuple[TensorAxis, ...] | None:
    """The axes of a tensor behind a node that repeats axes of one point; None where others are repeated."""
    padded = (1,) * (len(after) - len(before)) + before
    if len(padded) != len(after) or any(old not in (1, new) for old, new in zip(padded, after, strict=True)):
        return None
    lead = len(after) - len(before)
    return tuple(axis_of([AxisPiece(str(index - lead) if old == new else f"{AGAIN} {index}", new)])
                 for index, (old, new) in enumerate(zip(padded, after, strict=True)))


def _merged(node: Node, found: _Repetition) -> list[Node] | None:
    """The product over all rows that share a factor, behind the nodes that arrange it; None where none share."""
    layer = node.layer
    assert layer is not None
    runs, inner, columns = found.axes
    kept = list(runs.pieces)
    while kept and kept[-1].dimension.startswith(AGAIN):
        kept.pop()
    rest = [*kept, *inner.pieces, *columns.pieces]
    times = runs.extent // math.prod(piece.extent for piece in kept)
    if times == 1 or any(not piece.dimension.isdecimal() for piece in rest):
        return None
    shape = (layer.repeat // times, inner.extent, columns.extent)
    arranging = _arranging(node, found.source, rest, shape)
    bounds = {**layer.problem.bounds, "N": layer.problem.bounds["N"] * times}
    merged: Operator = make_operator("gemm", bounds, repeat=shape[0], where=node.where)
    right = arranging[-1].name if arranging else found.source.name
    inputs = tuple(right if operand == SHARED else name
                   for name, operand in zip(node.inputs, node.operands, strict=True))
    return [*arranging, replace(node, layer=merged, inputs=inputs)]


def _arranging(node: Node, source: Node, pieces: Sequence[AxisPiece], shape: Shape) -> list[Node]:
    """Nodes that bring the pieces of a tensor's axes into an order, and the result into a shape."""
    assert source.shape is not None
    stored = sorted(pieces, key=lambda piece: (int(piece.dimension), -piece.step))
    cut = tuple(piece.extent for piece in stored)
    order = tuple(stored.index(piece) for piece in pieces)
    turned = order != tuple(range(len(order)))
    steps: list[tuple[str, Shape, tuple[int, ...]]] = [("reshape", cut, ())] if turned and cut != source.shape else []
    steps += [("transpose", tuple(cut[axis] for axis in order), order)] if turned else []
    now = steps[-1][1] if steps else source.shape
    steps += [("reshape", shape, ())] if now != shape else []
    made: list[Node] = []
    for index, (op, out, axes) in enumerate(steps):
        before = made[-1].name if made else source.name
        made.append(Node(f"{node.name}.shared.{index}", op, (before,), out, axes=axes, where=node.where))
    return made


def _without(nodes: Sequence[Node], candidates: set[str]) -> tuple[Node, ...]:
    """The nodes without those candidates that nothing reads any more."""
    kept = list(nodes)
    while True:
        read = {tensor for node in kept for tensor in node.inputs}
        left = [node for node in kept if node.name not in candidates or node.name in read]
        if len(left) == len(kept):
            return tuple(kept)
        kept = left
