"""A node of a network, and the kinds of nodes without multiply-accumulates.

A kind is the effect of a node on a tile that passes through it. `tensor_routes` follows tiles by kind, so that a
new operation only needs an entry in `KINDS`. Names are lower-case and the same for all frameworks: ONNX's `Relu`,
ATen's `relu_` and a network file's `relu` are all "relu".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.operator import Operator, Shape

INPUT = "input"  # name and kind of the nodes of the network's inputs
NOT_UNDERSTOOD = "not_understood"  # name and kind of nodes whose meaning is not known; no tile is followed through them

KINDS: dict[str, tuple[str, ...]] = {
    "pointwise": ("relu", "gelu", "silu", "sigmoid", "tanh", "clip", "erf", "exp", "log", "sqrt", "rsqrt", "neg",
                  "abs", "reciprocal", "square", "leakyrelu", "prelu", "elu", "celu", "selu", "softplus",
                  "hardsigmoid", "hardswish", "mish", "batchnorm", "not", "round", "floor", "ceil", "sin", "cos",
                  "quantize", "dequantize", "elementwise"),
    "join": ("add", "mul", "sub", "div", "pow", "max", "min", "where", "compare", "and", "or", "combine"),
    "pool": ("maxpool", "avgpool"),
    "rows": ("softmax", "logsoftmax", "layernorm", "rmsnorm", "groupnorm", "instancenorm", "cumsum",
             "batchstatistics", "localresponse", "dynamicquantize"),
    "reduce": ("mean", "sum", "amax", "amin", "reduction"),
    "reshape": ("reshape",),
    "transpose": ("transpose",),
    "opaque": ("concat", "slice", "gather", "expand", "pad", "resize", "scatter", "sort", "interleave", "recurrence",
               "other"),
    INPUT: (INPUT,),
    NOT_UNDERSTOOD: (NOT_UNDERSTOOD,),
}
"""Nodes without multiply-accumulates, by their effect on a tile that passes through:

pointwise  the tile unchanged
join       the same tile of every operand (broadcast where an operand is smaller)
pool       a window slides over the tile
rows       whole rows along `axes`, whose shape stays
reduce     whole rows along `axes`, of which one number remains
reshape    the elements in the same order, cut into other axes
transpose  the axes in the order `axes`
opaque     elements are picked, repeated or put together along some axes; `tensor_routes` follows tiles by operation
"""

KIND = {op: kind for kind, ops in KINDS.items() for op in ops}  # name of a node's operation -> its kind


GENERIC = ("elementwise", "combine", "reduction", "other")
"""Names for operations of a known kind without a name of their own here; `Node.what` has the framework's."""


@dataclass(frozen=True)
class Window:
    """The window of a pool, over the trailing axes of a tensor; one entry per axis."""

    kernel: Shape  # points that one output point covers
    stride: Shape  # points from one output point to the next
    pad: tuple[tuple[int, int], ...]  # points before the first and after the last one
    dilation: Shape  # points from one covered point to the next


@dataclass(frozen=True)
class Node:
    """A vertex of the graph; its output is the tensor that carries its name."""

    name: str  # unique in the network
    op: str  # the operation: a key of `KIND`, or for an operator its template (`operator.TEMPLATES`) or "problem"
    inputs: tuple[str, ...] = ()  # names of the tensors that it reads, without weights and other constants
    shape: Shape | None = None  # extents of the output; None where a file does not say
    layer: Operator | None = None  # the problem that it poses, for operators; None for all other nodes
    operands: tuple[str, ...] = ()  # for operators, the data space that each input becomes
    # for operators, the padding, (before, after) per sliding axis; None where it is not stated
    pad: tuple[tuple[int, int], ...] | None = None
    # for pools, the window; for pad, resize and slice, the window through which an output point reads the input
    # (padding -3: a slice from point 3 on); for scatter, the window of the inverse slice; None where not stated
    window: Window | None = None
    # for the kinds rows and reduce, the axes of whole rows (negative ones count from the end); for transpose, the axes
    # in their new order; for pad, slice, scatter and gather, the axes that change; for a concat, a new axis
    axes: tuple[int, ...] = ()
    # for nodes that are not understood and for `GENERIC` ones, the framework's name; for operators, an assumption in
    # words (the spread of rows over experts)
    what: str = ""
    experts: int = 0  # for a product of experts, their number, of which `layer.repeat` are at work; else 0
    # for nodes that are not understood, their multiply-accumulates where known; for a reduction that sums a product of
    # two tensors point by point, the multiply-accumulates of the product
    macs: int | None = None
    # for nodes that are not understood and have no `macs`, an estimate of them: one product of their tensors
    # (`shapes.possible_macs`), or one pass of a loop; None where shapes are not known
    possible: int | None = None
    constants: tuple[Shape, ...] = ()  # for rows and join, extents of the constants that it reads: scales, factors
    # for a softmax behind a causal mask, the queries of a sequence: the last sees all keys, each earlier query one key
    # less; with more rows than queries the sequence repeats (query heads that share keys)
    causal: int = 0
    unit: str = ""  # for nodes without multiply-accumulates, the compute unit on which the node must run; "" for any
    # for rearrangements (`operations.COPIES`), whether elements are copied; else neighbours access them in a new order
    moves: bool = False
    where: Where = field(default=Where("network"), compare=False, repr=False)  # place in the source, for messages

    @property
    def kind(self) -> str:
        """A key of `KINDS`, or "layer" for an operator."""
        return "layer" if self.layer else KIND[self.op]
