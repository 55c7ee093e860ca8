"""Builds nodes from the operators of a framework, here matrix products, einsums and attention.

An `Assembly` collects nodes while a reader walks its framework's graph. A `Tensor` is a value that flows between nodes,
a `Call` a call of a framework's operator on such values. Frameworks differ only in names and attributes, which the
readers resolve; shapes, templates and the reshapes around an operator are made here for all frameworks. Constants
(weights, and values computed from them) have no node: an operator's data space that is a constant is no operand in the
graph. Convolutions and recurrent layers are in `convolutions`.

Functions that add nodes take the network under construction, a name for the nodes, the values that are read, and the
shape of the result, and return the result. Names are made unique. Factors that do not fit are a SpecError."""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypedDict, TypeVar

from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Folded, Operator, make_operator
from fadiff_mapper.workload.node import GENERIC, INPUT, KIND, NOT_UNDERSTOOD, Node, Window
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.rewrites import balance, without_unread
from fadiff_mapper.workload.shapes import possible_macs, whole_axes

Meaning = TypeVar("Meaning")


def by_name(table: Mapping[Meaning, str]) -> dict[str, Meaning]:
    """Turns a table of meaning -> framework's names, separated by blanks, into name -> meaning."""
    return {name: meaning for meaning, names in table.items() for name in names.split()}


@dataclass(frozen=True)
class Tensor:
    """A value of the framework's graph."""

    shape: Shape  # its extents; empty where they are not known
    node: str | None = None  # the node that writes it; None for weights and other constants
    known: bool = True  # false where the shape is not known
    picked_from: int = 0  # for weights that a computed index picks from constant matrices, their number (experts)

    @property
    def constant(self) -> bool:
        """True for weights and values computed only from constants."""
        return self.node is None


