"""Networks rewritten: products that share a factor, and norms in elementary nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Operator, Shape, make_operator
from fadiff_mapper.workload.picked_axes import AxisPiece, TensorAxis, axis_of, regrouped

# Problem. Frameworks write attention over query heads that share keys and values as one product per query head, with
# the keys and values repeated. Run so, each query head would fetch them again.
#
# Method. Where the right factor of a repeated product leads back, over reshapes and transposes, to a node that
# repeats elements, and the repetition is the innermost part of the runs, the products that share a factor are one
# product: their rows stand one under the other in memory already. The right factor is then the tensor before the
# repetition.
#
# Llama-3-8B, 32 query heads on 8 heads of keys and values, one token against 2048:
#     before    32 runs of  1 x 128 times 128 x 2048
#     after      8 runs of  4 x 128 times 128 x 2048
#
# Repetitions along the outer part of the runs (a factor shared over the batch) stay as they are.

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


# Problem. Most language models, and ONNX models before version 17 of the operator set, normalise in five to nine
# nodes. Tiles pass them as they pass the norm (`tensor_routes` merges the paths), but a reader of a network looks for
# the norm.
#
# rmsnorm      x / sqrt(mean(x^2) + e)
# layernorm    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e)
#
# Squares are a power, a square or a product with itself; the root may be taken before a division or as a factor;
# scales and shifts by constants behind the norm stay nodes of their own. Only nodes that nothing else reads are put
# together.

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
