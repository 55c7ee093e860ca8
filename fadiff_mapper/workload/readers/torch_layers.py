"""ATen operators with multiply-accumulates: name -> the function that adds their nodes (`LAYERS`).

Arguments have the names of PyTorch's schemas.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, fourier_macs, linear, product
from fadiff_mapper.workload.readers.complex_numbers import complex_einsum
from fadiff_mapper.workload.readers.convolutions import (
    Pads,
    Sliding,
    convolution,
    deformable_convolution,
    transposed_convolution,
)
from fadiff_mapper.workload.readers.einsum import einsum
from fadiff_mapper.workload.readers.experts import experts
from fadiff_mapper.workload.readers.gradients import attention_gradients, convolution_gradients
from fadiff_mapper.workload.readers.recurrent import Recurrence, recurrent_stack
from fadiff_mapper.workload.readers.torch_call import TorchCall, per_axis
from fadiff_mapper.workload.window_slide import WindowSlide


def _convolution(call: TorchCall, to: Assembly) -> Tensor:
    """A convolution, transposed where its name or the general operator's argument says so."""
    transposed = call.get("transposed", False) or "transpose" in call.operator
    x, weight = call.operands[:2]
    make = transposed_convolution if transposed else convolution
    groups = call.get("groups", 1) if transposed else x.shape[1 - len(weight.shape)] // weight.shape[1]
    return make(to, call.name, x, weight, _sliding(call, weight, groups), call.out, call.where)