@dataclass
class Assembly:
    """The nodes of a network under construction."""

    where: Where  # place in the source of the nodes that are added next, for messages
    nodes: list[Node] = field(default_factory=list)  # the nodes so far, in the order in which they were added
    taken: dict[str, int] = field(default_factory=dict)  # name -> number of nodes that asked for it
    folded: list[Folded] = field(default_factory=list)  # operators with multiply-accumulates that read only constants
    summing: set[str] = field(default_factory=set)  # nodes that are no reduction or pool, but sum elements
    busy_experts: int | None = None  # experts over which rows are spread; None for all
    # Node -> bits of an element of its output; None where the framework's types do not count
    types: dict[str, int] | None = None
    constant_bits: int = 0  # of the call whose nodes are added next, bits of its constants; 0 where not known
    made_bits: int = 0  # bits of its result

    def put(self, node: Node) -> Tensor:
        """Adds a node, with a number behind its name if the name is taken, and returns its output."""
        name = node.name
        while name in self.taken:
            self.taken[node.name] += 1
            name = f"{node.name}.{self.taken[node.name]}"
        self.taken[name] = 1
        self.nodes.append(replace(node, name=name))
        if self.types is not None:
            self.types[name] = self.made_bits if node.layer or not node.inputs else self.types.get(node.inputs[0], 0)
        return Tensor(node.shape or (), name, node.shape is not None)

    def node(self, name: str, op: str, operands: Sequence[Tensor], shape: Shape | None, axes: tuple[int, ...] = (),
             what: str = "", **details: Any) -> Tensor:
        """Adds a node without multiply-accumulates, of a `node.KIND`, whose inputs are the operands that are no
        constants; `what`, the framework's name of the operation, is kept by `GENERIC` ones only."""
        constants = tuple(t.shape for t in operands if t.constant) if KIND[op] in ("join", "rows") else ()
        return self.put(Node(name, op, tuple(t.node for t in operands if t.node), shape, axes=axes, where=self.where,
                             what=what if op in GENERIC else "", constants=constants, **details))

    def operator(self, name: str, layer: Operator, operands: Mapping[str, Tensor], shape: Shape,
                 pad: tuple[tuple[int, int], ...] | None = None) -> Tensor:
        """Adds an operator that reads these tensors as its data spaces."""
        read = {space: t.node for space, t in operands.items() if t.node}
        if self.types is not None:
            known = {space.name: self.made_bits if space.read_write else self.constant_bits
                     for space in layer.problem.dataspaces} | {
                         space: self.types.get(source, 0) for space, source in read.items()}
            layer = layer.with_bits(Map({name: bits for name, bits in known.items() if bits}, where=self.where))
        return self.put(Node(name, layer.op, tuple(read.values()), shape, layer, tuple(read), pad, where=self.where))

    def input(self, name: str, shape: Shape | None) -> Tensor:
        """Adds an input of the network."""
        return self.node(name, INPUT, (), shape)

    def unknown(self, name: str, what: str, operands: Sequence[Tensor], shapes: Sequence[Shape | None],
                macs: int | None = None, possible: int | None = None) -> list[Tensor]:
        """Adds a node for each result of an operation that is not understood, the first with all multiply-accumulates.

        Constants among the operands are no inputs of the nodes; a shape is None where it is not known. Where the
        multiply-accumulates `macs` are not known, `possible` estimates them, by default as one product of the
        operation's tensors.
        """
        inputs = tuple(t.node for t in operands if t.node)
        if macs is None and possible is None:
            possible = possible_macs([t.shape if t.known else None for t in operands], shapes)
        return [self.put(Node(name if len(shapes) == 1 else f"{name}.{index}", NOT_UNDERSTOOD, inputs, shape, what=what,
                              macs=0 if index else macs, possible=None if index else possible, where=self.where))
                for index, shape in enumerate(shapes)]

    def note_folded(self, name: str, what: str, macs: int) -> None:
        """Notes an operator that reads only constants, if it has multiply-accumulates."""
        if macs:
            self.folded.append(Folded(name, what, macs))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the nodes so far, with the known ones of nodes that are not understood."""
        return sum(node.layer.macs if node.layer else node.macs or 0 for node in self.nodes)

    def reshape(self, name: str, x: Tensor, shape: Shape) -> Tensor:
        """The same elements under another shape; no node where the shape stays or the value is a constant."""
        return Tensor(shape, x.node) if x.constant or x.shape == shape else self.node(name, "reshape", [x], shape)

    def transpose(self, name: str, x: Tensor, order: tuple[int, ...]) -> Tensor:
        """The axes in another order; no node where the order stays or the value is a constant."""
        shape = tuple(x.shape[axis] for axis in order)
        stays = x.constant or order == tuple(range(len(order)))
        return Tensor(shape, x.node) if stays else self.node(name, "transpose", [x], shape, order)

    def turn(self, name: str, x: Tensor) -> Tensor:
        """The last two axes swapped."""
        order = list(range(len(x.shape)))
        return self.transpose(name, x, (*order[:-2], *order[-2:][::-1]))

    def expand(self, name: str, x: Tensor, shape: Shape) -> Tensor:
        """A value repeated along axes; only a reshape where no element is repeated."""
        stays = x.constant or math.prod(x.shape) == math.prod(shape)
        return self.reshape(name, x, shape) if stays else self.node(name, "expand", [x], shape)


@dataclass(frozen=True)
class Call:
    """A call of an operator of a framework."""

    operator: str  # its name in the reader's tables
    name: str  # name for its nodes
    to: Assembly  # the network that they are added to
    operands: Sequence[Tensor | None]  # the values that it reads; None where an optional one is left out
    outs: Sequence[Shape | None]  # shapes of its results; None where they are not known

    @property
    def ended(self) -> str:
        """The end of a message on an unknown shape: the reason, if the reader knows one."""
        return ""

    @property
    def tensors(self) -> list[Tensor]:
        """The operands that are there."""
        return [tensor for tensor in self.operands if tensor]

    def operand(self, index: int) -> Tensor:
        """An operand with a known shape. Raises SpecError where it is missing or its shape is not known."""
        tensor = self.operands[index] if index < len(self.operands) else None
        if tensor is None or not tensor.known:
            raise self.to.where.error(f"the shape of operand {index} is not known{self.ended}" if tensor else
                                      f"operand {index} is missing")
        return tensor

    @property
    def constants(self) -> list[Tensor]:
        """The results as constants, for results without data for later nodes."""
        return [Tensor(shape or ()) for shape in self.outs]

    @property
    def scales(self) -> list[Tensor]:
        """The constants behind the first operand: scale and shift of a norm."""
        return [tensor for tensor in self.tensors[1:] if tensor.constant]

    @property
    def first(self) -> Tensor:
        """The first operand. Raises SpecError where it is missing or its shape is not known."""
        return self.operand(0)

    @property
    def out(self) -> Shape:
        """The shape of the first result. Raises SpecError where it is not known."""
        if self.outs[0] is None:
            raise self.to.where.error(f"the shape of its output is not known{self.ended}",
                                      "an operator whose shape can be inferred")
        return self.outs[0]

    def node(self, op: str, operands: Sequence[Tensor], axes: tuple[int, ...] = (), **details: Any) -> Tensor:
        """Adds a node without multiply-accumulates for the first result (`Assembly.node`)."""
        return self.to.node(self.name, op, operands, self.outs[0], axes, **{"what": self.operator, **details})

    def unknown(self, macs: int | None = None) -> Tensor:
        """Adds a node that is not understood for the first result."""
        return self.to.unknown(self.name, self.operator, self.tensors, self.outs[:1], macs)[0]

    def pointwise(self, op: str) -> Tensor:
        """Adds a node that works point by point on one tensor, or joins several; constants (scales, zero points of
        integers) count only where the operation itself joins."""
        if KIND[op] == "join":
            return self.node(op, self.tensors)
        read = [tensor for tensor in self.tensors if tensor.node]
        single = len(read) == 1 and (not read[0].known or self.outs[0] in (None, read[0].shape))
        return self.node(op if single else "combine", read)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """A matrix product."""
        return product(self.to, self.name, a, b, self.out)

    def packed_product(self) -> Tensor:
        """A product with packed weights, several numbers in a word; the output's shape gives their columns."""
        x, packed = self.operand(0), self.operand(1)
        shape = (x.shape[-1], self.out[-1])
        return self.product(x, Tensor(shape) if packed.constant else self.to.node(
            f"{self.name}.unpacked", "other", [packed], shape, what="unpacked weights"))

    def plus(self, result: Tensor, other: Tensor | None) -> Tensor:
        """A result plus another tensor; the result itself where this is missing or a constant."""
        return result if other is None or other.constant else self.to.node(
            f"{self.name}.add", "add", [result, other], self.out)


