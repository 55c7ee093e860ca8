"""Operators of a framework -> nodes. What the front ends share: convolutions, products and attention as layers.

An `Assembly` collects nodes while a front end walks its graph; a `Tensor` is what flows between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fadiff_mapper.workload import Node, make_operator
from fadiff_mapper.workload.node import INPUT, NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.yaml.located import Where

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tensor:
    """A value: its shape, and the node that writes it (None for weights and other constants). Where its shape is not
    known, `known` is False and `shape` is empty."""

    shape: Shape
    node: str | None = None
    known: bool = True

    @property
    def constant(self) -> bool:
        return self.node is None


@dataclass(frozen=True)
class Sliding:
    """How the kernel of a convolution moves, one entry per sliding axis."""

    stride: Shape
    pad: Pads
    dilation: Shape
    groups: int = 1


@dataclass
class Assembly:
    """The nodes so far, in the order in which they were added; every name is taken once."""

    nodes: list[Node] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """The name, with a number where it is taken already."""
        found = name
        while found in self.taken:
            self.taken[name] += 1
            found = f"{name}.{self.taken[name]}"
        self.taken[found] = 1
        return found

    def put(self, node: Node) -> Tensor:
        """Add a node; its name is made unique."""
        name = self.unique(node.name)
        self.nodes.append(replace(node, name=name))
        return Tensor(node.shape or (), name, node.shape is not None)

    def operator(self, name: str, op: str, operands: Sequence[Tensor], shape: Shape | None, where: Where,
                 axes: tuple[int, ...] = ()) -> Tensor:
        """A node that is no layer; constants among its operands are left out."""
        return self.put(Node(name, op, tuple(t.node for t in operands if t.node), shape, axes=axes, where=where))

    def input(self, name: str, shape: Shape, where: Where) -> Tensor:
        return self.operator(name, INPUT, (), shape, where)

    def unknown(self, name: str, what: str, operands: Sequence[Tensor], shape: Shape | None, where: Where,
                macs: int | None = None) -> Tensor:
        """An operator that is not understood."""
        inputs = tuple(t.node for t in operands if t.node)
        return self.put(Node(name, NOT_UNDERSTOOD, inputs, shape, what=what, macs=macs, where=where))

    def reshape(self, name: str, x: Tensor, shape: Shape, where: Where) -> Tensor:
        """The same elements under another shape; nothing where the shape stays."""
        if x.constant or x.shape == shape:
            return Tensor(shape, x.node)
        return self.operator(name, "reshape", [x], shape, where)

    def transpose(self, name: str, x: Tensor, order: tuple[int, ...], where: Where) -> Tensor:
        shape = tuple(x.shape[axis] for axis in order)
        if x.constant or order == tuple(range(len(order))):
            return Tensor(shape, x.node)
        return self.operator(name, "transpose", [x], shape, where, order)

    def expand(self, name: str, x: Tensor, shape: Shape, where: Where) -> Tensor:
        """A tensor repeated along axes; only a reshape where no element is repeated."""
        if x.constant or math.prod(x.shape) == math.prod(shape):
            return self.reshape(name, x, shape, where)
        return self.operator(name, "expand", [x], shape, where)


def convolution(to: Assembly, name: str, x: Tensor, weight: Tensor, slide: Sliding, shape: Shape,
                where: Where) -> Tensor:
    """A convolution of one or two sliding axes as a layer: `weight` is [out, in / groups, kernel...]. One over three
    axes is not understood, as is one whose weights are computed; its multiply-accumulates are known all the same."""
    kernel = weight.shape[2:]
    if len(kernel) not in (1, 2) or not weight.constant or x.constant:
        macs = math.prod(shape) * math.prod(weight.shape[1:])
        return to.unknown(name, f"convolution over {len(kernel)} axes" if weight.constant and not x.constant else
                          "convolution with computed weights", [x, weight], shape, where, macs)
    padded = (1,) * (len(kernel) + 2 - len(x.shape)) + x.shape  # a missing batch axis
    flat = len(kernel) == 1
    image = to.reshape(f"{name}.image", x, padded + ((1,) if flat else ()), where)
    out = (1,) * (len(padded) - len(shape)) + shape
    r, s = (*kernel, 1)[:2]
    p, q = (*out[2:], 1)[:2]
    g, m, c = slide.groups, weight.shape[0] // slide.groups, weight.shape[1]
    dims = {"N": out[0], **({"G": g} if g > 1 else {}), "M": m, "C": c, "P": p, "Q": q, "R": r, "S": s}
    op = "conv" if g == 1 else "depthwise" if m == c == 1 else "grouped_conv"
    stride, dilation = (_both(values) for values in (slide.stride, slide.dilation))
    layer = make_operator(op, dims, stride, dilation, where=where)
    assert image.node is not None
    return to.put(Node(name, op, (image.node,), shape, layer, ("Inputs",), (*slide.pad, (0, 0))[:2], where=where))


def _both(values: Shape) -> tuple[int, int]:
    padded = (*values, 1)[:2]
    return padded[0], padded[1]


def product(to: Assembly, name: str, a: Tensor, b: Tensor, shape: Shape, where: Where) -> Tensor:
    """A matrix product [..., n, k] x [..., k, m] as a layer: once over all rows where `b` is one matrix, else repeated
    over the batch. A vector counts as a matrix of one row or column; operands that the batch repeats are expanded."""
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
    right = to.transpose(f"{name}.turned", b, _turned(len(b.shape)), where)
    left = Tensor((*a.shape[:-2], a.shape[-1], a.shape[-2]))
    lead = _broadcast(a.shape[:-2], b.shape[:-2])
    out = product(to, name, right, left, (*lead, b.shape[-1], a.shape[-2]), where)
    back = to.transpose(f"{name}.back", out, _turned(len(out.shape)), where)
    return to.reshape(f"{name}.shape", back, shape, where)


def linear(to: Assembly, name: str, x: Tensor, weight: Tensor, shape: Shape, where: Where) -> Tensor:
    """x times the transpose of a weight [out, in]."""
    return product(to, name, x, to.transpose(f"{name}.weight", weight, _turned(len(weight.shape)), where), shape, where)


def attention(to: Assembly, name: str, operands: tuple[Tensor, Tensor, Tensor], mask: Tensor | None, shape: Shape,
              where: Where) -> Tensor:
    """softmax(q k^T + mask) v over [..., heads, tokens, size]: two products, and whole rows in between. Fewer heads of
    keys and values than of queries are shared among them."""
    q, k, v = operands
    heads = q.shape[:-2]
    k, v = (to.expand(f"{name}.{what}", t, (*heads, *t.shape[-2:]), where) for what, t in (("keys", k), ("values", v)))
    turned = to.transpose(f"{name}.keys_t", k, _turned(len(k.shape)), where)
    scores = (*heads, q.shape[-2], k.shape[-2])
    found = product(to, f"{name}.qk", q, turned, scores, where)
    if mask is not None and not mask.constant:
        found = to.operator(f"{name}.mask", "add", [found, mask], scores, where)
    rows = to.operator(f"{name}.softmax", "softmax", [found], scores, where, (-1,))
    return product(to, f"{name}.av", rows, v, shape, where)


def _turned(rank: int) -> tuple[int, ...]:
    """The order of axes that swaps the last two."""
    order = list(range(rank))
    order[-2:] = order[-2:][::-1]
    return tuple(order)


def _broadcast(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    return tuple(map(max, (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))