def _sliding(call: TorchCall, weight: Tensor, groups: int) -> Sliding:
    """The movement of a convolution's kernel."""
    kernel = weight.shape[2:]
    stride, dilation = per_axis(call.get("stride", 1), kernel), per_axis(call.get("dilation", 1), kernel)
    padding = call.get("padding", 0)
    if isinstance(padding, str):  # "same" pads the larger half behind
        spans = [WindowSlide(k, 1, d).reach(1) - 1 if padding == "same" else 0
                 for k, d in zip(kernel, dilation, strict=True)]
        pad: Pads = tuple((span // 2, span - span // 2) for span in spans)
    else:
        pad = tuple((p, p) for p in per_axis(padding, kernel))
    return Sliding(stride, pad, dilation, groups)


def _convolution_gradients(call: TorchCall, to: Assembly) -> list[Tensor]:
    """The gradients of input, weights and bias."""
    gradient, x, weight = call.operands[:3]
    if len(weight.shape) > 5:
        return to.unknown(call.name, call.operator, call.operands, call.shape, call.where)
    return convolution_gradients(to, call.name, (gradient, x, weight), _sliding(call, weight, call.get("groups", 1)),
                                 call.get("transposed", False), call.arguments["output_mask"], call.where)


def _deformable(call: TorchCall, to: Assembly) -> Tensor:
    """A convolution whose points are picked by computed offsets."""
    weight = call.arguments["weight"]
    groups = call.first.shape[1] // weight.shape[1]
    return deformable_convolution(to, call.name, call.operands, weight, groups, call.out, call.where)


def _linear(call: TorchCall, to: Assembly) -> Tensor:
    """A product with the transpose of a weight."""
    return linear(to, call.name, call.operands[0], call.operands[1], call.out, call.where)


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
    """Products of groups, of which one axis holds all: rows in the order of their experts [S, in], and a weight for
    each expert [experts, in, out]. With an axis for the groups on both sides they are products of a batch."""
    rows, weights = call.operands[:2]
    if len(rows.shape) == len(weights.shape) == 3:
        return product(to, call.name, rows, weights, call.out, call.where)
    if len(rows.shape) == 2 and len(weights.shape) == 3 and weights.constant:
        return experts(to, call.name, rows, (weights.shape[0], weights.shape[1], weights.shape[2]), call.out,
                       call.where)
    macs = rows.shape[-2] * rows.shape[-1] * weights.shape[-1]  # groups of rows, of columns, or of the inner axis
    return to.unknown(call.name, call.operator, call.operands, [call.out], call.where, macs)[0]


def _packed_product(call: TorchCall, to: Assembly) -> Tensor:
    """A product with weights whose words hold several numbers each, in an order of the kernel's own."""
    x, packed = call.operands[:2]
    k, m = x.shape[-1], call.out[-1]
    weight = Tensor((k, m)) if packed.constant else to.plain_node(f"{call.name}.unpacked", "other", [packed], (k, m),
                                                                  call.where, what="unpacked weights")
    return product(to, call.name, x, weight, call.out, call.where)


def _fourier(call: TorchCall, to: Assembly) -> Tensor:
    """A Fourier transform, which is named with its multiply-accumulates (`assembly.fourier_macs`)."""
    signal = call.first.shape if call.operator == "_fft_r2c" else call.out
    points = math.prod(signal[axis] for axis in call.arguments["dim"])
    macs = fourier_macs(points, math.prod(signal) // points, call.operator != "_fft_c2c")
    return to.unknown(call.name, call.operator, call.operands, [call.out], call.where, macs)[0]


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


COMPLEX = {"mm": "nk,km->nm", "bmm": "bnk,bkm->bnm", "mv": "nk,k->n", "dot": "k,k->", "vdot": "k,k->",
           "linear": "...k,mk->...m", "addmm": "nk,km->nm", "baddbmm": "bnk,bkm->bnm", "addmv": "nk,k->n"}
"""Products of complex numbers that are counted -> their equation; matmul and einsum besides."""


def complex_product(call: TorchCall, to: Assembly) -> Tensor | list[Tensor]:
    """A product of complex numbers; any other operator on them is named with four multiply-accumulates for each.

    Args:
        call: a call of an operator of `LAYERS`.
        to: the network.
    """
    operands = call.operands[1:3] if call.operator.startswith(("addm", "badd")) else call.operands
    if call.operator == "matmul":
        left, right = (len(tensor.shape) > 1 for tensor in operands)
        equation = (f"{'...n' if left else ''}k,{'...km' if right else 'k'}->"
                    f"{'...' if left or right else ''}{'n' if left else ''}{'m' if right else ''}")
    else:
        equation = str(call.arguments["equation"]) if call.operator == "einsum" else COMPLEX.get(call.operator, "")
    if "->" in equation:
        result = complex_einsum(to, call.name, equation, operands[:equation.count(",") + 1], call.out, call.where)
        return result if len(operands) == len(call.operands) else _plus(call, to, result)
    alone = Assembly()
    LAYERS[call.operator](call, alone)
    return to.unknown(call.name, f"complex {call.operator}", call.operands,
                      call.shape if isinstance(call.shape, list) else [call.shape], call.where, 4 * alone.macs)


def _einsum(call: TorchCall, to: Assembly) -> Tensor:
    """Einsum of any number of tensors."""
    return einsum(to, call.name, call.arguments["equation"], call.arguments["tensors"], call.out, call.where)


def _recurrent(call: TorchCall, to: Assembly) -> list[Tensor]:
    """lstm.input, gru.input, rnn_tanh.input, rnn_relu.input: a stack of layers, then the last states."""
    if "input" not in call.arguments:
        return to.unknown(call.name, f"{call.operator} of packed sequences", call.operands, call.shape, call.where)
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


def _attention_gradients(call: TorchCall, to: Assembly) -> list[Tensor]:
    """The gradients of queries, keys and values; those of masks carry nothing on."""
    gradient, *operands = call.operands[:4]
    q, k, v = operands
    return [*attention_gradients(to, call.name, gradient, (q, k, v), call.where),
            *(Tensor(shape) for shape in call.shape[3:])]


def _attention(call: TorchCall, to: Assembly) -> Tensor:
    """Scaled dot-product attention, whichever kernel PyTorch chose for it."""
    operands = (call.arguments["query"], call.arguments["key"], call.arguments["value"])
    return attention(to, call.name, operands, call.get("attn_mask") or call.get("attn_bias"), call.out, call.where)


LAYERS: dict[str, Callable[[TorchCall, Assembly], Tensor | list[Tensor]]] = {
    **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d", "_convolution", "conv_transpose1d",
                     "conv_transpose2d", "conv_transpose3d", "convolution_overrideable", "cudnn_convolution",
                     "cudnn_convolution_transpose", "miopen_convolution", "miopen_convolution_transpose",
                     "miopen_depthwise_convolution", "mkldnn_convolution", "_mps_convolution",
                     "_mps_convolution_transpose", "conv_depthwise3d", "_conv_depthwise2d", "slow_conv_dilated2d",
                     "slow_conv_dilated3d", "_nnpack_spatial_convolution"), _convolution),
    **dict.fromkeys(("convolution_backward", "convolution_backward_overrideable"), _convolution_gradients),
    "torchvision::deform_conv2d": _deformable,
    **dict.fromkeys(("linear", "mkldnn_linear", "_weight_int8pack_mm"), _linear), "bilinear": _bilinear,
    **dict.fromkeys(("mm", "bmm", "matmul", "mv", "dot", "vdot", "_int_mm", "_scaled_mm", "_scaled_mm_v2"), _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), _added_product),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2", "transformers::grouped_mm_fallback"),
                    _experts),
    **dict.fromkeys(("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros",
                     "_dyn_quant_matmul_4bit", "_mixed_dtypes_linear", "_sparse_semi_structured_linear"),
                    _packed_product),
    **dict.fromkeys(("_fft_c2c", "_fft_r2c", "_fft_c2r"), _fourier),
    "addbmm": _summed_products, "einsum": _einsum,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
                     "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
                     "_scaled_dot_product_cudnn_attention", "_scaled_dot_product_fused_attention_overrideable",
                     "_scaled_dot_product_attention_math", "_scaled_dot_product_attention_math_for_mps"), _attention),
    **dict.fromkeys((f"_scaled_dot_product_{kernel}_backward" for kernel in (
        "flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention",
        "fused_attention_overrideable")), _attention_gradients),
}
"""Operators with multiply-accumulates -> the function that adds their nodes."""
