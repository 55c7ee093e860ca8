"""Builds nodes from the operators of a framework: matrix products and attention as operators of ours.

An `Assembly` collects nodes while a reader walks its framework's graph; a `Tensor` is a value that flows between them.
Frameworks differ in names and attributes alone, which the readers resolve; shapes, templates and the reshapes around
an operator are made here, once for all. Constants (weights, and all that is computed from them) have no node: an
operator's data space that is a constant is no operand in the graph. Convolutions stand in `convolutions`, recurrent
layers in `recurrent`.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Folded, make_operator
from fadiff_mapper.workload.busy_experts import balance
from fadiff_mapper.workload.node import INPUT, NOT_UNDERSTOOD, Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.shapes import possible_macs, whole_axes


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


# Tensors are multiplied from left to right, as ONNX Runtime does, and PyTorch without opt_einsum.

Term: TypeAlias = tuple[str, ...]
"""The letters of a tensor's axes; axes under dots are "1", "2", ... from the last one on."""


def einsum(to: Assembly, name: str, equation: str, tensors: Sequence[Tensor], shape: Shape, where: Where) -> Tensor:
    """Adds the products of an einsum.

    Args:
        to: the network.
        name: name of the node of its last product.
        equation: such as "bid,bjd->bij", with an output or without; dots stand for any leading axes.
        tensors: one for each term.
        shape: extents of the output.
        where: place in the source, for messages.

    Returns:
        The output of a product for each tensor behind the first: repeated over the letters that both factors and what
        follows have, or of a join where no letter is summed. Letters of one tensor alone that nothing else has are
        summed before.

    Raises:
        SpecError: the equation does not fit the tensors.
    """
    terms, out = _terms(equation, tensors, where)
    extents = _extents(terms, tensors, where)
    result, letters = tensors[0], terms[0]
    for index, (tensor, term) in enumerate(zip(tensors[1:], terms[1:], strict=True), 2):
        called, later = name if index == len(tensors) else f"{name}.{index - 1}", set(out).union(*terms[index:])
        first = _own(to, f"{called}.left", result, letters, extents, later.union(term), where)
        second = _own(to, f"{called}.right", tensor, term, extents, later.union(first[1]), where)
        result, letters = _contraction(to, called, first, second, extents, later, where)
    result, letters = _own(to, name, result, letters, extents, set(out), where)
    back = to.transpose(f"{name}.back", result, tuple(letters.index(letter) for letter in out), where)
    return to.reshape(f"{name}.shape", back, shape, where)


def _own(to: Assembly, name: str, x: Tensor, term: Term, extents: dict[str, int], needed: set[str],
         where: Where) -> tuple[Tensor, Term]:
    """A tensor without axes that are repeated (a single point), stand there twice, or that nothing else needs."""
    once = tuple(dict.fromkeys(term))
    if len(once) < len(term):
        shape = tuple(x.shape[term.index(letter)] for letter in once)
        x, term = Tensor(shape) if x.constant else to.plain_node(
            f"{name}.diagonal", "other", [x], shape, where, what="diagonal of an einsum"), once
    long = tuple(letter for letter, size in zip(term, x.shape, strict=True) if size == extents[letter])
    x = to.reshape(f"{name}.flat", x, tuple(extents[letter] for letter in long), where)
    kept = tuple(letter for letter in long if letter in needed)
    if len(kept) < len(long):
        shape = tuple(extents[letter] for letter in kept)
        x = Tensor(shape) if x.constant else to.plain_node(
            f"{name}.sum", "sum", [x], shape, where, tuple(index for index, letter in enumerate(long)
                                                           if letter not in needed))
    return x, kept