def product(to: Assembly, name: str, a: Tensor, b: Tensor, shape: Shape) -> Tensor:
    """Adds a product of a [..., n, k] and b [..., k, m]; a vector [k] counts as a matrix of one row or column.

    Returns:
        The output of one product over all rows where `b` is one matrix. Else a product is repeated over the batch, and
        operands that the batch shares are expanded. A constant `a` becomes the right factor, which is the template's
        weights: a b is the transpose of (b transposed) (a transposed).
    """
    if not a.shape or not b.shape or a.shape[-1] != b.shape[max(len(b.shape) - 2, 0)]:
        raise to.where.error(f"a product of {list(a.shape)} and {list(b.shape)}", "[..., n, k] and [..., k, m]")
    if len(a.shape) == 1:
        a = to.reshape(f"{name}.row", a, (1, *a.shape))
    if len(b.shape) == 1:
        b = to.reshape(f"{name}.column", b, (*b.shape, 1))
    (n, k), m = a.shape[-2:], b.shape[-1]
    rank = max(len(a.shape), len(b.shape)) - 2
    lead = tuple(map(max, *((1,) * (rank + 2 - len(t.shape)) + t.shape[:-2] for t in (a, b))))
    if a.constant:
        right = to.turn(f"{name}.turned", b)
        out = product(to, name, right, Tensor((*a.shape[:-2], k, n)), (*lead, m, n))
        return to.reshape(f"{name}.shape", to.turn(f"{name}.back", out), shape)
    repeat, rows = 1, math.prod(a.shape[:-1])
    if math.prod(b.shape[:-2]) != 1:
        repeat, rows = math.prod(lead), n
        a = to.expand(f"{name}.left", a, a.shape if math.prod(a.shape[:-2]) == repeat else (*lead, n, k))
        b = to.expand(f"{name}.right", b, b.shape if math.prod(b.shape[:-2]) == repeat else (*lead, k, m))
    layer = make_operator("gemm", {"N": rows, "M": m, "C": k, "P": 1, "Q": 1, "R": 1, "S": 1}, repeat=repeat,
                          where=to.where)
    return to.operator(name, layer, {"Inputs": a, "Weights": b}, shape)


def linear(to: Assembly, name: str, x: Tensor, weight: Tensor) -> Tensor:
    """Adds x [..., in] times the transpose of a weight [out, in]."""
    return product(to, name, x, to.turn(f"{name}.weight", weight), (*x.shape[:-1], weight.shape[0]))


