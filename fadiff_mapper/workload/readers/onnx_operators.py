"""Turns ONNX operators into nodes: one table per kind, and a function for each operator that needs attributes.

Names, attributes and the order of operands are those of the ONNX operator sets (github.com/onnx/onnx,
docs/Operators.md). The tables `SAME` to `OPAQUE` need a name only; `LAYERS` and `OPERATORS` hold functions. An operator
in none of them becomes a node that is not understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.axis_algebra import WindowSlide
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Pads, Sliding, Tensor, attention, convolution, product
from fadiff_mapper.workload.readers.picked_details import Details, onnx_details
from fadiff_mapper.yaml.located import Where


@dataclass(frozen=True)
class OnnxCall:
    """A node of an ONNX graph.

    Attributes:
        operator: its operator, behind the domain where this is not ONNX's own.
        name: name for the node.
        attributes: attributes by name, without subgraphs.
        operands: its operands; None where an optional one is left out.
        numbers: per operand, its values where it is a small constant of whole numbers, else None or empty.
        outs: shapes of its outputs; None where they are not known.
        version: version of the operator set.
        where: place in the model, for messages.
    """

    operator: str
    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[Tensor | None]
    numbers: Sequence[tuple[int, ...] | None]
    outs: Sequence[Shape | None]
    version: int
    where: Where

    @property
    def tensors(self) -> list[Tensor]:
        """The operands that are there."""
        return [tensor for tensor in self.operands if tensor]

    @property
    def first(self) -> Tensor:
        """The first operand. Raises SpecError where it is missing or its shape is not known."""
        return self.operand(0)

    @property
    def out(self) -> Shape:
        """The shape of the first output. Raises SpecError where it is not known."""
        if self.outs[0] is None:
            raise self.where.error("the shape of its output is not known", "an operator whose shape can be inferred")
        return self.outs[0]

    def operand(self, index: int) -> Tensor:
        """An operand with a known shape. Raises SpecError where it is missing or its shape is not known."""
        tensor = self.operands[index] if index < len(self.operands) else None
        if tensor is None or not tensor.known:
            raise self.where.error(f"the shape of operand {index} is not known" if tensor else
                                   f"operand {index} is missing")
        return tensor

    def whole(self, name: str, default: int) -> int:
        """An attribute that is a whole number, else the default."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str, default: Shape, least: int = 1) -> Shape:
        """An attribute that is a list of whole numbers.

        Args:
            name: its name.
            default: the values where it is missing or empty.
            least: the smallest number accepted.

        Raises:
            SpecError: its length is not that of the default, or a number is too small.
        """
        stated = self.attributes.get(name)
        values = tuple(stated) if isinstance(stated, list | tuple) and stated else default
        if len(values) != len(default) or not all(isinstance(value, int) and value >= least for value in values):
            raise self.where.error(f"{name} is {list(values)}", f"{len(default)} whole numbers >= {least}")
        return values

    def axes_from(self, default: int) -> tuple[int, int]:
        """The attribute `axis`, counted from 0, and the number of axes of the first operand.

        Args:
            default: the axis where the attribute is missing.

        Raises:
            SpecError: the operand has no such axis.
        """
        rank, axis = len(self.first.shape), self.whole("axis", default)
        if not -rank <= axis < rank:
            raise self.where.error(f"axis is {axis}, its operand has {rank} axes")
        return axis % rank, rank