def _contraction(to: Assembly, name: str, left: tuple[Tensor, Term], right: tuple[Tensor, Term],
                 extents: dict[str, int], needed: set[str], where: Where) -> tuple[Tensor, Term]:
    """The product of two tensors, summed over the letters that both have and nothing else needs."""
    (first, a), (second, b) = left, right
    shared = [letter for letter in a if letter in b and letter in needed]
    summed = [letter for letter in a if letter in b and letter not in needed]
    rows, columns = ([letter for letter in own if letter not in other] for own, other in ((a, b), (b, a)))
    made = (*shared, *rows, *columns)
    apart = tuple(extents[letter] for letter in made)
    if first.constant and second.constant:
        to.note_folded(name, "einsum", math.prod(apart) * math.prod(extents[letter] for letter in summed))
        return Tensor(apart), made
    if not summed:
        return to.plain_node(name, "other", [first, second], apart, where, what="einsum without a sum"), made

    def size(letters: list[str]) -> int:
        return math.prod(extents[letter] for letter in letters)

    def put(tag: str, x: Tensor, term: Term, order: list[str], wanted: Shape) -> Tensor:
        moved = to.transpose(f"{name}.{tag}_moved", x, tuple(term.index(letter) for letter in order), where)
        return to.reshape(f"{name}.{tag}", moved, wanted, where)
    batch = (size(shared),) if shared else ()
    moved = (put("left", first, a, shared + rows + summed, (*batch, size(rows), size(summed))),
             put("right", second, b, shared + summed + columns, (*batch, size(summed), size(columns))))
    result = product(to, name, *moved, (*batch, size(rows), size(columns)), where)
    return to.reshape(f"{name}.apart", result, apart, where), made


def _terms(equation: str, tensors: Sequence[Tensor], where: Where) -> tuple[list[Term], Term]:
    """The letters of all tensors and of the output."""
    stated, arrow, out = equation.replace(" ", "").partition("->")
    terms, dots = [], 0
    for term, tensor in zip(stated.split(","), tensors, strict=False):
        own, rank = len(term.replace("...", "")), len(tensor.shape)
        if len(stated.split(",")) != len(tensors) or (own > rank if "..." in term else own != rank):
            break
        dots = max(dots, rank - own)
        terms.append(_term(term, rank - own))
    every = [letter for term in terms for letter in term]
    once = sorted(letter for letter in every if every.count(letter) == 1 and not letter.isdecimal())
    output = _term(out, dots) if arrow else (*_term("...", dots), *once)
    if len(terms) < len(tensors) or not set(output) <= set(every):
        ranks = " and ".join(str(len(tensor.shape)) for tensor in tensors)
        raise where.error(f'the equation "{equation}" on tensors of {ranks} axes', "a letter for each axis")
    return terms, output


def _extents(terms: Sequence[Term], tensors: Sequence[Tensor], where: Where) -> dict[str, int]:
    """The extent of every letter; tensors that have a single point there repeat it."""
    extents: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for letter, size in zip(term, tensor.shape, strict=True):
            if 1 < extents.setdefault(letter, size) != size > 1:
                raise where.error(f"an einsum of which {letter} has {extents[letter]} and {size} points",
                                  "one extent for each letter")
            extents[letter] = max(extents[letter], size)
    return extents


def _term(text: str, dots: int) -> Term:
    """The letters of a term, dots replaced by so many numbers."""
    before, found, behind = text.partition("...")
    return (*before, *(str(number) for number in range(dots, 0, -1) if found), *behind)


# A tensor of complex numbers counts each as one element. Seen as pairs it has an axis of two more, behind all others;
# between the two views, tiles pass along all other axes, by whole pairs.
#
# A complex product is an einsum of real numbers, with four multiply-accumulates for each complex one. The right
# factor becomes a matrix of 2 x 2 for each number, (re, im; -im, re), so that
#
# sum_k x[n, k] w[k, m]    is    sum_(k, y) x[n, k, y] w[k, y, m, z]    with y and z over real and imaginary parts

def as_pairs(to: Assembly, name: str, x: Tensor, where: Where, axes: int = 1) -> Tensor:
    """Complex numbers [...] as real ones [..., 2].

    Args:
        to: the network.
        name: name of the node.
        x: the complex numbers.
        where: place in the source, for messages.
        axes: axes of two behind the others: 2 for a matrix of each number.
    """
    apart = to.reshape(f"{name}.apart", x, (*x.shape, *(1,) * axes), where)
    return to.expand(name, apart, (*x.shape, *(2,) * axes), where)


