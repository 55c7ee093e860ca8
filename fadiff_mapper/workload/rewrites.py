"""Networks rewritten: products that share a factor, norms in elementary nodes, and the balance of experts."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Operator, make_operator
from fadiff_mapper.workload.producer_consumer import readers_of
from fadiff_mapper.workload.tensor_axes import SCATTERED, AxisPiece, axis_of, regrouped

# Problem. Frameworks write attention over query heads that share keys and values as one product per query head, with
# the keys and values repeated. Run so, each query head would fetch them again.
#
# Method. A repeated product is rewritten if its right factor comes, over reshapes and transposes, from a node that
# repeats elements, and the repetition is the innermost part of the runs. Runs that share a factor become one product,
# whose rows are already contiguous in memory. Its right factor is the tensor before the repetition.
#
# Llama-3-8B, 32 query heads on 8 heads of keys and values, one token against 2048:
#     before    32 runs of  1 x 128 times 128 x 2048
#     after      8 runs of  4 x 128 times 128 x 2048
#
# Repetitions along the outer part of the runs (a factor shared over the batch) stay as they are.

SHARED = "Weights"  # the operand that products share: the right factor


def with_shared_operands(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """Combines the runs of each repeated product that share their right factor.

    Nodes are in topological order, with shapes. Nodes that repeated a factor and have no reader left are left out.
    """
    by_name = {node.name: node for node in nodes}
    result: list[Node] = []
    unread: set[str] = set()
    for node in nodes:
        layer = node.layer
        if layer is None or node.op != "gemm" or SHARED not in node.operands or layer.repeat == 1:
            result.append(node)
            continue
        way = [by_name[node.inputs[node.operands.index(SHARED)]]]
        while way[0].op in ("reshape", "transpose"):
            way.insert(0, by_name[way[0].inputs[0]])
        source = by_name[way[0].inputs[0]] if way[0].op == "expand" and not any(each.moves for each in way) else None
        merged = _merged(node, layer, source, way) if source is not None else None
        result += merged or [node]
        unread |= {passed.name for passed in way} if merged else set()
    return tuple(without_unread(result, unread, outputs) if unread else nodes)


def without_unread(nodes: Sequence[Node], candidates: Container[str], outputs: Iterable[str]) -> list[Node]:
    """Nodes in topological order, without candidates that no node reads and that are no outputs."""
    kept, read = list[Node](), set(outputs)
    for node in reversed(nodes):
        if node.name in read or node.name not in candidates:
            kept.append(node)
            read.update(node.inputs)
    return kept[::-1]


def _merged(node: Node, layer: Operator, source: Node, way: Sequence[Node]) -> list[Node] | None:
    """The nodes that arrange the factor `source`, then the product over all rows that share it; None where no rows do,
    or where `way`, the nodes from the repetition of the source to the product, cannot be followed."""
    before, after = source.shape, way[0].shape
    lead = len(after or ()) - len(before or ())
    if before is None or after is None or lead < 0:
        return None
    padded = (1,) * lead + before
    if any(old not in (1, new) for old, new in zip(padded, after, strict=True)):
        return None
    axes = tuple(axis_of([AxisPiece(str(index), extent)]) for index, extent in enumerate(after))
    repeated = {str(index) for index, old in enumerate(padded) if old != after[index]}  # axes that repeat elements
    for passed in way[1:]:
        if passed.shape is not None:
            axes = (tuple(axes[axis] for axis in passed.axes) if passed.op == "transpose"
                    else regrouped(axes, passed.shape))
    runs, inner, columns = regrouped(axes, layer.tensor_shape(SHARED))
    kept = list(runs.pieces)
    while kept and kept[-1].dimension in repeated:
        kept.pop()
    pieces = [*kept, *inner.pieces, *columns.pieces]
    times = runs.extent // math.prod(piece.extent for piece in kept)
    if times == 1 or any(piece.dimension in {*repeated, SCATTERED} for piece in pieces):
        return None
    shape = (layer.repeat // times, inner.extent, columns.extent)
    stored = sorted(pieces, key=lambda piece: (int(piece.dimension), -piece.step))
    cut, order = tuple(piece.extent for piece in stored), tuple(stored.index(piece) for piece in pieces)
    turning = [("reshape", cut, ()), ("transpose", tuple(cut[axis] for axis in order), order)]
    made, now = [source], before
    for op, out, turned in [*(turning if order != tuple(range(len(order))) else []), ("reshape", shape, ())]:
        if op == "transpose" or out != now:
            made.append(Node(f"{node.name}.shared.{len(made) - 1}", op, (made[-1].name,), out, axes=turned,
                             where=node.where))
            now = out
    bounds = {**layer.problem.bounds, "N": layer.problem.bounds["N"] * times}
    inputs = tuple(made[-1].name if operand == SHARED else name
                   for name, operand in zip(node.inputs, node.operands, strict=True))
    made_of = make_operator("gemm", bounds, repeat=shape[0], where=node.where, bits=layer.bits)
    return [*made[1:], replace(node, layer=made_of, inputs=inputs)]


# Problem. Most language models, and ONNX models before version 17 of the operator set, normalise in five to nine nodes.
# Tiles pass through these nodes as through one norm (`tensor_routes` merges the paths), but plans should name the norm.
#
# rmsnorm      x / sqrt(mean(x^2) + e)
# layernorm    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e)
#
# Squares are a power, a square or a product with itself; the root may be taken before a division or as a factor; scales
# and shifts by constants behind the norm stay nodes. Nodes that others read are not put together.

ROOTS = ("rsqrt", "sqrt")  # nodes that take the root of the mean square

BESIDE_ROOT = ("add", "clip", "max", "reciprocal")
"""Nodes of one operand between a mean and its use: adding the small constant, bounding, inverting."""

SQUARES = (("pow", 1), ("square", 1), ("mul", 2))
"""Nodes, with the number of their operands, that square a tensor; the exponent of a power is a constant."""


def with_named_norms(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Node, ...]:
    """Replaces each norm that is written in elementary nodes by one node "rmsnorm" or "layernorm"."""
    by_name = {node.name: node for node in nodes}
    readers = readers_of(nodes, ())
    result, gone = {}, set[str]()
    for node in nodes:
        found = _norm(node, by_name) if node.op in ("mul", "div") and len(node.inputs) == 2 else None
        if found is not None:
            norm, inner = found
            if all({*readers[name]} <= inner | {node.name} and name not in outputs for name in inner):
                gone |= inner
                node = norm
        result[node.name] = node
    return tuple(node for name, node in result.items() if name not in gone)


def _norm(node: Node, by_name: Mapping[str, Node]) -> tuple[Node, set[str]] | None:
    """The norm whose last node this is, and the nodes in between; a product's factors may come in either order."""
    for scaled, factor in [node.inputs] if node.op == "div" else [node.inputs, node.inputs[::-1]]:
        inner, root = set[str](), by_name[factor]
        rooted = False
        while root.op in (*ROOTS, *BESIDE_ROOT) and len(root.inputs) == 1:
            inner.add(root.name)
            rooted = rooted or root.op in ROOTS
            root = by_name[root.inputs[0]]
        square = by_name[root.inputs[0]] if root.op == "mean" and rooted else None
        if square is None or set(square.inputs) != {scaled} or (square.op, len(square.inputs)) not in SQUARES:
            continue
        inner |= {root.name, square.name}
        centred = by_name[scaled]
        if centred.op == "sub" and len(centred.inputs) == 2:  # the difference to a mean over the same axes
            source, mean = centred.inputs
            if (by_name[mean].op, by_name[mean].inputs, by_name[mean].axes) == ("mean", (source,), root.axes):
                return (replace(node, op="layernorm", inputs=(source,), axes=root.axes), inner | {scaled, mean})
        return replace(node, op="rmsnorm", inputs=(scaled,), axes=root.axes), inner
    return None