SAME = ("Identity", "Dropout", "Cast", "CastLike")
"""Operators whose first output is their first operand."""

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Operators that keep elements and their order; the new shape is the inferred one."""

POINTWISE = {
    "Relu": "relu", "Gelu": "gelu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Neg": "neg", "Abs": "abs", "Reciprocal": "reciprocal", "Elu": "elu", "Celu": "celu",
    "Selu": "selu", "Softplus": "softplus", "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Mish": "mish",
    "Round": "round", "Floor": "floor", "Ceil": "ceil", "Sin": "sin", "Cos": "cos", "PRelu": "prelu", "Swish": "silu",
    "IsNaN": "isnan", "IsInf": "isnan",
    "LeakyRelu": "leakyrelu", "Clip": "clip", "Not": "not", "BatchNormalization": "batchnorm",
    "QuantizeLinear": "quantize", "DequantizeLinear": "dequantize",
}
"""Pointwise operators -> their names here."""

JOINS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow", "Max": "max", "Min": "min",
         "Sum": "add", "Mean": "add", "Where": "where", "And": "and", "Or": "or", "Equal": "compare",
         "Less": "compare", "Greater": "compare", "LessOrEqual": "compare", "GreaterOrEqual": "compare"}
"""Operators that join tensors point by point -> their names here."""

OPAQUE = {"Concat": "concat", "Split": "slice", "Slice": "slice", "Gather": "gather", "GatherElements": "gather",
          "GatherND": "gather", "Pad": "pad", "Resize": "resize", "Upsample": "resize", "Tile": "expand",
          "DepthToSpace": "gather", "SpaceToDepth": "gather"}
"""Operators that pick, repeat or put together elements -> their names here."""

REDUCE = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin"}
"""Reductions -> their names here."""

REFUSED = {"ConvTranspose": "transposed convolutions are not supported",
           "QLinearConvTranspose": "transposed convolutions are not supported"}
"""Operators that are refused -> the reason."""


def refuse(operator: str, where: Where) -> None:
    """Refuses an operator by name.

    Args:
        operator: name of an ONNX operator.
        where: its place, for the message.

    Raises:
        SpecError: the operator is in `REFUSED`.
    """
    if operator in REFUSED:
        raise where.error(REFUSED[operator], "convolutions, matrix products, and the operators between them")


def understood(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """Adds the nodes of one ONNX node.

    Args:
        call: the ONNX node.
        to: the network.

    Returns:
        Its outputs, from nodes `not_understood` where no table has the operator or its shapes are not known.

    Raises:
        SpecError: an operator with multiply-accumulates lacks a shape, or attributes and operands contradict one
            another.
    """
    if call.operator in LAYERS:
        return _results(call, LAYERS[call.operator](call, to))
    if call.operator in SAME:
        return _results(call, call.tensors[0])
    if call.operator in POINTWISE or call.operator in JOINS:
        op = POINTWISE.get(call.operator) or JOINS[call.operator]
        return _results(call, to.plain_node(call.name, op, call.tensors, call.outs[0], call.where))
    known = call.tensors[0].known and call.outs[0] is not None
    if known and call.operator in OPERATORS:
        return _results(call, OPERATORS[call.operator](call, to))
    return _each_output(call, to)


def _results(call: OnnxCall, first: Tensor) -> list[Tensor]:
    """The first output, and the others as constants, since they carry no data on (masks, running statistics)."""
    return [first, *(Tensor(shape or ()) for shape in call.outs[1:])]


def _each_output(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """A node per output, opaque or not understood; a slice or a padding that changes nothing is left out."""
    outputs = []
    for index, shape in enumerate(call.outs):
        name = call.name if len(call.outs) == 1 else f"{call.name}.{index}"
        if call.operator in OPAQUE:
            same = OPAQUE[call.operator] in ("slice", "pad") and shape == call.tensors[0].shape
            outputs.append(call.tensors[0] if same and call.tensors[0].known else
                           _picked(call, to, name, shape))
        else:
            outputs.append(to.unknown(name, call.operator, call.tensors, shape, call.where))
    return outputs


def _picked(call: OnnxCall, to: Assembly, name: str, shape: Shape | None) -> Tensor:
    """A node that picks, repeats or puts together elements, with what its attributes and constants say of it."""
    first, op, details = call.tensors[0], OPAQUE[call.operator], Details()
    if shape is not None and first.known:
        details = onnx_details(call.operator, call.attributes, call.numbers, first.shape, shape,
                               all(tensor.constant for tensor in call.tensors[1:]))
        op = "slice" if op == "gather" and details and len(shape) < len(first.shape) else op
    return to.put(Node(name, op, tuple(t.node for t in call.tensors if t.node), shape, where=call.where, **details))


def _convolution(data: int, weights: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A convolution whose image and weights stand at these places among the operands."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        x, weight = call.operand(data), call.operand(weights)
        kernel = weight.shape[2:]
        ones = (1,) * len(kernel)
        stride, dilation = call.integers("strides", ones), call.integers("dilations", ones)
        if call.integers("kernel_shape", kernel) != kernel or not len(kernel) + 2 == len(x.shape) == len(call.out):
            raise call.where.error(f"weights {list(weight.shape)} do not fit a tensor {list(x.shape)} with the "
                                   f"attribute kernel_shape {call.attributes.get('kernel_shape')}")
        groups = call.whole("group", 1)
        if groups < 1 or weight.shape[0] % groups or weight.shape[1] * groups != x.shape[1]:
            raise call.where.error(f"{groups} groups of weights {list(weight.shape)} on {x.shape[1]} channels")
        slide = Sliding(stride, _pads(call, x, kernel, stride, dilation), dilation, groups)
        return convolution(to, call.name, x, weight, slide, call.out, call.where)
    return make


def _pads(call: OnnxCall, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """Padding as stated, or as `auto_pad` asks: so much that the output is input / stride, rounded up.

    Of an odd total SAME_UPPER puts the larger half behind, SAME_LOWER before.
    """
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = []
        for extent, out, k, s, d in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, strict=True):
            total = max(WindowSlide(k, s, d).reach(out) - extent, 0)
            small = total // 2
            pads.append((small, total - small) if mode == b"SAME_UPPER" else (total - small, small))
        return tuple(pads)
    if mode == b"VALID":
        return ((0, 0),) * count
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))


def _gemm(call: OnnxCall, to: Assembly) -> Tensor:
    """Gemm: a product of two matrices, either of them transposed, and a computed bias added."""
    a, b = call.operand(0), call.operand(1)
    if not len(a.shape) == len(b.shape) == 2:
        raise call.where.error(f"operands {list(a.shape)} and {list(b.shape)}", "two matrices")
    if call.whole("transA", 0):
        a = to.transpose(f"{call.name}.left", a, (1, 0), call.where)
    if call.whole("transB", 0):
        b = to.transpose(f"{call.name}.right", b, (1, 0), call.where)
    result = product(to, call.name, a, b, call.out, call.where)
    bias = call.operands[2] if len(call.operands) > 2 else None
    if bias is None or bias.constant:
        return result
    return to.plain_node(f"{call.name}.add", "add", [result, bias], call.out, call.where)


def _product(left: int, right: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A matrix product whose factors stand at these places among the operands."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return product(to, call.name, call.operand(left), call.operand(right), call.out, call.where)
    return make


def _attention(call: OnnxCall, to: Assembly) -> Tensor:
    """Attention over heads that have an axis of their own, without a cache of keys and values."""
    q, k, v = (call.operand(index) for index in range(3))
    if len(q.shape) != 4 or len(call.tensors) > 4:
        return to.unknown(call.name, "Attention over packed heads or with a cache", call.tensors, call.out, call.where)
    mask = call.operands[3] if len(call.operands) > 3 else None
    return attention(to, call.name, (q, k, v), mask, call.out, call.where)


def _pool(call: OnnxCall, to: Assembly) -> Tensor:
    """A pool, whose window covers all sliding axes where it is global."""
    op = "maxpool" if "Max" in call.operator else "avgpool"
    sliding = len(call.first.shape) - 2
    if call.operator.startswith("Global"):
        kernel = stride = call.first.shape[2:]
        pad: Pads = ((0, 0),) * sliding
        dilation: Shape = (1,) * sliding
    else:
        ones = (1,) * sliding
        kernel = call.integers("kernel_shape", ones)
        stride, dilation = call.integers("strides", ones), call.integers("dilations", ones)
        pad = _pads(call, call.first, kernel, stride, dilation)
    if call.first.node is None:
        raise call.where.error("pools a constant", "a computed tensor")
    window = Window(kernel, stride, pad, dilation)
    return to.put(Node(call.name, op, (call.first.node,), call.out, window=window, where=call.where))


def _softmax(call: OnnxCall, to: Assembly) -> Tensor:
    """Whole rows along one axis; before version 13 of the operator set along all axes from `axis` on."""
    axis, rank = call.axes_from(-1 if call.version >= 13 else 1)
    axes = (axis,) if call.version >= 13 else tuple(range(axis, rank))
    return to.plain_node(call.name, call.operator.lower(), [call.first], call.out, call.where, axes)


def _norm(op: str, first_axis: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A normalisation over the axes from the attribute `axis`, or else from `first_axis`, to the last."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        axes = tuple(range(*call.axes_from(first_axis)))
        return to.plain_node(call.name, op, [call.first], call.out, call.where, axes)
    return make


def _reduce(call: OnnxCall, to: Assembly) -> Tensor:
    """A reduction over the axes of the attribute (older models) or of the second operand; over all without any."""
    rank = len(call.first.shape)
    stated = call.attributes.get("axes")
    given = tuple(stated) if stated is not None else (call.numbers[1] if len(call.numbers) > 1 else ())
    if given is None:
        return to.unknown(call.name, f"{call.operator} over computed axes", call.tensors, call.out, call.where)
    if not given and call.whole("noop_with_empty_axes", 0):
        return call.first
    axes = tuple(given) or tuple(range(rank))
    return to.plain_node(call.name, REDUCE[call.operator], [call.first], call.out, call.where, axes)


def _reshape(call: OnnxCall, to: Assembly) -> Tensor:
    """A reshape to the inferred shape."""
    return to.reshape(call.name, call.first, call.out, call.where)


def _transpose(call: OnnxCall, to: Assembly) -> Tensor:
    """A transpose; without the attribute `perm` the axes are reversed."""
    rank = len(call.first.shape)
    order = call.integers("perm", tuple(reversed(range(rank))), 0)
    if sorted(order) != list(range(rank)):
        raise call.where.error(f"perm is {list(order)}", f"each of 0 to {rank - 1} once")
    return to.transpose(call.name, call.first, order, call.where)


def _expand(call: OnnxCall, to: Assembly) -> Tensor:
    """A value repeated to the inferred shape."""
    return to.expand(call.name, call.first, call.out, call.where)


LAYERS: dict[str, Callable[[OnnxCall, Assembly], Tensor]] = {
    "Conv": _convolution(0, 1), "ConvInteger": _convolution(0, 1), "QLinearConv": _convolution(0, 3),
    "Gemm": _gemm, "MatMul": _product(0, 1), "MatMulInteger": _product(0, 1), "QLinearMatMul": _product(0, 3),
    "Attention": _attention,
}
"""Operators with multiply-accumulates; for these an unknown shape is an error."""

OPERATORS: dict[str, Callable[[OnnxCall, Assembly], Tensor]] = {
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(REDUCE, _reduce),
    "LayerNormalization": _norm("layernorm", -1), "RMSNormalization": _norm("rmsnorm", -1),
    "GroupNormalization": _norm("groupnorm", 1), "InstanceNormalization": _norm("instancenorm", 2),
    "Transpose": _transpose, "Expand": _expand,
}
"""Operators without, whose shapes must be known to be understood."""