def as_complex(to: Assembly, name: str, x: Tensor, where: Where) -> Tensor:
    """Pairs of real numbers [..., 2] as complex ones [...].

    Args:
        to: the network.
        name: name of the node.
        x: the pairs.
        where: place in the source, for messages.
    """
    shape = x.shape[:-1]
    return Tensor(shape) if x.constant else to.plain_node(name, "reduction", [x], shape, where, (-1,),
                                                          "complex numbers of pairs")


def complex_einsum(to: Assembly, name: str, equation: str, tensors: Sequence[Tensor], shape: Shape,
                   where: Where) -> Tensor:
    """Adds the products of an einsum of complex tensors.

    Args:
        to: the network.
        name: name of the node of its last product.
        equation: as for `einsum`, with an output.
        tensors: one for each term.
        shape: extents of the output.
        where: place in the source, for messages.

    Raises:
        SpecError: the equation does not fit the tensors.
    """
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if letter not in equation]
    stated, _, out = equation.partition("->")
    first, *others = stated.split(",")
    terms = [first + free[0], *(term + free[index] + free[index + 1] for index, term in enumerate(others))]
    pairs = [as_pairs(to, f"{name}.pairs{index}", tensor, where, axes=2 if index else 1)
             for index, tensor in enumerate(tensors)]
    result = einsum(to, name, f"{','.join(terms)}->{out}{free[len(others)]}", pairs, (*shape, 2), where)
    return as_complex(to, f"{name}.complex", result, where)


# Problem. `(x[:, None] * w).sum(-1)` is the matrix product x w^T. As a join and a reduction it would cost nothing in
# a plan, and its multiply-accumulates would count nowhere.
#
# Method. A sum or mean over axes along which both factors of a multiplication have several points is an einsum of
# them.
#
# a factor is a constant                     an operator: the constant is its weights
# each factor is repeated for the other      an operator: x[n, 1, k] y[1, m, k], summed over k
# one is repeated (as the weights of parts   the join and the reduction as they stand, which take no more steps than
#   w[n, k, 1] of y[n, k, m])                the larger factor has points; `Node.macs` names their number
# none is (the squared lengths of rows)      the same, unnamed: a reduction
#
# Any other reduction of a join of all pairs (the distances of rows, `(x[:, None] - y).pow(2).sum(-1)`) is not
# understood, with one multiply-accumulate for each point of the join.

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


# The data decide about the expert of a row. Here rows are spread evenly over the experts, or over as many as are said
# to be busy; the node says so (`Node.what`), and the multiply-accumulates are the same however rows are spread.

def experts(to: Assembly, name: str, rows: Tensor, weights: tuple[int, int, int], shape: Shape, where: Where) -> Tensor:
    """Adds the products of rows with the weights of the expert that each goes to.

    Args:
        to: the network; `Assembly.busy_experts` says over how many experts rows are spread.
        name: name of its node.
        rows: [..., in], in the order of experts.
        weights: experts, in, out.
        shape: extents of the output, [..., out].
        where: place in the source, for messages.

    Returns:
        The output of one product of as many rows as an expert has, repeated over the experts; where rows do not divide
        evenly, of two, one for the experts with a row more.
    """
    count, k, m = weights
    total = 1
    for size in rows.shape[:-1]:
        total *= size
    busy = min(count, total, to.busy_experts or count)
    least, more = divmod(total, busy)
    parts = [(experts, each) for experts, each in ((more, least + 1), (busy - more, least)) if experts and each]
    flat = to.reshape(f"{name}.rows", rows, (total, k), where)
    outs = []
    for index, (repeat, each) in enumerate(parts):
        taken = flat if len(parts) == 1 else to.plain_node(f"{name}.part{index}", "slice", [flat], (repeat * each, k),
                                                           where)
        batch = to.reshape(f"{name}.experts", taken, (repeat, each, k), where)
        out = product(to, name if len(parts) == 1 else f"{name}.{index}", batch, Tensor((repeat, k, m)),
                      (repeat, each, m), where)
        to.nodes[-1] = replace(to.nodes[-1], what=balance(total, busy, count), experts=count)
        outs.append(to.reshape(f"{name}.flat", out, (repeat * each, m), where))
    whole = outs[0] if len(outs) == 1 else to.plain_node(f"{name}.whole", "concat", outs, (total, m), where)
    return to.reshape(f"{name}.shape", whole, shape, where)
