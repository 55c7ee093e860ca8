"""Builds nodes from the operators of a framework: matrix products and attention as operators of ours.

An `Assembly` collects nodes while a reader walks its framework's graph; a `Tensor` is a value that flows between them.
Frameworks differ in names and attributes alone, which the readers resolve; shapes, templates and the reshapes around
an operator are made here, once for all. Constants (weights, and all that is computed from them) have no node: an
operator's data space that is a constant is no operand in the graph. Convolutions stand in `convolutions`, recurrent
layers in `recurrent`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fadiff_mapper.workload import Folded, Node, make_operator
from fadiff_mapper.workload.node import INPUT, NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.shapes import possible_macs
from fadiff_mapper.yaml.place import Where


@dataclass(frozen=True)
class Tensor:
    """A value of the framework's graph.

    Attributes:
        shape: its extents; empty where they are not known.
        node: the node that writes it; None for weights and other constants.
        known: False where the shape is not known.
        picked_from: for matrices that a computed index picks among constant ones, the number of these: experts.
    """

    shape: Shape
    node: str | None = None
    known: bool = True
    picked_from: int = 0

    @property
    def constant(self) -> bool:
        """True for weights and values computed from constants alone."""
        return self.node is None


@dataclass
class Assembly:
    """The nodes of a network under construction.

    Attributes:
        nodes: the nodes so far, in the order in which they were added.
        taken: name -> times that it was asked for, so that every node's name is unique.
        folded: operators with multiply-accumulates that read constants alone.
        constants: name of a node without multiply-accumulates -> shapes of the constants that it reads.
        busy_experts: experts over which rows are spread, None for all.
    """

    nodes: list[Node] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    folded: list[Folded] = field(default_factory=list)
    constants: dict[str, tuple[Shape, ...]] = field(default_factory=dict)
    busy_experts: int | None = None

    def unique(self, name: str) -> str:
        """The name, with a number where it is taken already."""
        free = name
        while free in self.taken:
            self.taken[name] += 1
            free = f"{name}.{self.taken[name]}"
        self.taken[free] = 1
        return free

    def put(self, node: Node) -> Tensor:
        """Adds a node, whose name is made unique, and returns its output."""
        name = self.unique(node.name)
        self.nodes.append(replace(node, name=name))
        return Tensor(node.shape or (), name, node.shape is not None)

    def plain_node(self, name: str, op: str, operands: Sequence[Tensor], shape: Shape | None, where: Where,
                   axes: tuple[int, ...] = (), what: str = "") -> Tensor:
        """Adds a node without multiply-accumulates.

        Args:
            name: its name, made unique.
            op: a key of `node.KIND`.
            operands: the values that it reads; constants among them are left out.
            shape: extents of its output, None where they are not known.
            where: place in the source, for messages.
            axes: for the kinds rows, reduce and transpose (`Node.axes`).
            what: the framework's name, where `op` is one of `node.GENERIC`.
        """
        made = self.put(Node(name, op, tuple(t.node for t in operands if t.node), shape, axes=axes, what=what,
                             where=where))
        constants = tuple(t.shape for t in operands if t.constant)
        if constants and made.node:
            self.constants[made.node] = constants
        return made

    def input(self, name: str, shape: Shape, where: Where) -> Tensor:
        """Adds an input of the network."""
        return self.plain_node(name, INPUT, (), shape, where)

    def unknown(self, name: str, what: str, operands: Sequence[Tensor], shapes: Sequence[Shape | None], where: Where,
                macs: int | None = None, possible: int | None = None) -> list[Tensor]:
        """Adds the results of an operation that is not understood, a node for each.

        Args:
            name: its name, made unique.
            what: the framework's name of the operation.
            operands: the values that it reads; constants among them are no inputs of the nodes.
            shapes: extents of its results, None where they are not known.
            where: place in the source, for messages.
            macs: its multiply-accumulates, where they are known.
            possible: where they are not, how many it may well have; by default those of one product of its tensors.

        Returns:
            The results, of which the first node has all the multiply-accumulates.
        """
        inputs = tuple(t.node for t in operands if t.node)
        if macs is None and possible is None:
            possible = possible_macs([t.shape if t.known else None for t in operands], shapes)
        return [self.put(Node(name if len(shapes) == 1 else f"{name}.{index}", NOT_UNDERSTOOD, inputs, shape, what=what,
                              macs=0 if index else macs, possible=None if index else possible, where=where))
                for index, shape in enumerate(shapes)]

    def note_folded(self, name: str, what: str, macs: int) -> None:
        """Notes an operator that reads constants alone; one without multiply-accumulates is not worth a note."""
        if macs:
            self.folded.append(Folded(name, what, macs))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the nodes so far, those included that are known of nodes not understood."""
        return sum(node.layer.macs if node.layer else node.macs or 0 for node in self.nodes)

    def reshape(self, name: str, x: Tensor, shape: Shape, where: Where) -> Tensor:
        """The same elements under another shape; no node where the shape stays or the value is a constant."""
        if x.constant or x.shape == shape:
            return Tensor(shape, x.node)
        return self.plain_node(name, "reshape", [x], shape, where)

    def transpose(self, name: str, x: Tensor, order: tuple[int, ...], where: Where) -> Tensor:
        """The axes in another order; no node where the order stays or the value is a constant."""
        shape = tuple(x.shape[axis] for axis in order)
        if x.constant or order == tuple(range(len(order))):
            return Tensor(shape, x.node)
        return self.plain_node(name, "transpose", [x], shape, where, order)

    def expand(self, name: str, x: Tensor, shape: Shape, where: Where) -> Tensor:
        """A value repeated along axes; only a reshape where no element is repeated."""
        if x.constant or math.prod(x.shape) == math.prod(shape):
            return self.reshape(name, x, shape, where)
        return self.plain_node(name, "expand", [x], shape, where)


