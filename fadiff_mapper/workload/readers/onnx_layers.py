"""ONNX operators with multiply-accumulates: name -> the function that adds their nodes (`LAYERS`).

Attributes and the order of operands are those of the ONNX operator sets (github.com/onnx/onnx, docs/Operators.md) and
of ONNX Runtime's own (github.com/microsoft/onnxruntime, docs/ContribOperators.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, einsum, fourier_macs, product, turned
from fadiff_mapper.workload.readers.convolutions import (
    Recurrence,
    Sliding,
    convolution,
    deformable_convolution,
    recurrent_layer,
    transposed_convolution,
)
from fadiff_mapper.workload.readers.onnx_call import OnnxCall, padding, transposed_padding
from fadiff_mapper.workload.readers.onnx_names import POINTWISE


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
    """Einsum of any number of tensors."""
    stated = call.attributes.get("equation", b"")
    equation = stated.decode(errors="replace") if isinstance(stated, bytes) else str(stated)
    tensors = [call.operand(index) for index in range(len(call.operands))]
    return einsum(to, call.name, equation, tensors, call.out, call.where)


def _gemm(left: int, right: int, bias: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A product of two matrices, either of them transposed, and a computed bias added, which stand at these places."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        a, b = call.operand(left), call.operand(right)
        if not len(a.shape) == len(b.shape) == 2:
            raise call.where.error(f"operands {list(a.shape)} and {list(b.shape)}", "two matrices")
        result = _turned_product(call, to)(a, b)
        added = call.operands[bias] if len(call.operands) > bias else None
        if added is None or added.constant:
            return result
        return to.plain_node(f"{call.name}.add", "add", [result, added], call.out, call.where)
    return make


def _turned_product(call: OnnxCall, to: Assembly) -> Callable[[Tensor, Tensor], Tensor]:
    """A product of two tensors, whose last two axes change places where `transA` and `transB` say so."""
    def make(a: Tensor, b: Tensor) -> Tensor:
        a, b = (to.transpose(f"{call.name}.{tag}", t, turned(len(t.shape)), call.where) if call.whole(key, 0) else t
                for tag, t, key in (("left", a, "transA"), ("right", b, "transB")))
        return product(to, call.name, a, b, call.out, call.where)
    return make


def _fused_product(call: OnnxCall, to: Assembly) -> Tensor:
    """FusedMatMul: a product of two tensors, either of them transposed, scaled."""
    if call.whole("transBatchA", 0) or call.whole("transBatchB", 0):
        return to.unknown(call.name, call.operator, call.tensors, [call.out], call.where)[0]
    return _turned_product(call, to)(call.operand(0), call.operand(1))


def _packed_product(call: OnnxCall, to: Assembly) -> Tensor:
    """A product with weights whose words hold several numbers each; the output says how many columns they have."""
    x, packed = call.operand(0), call.operand(1)
    shape = (x.shape[-1], call.out[-1])
    weight = Tensor(shape) if packed.constant else to.plain_node(f"{call.name}.unpacked", "other", [packed], shape,
                                                                  call.where, what="unpacked weights")
    return product(to, call.name, x, weight, call.out, call.where)


def _deformable(call: OnnxCall, to: Assembly) -> Tensor:
    """A convolution whose points are picked by computed offsets."""
    return deformable_convolution(to, call.name, call.tensors, call.operand(1), call.whole("group", 1), call.out,
                                  call.where)


def _fourier(call: OnnxCall, to: Assembly) -> Tensor:
    """A Fourier transform, which is named with its multiply-accumulates (`assembly.fourier_macs`)."""
    x = call.operand(0)

    def number(place: int) -> int:
        stated = call.numbers[place] if place < len(call.numbers) else None
        return stated[0] if stated else 0
    if call.operator == "STFT":     # frames of [batch, extent, 1 or 2], as long as the window or as stated
        window = call.operands[2] if len(call.operands) > 2 else None
        points = number(3) or (window.shape[0] if window and window.known else 0)
        rows = x.shape[0] * ((x.shape[1] - points) // number(1) + 1) if number(1) > 0 else 0
    else:
        axis = (number(2) or call.whole("axis", 1 if call.version < 20 else -2)) % len(x.shape)
        points, rows = number(1) or x.shape[axis], math.prod(x.shape[:-1]) // x.shape[axis]
    macs = fourier_macs(points, rows, x.shape[-1] != 2) if points > 0 and rows > 0 else None
    return to.unknown(call.name, call.operator, call.tensors, call.outs[:1], call.where, macs)[0]


def _product(left: int, right: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A matrix product whose factors stand at these places among the operands."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return product(to, call.name, call.operand(left), call.operand(right), call.out, call.where)
    return make


def _attention(call: OnnxCall, to: Assembly) -> Tensor:
    """Attention over heads that have an axis of their own, or stand side by side [batch, tokens, heads * size]; keys
    and values are those of a cache [batch, heads, tokens, size], and the new ones behind them."""
    heads = [call.whole("q_num_heads", 0), *(call.whole("kv_num_heads", 0),) * 2]
    mask = call.operands[3] if len(call.operands) > 3 else None
    return _attended(call, to, [call.operand(index) for index in range(3)], heads, mask, 4)


def _runtime_attention(call: OnnxCall, to: Assembly) -> Tensor:
    """MultiHeadAttention and GroupQueryAttention of ONNX Runtime over queries, keys and values that stand apart."""
    tensors = [t for t in call.operands[:3] if t is not None and t.known and len(t.shape) == 3]
    if len(tensors) < 3:
        return to.unknown(call.name, call.operator, call.tensors, call.outs[:1], call.where)[0]
    heads = call.whole("num_heads", 1)
    grouped = call.operator.endswith("GroupQueryAttention")
    shared = call.whole("kv_num_heads", heads) if grouped else heads
    mask = None if grouped or len(call.operands) < 6 else call.operands[5]
    return _attended(call, to, tensors, [heads, shared, shared], mask, 3 if grouped else 6)


def _packed_attention(call: OnnxCall, to: Assembly) -> Tensor:
    """Attention and QAttention of ONNX Runtime: a projection [in, 3 * out] to queries, keys and values first."""
    x, weight = call.operand(0), call.operand(1)
    batch, tokens, _ = x.shape
    width, past = weight.shape[1] // 3, 4 if call.operator.endswith(".Attention") else 8
    cached = len(call.operands) > past and call.operands[past] is not None
    if width * 3 != weight.shape[1] or call.attributes.get("qkv_hidden_sizes") or cached or call.out[-1] != width:
        return to.unknown(call.name, call.operator, call.tensors, call.outs[:1], call.where)[0]
    packed = product(to, f"{call.name}.projection", x, weight, (batch, tokens, 3 * width), call.where)
    parts = [to.put(Node(f"{call.name}.{what}", "slice", (packed.node or "",), (batch, tokens, width), axes=(2,),
                         window=Window((1,), (1,), ((-index * width, 0),), (1,)), where=call.where))
             for index, what in enumerate(("q", "k", "v"))]
    return _attended(call, to, parts, [call.whole("num_heads", 1)] * 3, None, len(call.operands))


def _attended(call: OnnxCall, to: Assembly, tensors: Sequence[Tensor], heads: Sequence[int], mask: Tensor | None,
              past: int) -> Tensor:
    """Attention of queries, keys and values whose heads stand side by side unless they have an axis of their own;
    `past` is the place of the cached keys among the operands, that of the values follows."""
    apart = []
    for index, (t, count, what) in enumerate(zip(tensors, heads, ("queries", "keys", "values"), strict=True)):
        if len(t.shape) == 3 and count > 0 and t.shape[2] % count == 0:
            batch, tokens, width = t.shape
            cut = to.reshape(f"{call.name}.{what}", t, (batch, tokens, count, width // count), call.where)
            t = to.transpose(f"{call.name}.{what}_heads", cut, (0, 2, 1, 3), call.where)
        place = past + index - 1
        cache = call.operands[place] if index and place < len(call.operands) else None
        if cache is not None and len(cache.shape) == len(t.shape) == 4:
            whole = (*t.shape[:2], cache.shape[2] + t.shape[2], t.shape[3])
            t = to.plain_node(f"{call.name}.all_{what}", "concat", [cache, t], whole, call.where)
        apart.append(t)
    q, k, v = apart
    if any(len(t.shape) != 4 for t in apart):
        return to.unknown(call.name, call.operator, call.tensors, call.outs[:1], call.where)[0]
    shape = (*q.shape[:3], v.shape[3])
    out = attention(to, call.name, (q, k, v), mask, shape, call.where)
    if len(call.out) == 3:
        out = to.transpose(f"{call.name}.tokens", out, (0, 2, 1, 3), call.where)
    return to.reshape(f"{call.name}.shape", out, call.out, call.where)


LAYERS: dict[str, Callable[[OnnxCall, Assembly], Tensor | list[Tensor]]] = {
    "Conv": _convolution(0, 1), "ConvInteger": _convolution(0, 1), "QLinearConv": _convolution(0, 3),
    "ConvTranspose": _convolution(0, 1, transposed=True), "com.microsoft.FusedConv": _fused_convolution,
    "DeformConv": _deformable,
    "Gemm": _gemm(0, 1, 2), "com.microsoft.FusedGemm": _gemm(0, 1, 2), "com.microsoft.GemmFloat8": _gemm(0, 1, 2),
    "com.microsoft.QGemm": _gemm(0, 3, 6),
    "MatMul": _product(0, 1), "MatMulInteger": _product(0, 1), "QLinearMatMul": _product(0, 3),
    **dict.fromkeys((f"com.microsoft.{name}" for name in (
        "MatMulIntegerToFloat", "DynamicQuantizeMatMul", "MatMulInteger16", "GemmFastGelu")), _product(0, 1)),
    **dict.fromkeys((f"com.microsoft.{name}" for name in (
        "FusedMatMul", "TransposeMatMul", "FusedMatMulActivation")), _fused_product),
    **dict.fromkeys((f"com.microsoft.{name}" for name in ("MatMulNBits", "MatMulBnb4", "MatMulFpQ4")), _packed_product),
    "Einsum": _einsum, "Attention": _attention, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent,
    "com.microsoft.DynamicQuantizeLSTM": _recurrent,
    "com.microsoft.MultiHeadAttention": _runtime_attention, "com.microsoft.GroupQueryAttention": _runtime_attention,
    "com.microsoft.Attention": _packed_attention, "com.microsoft.QAttention": _packed_attention,
    "DFT": _fourier, "STFT": _fourier,
}
"""Operators with multiply-accumulates; for these an unknown shape is an error."""
