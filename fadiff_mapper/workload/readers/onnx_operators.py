"""Turns ONNX operators into nodes: by the tables of `onnx_names`, or by a function where attributes matter.

Attributes and the order of operands are those of the ONNX operator sets (github.com/onnx/onnx, docs/Operators.md) and
of ONNX Runtime's own (github.com/microsoft/onnxruntime, docs/ContribOperators.md). `LAYERS` holds the operators with
multiply-accumulates, `OPERATORS` others that need attributes. An operator in no table becomes a node that is not
understood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.axis_algebra import WindowSlide
from fadiff_mapper.workload.node import GENERIC, NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, product
from fadiff_mapper.workload.readers.convolutions import Pads, Sliding, convolution, transposed_convolution
from fadiff_mapper.workload.readers.einsum import contraction
from fadiff_mapper.workload.readers.onnx_names import (
    ELEMENTWISE,
    JOINS,
    OPAQUE,
    POINTWISE,
    REDUCE,
    RESHAPES,
    ROWS,
    SAME,
)
from fadiff_mapper.workload.readers.picked_details import Details, onnx_details
from fadiff_mapper.workload.readers.recurrent import Recurrence, recurrent_layer
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
        lost: the operator at which shapes end, where an operand's is not known.
    """

    operator: str
    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[Tensor | None]
    numbers: Sequence[tuple[int, ...] | None]
    outs: Sequence[Shape | None]
    version: int
    where: Where
    lost: str = ""

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
            raise self.where.error(f"the shape of its output is not known{self.ended}",
                                   "an operator whose shape can be inferred")
        return self.outs[0]

    def operand(self, index: int) -> Tensor:
        """An operand with a known shape. Raises SpecError where it is missing or its shape is not known."""
        tensor = self.operands[index] if index < len(self.operands) else None
        if tensor is None or not tensor.known:
            raise self.where.error(f"the shape of operand {index} is not known{self.ended}" if tensor else
                                   f"operand {index} is missing")
        return tensor

    @property
    def ended(self) -> str:
        """The end of a message on a shape that is not known."""
        return f": shapes end at {self.lost}" if self.lost else ""

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
    name = call.operator
    if name in LAYERS:
        return _results(call, LAYERS[name](call, to))
    if name in SAME:
        return _results(call, call.tensors[0])
    if name in POINTWISE or name in JOINS or name in ELEMENTWISE:
        return _results(call, _pointwise(call, to))
    known = call.tensors[0].known and call.outs[0] is not None
    if known and name in OPERATORS:
        return _results(call, OPERATORS[name](call, to))
    return _each_output(call, to)


def _results(call: OnnxCall, first: Tensor | list[Tensor]) -> list[Tensor]:
    """The first output, and the others as constants, since they carry no data on (masks, running statistics)."""
    if isinstance(first, list):
        return first[:len(call.outs)]
    return [first, *(Tensor(shape or ()) for shape in call.outs[1:])]


def _pointwise(call: OnnxCall, to: Assembly) -> Tensor:
    """Points of one tensor by themselves, or those of several joined; scales and zero points of integers are none."""
    if call.operator in JOINS:
        return to.plain_node(call.name, JOINS[call.operator], call.tensors, call.outs[0], call.where)
    read = [tensor for tensor in call.tensors if tensor.node]
    alone = len(read) == 1 and (not read[0].known or call.outs[0] in (None, read[0].shape))
    op = POINTWISE.get(call.operator, "elementwise") if alone else "combine"
    return to.plain_node(call.name, op, read, call.outs[0], call.where, what=call.operator if op in GENERIC else "")