def product(to: Assembly, name: str, a: Tensor, b: Tensor, shape: Shape, where: Where) -> Tensor:
    """Adds a matrix product.

    Args:
        to: the network.
        name: name of its node.
        a: [..., n, k], or a vector [k], which counts as a matrix of one row.
        b: [..., k, m], or a vector [k], which counts as a matrix of one column.
        shape: extents of the output.
        where: place in the source, for messages.

    Returns:
        The output of one product over all rows where `b` is one matrix, else of a product repeated over the batch, for
        which operands that the batch shares are expanded. A constant on the left is swapped with the data on the right,
        since the template's weights stand on the right.

    Raises:
        SpecError: the inner extents differ.
    """
    if not a.shape or not b.shape or a.shape[-1] != b.shape[max(len(b.shape) - 2, 0)]:
        raise where.error(f"a product of {list(a.shape)} and {list(b.shape)}", "[..., n, k] and [..., k, m]")
    if len(a.shape) == 1:
        a = to.reshape(f"{name}.row", a, (1, *a.shape), where)
    if len(b.shape) == 1:
        b = to.reshape(f"{name}.column", b, (*b.shape, 1), where)
    if a.constant:  # the data on the right: the product of both, transposed
        return _swapped(to, name, a, b, shape, where)
    (n, k), m = a.shape[-2:], b.shape[-1]
    if math.prod(b.shape[:-2]) == 1:
        repeat, rows = 1, math.prod(a.shape[:-1])
    else:
        rows, lead = n, _broadcast(a.shape[:-2], b.shape[:-2])
        repeat = math.prod(lead)
        a = to.expand(f"{name}.left", a, a.shape if math.prod(a.shape[:-2]) == repeat else (*lead, n, k), where)
        b = to.expand(f"{name}.right", b, b.shape if math.prod(b.shape[:-2]) == repeat else (*lead, k, m), where)
    dims = {"N": rows, "M": m, "C": k, "P": 1, "Q": 1, "R": 1, "S": 1}
    layer = make_operator("gemm", dims, repeat=repeat, where=where)
    read = [(t.node, space) for t, space in ((a, "Inputs"), (b, "Weights")) if t.node]
    return to.put(Node(name, "gemm", tuple(node for node, _ in read), shape, layer,
                       tuple(space for _, space in read), where=where))


