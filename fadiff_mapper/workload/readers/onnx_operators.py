"""ONNX operators -> nodes: one table per kind, and a function for each that needs attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Pads, Sliding, Tensor, attention, convolution, product
from fadiff_mapper.yaml.located import Where


@dataclass(frozen=True)
class OnnxCall:
    """One node of the graph: operands (None where one is left out), their values where they are small constants of
    whole numbers, the shapes of its outputs (None where they are not known), and the version of the operator set."""

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
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str, default: Shape, least: int = 1) -> Shape:
        """A list attribute. Raises SpecError where its length is not that of the default, or a number is too small."""
        found = self.attributes.get(name)
        values = tuple(found) if isinstance(found, list | tuple) and found else default
        if len(values) != len(default) or not all(isinstance(value, int) and value >= least for value in values):
            raise self.where.error(f"{name} is {list(values)}", f"{len(default)} whole numbers >= {least}")
        return values

    def axes_from(self, default: int) -> tuple[int, int]:
        """The attribute `axis` counted from 0, and the number of axes of the first operand."""
        rank, axis = len(self.first.shape), self.whole("axis", default)
        if not -rank <= axis < rank:
            raise self.where.error(f"axis is {axis}, its operand has {rank} axes")
        return axis % rank, rank


SAME = ("Identity", "Dropout", "Cast", "CastLike")
RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
POINTWISE = {
    "Relu": "relu", "Gelu": "gelu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Neg": "neg", "Abs": "abs", "Reciprocal": "reciprocal", "Elu": "elu", "Celu": "celu",
    "Selu": "selu", "Softplus": "softplus", "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Mish": "mish",
    "Round": "round", "Floor": "floor", "Ceil": "ceil", "Sin": "sin", "Cos": "cos", "PRelu": "prelu", "Swish": "silu",
    "LeakyRelu": "leakyrelu", "Clip": "clip", "Not": "not", "BatchNormalization": "batchnorm",
    "QuantizeLinear": "quantize", "DequantizeLinear": "dequantize",
}
JOINS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow", "Max": "max", "Min": "min",
         "Sum": "add", "Mean": "add", "Where": "where", "And": "and", "Or": "or", "Equal": "compare",
         "Less": "compare", "Greater": "compare", "LessOrEqual": "compare", "GreaterOrEqual": "compare"}
OPAQUE = {"Concat": "concat", "Split": "slice", "Slice": "slice", "Gather": "gather", "GatherElements": "gather",
          "GatherND": "gather", "Pad": "pad", "Resize": "resize", "Upsample": "resize", "Tile": "expand",
          "DepthToSpace": "gather", "SpaceToDepth": "gather"}
REDUCE = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin"}
REFUSED = {"ConvTranspose": "transposed convolutions are not supported",
           "QLinearConvTranspose": "transposed convolutions are not supported"}


def refuse(operator: str, where: Where) -> None:
    """SpecError for an operator that is refused by name."""
    if operator in REFUSED:
        raise where.error(REFUSED[operator], "convolutions, matrix products, and the operators between them")


def understood(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """The outputs of one node; nodes `not_understood` where no table has the operator or its shapes are not known."""
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
    """The first output, and others that carry no data on."""
    return [first, *(Tensor(shape or ()) for shape in call.outs[1:])]


def _each_output(call: OnnxCall, to: Assembly) -> list[Tensor]:
    found = []
    for index, shape in enumerate(call.outs):
        name = call.name if len(call.outs) == 1 else f"{call.name}.{index}"
        if call.operator in OPAQUE:
            same = OPAQUE[call.operator] in ("slice", "pad") and shape == call.tensors[0].shape
            found.append(call.tensors[0] if same and call.tensors[0].known else
                         to.plain_node(name, OPAQUE[call.operator], call.tensors, shape, call.where))
        else:
            found.append(to.unknown(name, call.operator, call.tensors, shape, call.where))
    return found


def _convolution(data: int, weights: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A convolution whose operands stand at these places."""
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
    """Padding as stated, or what auto_pad makes of it: so much that the output is input / stride, rounded up."""
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        found = []
        for extent, out, k, s, d in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, strict=True):
            total = max((out - 1) * s + (k - 1) * d + 1 - extent, 0)
            small = total // 2
            found.append((small, total - small) if mode == b"SAME_UPPER" else (total - small, small))
        return tuple(found)
    if mode == b"VALID":
        return ((0, 0),) * count
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))