def _each_output(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """A node per output, opaque or not understood; a slice or a padding that changes nothing is left out."""
    outputs = []
    for index, shape in enumerate(call.outs):
        name = call.name if len(call.outs) == 1 else f"{call.name}.{index}"
        op = OPAQUE.get(call.operator, "other" if call.operator in OPERATORS else NOT_UNDERSTOOD)
        same = op in ("slice", "pad", "expand", "resize") and shape == call.tensors[0].shape
        if same and call.tensors[0].known:
            outputs.append(call.tensors[0])
        elif op == NOT_UNDERSTOOD:
            outputs.append(to.unknown(name, call.operator, call.tensors, shape, call.where))
        else:
            outputs.append(_picked(call, to, name, index, op))
    return outputs


def _picked(call: OnnxCall, to: Assembly, name: str, index: int, op: str) -> Tensor:
    """A node that picks, repeats or puts together elements, with what its attributes and constants say of it."""
    first, details, shape = call.tensors[0], Details(), call.outs[index]
    if shape is not None and first.known:
        details = onnx_details(call.operator, call.attributes, call.numbers, first.shape, call.outs, index,
                               all(tensor.constant for tensor in call.tensors[1:]))
        op = "slice" if op == "gather" and details and len(shape) < len(first.shape) else op
    return to.put(Node(name, op, tuple(t.node for t in call.tensors if t.node), shape, where=call.where,
                       what=call.operator if op in GENERIC else "", **details))


def _convolution(data: int, weights: int, transposed: bool = False) -> Callable[[OnnxCall, Assembly], Tensor]:
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
        channels = weight.shape[0] if transposed else weight.shape[1] * groups
        if groups < 1 or weight.shape[0] % groups or channels != x.shape[1]:
            raise call.where.error(f"{groups} groups of weights {list(weight.shape)} on {x.shape[1]} channels")
        if transposed:
            pads = _pads_transposed(call, x, kernel, stride, dilation)
            return transposed_convolution(to, call.name, x, weight, Sliding(stride, pads, dilation, groups), call.out,
                                          call.where)
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


def _pads_transposed(call: OnnxCall, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """Outputs that a transposed convolution cuts off: as stated, or as the output's shape and `auto_pad` ask.

    Of an odd total SAME_UPPER cuts the smaller half before, all others the larger one.
    """
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if call.attributes.get("output_shape") or mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = []
        extra = call.integers("output_padding", (0,) * count, 0)
        for extent, out, k, s, d, more in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, extra,
                                              strict=True):
            total = max(s * (extent - 1) + more + WindowSlide(k, 1, d).reach(1) - out, 0)
            before = total // 2 if mode == b"SAME_UPPER" else total - total // 2
            pads.append((before, total - before))
        return tuple(pads)
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))


def _fused_convolution(call: OnnxCall, to: Assembly) -> Tensor:
    """A convolution, a tensor added to it, and an activation."""
    x = _convolution(0, 1)(call, to)
    other = call.operands[3] if len(call.operands) > 3 else None
    if other is not None and not other.constant:
        x = to.plain_node(f"{call.name}.add", "add", [x, other], call.out, call.where)
    stated = call.attributes.get("activation", b"")
    name = stated.decode(errors="replace") if isinstance(stated, bytes) else ""
    return to.plain_node(f"{call.name}.{name}", POINTWISE[name], [x], call.out, call.where) if name in POINTWISE else x


