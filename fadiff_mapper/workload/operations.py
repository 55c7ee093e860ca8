"""Operators without multiply-accumulates as problems: extents, and operations by kind (`inputs.spec.arch.OPERATIONS`).

Every such node of a network is a cascade of Einsums over the points of a tensor: the softmax of a row takes its
maximum, subtracts it and takes exponentials, sums these, and divides. `EINSUMS` has the operations per point and per
row of each Einsum, so that counts follow from shapes. A compute unit may run an operation as several others (an
exponential as multiply-accumulates): its entry says so (`inputs.native.units`).

Rearrangements are folded into their neighbours, and move nothing. A tensor is written in the order that its reader
wants, a slice is read in place, zeros around a tensor are data to its reader (as in the problems of Timeloop), and an
operand that is repeated is read again. A rearrangement that copies its elements (`Node.moves`) is a problem without
operations, which reads the words of its operands (a slice only the words that it takes) and writes its output. Biases
of products and convolutions cost nothing: accumulators start with them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.node import INPUT, NOT_UNDERSTOOD, Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.shapes import whole_axes

FOLDED = ("reshape", "transpose", "slice", "concat", "expand", "pad")
"""Nodes that only rearrange elements, or repeat them: their neighbours read and write in another order."""

COPIES = FOLDED[1:]  # rearrangements that may be copies (`Node.moves`); a reshape keeps all elements where they are

MOVES = ("gather", "scatter", "interleave")  # nodes that move elements by computed places, without an operation

SIGMOID, TANH, SOFTPLUS = "exp add div", "mul exp add add div", "exp add log"
# Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26: 1 - (polynomial of 5 terms in t) exp(-x^2), with
# t = 1 / (1 + p |x|), and the sign of x
ERROR_FUNCTION = "max mac div mac mac mac mac mul mul exp mac max"

POINT = {
    "relu": "max", "leakyrelu": "mul max", "prelu": "mul max", "clip": "max max", "abs": "max", "not": "max",
    "neg": "add", "square": "mul", "reciprocal": "div", "exp": "exp", "log": "log", "sqrt": "sqrt",
    "rsqrt": "sqrt div", "sin": "sin", "cos": "sin", "round": "add", "floor": "add", "ceil": "add",
    "sigmoid": SIGMOID, "silu": f"{SIGMOID} mul", "tanh": TANH, "erf": ERROR_FUNCTION,
    "gelu": f"mul {ERROR_FUNCTION} mul mac", "softplus": SOFTPLUS, "mish": f"{SOFTPLUS} {TANH} mul",
    "elu": "exp add mul max", "celu": "div exp add mul max", "selu": "exp add mul max mul",
    "hardsigmoid": "mac max max", "hardswish": "add max max mul mul",
    "batchnorm": "mac", "quantize": "mac max max", "dequantize": "add mul", "elementwise": "other",
    "add": "add", "sub": "add", "mul": "mul", "div": "div", "pow": "log mul exp", "max": "max", "min": "max",
    "where": "max", "compare": "max", "and": "max", "or": "max", "combine": "other",
    "maxpool": "max", "avgpool": "add", "other": "other", "recurrence": "other",
}
"""Operations per point of the output; of a join, per further operand; of a pool, per point of its window."""

_NORM = (("mean", "add", "div"), ("difference", "add", ""), ("variance", "mac", "div add sqrt div"),
         ("quotient", "mul", ""))
EINSUMS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "softmax": (("maximum", "max", ""), ("numerator", "add exp", ""), ("denominator", "add", ""),
                ("quotient", "div", "")),
    "logsoftmax": (("maximum", "max", ""), ("difference", "add", ""), ("logarithm", "exp add", "log"),
                   ("result", "add", "")),
    "layernorm": _NORM, "groupnorm": _NORM, "instancenorm": _NORM, "batchstatistics": _NORM,
    "rmsnorm": (("mean square", "mac", "div add sqrt div"), ("quotient", "mul", "")),
    "localresponse": (("sum of squares", "mac", ""), ("power", "mac log mul exp", ""), ("quotient", "div", "")),
    "dynamicquantize": (("range", "max max", "add div"), ("quotient", "mac max max", "")),
    "cumsum": (("sum", "add", ""),), "sum": (("sum", "add", ""),), "mean": (("sum", "add", "div"),),
    "amax": (("maximum", "max", ""),), "amin": (("minimum", "max", ""),), "reduction": (("reduction", "other", ""),),
}
"""Nodes of whole rows -> their Einsums: name, operations of each point, operations of each row. The softmax is the one
of FuseMax (Nayak et al., MICRO 2024, Einsums M, SN, SD, A)."""

ONE_PASS = (
    ("maximum", "score", "max"), ("numerator", "score", "add exp"), ("denominator", "score", "add"),
    ("running maximum", "row", "max"), ("correction", "row", "add exp"), ("running denominator", "row", "mul add"),
    ("corrected sums", "sum", "mul"), ("quotient", "result", "div"))
"""Einsums of a softmax in one pass between two products, tile by tile along its rows: name, unit of the count, and
operations per unit. Each tile but the first corrects its rows, and the sums of the second product. These are FuseMax's
(LM, SLN, SLD; RM, PRM, SPD and RD; SPNV; AV), whose RNV is the sum in the product itself."""


@dataclass(frozen=True)
class VectorOperator:
    """An operator without multiply-accumulates: the tensors that it reads and writes, and its operations."""

    node: str  # its name
    op: str  # its operation, of `node.KIND`
    inputs: tuple[Shape, ...]  # extents of the tensors that it reads, each once
    output: Shape  # extents of the tensor that it writes
    read: int  # words that it reads, with the scales and shifts of norms
    einsums: tuple[tuple[str, Mapping[str, int]], ...]  # its Einsums in order, each with its operations by kind
    unit: str = ""  # the compute unit on which it has to run; "" for any
    where: Where = field(default=Where("network"), compare=False, repr=False)  # place in the source, for messages

    @property
    def written(self) -> int:
        """Words that it writes."""
        return math.prod(self.output)

    @property
    def operations(self) -> Counter[str]:
        """Operations by kind, of all Einsums together."""
        return total(counts for _, counts in self.einsums)


def total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The sum of operations by kind."""
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return found


