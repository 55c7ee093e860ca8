"""Products written as a multiplication point by point and a sum, as the products that they are.

Problem. `(x[:, None] * w).sum(-1)` is the matrix product x w^T. As a join and a reduction it would cost nothing in a
plan, and its multiply-accumulates would count nowhere.

Method. A sum or mean over axes along which both factors of a multiplication have several points is an einsum of them.

    a factor is a constant                     an operator: the constant is its weights
    each factor is repeated for the other      an operator: x[n, 1, k] y[1, m, k], summed over k
    one is repeated (as the weights of parts   the join and the reduction as they stand, which take no more steps than
      w[n, k, 1] of y[n, k, m])                the larger factor has points; `Node.macs` names their number
    none is (the squared lengths of rows)      the same, unnamed: a reduction

Any other reduction of a join of all pairs (the distances of rows, `(x[:, None] - y).pow(2).sum(-1)`) is not understood,
with one multiply-accumulate for each point of the join.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from fadiff_mapper.workload.node import NOT_UNDERSTOOD, Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.einsum import einsum
from fadiff_mapper.workload.shapes import whole_axes

Constants: TypeAlias = Mapping[str, tuple[Shape, ...]]
"""Name of a node -> shapes of the constants that it reads."""


def recognise_products(to: Assembly, outputs: Sequence[str]) -> None:
    """Replaces sums of products in a network.

    Args:
        to: the network, complete.
        outputs: names of the nodes that it returns.
    """
    by_name = {node.name: node for node in to.nodes}
    readers = Counter(name for node in to.nodes for name in node.inputs) + Counter(outputs)
    products: dict[str, tuple[Node, list[Tensor]]] = {}
    named: dict[str, Node] = {}
    for node in to.nodes:
        reduces = node.kind == "reduce" or node.op == "cumsum"
        join, scaled = _join(node, by_name, readers, to.constants) if reduces else (None, False)
        factors = _factors(join, by_name, to.constants) if join else []
        if not join or not factors:
            continue
        points, both = math.prod(join.shape or ()), scaled and _both_along(join, node, factors)
        repeated = [math.prod(factor.shape) < points for factor in factors]
        if both and (all(repeated) or (any(repeated) and any(factor.constant for factor in factors))):
            products[node.name] = join, factors
        elif all(repeated):
            what = f"{node.what or node.op} of all pairs ({join.what or join.op})"
            named[node.name] = replace(node, op=NOT_UNDERSTOOD, axes=(), what=what, macs=points)
        elif both and any(repeated):
            named[node.name] = replace(node, macs=points)
    joins = {join.name for join, _ in products.values()}
    nodes, to.nodes = to.nodes, []
    for node in nodes:
        if node.name in products:
            _add_product(to, node, *products[node.name])
        elif node.name not in joins:
            to.nodes.append(named.get(node.name, node))
    kept, read = list[Node](), set(outputs)
    for node in reversed(to.nodes):     # without scales and repeated factors that nothing reads any more
        if node.name in read or not readers[node.name]:
            kept.append(node)
            read.update(node.inputs)
    to.nodes = kept[::-1]


def _join(node: Node, by_name: Mapping[str, Node], readers: Mapping[str, int],
          constants: Constants) -> tuple[Node | None, bool]:
    """The join of two tensors behind a reduction, and whether it is a product that is at most scaled on the way.

    Only steps point by point of one tensor lie on the way (and rearrangements, behind which it counts as no product),
    and nothing else reads them: None where that is not so.
    """
    scaled, inner = node.op in ("sum", "mean"), by_name[node.inputs[0]]
    while readers[inner.name] == 1:
        if inner.kind == "join" and (len(set(inner.inputs)) == 2 or _shapes(inner, constants)):
            return inner, scaled and inner.op == "mul"
        if inner.kind not in ("join", "pointwise", "reshape", "transpose") or len(set(inner.inputs)) != 1:
            break
        scaled = scaled and inner.op in ("mul", "div", "neg") and len(inner.inputs) == 1
        inner = by_name[inner.inputs[0]]
    return None, False


def _shapes(node: Node, constants: Constants) -> list[Shape]:
    """Shapes of the constants that a node reads, single numbers apart."""
    return [shape for shape in constants.get(node.name, ()) if math.prod(shape) > 1]


def _factors(join: Node, by_name: Mapping[str, Node], constants: Constants) -> list[Tensor]:
    """The two operands of a join before they are repeated, with as many axes as it has; none where there are more, or
    shapes are not known."""
    found: list[Tensor] = []
    for name in dict.fromkeys(join.inputs):
        source = by_name[name]
        while source.op == "expand":
            source = by_name[source.inputs[0]]
        found.append(Tensor(source.shape or (), source.name, source.shape is not None))
    found += [Tensor(shape) for shape in _shapes(join, constants)]
    if len(found) != 2 or join.shape is None or not all(each.known for each in found):
        return []
    return [replace(each, shape=(1,) * (len(join.shape) - len(each.shape)) + each.shape) for each in found]


def _both_along(join: Node, node: Node, factors: Sequence[Tensor]) -> bool:
    """Whether both factors have several points along an axis of the join that a reduction sums."""
    assert join.shape is not None
    return any(min(factor.shape[axis] for factor in factors) > 1 for axis in whole_axes(node, len(join.shape)))


def _add_product(to: Assembly, node: Node, join: Node, factors: Sequence[Tensor]) -> None:
    """Adds the product that a join and a reduction make, under the join's name, and the reduction's shape."""
    assert join.shape is not None and node.shape is not None
    letters = string.ascii_lowercase[:len(join.shape)]
    kept = "".join(letter for axis, letter in enumerate(letters) if axis not in whole_axes(node, len(letters)))
    shape = tuple(join.shape[letters.index(letter)] for letter in kept)
    del to.taken[join.name]
    result = einsum(to, join.name, f"{letters},{letters}->{kept}", factors, shape, node.where)
    to.nodes.append(Node(node.name, "reshape", (result.node or "",), node.shape, where=node.where))