# The data decide which expert a row goes to, so a network assumes a balance: rows spread evenly over the busy experts.
# The multiply-accumulates are the same for every balance; the weights of each busy expert are read once.

Lead = tuple[int, int]
"""(busy experts, rows of each): the leading extents of all tensors from the choice of rows to their return."""


def spread_over(network: str, nodes: Sequence[Node], busy: int) -> list[Node]:
    """The nodes with the rows of every mixture of experts spread evenly over `busy` experts, or over all experts or as
    many as rows where these are fewer. `network` is the name for messages.

    Raises FadiffError where there is no mixture of experts (`Node.experts`), or rows do not divide evenly.
    """
    if busy < 1:
        raise FadiffError(f"busy_experts: found {busy}; accepted: a whole number >= 1")
    products = [node for node in nodes if node.layer and node.experts]
    if not products:
        raise FadiffError(f"{network}: busy_experts: found {busy}, but no operator is a product of experts")
    readers = readers_of(nodes, ())
    neighbours = {node.name: [*node.inputs, *readers[node.name]] for node in nodes}
    shapes = {node.name: node.shape or () for node in nodes}
    leads: dict[str, tuple[Lead, Lead]] = {}
    for node in products:
        assert node.layer is not None
        before = node.layer.repeat, node.layer.problem.bounds["N"]
        rows, wanted = before[0] * before[1], min(busy, node.experts, before[0] * before[1])
        if rows % wanted:
            accepted = [str(count) for count in range(1, min(node.experts, rows) + 1) if not rows % count]
            raise FadiffError(f"{node.name}: busy_experts: {rows} rows do not divide evenly among {wanted} experts; "
                              f"accepted: {listed(accepted)}")
        todo = [node.name]  # the product, and all nodes connected to it that have its leading extents
        found = set(todo)
        while todo:
            around = {other for other in neighbours[todo.pop()] if shapes[other][:2] == before} - found
            found |= around
            todo += around
        leads |= dict.fromkeys(found, (before, (wanted, rows // wanted)))
    result = []
    for node in nodes:
        if node.name in leads:
            before, after = leads[node.name]
            node = replace(node, shape=node.shape and (*after, *node.shape[2:]))
            if node.experts and node.layer is not None:
                dims = {**node.layer.problem.bounds, "N": after[1]}
                node = replace(node, layer=make_operator(node.layer.op, dims, repeat=after[0], bits=node.layer.bits),
                               what=balance(math.prod(before), after[0], node.experts))
        result.append(node)
    return result


def balance(rows: int, busy: int, experts: int) -> str:
    """The assumption in words, from the rows of all experts together, the busy experts and all experts.
    """
    return f"{rows} rows spread evenly over {busy} of {experts} experts"