def _recurrent(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """LSTM, GRU, RNN: one layer in one or both directions, whose outputs have an axis of directions.

    With integer weights, these are stated the other way round: [directions, in, gates * hidden].
    """
    x, inputs, states = (call.operand(index) for index in range(3))
    if not len(x.shape) == len(inputs.shape) == len(states.shape) == 3 or call.whole("layout", 0):
        raise call.where.error(f"operands {list(x.shape)}, {list(inputs.shape)} and {list(states.shape)}, layout "
                               f"{call.whole('layout', 0)}", "three axes each, and the layout 0")
    directions = inputs.shape[0]
    outs = []
    for back in range(directions):
        own = [t.shape[1:] if call.operator in ("LSTM", "GRU", "RNN") else t.shape[:0:-1] for t in (inputs, states)]
        weights = Recurrence(*(Tensor(shape) if t.constant else to.plain_node(
            f"{call.name}.{what}", "slice", [t], shape, call.where) for t, shape, what in
            zip((inputs, states), own, ("weights", "state_weights"), strict=True)))
        tag = "" if directions == 1 else (".forward", ".backward")[back % 2]
        outs.append(recurrent_layer(to, call.name + tag, x, weights, call.where))
    steps, batch, width = outs[0].shape
    shape = (steps, directions, batch, width)
    every = to.reshape(f"{call.name}.steps", outs[0], shape, call.where) if directions == 1 else to.plain_node(
        f"{call.name}.both", "concat", outs, shape, call.where)
    last = [to.plain_node(f"{call.name}.last{index}", "slice", outs, shape[1:], call.where)
            for index in range(len(call.outs) - 1)]
    return [every, *last]


def _skip_norm(op: str) -> Callable[[OnnxCall, Assembly], list[Tensor]]:
    """A sum and its normalisation along the last axis; the last of four outputs is the sum."""
    def make(call: OnnxCall, to: Assembly) -> list[Tensor]:
        total = to.plain_node(f"{call.name}.sum", "add", call.tensors[:2], call.out, call.where)
        normed = to.plain_node(call.name, op, [total], call.out, call.where, (-1,))
        return [normed, Tensor(()), Tensor(()), total]
    return make


def _whole_tensor(op: str) -> Callable[[OnnxCall, Assembly], Tensor]:
    """An operator that needs all of its operand before its first output."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return to.plain_node(call.name, op, [call.first], call.out, call.where, tuple(range(len(call.first.shape))))
    return make


def _along(op: str, default: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """An operator that needs whole rows along the attribute `axis`."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return to.plain_node(call.name, op, [call.first], call.out, call.where, (call.axes_from(default)[0],))
    return make


def _einsum(call: OnnxCall, to: Assembly) -> Tensor:
    """Einsum of two tensors as a matrix product; of one, elements are picked or summed."""
    stated = call.attributes.get("equation", b"")
    equation = stated.decode(errors="replace") if isinstance(stated, bytes) else str(stated)
    tensors = [call.operand(index) for index in range(len(call.operands))]
    if len(tensors) == 1:
        return to.plain_node(call.name, "other", tensors, call.out, call.where, what=call.operator)
    if len(tensors) > 2:
        return to.unknown(call.name, f"Einsum of {len(tensors)} tensors", tensors, call.out, call.where)
    return contraction(to, call.name, equation, tensors[0], tensors[1], call.out, call.where)


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
    if "Global" in call.operator:
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
    op = "logsoftmax" if call.operator == "LogSoftmax" else "softmax"
    return to.plain_node(call.name, op, [call.first], call.out, call.where, axes)


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
    op = REDUCE[call.operator]
    return to.plain_node(call.name, op, [call.first], call.out, call.where, axes,
                         call.operator if op in GENERIC else "")


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


LAYERS: dict[str, Callable[[OnnxCall, Assembly], Tensor | list[Tensor]]] = {
    "Conv": _convolution(0, 1), "ConvInteger": _convolution(0, 1), "QLinearConv": _convolution(0, 3),
    "ConvTranspose": _convolution(0, 1, transposed=True), "com.microsoft.FusedConv": _fused_convolution,
    "Gemm": _gemm, "MatMul": _product(0, 1), "MatMulInteger": _product(0, 1), "QLinearMatMul": _product(0, 3),
    "com.microsoft.MatMulIntegerToFloat": _product(0, 1), "com.microsoft.DynamicQuantizeMatMul": _product(0, 1),
    "Einsum": _einsum, "Attention": _attention, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent,
    "com.microsoft.DynamicQuantizeLSTM": _recurrent,
}
"""Operators with multiply-accumulates; for these an unknown shape is an error."""

OPERATORS: dict[str, Callable[[OnnxCall, Assembly], Tensor | list[Tensor]]] = {
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "LpPool", "GlobalLpPool"), _pool),
    "com.microsoft.QLinearGlobalAveragePool": _pool, "com.microsoft.QLinearAveragePool": _pool,
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(REDUCE, _reduce),
    **{name: _along(op, -1) for name, op in ROWS.items()},
    "LRN": _along("localresponse", 1), "DynamicQuantizeLinear": _whole_tensor("dynamicquantize"),
    "LayerNormalization": _norm("layernorm", -1), "RMSNormalization": _norm("rmsnorm", -1),
    "com.microsoft.LayerNormalization": _norm("layernorm", -1),
    "SimplifiedLayerNormalization": _norm("rmsnorm", -1),
    "com.microsoft.SimplifiedLayerNormalization": _norm("rmsnorm", -1),
    "com.microsoft.SkipLayerNormalization": _skip_norm("layernorm"),
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_norm("rmsnorm"),
    "GroupNormalization": _norm("groupnorm", 1), "InstanceNormalization": _norm("instancenorm", 2),
    "MeanVarianceNormalization": _norm("instancenorm", 1),
    "Transpose": _transpose, "Expand": _expand,
}
"""Operators without, whose shapes must be known to be understood."""