def _gemm(call: OnnxCall, to: Assembly) -> Tensor:
    a, b = call.operand(0), call.operand(1)
    if not len(a.shape) == len(b.shape) == 2:
        raise call.where.error(f"operands {list(a.shape)} and {list(b.shape)}", "two matrices")
    if call.whole("transA", 0):
        a = to.transpose(f"{call.name}.left", a, (1, 0), call.where)
    if call.whole("transB", 0):
        b = to.transpose(f"{call.name}.right", b, (1, 0), call.where)
    found = product(to, call.name, a, b, call.out, call.where)
    bias = call.operands[2] if len(call.operands) > 2 else None
    if bias is None or bias.constant:
        return found
    return to.plain_node(f"{call.name}.add", "add", [found, bias], call.out, call.where)


def _product(left: int, right: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return product(to, call.name, call.operand(left), call.operand(right), call.out, call.where)
    return make


def _attention(call: OnnxCall, to: Assembly) -> Tensor:
    q, k, v = (call.operand(index) for index in range(3))
    if len(q.shape) != 4 or len(call.tensors) > 4:
        return to.unknown(call.name, "Attention over packed heads or with a cache", call.tensors, call.out, call.where)
    mask = call.operands[3] if len(call.operands) > 3 else None
    return attention(to, call.name, (q, k, v), mask, call.out, call.where)


def _pool(call: OnnxCall, to: Assembly) -> Tensor:
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
    """Before version 13 of the operators, the axes from `axis` on are taken together."""
    axis, rank = call.axes_from(-1 if call.version >= 13 else 1)
    axes = (axis,) if call.version >= 13 else tuple(range(axis, rank))
    return to.plain_node(call.name, call.operator.lower(), [call.first], call.out, call.where, axes)


def _norm(op: str, first_axis: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A normalisation over the axes from `axis`, or from this one, to the last."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        axes = tuple(range(*call.axes_from(first_axis)))
        return to.plain_node(call.name, op, [call.first], call.out, call.where, axes)
    return make


def _reduce(call: OnnxCall, to: Assembly) -> Tensor:
    """Over the axes of the attribute (older models) or of the second operand; over all where none are given."""
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
    return to.reshape(call.name, call.first, call.out, call.where)


def _transpose(call: OnnxCall, to: Assembly) -> Tensor:
    rank = len(call.first.shape)
    order = call.integers("perm", tuple(reversed(range(rank))), 0)
    if sorted(order) != list(range(rank)):
        raise call.where.error(f"perm is {list(order)}", f"each of 0 to {rank - 1} once")
    return to.transpose(call.name, call.first, order, call.where)


def _expand(call: OnnxCall, to: Assembly) -> Tensor:
    return to.expand(call.name, call.first, call.out, call.where)


LAYERS: dict[str, Callable[[OnnxCall, Assembly], Tensor]] = {
    "Conv": _convolution(0, 1), "ConvInteger": _convolution(0, 1), "QLinearConv": _convolution(0, 3),
    "Gemm": _gemm, "MatMul": _product(0, 1), "MatMulInteger": _product(0, 1), "QLinearMatMul": _product(0, 3),
    "Attention": _attention,
}
"""Operators with multiply-accumulates: an unknown shape there is an error."""

OPERATORS: dict[str, Callable[[OnnxCall, Assembly], Tensor]] = {
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"), _pool),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(REDUCE, _reduce),
    "LayerNormalization": _norm("layernorm", -1), "RMSNormalization": _norm("rmsnorm", -1),
    "GroupNormalization": _norm("groupnorm", 1), "InstanceNormalization": _norm("instancenorm", 2),
    "Transpose": _transpose, "Expand": _expand,
}
