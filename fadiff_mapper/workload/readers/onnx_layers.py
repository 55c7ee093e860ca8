"""ONNX operators with multiply-accumulates: name -> the function that adds their nodes (`LAYERS`).

Attributes and the order of operands are those of the ONNX operator sets (github.com/onnx/onnx, docs/Operators.md) and
of ONNX Runtime's own (github.com/microsoft/onnxruntime, docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, product
from fadiff_mapper.workload.readers.convolutions import Sliding, convolution, transposed_convolution
from fadiff_mapper.workload.readers.einsum import contraction
from fadiff_mapper.workload.readers.onnx_call import OnnxCall
from fadiff_mapper.workload.readers.onnx_names import POINTWISE
from fadiff_mapper.workload.readers.onnx_padding import padding, transposed_padding
from fadiff_mapper.workload.readers.recurrent import Recurrence, recurrent_layer


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
            pads = transposed_padding(call, x, kernel, stride, dilation)
            return transposed_convolution(to, call.name, x, weight, Sliding(stride, pads, dilation, groups), call.out,
                                          call.where)
        slide = Sliding(stride, padding(call, x, kernel, stride, dilation), dilation, groups)
        return convolution(to, call.name, x, weight, slide, call.out, call.where)
    return make


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
    if directions not in (1, 2) or states.shape[0] != directions:
        raise call.where.error(f"weights for {directions} and {states.shape[0]} directions",
                               "1 or 2, the same for both")
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


LAYERS: dict[str, Callable[[OnnxCall, Assembly], Tensor | list[Tensor]]] = {
    "Conv": _convolution(0, 1), "ConvInteger": _convolution(0, 1), "QLinearConv": _convolution(0, 3),
    "ConvTranspose": _convolution(0, 1, transposed=True), "com.microsoft.FusedConv": _fused_convolution,
    "Gemm": _gemm, "MatMul": _product(0, 1), "MatMulInteger": _product(0, 1), "QLinearMatMul": _product(0, 3),
    "com.microsoft.MatMulIntegerToFloat": _product(0, 1), "com.microsoft.DynamicQuantizeMatMul": _product(0, 1),
    "Einsum": _einsum, "Attention": _attention, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent,
    "com.microsoft.DynamicQuantizeLSTM": _recurrent,
}
"""Operators with multiply-accumulates; for these an unknown shape is an error."""