def _swapped(to: Assembly, name: str, a: Tensor, b: Tensor, shape: Shape, where: Where) -> Tensor:
    """A product whose left operand is a constant: a b is the transpose of (the transpose of b) (that of a)."""
    right = to.transpose(f"{name}.turned", b, turned(len(b.shape)), where)
    left = Tensor((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    lead = _broadcast(a.shape[:-2], b.shape[:-2])
    out = product(to, name, right, left, (*lead, b.shape[-1], a.shape[-2]), where)
    back = to.transpose(f"{name}.back", out, turned(len(out.shape)), where)
    return to.reshape(f"{name}.shape", back, shape, where)


def linear(to: Assembly, name: str, x: Tensor, weight: Tensor, shape: Shape, where: Where) -> Tensor:
    """Adds x times the transpose of a weight.

    Args:
        to: the network.
        name: name of its node.
        x: [..., in].
        weight: [out, in].
        shape: extents of the output, [..., out].
        where: place in the source, for messages.
    """
    return product(to, name, x, to.transpose(f"{name}.weight", weight, turned(len(weight.shape)), where), shape, where)


def attention(to: Assembly, name: str, operands: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, shape: Shape,
              where: Where) -> Tensor:
    """Adds softmax(q k^T + mask) v: two products, and whole rows in between.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        operands: queries, keys and values, [..., heads, tokens, size]; fewer heads of keys and values than of queries
            are shared among these, which `shared_operands` makes rows of one product.
        mask: added to the scores where it is computed; a constant mask adds no node.
        shape: extents of the output.
        where: place in the source, for messages.
    """
    q, k, v = operands
    heads = q.shape[:-2]
    k, v = (for_heads(to, f"{name}.{what}", t, heads, where) for what, t in (("keys", k), ("values", v)))
    keys = to.transpose(f"{name}.keys_t", k, turned(len(k.shape)), where)
    scores = (*heads, q.shape[-2], k.shape[-2])
    products = product(to, f"{name}.qk", q, keys, scores, where)
    if mask is not None and not mask.constant:
        products = to.plain_node(f"{name}.mask", "add", [products, mask], scores, where)
    rows = to.plain_node(f"{name}.softmax", "softmax", [products], scores, where, (-1,))
    return product(to, f"{name}.av", rows, v, shape, where)


def for_heads(to: Assembly, name: str, t: Tensor, heads: Shape, where: Where) -> Tensor:
    """Keys or values with one head for each of the queries: neighbours share one.

    Args:
        to: the network.
        name: name of its node, if there is any.
        t: keys or values, [..., heads, tokens, size].
        heads: leading extents of the queries.
        where: place in the source, for messages.
    """
    own = t.shape[:-2]
    if own[:-1] == heads[:-1] and own and 1 < own[-1] < heads[-1] and heads[-1] % own[-1] == 0:
        apart = to.reshape(f"{name}.heads", t, (*own, 1, *t.shape[-2:]), where)
        t = to.expand(f"{name}.shared", apart, (*own, heads[-1] // own[-1], *t.shape[-2:]), where)
        return to.reshape(name, t, (*heads, *t.shape[-2:]), where)
    return to.expand(name, t, (*heads, *t.shape[-2:]), where)


def turned(rank: int) -> tuple[int, ...]:
    """The order of axes that swaps the last two.

    Args:
        rank: number of axes.
    """
    order = list(range(rank))
    order[-2:] = order[-2:][::-1]
    return tuple(order)


def fourier_macs(points: int, rows: int, real: bool) -> int:
    """Multiply-accumulates of fast Fourier transforms.

    Args:
        points: points of each.
        rows: number of transforms.
        real: whether the signal, or the result, is real.

    Returns:
        Those of radix 2 (Cooley and Tukey): points / 2 * log2(points) complex products of four multiplications each, of
        real signals half as many; log2 is rounded up where there is no such radix.
    """
    return rows * points * (points - 1).bit_length() * (1 if real else 2)


def _broadcast(a: Shape, b: Shape) -> Shape:
    """The larger extent of each axis, aligned at the last one."""
    rank = max(len(a), len(b))
    return tuple(map(max, (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))