def one_pass_operations(scores: int, rows: int, sums: int, results: int) -> tuple[Counter[str], ...]:
    """Operations by kind of a softmax in one pass (`ONE_PASS`): on scores, on rows, on sums, and on results.

    Args:
        scores: points of the rows.
        rows: rows that are corrected, over all tiles but the first.
        sums: sums of the product behind that are corrected, likewise.
        results: results of the product behind.
    """
    numbers = {"score": scores, "row": rows, "sum": sums, "result": results}
    return tuple(total(_times(operations, number) for _, per, operations in ONE_PASS if per == name)
                 for name, number in numbers.items())


def vector_operators(nodes: Iterable[Node]) -> tuple[VectorOperator, ...]:
    """The nodes of a network (`Workload.nodes`) that have operations or move words, in order.

    Left out are operators with multiply-accumulates, folded rearrangements, nodes that are not understood, and nodes of
    tensors whose extents are not known. See `in_words` for a sentence on these.
    """
    given = tuple(nodes)
    shapes = {node.name: node.shape for node in given}
    return tuple(vector_operator(node, [shapes[name] for name in dict.fromkeys(node.inputs)]) for node in given
                 if not (node.layer or node.op in (INPUT, NOT_UNDERSTOOD) or is_folded(node))
                 and None not in (node.shape, *map(shapes.get, node.inputs)))


def is_folded(node: Node) -> bool:
    """Whether a node is a rearrangement that its neighbours do by reading and writing in another order."""
    return node.op in FOLDED and not node.moves


def vector_operator(node: Node, operands: Iterable[Shape | None]) -> VectorOperator:
    """The vector operator of a node whose operands have these extents, each tensor once."""
    inputs, output = tuple(shape or () for shape in operands), node.shape or ()
    points, first = math.prod(output), inputs[0] if inputs else output
    read = sum(map(math.prod, (*inputs, *node.constants)))
    einsums: list[tuple[str, Mapping[str, int]]] = []
    if node.op in EINSUMS:
        points = math.prod(first)
        rows = points // max(math.prod(first[axis] for axis in whole_axes(node, len(first))), 1) if first else 1
        for name, each, row in EINSUMS[node.op]:
            einsums.append((name, total([_times(each, points), _times(row, rows)])))
        if node.constants:  # a scale, and a shift
            einsums.append(("scale", _times("mac" if len(node.constants) > 1 else "mul", points)))
    elif node.op == "sort":  # comparisons of the rows along the last axis
        einsums.append((node.op, {"max": math.prod(first) * (first[-1] - 1).bit_length() if first else 0}))
    elif node.op == "resize":  # bilinear, four neighbours, unless points are copies
        copies = node.window is not None and set(node.window.kernel) == {1}
        einsums.append((node.op, {} if copies else {"mac": 4 * points}))
    elif node.kind == "pool":
        window = math.prod(node.window.kernel) if node.window else 1
        einsums.append((node.op, total([_times(POINT[node.op], points * window),
                                        _times("div" if node.op == "avgpool" else "", points)])))
    elif node.op in (*MOVES, *COPIES):
        if node.op == "slice":
            read = points
        elif node.op == "gather":
            read = points + sum(map(math.prod, inputs[1:] if math.prod(first) > points else inputs))
        einsums.append((node.op, {}))
    elif node.op == "pow" and len(node.inputs) == 1:  # powers of networks are squares
        einsums.append((node.op, _times("mul", points)))
    else:
        joined = len(node.inputs) + len(node.constants) - 1 if node.kind == "join" and node.op != "where" else 1
        einsums.append((node.op, _times(POINT[node.op], points * max(joined, 1))))
    return VectorOperator(node.name, node.op, inputs, output, read, tuple(einsums), node.unit, node.where)


def _times(operations: str, number: int) -> Counter[str]:
    return Counter({kind: times * number for kind, times in Counter(operations.split()).items()})


def in_words(operators: Iterable[VectorOperator]) -> str:
    """The number of operators, and their operations by kind, the most frequent first."""
    found = tuple(operators)
    counts = total(operator.operations for operator in found)
    parts = ", ".join(f"{number:,} {kind}" for kind, number in counts.most_common())
    return (f"{sum(counts.values()):,} operations of {len(found)} operator{'s' if len(found) > 1 else ''}"
            + (f" ({parts})" if parts else ""))