def attention(to: Assembly, name: str, operands: Sequence[Tensor], mask: Tensor | None, shape: Shape,
              causal: bool = False) -> Tensor:
    """Adds softmax(q k^T + mask) v: two products with a softmax in between.

    Queries, keys and values are [..., heads, tokens, size]. Several heads of queries may share a head of keys and
    values; `rewrites.with_shared_operands` makes them rows of one product. A constant mask adds no node. `shape` has
    the extents of the output; `causal`: whether each query sees only the keys up to its own position.
    """
    q, k, v = operands
    heads = q.shape[:-2]
    k, v = (for_heads(to, f"{name}.{what}", t, heads) for what, t in (("keys", k), ("values", v)))
    keys = to.turn(f"{name}.keys_t", k)
    scores = (*heads, q.shape[-2], k.shape[-2])
    products = product(to, f"{name}.qk", q, keys, scores)
    if mask is not None and not mask.constant:
        products = to.node(f"{name}.mask", "add", [products, mask], scores)
    weights = to.node(f"{name}.softmax", "softmax", [products], scores, (-1,), causal=scores[-2] if causal else 0)
    return product(to, f"{name}.av", weights, v, shape)


def for_heads(to: Assembly, name: str, t: Tensor, heads: Shape) -> Tensor:
    """Keys or values [..., heads, tokens, size] with as many heads as the queries; neighbouring heads share one."""
    own, matrix = t.shape[:-2], t.shape[-2:]
    if own[:-1] == heads[:-1] and own and 1 < own[-1] < heads[-1] and heads[-1] % own[-1] == 0:
        apart = to.reshape(f"{name}.heads", t, (*own, 1, *matrix))
        t = to.expand(f"{name}.shared", apart, (*own, heads[-1] // own[-1], *matrix))
        return to.reshape(name, t, (*heads, *matrix))
    return to.expand(name, t, (*heads, *matrix))


def fourier_macs(points: int, rows: int, real: bool) -> int:
    """Multiply-accumulates of `rows` fast Fourier transforms of so many points; `real`: of a real signal or result.

    Radix 2 (Cooley and Tukey) takes points / 2 * log2(points) complex products of four multiplications each, half as
    many for real signals; log2 is rounded up where points are no power of two.
    """
    return rows * points * (points - 1).bit_length() * (1 if real else 2)


# Nodes that pick, pad or resize elements state the details that `tensor_routes` needs: the position of a slice, the
# zeros in front of a padded axis, the interpolation of a resizing. The position of a slice is stated as a window of one
# point with a stride and negative padding.

class Details(TypedDict, total=False):
    """Fields of a `Node` of the kind "opaque"."""

    axes: tuple[int, ...]
    window: Window


def taken(before: Shape, axis: int, start: Any, step: Any) -> Details:
    """Details of a slice of one axis, from the point `start` on (None: 0; negative: from the end), in steps (None: 1).
    There is no window where start and step are no numbers, or the step is not positive."""
    first, apart = 0 if start is None else start, 1 if step is None else step
    if type(first) is not int or type(apart) is not int or apart < 1:
        return {"axes": (axis,)}
    first = min(max(first + before[axis] if first < 0 else first, 0), before[axis])
    return {"axes": (axis,), "window": Window((1,), (apart,), ((-first, 0),), (1,))}


def padding(rank: int, pads: Sequence[tuple[int, int]]) -> Details:
    """Details of zeros (before, after) along the last axes of a tensor; empty where a padding is negative."""
    if not pads or any(min(pair) < 0 for pair in pads):
        return {}
    ones = (1,) * len(pads)
    return {"axes": tuple(range(rank - len(pads), rank)), "window": Window(ones, ones, tuple(pads), ones)}


def nearest(sliding: int) -> Details:
    """Details of a resizing over so many trailing axes in which every output point copies one input point."""
    ones = (1,) * sliding
    return {"window": Window(ones, ones, ((0, 0),) * sliding, ones)}


def bilinear(before: Shape, after: Shape) -> Details:
    """Details of a bilinear resizing along the last two axes, with corners that are not aligned.

    Point i of an axis that grows f times lies at (i + 1/2) / f - 1/2; for even f its two neighbours are the points that
    the window from i - f/2 to i + f/2 touches. Other factors give no details.
    """
    factors = [b // a if a and b % a == 0 else 1 for a, b in zip(before[-2:], after[-2:], strict=True)]
    if any(factor % 2 for factor in factors):
        return {}
    ones = (1, 1)
    return {"window": Window(tuple(factor + 1 for factor in factors), ones,
                             tuple((factor // 2, factor // 2) for factor in factors), ones)}


def axis_of(dim: Any, rank: int) -> int:
    """An axis counted from 0; axis 0 where none is stated."""
    return (dim if isinstance(dim, int) else 0) % rank


# Tensors are multiplied from left to right, as ONNX Runtime does, and PyTorch without opt_einsum.

Term: TypeAlias = tuple[str, ...]  # letters of a tensor's axes; under dots "1", "2", ... from the last axis on


def einsum(to: Assembly, name: str, equation: str, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
    """Adds the products of an einsum, such as "bid,bjd->bij"; the output may be implicit, dots mean any leading axes.

    Each tensor behind the first adds a product, repeated over the letters that both factors have and that later
    products or the output need. It is a join where no letter is summed. Letters of only one tensor are summed before.
    Raises SpecError if the equation does not fit the tensors.
    """
    terms, out = _terms(to, equation, tensors)
    extents: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for letter, size in zip(term, tensor.shape, strict=True):  # extent 1 is repeated
            if 1 < extents.setdefault(letter, size) != size > 1:
                raise to.where.error(f"an einsum of which {letter} has {extents[letter]} and {size} points",
                                     "one extent for each letter")
            extents[letter] = max(extents[letter], size)
    result, letters = tensors[0], terms[0]
    for index, (tensor, term) in enumerate(zip(tensors[1:], terms[1:], strict=True), 2):
        called, later = name if index == len(tensors) else f"{name}.{index - 1}", set(out).union(*terms[index:])
        first = _own(to, f"{called}.left", result, letters, extents, later.union(term))
        second = _own(to, f"{called}.right", tensor, term, extents, later.union(first[1]))
        result, letters = _contraction(to, called, first, second, extents, later)
    result, letters = _own(to, name, result, letters, extents, set(out))
    back = to.transpose(f"{name}.back", result, tuple(letters.index(letter) for letter in out))
    return to.reshape(f"{name}.shape", back, shape)


def _own(to: Assembly, name: str, x: Tensor, term: Term, extents: dict[str, int],
         needed: set[str]) -> tuple[Tensor, Term]:
    """A tensor without axes of extent 1 that are repeated, repeated letters, and letters not in `needed`."""
    once = tuple(dict.fromkeys(term))
    if len(once) < len(term):
        shape = tuple(x.shape[term.index(letter)] for letter in once)
        x, term = Tensor(shape) if x.constant else to.node(f"{name}.diagonal", "other", [x], shape,
                                                           what="diagonal of an einsum"), once
    long = tuple(letter for letter, size in zip(term, x.shape, strict=True) if size == extents[letter])
    x = to.reshape(f"{name}.flat", x, tuple(extents[letter] for letter in long))
    kept = tuple(letter for letter in long if letter in needed)
    if len(kept) < len(long):
        shape = tuple(extents[letter] for letter in kept)
        summed = tuple(index for index, letter in enumerate(long) if letter not in needed)
        x = Tensor(shape) if x.constant else to.node(f"{name}.sum", "sum", [x], shape, summed)
    return x, kept


def _contraction(to: Assembly, name: str, left: tuple[Tensor, Term], right: tuple[Tensor, Term],
                 extents: dict[str, int], needed: set[str]) -> tuple[Tensor, Term]:
    """The product of two tensors, summed over the letters that both have and that are not in `needed`."""
    (first, a), (second, b) = left, right
    shared = [letter for letter in a if letter in b and letter in needed]
    summed = [letter for letter in a if letter in b and letter not in needed]
    rows, columns = ([letter for letter in own if letter not in other] for own, other in ((a, b), (b, a)))
    made = (*shared, *rows, *columns)
    apart = tuple(extents[letter] for letter in made)

    def size(letters: list[str]) -> int:
        return math.prod(extents[letter] for letter in letters)

    def put(tag: str, x: Tensor, term: Term, order: list[str], wanted: Shape) -> Tensor:
        moved = to.transpose(f"{name}.{tag}_moved", x, tuple(term.index(letter) for letter in order))
        return to.reshape(f"{name}.{tag}", moved, wanted)
    if first.constant and second.constant:
        to.note_folded(name, "einsum", math.prod(apart) * size(summed))
        return Tensor(apart), made
    if not summed:
        return to.node(name, "other", [first, second], apart, what="einsum without a sum"), made
    batch = (size(shared),) if shared else ()
    result = product(to, name, put("left", first, a, shared + rows + summed, (*batch, size(rows), size(summed))),
                     put("right", second, b, shared + summed + columns, (*batch, size(summed), size(columns))),
                     (*batch, size(rows), size(columns)))
    return to.reshape(f"{name}.apart", result, apart), made


def _terms(to: Assembly, equation: str, tensors: Sequence[Tensor]) -> tuple[list[Term], Term]:
    """The letters of all tensors and of the output."""
    def letters(text: str, dots: int) -> Term:
        before, found, behind = text.partition("...")
        return (*before, *(str(number) for number in range(dots, 0, -1) if found), *behind)
    stated, arrow, out = equation.replace(" ", "").partition("->")
    terms, dots = [], 0
    for term, tensor in zip(stated.split(","), tensors, strict=False):
        own, rank = len(term.replace("...", "")), len(tensor.shape)
        if len(stated.split(",")) != len(tensors) or (own > rank if "..." in term else own != rank):
            break
        dots = max(dots, rank - own)
        terms.append(letters(term, rank - own))
    every = Counter(letter for term in terms for letter in term)
    once = sorted(letter for letter, times in every.items() if times == 1 and not letter.isdecimal())
    output = letters(out, dots) if arrow else (*letters("...", dots), *once)
    if len(terms) < len(tensors) or not set(output) <= set(every):
        ranks = " and ".join(str(len(tensor.shape)) for tensor in tensors)
        raise to.where.error(f'the equation "{equation}" on tensors of {ranks} axes', "a letter for each axis")
    return terms, output


# A tensor of complex numbers has one element for each. Seen as pairs, it has a further last axis of extent 2. Between
# the two views, tiles pass along all other axes.
#
# A complex product is an einsum of real numbers, with four multiply-accumulates for each complex one. The right
# factor becomes a matrix of 2 x 2 for each number, (re, im; -im, re), so that
#
# sum_k x[n, k] w[k, m]    is    sum_(k, y) x[n, k, y] w[k, y, m, z]    with y and z over real and imaginary parts

def as_pairs(to: Assembly, name: str, x: Tensor, axes: int = 1) -> Tensor:
    """Complex numbers [...] as real numbers [..., 2], or with two `axes` as a 2 x 2 matrix each, [..., 2, 2]."""
    apart = to.reshape(f"{name}.apart", x, (*x.shape, *(1,) * axes))
    return to.expand(name, apart, (*x.shape, *(2,) * axes))


def as_complex(to: Assembly, name: str, x: Tensor) -> Tensor:
    """Pairs of real numbers [..., 2] as complex ones [...]."""
    return Tensor(x.shape[:-1]) if x.constant else to.node(name, "reduction", [x], x.shape[:-1], (-1,),
                                                           "complex numbers of pairs")


def complex_einsum(to: Assembly, name: str, equation: str, tensors: Sequence[Tensor], shape: Shape) -> Tensor:
    """Adds the products of an einsum of complex tensors, like `einsum`; the equation must state its output."""
    free = [letter for letter in string.ascii_uppercase + string.ascii_lowercase if letter not in equation]
    stated, _, out = equation.partition("->")
    first, *others = stated.split(",")
    terms = [first + free[0], *(term + free[index] + free[index + 1] for index, term in enumerate(others))]
    pairs = [as_pairs(to, f"{name}.pairs{index}", tensor, axes=2 if index else 1)
             for index, tensor in enumerate(tensors)]
    result = einsum(to, name, f"{','.join(terms)}->{out}{free[len(others)]}", pairs, (*shape, 2))
    return as_complex(to, f"{name}.complex", result)


# Problem. `(x[:, None] * w).sum(-1)` is the matrix product x w^T. As a join and a reduction it would cost nothing in
# a plan, and its multiply-accumulates would count nowhere.
#
# Method. A sum or mean of a product, over axes along which both factors have several points, is an einsum of the
# factors. The mean may be a pool whose window covers the axes.
#
# a factor is a constant                     an operator: the constant is its weights
# each factor is repeated for the other      an operator: x[n, 1, k] y[1, m, k], summed over k
# only one factor is repeated (weights       the join and the reduction as written, with no more multiply-accumulates
#   w[n, k, 1] of y[n, k, m])                than the larger factor has points; `Node.macs` has their number
# no factor is (squared lengths of rows)     the join and the reduction as written, without `Node.macs`
#
# Any other join of all pairs (the distances of rows, `(x[:, None] - y).pow(2).sum(-1)`) may reach a sum in many ways:
# over nodes of one operand and joins with smaller tensors, rearranged, cut and concatenated. Where no other node reads
# the tensors on the way, the summing node is not understood, with one multiply-accumulate for each point of the joins
# before it, each counted once. Summing nodes are
#
# reductions, pools, running sums            and the nodes of `Assembly.summing`, such as a scatter that adds
# a sum or difference of several parts       of one join: its 64 columns, added
# a sum or difference of several joins       that multiply: the 64 outer products of a matrix product

def recognise_products(to: Assembly, outputs: Sequence[str]) -> None:
    """Replaces sums of products in a complete network by operators; `outputs` are the names of its outputs."""
    by_name = {node.name: node for node in to.nodes}
    summing = to.summing | {node.name for node in to.nodes if node.kind in ("reduce", "pool") or node.op == "cumsum"}
    readers = Counter(name for node in to.nodes for name in set(node.inputs)) + Counter(outputs)
    read_whole = {*outputs, *(name for node in to.nodes if node.op != "slice" and node.name not in summing
                              for name in node.inputs if readers[name] > 1)}  # by several nodes
    products: dict[str, tuple[Node, list[Tensor]]] = {}
    named: dict[str, Node] = {}
    least: dict[str, float] = {}  # node -> the fewest points on the way to it over nodes of one operand
    pairs: dict[str, Node] = {}   # node -> the join of all pairs whose points it has, perhaps rearranged or cut
    counted: set[str] = set()     # nodes whose joins are counted already
    for node in to.nodes:
        points = math.inf if node.shape is None else math.prod(node.shape)
        single = node.kind in ("opaque", "reshape", "transpose", "pointwise") and len(set(node.inputs)) == 1
        least[node.name] = min(points, least[node.inputs[0]]) if single else points
        axes = _summed_axes(node, by_name)
        join, scaled = _join(node, by_name, readers) if axes else (None, False)
        factors = _factors(join, by_name) if join else []
        if join and join.shape and factors:
            both = scaled and any(min(factor.shape[axis] for factor in factors) > 1 for axis in axes)
            repeated = [math.prod(factor.shape) < math.prod(join.shape) for factor in factors]
            if both and (all(repeated) or (any(repeated) and any(factor.constant for factor in factors))):
                products[node.name] = join, factors
                continue
            if both and any(repeated):
                named[node.name] = replace(node, macs=math.prod(join.shape))
                continue
        held = [pairs[name] for name in _carriers(node, by_name) if name in pairs and name not in read_whole]
        sums = node.name in summing
        if node.op in ("add", "sub") and len(held) > 1:
            sums = (all(pair.op in ("mul", "div") for pair in held) if len({pair.name for pair in held}) > 1 else
                    points < math.prod(held[0].shape or ()))
        if not sums:
            sizes = [*(least[name] for name in set(node.inputs)), *(math.prod(t.shape) for t in _constants(node))]
            if node.kind == "join" and len(sizes) > 1 and max(sizes) < points < math.inf:
                pairs[node.name] = node
            elif held:
                pairs[node.name] = held[0]
            continue
        found, todo = list[Node](), _carriers(node, by_name) if held else []
        while todo:
            inner = by_name[todo.pop()]
            if inner.name in pairs and inner.name not in counted and inner.name not in read_whole:
                counted.add(inner.name)
                if pairs[inner.name] is inner:
                    found.append(inner)
                else:
                    todo += _carriers(inner, by_name)
        if found:
            what = f"{node.what or node.op} of all pairs ({found[0].what or found[0].op})"
            named[node.name] = replace(node, op=NOT_UNDERSTOOD, axes=(), window=None, what=what,
                                       macs=sum(math.prod(pair.shape or ()) for pair in found))
    joins = {join.name for join, _ in products.values()}
    nodes, to.nodes = to.nodes, []
    for node in nodes:
        if node.name in products:  # an einsum of the join's name, and the reduction's shape
            join, factors = products[node.name]
            extents = dict(zip(string.ascii_lowercase, join.shape or (), strict=False))
            letters, summed = "".join(extents), _summed_axes(node, by_name)
            kept = "".join(letter for axis, letter in enumerate(letters) if axis not in summed)
            del to.taken[join.name]
            to.where = node.where
            result = einsum(to, join.name, f"{letters},{letters}->{kept}", factors, tuple(extents[x] for x in kept))
            to.nodes.append(Node(node.name, "reshape", (result.node or "",), node.shape, where=node.where))
        elif node.name not in joins:
            to.nodes.append(named.get(node.name, node))
    to.nodes = without_unread(to.nodes, readers, outputs)  # such as scales and repeated factors


def _summed_axes(node: Node, by_name: Mapping[str, Node]) -> frozenset[int]:
    """The axes that a reduction sums, or that the window of an average pool covers whole; empty for other nodes."""
    shape = by_name[node.inputs[0]].shape if node.inputs else None
    if shape is None:
        return frozenset()
    if node.kind == "reduce" or node.op == "cumsum":
        return whole_axes(node, len(shape))
    lead = len(shape) - len(node.window.kernel) if node.window else 0
    covered = node.op == "avgpool" and node.window and node.window.kernel == shape[lead:] and not any(
        map(any, node.window.pad))
    return frozenset(range(lead, len(shape))) if covered else frozenset()


def _carriers(node: Node, by_name: Mapping[str, Node]) -> list[str]:
    """The operands whose points a node passes on; of a join, operands as large as its output; none of an operator."""
    if node.layer or node.kind == NOT_UNDERSTOOD:
        return []
    shapes = {name: by_name[name].shape for name in node.inputs}
    return [name for name, shape in shapes.items() if node.kind != "join" or shape is None or node.shape is None
            or math.prod(shape) == math.prod(node.shape)]


def _join(node: Node, by_name: Mapping[str, Node], readers: Mapping[str, int]) -> tuple[Node | None, bool]:
    """The join of two tensors whose points a reduction sums, and whether it is a product that is at most scaled before.

    Between join and reduction are only pointwise nodes of one tensor without other readers, else the join is None;
    behind a reshape or transpose it does not count as a product.
    """
    scaled, inner = node.op in ("sum", "mean", "avgpool"), by_name[node.inputs[0]]
    while readers[inner.name] == 1:
        if inner.kind == "join" and (len(set(inner.inputs)) == 2 or _constants(inner)):
            return inner, scaled and inner.op == "mul"
        if inner.kind not in ("join", "pointwise", "reshape", "transpose") or len(set(inner.inputs)) != 1:
            break
        scaled = scaled and inner.op in ("mul", "div", "neg") and len(inner.inputs) == 1
        inner = by_name[inner.inputs[0]]
    return None, False


def _constants(node: Node) -> list[Tensor]:
    """The constants that a node reads, without single numbers."""
    return [Tensor(shape) for shape in node.constants if math.prod(shape) > 1]


def _factors(join: Node, by_name: Mapping[str, Node]) -> list[Tensor]:
    """The two operands of a join before repetition, with as many axes as the join; empty unless both are known."""
    found: list[Tensor] = []
    for name in dict.fromkeys(join.inputs):
        source = by_name[name]
        while source.op == "expand":
            source = by_name[source.inputs[0]]
        found.append(Tensor(source.shape or (), source.name, source.shape is not None))
    found += _constants(join)
    if len(found) != 2 or join.shape is None or not all(each.known for each in found):
        return []
    return [replace(each, shape=(1,) * (len(join.shape) - len(each.shape)) + each.shape) for each in found]


# The data decide which expert a row goes to. Here rows are spread evenly over the experts, or over the stated number of
# busy experts; the node says so (`Node.what`). The multiply-accumulates do not depend on the spread.

def experts(to: Assembly, name: str, rows: Tensor, weights: tuple[int, int, int], shape: Shape) -> Tensor:
    """Adds the products of rows [..., in], in the order of experts, with the weights (experts, in, out) of each.

    Returns:
        The output of a product over the rows of an expert, repeated over the experts; where rows do not divide evenly,
        of two products, one for the experts with a row more.
    """
    count, k, m = weights
    total = math.prod(rows.shape[:-1])
    busy = min(count, total, to.busy_experts or count)
    least, more = divmod(total, busy)
    parts = [(experts, each) for experts, each in ((more, least + 1), (busy - more, least)) if experts and each]
    flat = to.reshape(f"{name}.rows", rows, (total, k))
    outs = []
    for index, (repeat, each) in enumerate(parts):
        taken = flat if len(parts) == 1 else to.node(f"{name}.part{index}", "slice", [flat], (repeat * each, k))
        batch = to.reshape(f"{name}.experts", taken, (repeat, each, k))
        out = product(to, name if len(parts) == 1 else f"{name}.{index}", batch, Tensor((repeat, k, m)),
                      (repeat, each, m))
        to.nodes[-1] = replace(to.nodes[-1], what=balance(total, busy, count), experts=count)
        outs.append(to.reshape(f"{name}.flat", out, (repeat * each, m)))
    whole = outs[0] if len(outs) == 1 else to.node(f"{name}.whole", "concat", outs, (total, m))
    return to.reshape(f"{name}.shape", whole, shape)
