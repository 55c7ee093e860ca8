"""ATen operators with multiply-accumulates: name -> the function that adds their nodes (`LAYERS`).

Arguments have the names of PyTorch's schemas.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, linear, product
from fadiff_mapper.workload.readers.convolutions import Pads, Sliding, convolution, transposed_convolution
from fadiff_mapper.workload.readers.einsum import contraction, is_plain
from fadiff_mapper.workload.readers.experts import experts
from fadiff_mapper.workload.readers.recurrent import Recurrence, recurrent_stack
from fadiff_mapper.workload.readers.torch_call import TorchCall, per_axis
from fadiff_mapper.workload.window_slide import WindowSlide


def _convolution(call: TorchCall, to: Assembly) -> Tensor:
    """A convolution, transposed where its name or the general operator's argument says so."""
    transposed = call.get("transposed", False) or "transpose" in call.operator
    x, weight = call.arguments["input"], call.arguments["weight"]
    kernel = weight.shape[2:]
    stride, dilation = per_axis(call.get("stride", 1), kernel), per_axis(call.get("dilation", 1), kernel)
    padding = call.get("padding", 0)
    if isinstance(padding, str):  # "same" pads the larger half behind
        spans = [WindowSlide(k, 1, d).reach(1) - 1 if padding == "same" else 0
                 for k, d in zip(kernel, dilation, strict=True)]
        pad: Pads = tuple((span // 2, span - span // 2) for span in spans)
    else:
        pad = tuple((p, p) for p in per_axis(padding, kernel))
    make = transposed_convolution if transposed else convolution
    return make(to, call.name, x, weight, Sliding(stride, pad, dilation, call.get("groups", 1)), call.out, call.where)


def _deformable(call: TorchCall, to: Assembly) -> Tensor:
    """A convolution whose points are picked by computed offsets: gathered points, and a product over them."""
    weight, groups = call.arguments["weight"], call.get("groups", 1)
    (n, m), points = call.out[:2], math.prod(call.out[2:])
    taps = math.prod(weight.shape[1:])
    columns = to.plain_node(f"{call.name}.points", "gather", call.operands, (n, groups, points, taps), call.where)
    filters = to.reshape(f"{call.name}.filters", weight, (groups, m // groups, taps), call.where)
    right = to.transpose(f"{call.name}.turned", filters, (0, 2, 1), call.where)
    rows = product(to, call.name, columns, right, (n, groups, points, m // groups), call.where)
    moved = to.transpose(f"{call.name}.channels", rows, (0, 1, 3, 2), call.where)
    return to.reshape(f"{call.name}.image", moved, call.out, call.where)


def _linear(call: TorchCall, to: Assembly) -> Tensor:
    """A product with the transpose of a weight."""
    return linear(to, call.name, call.arguments["input"], call.arguments["weight"], call.out, call.where)


def _product(call: TorchCall, to: Assembly) -> Tensor:
    """mm, bmm, matmul, mv, dot, whose factors have different names in each schema."""
    a, b = (next(call.arguments[key] for key in keys if key in call.arguments) for keys in
            (("self", "mat1", "batch1"), ("mat2", "other", "batch2", "vec", "tensor")))
    if a.picked_from and b.shape[-1] == 1:  # [S, out, in] [S, in, 1], a matrix for every row
        rows = to.reshape(f"{call.name}.row", b, b.shape[:-1], call.where)
        out = experts(to, call.name, rows, (a.picked_from, a.shape[-1], a.shape[-2]), call.out[:-1], call.where)
        return to.reshape(f"{call.name}.column", out, call.out, call.where)
    if b.picked_from:  # [S, n, in] [S, in, out]
        return experts(to, call.name, a, (b.picked_from, b.shape[-2], b.shape[-1]), call.out, call.where)
    return product(to, call.name, a, b, call.out, call.where)


def _experts(call: TorchCall, to: Assembly) -> Tensor:
    """Rows in the order of their experts, and a weight for each expert: [S, in] and [experts, in, out]."""
    rows, weights = call.operands[:2]
    if not (len(rows.shape) == 2 and len(weights.shape) == 3 and weights.constant):
        return to.unknown(call.name, call.operator, call.operands, call.out, call.where)
    return experts(to, call.name, rows, (weights.shape[0], weights.shape[1], weights.shape[2]), call.out, call.where)


def _added_product(call: TorchCall, to: Assembly) -> Tensor:
    """addmm, baddbmm, addmv: a product, and a tensor added where that is no constant."""
    a, b = (next(call.arguments[key] for key in keys if key in call.arguments) for keys in
            (("mat1", "batch1", "mat"), ("mat2", "batch2", "vec")))
    return _plus(call, to, product(to, call.name, a, b, call.out, call.where))


def _summed_products(call: TorchCall, to: Assembly) -> Tensor:
    """addbmm: products of a batch, summed, which are one product over the inner axes side by side."""
    a, b = call.arguments["batch1"], call.arguments["batch2"]
    (batch, n, k), m = a.shape, b.shape[-1]
    rows = to.reshape(f"{call.name}.rows", to.transpose(f"{call.name}.left", a, (1, 0, 2), call.where), (n, batch * k),
                      call.where)
    columns = to.reshape(f"{call.name}.columns", b, (batch * k, m), call.where)
    return _plus(call, to, product(to, call.name, rows, columns, call.out, call.where))


def _plus(call: TorchCall, to: Assembly, result: Tensor) -> Tensor:
    """A product with the tensor added to it, where that is no constant."""
    bias = call.arguments["self"]
    return result if bias.constant else to.plain_node(f"{call.name}.add", "add", [result, bias], call.out, call.where)


def _bilinear(call: TorchCall, to: Assembly) -> Tensor:
    """x W_m y for every output m: a product of all x with W [in, out * in'], and for every row one with its y."""
    left, right, weight = (call.arguments[name] for name in ("input1", "input2", "weight"))
    m, i, j = weight.shape
    rows = math.prod(left.shape[:-1])
    turned = to.reshape(f"{call.name}.columns", to.transpose(f"{call.name}.turned", weight, (1, 0, 2), call.where),
                        (i, m * j), call.where)
    first = product(to, f"{call.name}.first", to.reshape(f"{call.name}.left", left, (rows, i), call.where), turned,
                    (rows, m * j), call.where)
    matrices = to.reshape(f"{call.name}.matrices", first, (rows, m, j), call.where)
    columns = to.reshape(f"{call.name}.right", right, (rows, j, 1), call.where)
    second = product(to, call.name, matrices, columns, (rows, m, 1), call.where)
    result = to.reshape(f"{call.name}.shape", second, call.out, call.where)
    bias = call.get("bias", None)
    if bias is None or bias.constant:
        return result
    return to.plain_node(f"{call.name}.add", "add", [result, bias], call.out, call.where)


def _einsum(call: TorchCall, to: Assembly) -> Tensor:
    """Einsum of two tensors; PyTorch takes any other one apart."""
    if not is_plain(call.arguments["equation"]):
        return to.unknown(call.name, f"einsum {call.arguments['equation']}", call.operands, call.out, call.where)
    left, right = call.arguments["tensors"]
    return contraction(to, call.name, call.arguments["equation"], left, right, call.out, call.where)


def _recurrent(call: TorchCall, to: Assembly) -> list[Tensor]:
    """lstm.input, gru.input, rnn_tanh.input, rnn_relu.input: a stack of layers, then the last states."""
    if "input" not in call.arguments:
        return [to.unknown(f"{call.name}.{index}", f"{call.operator} of packed sequences", call.operands, shape,
                           call.where) for index, shape in enumerate(call.shape)]
    data, weights = call.arguments["input"], list(call.arguments["params"])
    first, bidirectional = call.get("batch_first", False), call.get("bidirectional", False)
    projected = call.operator == "lstm" and weights[1].shape[0] != 4 * weights[1].shape[1]
    size = 2 + 2 * bool(call.get("has_biases")) + projected
    sets = [weights[start:start + size] for start in range(0, len(weights), size)]
    directions = [Recurrence(one[0], one[1], one[-1] if projected else None) for one in sets]
    per_layer = 1 + bool(bidirectional)
    layers = [directions[start:start + per_layer] for start in range(0, len(directions), per_layer)]
    steps_first = to.transpose(f"{call.name}.steps", data, (1, 0, 2), call.where) if first else data
    out = recurrent_stack(to, call.name, steps_first, layers, call.where)
    out = to.transpose(f"{call.name}.batch", out, (1, 0, 2), call.where) if first else out
    return [out, *(to.plain_node(f"{call.name}.last{index}", "slice", [out], shape, call.where)
                   for index, shape in enumerate(call.shape[1:]))]


def _attention(call: TorchCall, to: Assembly) -> Tensor:
    """Scaled dot-product attention, whichever kernel PyTorch chose for it."""
    operands = (call.arguments["query"], call.arguments["key"], call.arguments["value"])
    return attention(to, call.name, operands, call.get("attn_mask") or call.get("attn_bias"), call.out, call.where)


LAYERS: dict[str, Callable[[TorchCall, Assembly], Tensor | list[Tensor]]] = {
    **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d", "_convolution", "conv_transpose1d",
                     "conv_transpose2d", "conv_transpose3d"), _convolution),
    "torchvision::deform_conv2d": _deformable,
    "linear": _linear, "bilinear": _bilinear,
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), _added_product),
    **dict.fromkeys(("_grouped_mm", "transformers::grouped_mm_fallback"), _experts),
    "addbmm": _summed_products, "einsum": _einsum,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
                     "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
                     "_scaled_dot_product_cudnn_attention"), _attention),
}
"""Operators with multiply-accumulates -> the function that adds their nodes."""
