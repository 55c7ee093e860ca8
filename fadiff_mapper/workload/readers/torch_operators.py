"""Turns ATen operators into nodes: by tables of names, or by a function where arguments matter.

`LAYERS` holds the operators with multiply-accumulates, `FUNCTIONS` other operators that need arguments, named as in
PyTorch's schemas. PyTorch's tags (pointwise, reduction) decide about operators in no table; the rest is not understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.workload import Window
from fadiff_mapper.workload.node import KIND
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers import assembly, convolutions
from fadiff_mapper.workload.readers.assembly import Assembly, Call, Details, Tensor, by_name
from fadiff_mapper.workload.window_slide import WindowSlide


@dataclass(frozen=True)
class TorchCall(Call):
    """A call of an exported program: an operator of ATen, such as "conv2d", or the full name of another library's."""

    arguments: Mapping[str, Any]  # arguments by name, tensors as values of the assembly
    several: bool = False  # whether it returns a list of results, perhaps of length 1
    tag: str = ""  # PyTorch's tag of the operator: "pointwise", "reduction" or ""
    is_complex: bool = False  # whether its result has complex numbers

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or the default where it is missing or None."""
        value = self.arguments.get(name)
        return default if value is None else value

    def one_of(self, *names: str) -> Any:
        """The argument under the first of these names that the schema has."""
        return next(self.arguments[name] for name in names if name in self.arguments)

    def per_axis(self, name: str, kernel: Shape, default: Any = 1) -> Shape:
        """An argument with a number for each sliding axis of a window; a single number holds for all."""
        value = self.get(name, default)
        values = tuple(value) if isinstance(value, list) else (value,)
        return values * len(kernel) if len(values) == 1 else values


Maker = Callable[[TorchCall], Tensor | list[Tensor]]
"""Adds the nodes of a call and returns its results, or the first of them."""


# Names follow PyTorch's schemas (pytorch, aten/src/ATen/native/native_functions.yaml), without the overload and
# the underscore of in-place variants; operators of other libraries have the library's name in front.

SAME = ("dropout", "feature_dropout", "native_dropout", "alpha_dropout", "contiguous", "clone", "alias", "detach", "to",
        "_to_copy", "type_as", "lift_fresh_copy", "_assert_tensor_metadata", "positive", "float", "resolve_conj",
        "resolve_neg")
"""Operators whose first result is their first tensor."""

FILLS = ("full_like", "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "randint_like", "new_zeros",
         "new_ones", "new_full", "new_empty", "new_empty_strided", "fill", "zero", "bernoulli", "uniform", "normal",
         "exponential", "random", "empty_permuted", "normal_functional")
"""Operators that read only the shape of a tensor: their results are constants."""

NAMES = by_name({
    "softplus": "softplus log_sigmoid log_sigmoid_forward", "clip": "relu6 hardtanh clamp clamp_min clamp_max",
    "leakyrelu": "leaky_relu", "not": "logical_not bitwise_not", "quantize": "torchao::quantize_affine",
    "dequantize": "torchao::dequantize_affine",
    "batchnorm": "batch_norm _native_batch_norm_legit_no_training native_batch_norm",
    "elementwise": "tril triu rrelu rrelu_with_noise bucketize softshrink hardshrink threshold "
                   "fake_quantize_per_tensor_affine quantize_per_tensor quantize_per_channel dequantize int_repr real "
                   "imag _conj _conj_copy _neg_view _neg_view_copy _masked_scale rrelu_with_noise_functional "
                   "fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask "
                   "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams "
                   "_fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_channel_affine "
                   "_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional "
                   "quantized_decomposed::convert_element_type quantized_decomposed::fake_quant_per_channel",
    "sub": "sub rsub", "where": "where masked_fill", "max": "maximum", "min": "minimum",
    "and": "logical_and bitwise_and", "or": "logical_or bitwise_or", "compare": "eq ne lt le gt ge",
    "softmax": "softmax _softmax _safe_softmax", "logsoftmax": "log_softmax _log_softmax",
    "cumsum": "cumsum cumprod logcumsumexp cummax cummin",
    "reduction": "any all prod var std argmax argmin max min logsumexp norm linalg_vector_norm var_mean std_mean "
                 "count_nonzero nansum aminmax",
    "concat": "cat concat stack hstack vstack column_stack",
    "slice": "slice split chunk split_with_sizes unbind select narrow tensor_split unsafe_split unsafe_chunk "
             "unsafe_split_with_sizes",
    "gather": "index index_select gather embedding _embedding_bag roll flip pixel_shuffle channel_shuffle "
              "pixel_unshuffle take take_along_dim rot90 _unsafe_index masked_select block_diag meshgrid diagonal "
              "as_strided grid_sampler grid_sampler_2d grid_sampler_3d torchvision::roi_align torchvision::roi_pool "
              "torchvision::ps_roi_align _unsafe_masked_index",
    "pad": "constant_pad_nd pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
           "replication_pad2d replication_pad3d _pad_circular",
    "expand": "repeat repeat_interleave tile",
    "resize": "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_linear1d "
              "upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
              "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d",
    "scatter": "index_put _index_put_impl _unsafe_index_put scatter scatter_add scatter_reduce index_add index_copy "
               "index_fill index_reduce masked_scatter select_scatter slice_scatter diagonal_scatter "
               "as_strided_scatter put one_hot",
    "sort": "sort topk argsort nonzero nonzero_static unique_consecutive _unique2 unique_dim searchsorted kthvalue "
            "median nanmedian mode multinomial bincount histc torchvision::nms argwhere _local_scalar_dense item",
    "other": "_masked_softmax addr quantize_per_tensor_dynamic _thnn_fused_lstm_cell "
             "_thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell native_norm batch_norm_backward_elemt "
             "batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts "
             "batch_norm_stats batch_norm_update_stats quantized_batch_norm binomial poisson _standard_gamma "
             "_sample_dirichlet fractional_max_pool2d fractional_max_pool3d quantized_max_pool1d quantized_max_pool2d "
             "quantized_max_pool3d _embedding_bag_forward_only embedding_renorm lu_unpack segment_reduce "
             "unique_dim_consecutive _unique histogram _histogramdd_from_bin_cts _histogramdd_from_bin_tensors "
             "_ctc_loss _cudnn_ctc_loss _pack_padded_sequence to_padded_tensor _jagged_to_padded_dense_forward "
             "_padded_dense_to_jagged_forward hash_tensor _stack _fused_adam _fused_adamw _fused_adagrad _fused_sgd "
             "_aminmax _is_all_true _is_any_true _upsample_lanczos2d_aa _functional_assert_async "
             "quantized_decomposed::choose_qparams quantized_decomposed::choose_qparams_symmetric "
             "quantized_decomposed::choose_qparams_per_token "
             "quantized_decomposed::choose_qparams_per_token_asymmetric torchao::choose_qparams_affine",
}) | {name: name for name in (
    "relu", "gelu", "silu", "sigmoid", "tanh", "erf", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "reciprocal",
    "square", "elu", "celu", "selu", "hardsigmoid", "hardswish", "mish", "round", "floor", "ceil", "sin", "cos",
    "prelu", "add", "mul", "div", "pow", "mean", "sum", "amax", "amin")
} | {f"quantized_decomposed::{way}_per_{part}": way for way in ("quantize", "dequantize")
     for part in ("tensor", "channel", "channel_group", "token")
} | {f"{name}_backward": "other" for name in (
    "avg_pool2d", "avg_pool3d", "max_pool2d", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool3d",
    "fractional_max_pool2d", "fractional_max_pool3d", "grid_sampler_2d", "grid_sampler_3d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "masked_scatter", "hardshrink", "softshrink", "_masked_softmax",
    "_weight_norm_interface", "_embedding_bag", "_embedding_bag_dense", "_embedding_bag_per_sample_weights",
    "_fake_quantize_learnable_per_channel_affine", "_fake_quantize_learnable_per_tensor_affine", "_ctc_loss",
    "segment_reduce", "_thnn_fused_gru_cell", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa", "multi_margin_loss", "multilabel_margin_loss")
}
"""ATen operators without multiply-accumulates -> the operation of their node (`node.KINDS`); no tile is followed
through "other". Further operators are known by PyTorch's tags."""


def _pool(call: TorchCall) -> Tensor:
    """A pool over as many axes as the digit in its name (max_pool2d); the default stride is the window. An adaptive
    pool is an ordinary pool where its output size divides the input."""
    rank = int(call.operator[call.operator.index("pool") + 4])
    if "adaptive" in call.operator:
        before, after = call.first.shape[-rank:], call.out[-rank:]
        if any(a % b for a, b in zip(before, after, strict=True)):
            return call.node("resize", [call.first])
        kernel = tuple(a // b for a, b in zip(before, after, strict=True))
        window = Window(kernel, kernel, ((0, 0),) * rank, (1,) * rank)
    else:
        kernel = call.per_axis("kernel_size", (1,) * rank)
        pad = tuple((p, p) for p in call.per_axis("padding", kernel, 0))
        stride = call.per_axis("stride", kernel, []) or kernel
        window = Window(kernel, stride, pad, call.per_axis("dilation", kernel))
    if call.first.shape == call.out and set(kernel) == {1}:
        return call.first
    return call.node("maxpool" if "max" in call.operator else "avgpool", [call.first], window=window)


def _norm(op: str, axes: Callable[[TorchCall], int]) -> Maker:
    """A normalisation over the trailing axes, counted by `axes`."""
    return lambda call: call.node(op, [call.first, *call.scales], tuple(range(-axes(call), 0)))


SWAPPED = {"transpose": ("dim0", "dim1"), "swapdims": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1")}
"""Operators that swap two axes -> the arguments that name them."""


def _transpose(call: TorchCall) -> Tensor:
    """The axes in the order of `permute`, or two of them swapped."""
    rank = len(call.first.shape)
    order = list(range(rank))
    if call.operator == "permute":
        order = [axis % rank for axis in call.arguments["dims"]]
    elif rank > 1:
        a, b = (call.get(name) for name in SWAPPED[call.operator]) if call.operator in SWAPPED else \
            (-2, -1) if call.operator in ("mT", "adjoint") else (0, 1)
        order[a], order[b] = order[b], order[a]
    return call.to.transpose(call.name, call.first, tuple(order))


def _windows(call: TorchCall) -> Tensor:
    """The points in each window of an image, over its last axes (im2col): [N, C, ...] as [N, C * taps, windows]."""
    kernel = tuple(call.arguments["kernel_size"])
    x, lead = call.first, len(call.first.shape) - len(kernel)
    slides = zip(kernel, call.per_axis("stride", kernel), call.per_axis("dilation", kernel),
                 call.per_axis("padding", kernel, 0), strict=True)
    for index, slide in enumerate(slides):
        x = windows(call.to, f"{call.name}.{index}", x, lead + index * 2, WindowSlide(*slide))
    rank = len(x.shape)
    order = (*range(lead), *range(lead + 1, rank, 2), *range(lead, rank, 2))
    return call.to.reshape(call.name, call.to.transpose(f"{call.name}.moved", x, order), call.out)


def _folded(call: TorchCall) -> Tensor:
    """The image from the points of all windows, summed where windows overlap (col2im)."""
    kernel, image, lead = tuple(call.arguments["kernel_size"]), call.out[-2:], call.out[:-2]
    count = tuple(extent // size for extent, size in zip(image, kernel, strict=True))
    covered = tuple(number * size for number, size in zip(count, kernel, strict=True)) == image
    if not covered or (call.per_axis("stride", kernel), call.per_axis("padding", kernel, 0),
                       call.per_axis("dilation", kernel)) != (kernel, (0, 0), (1, 1)):
        return call.node("gather", [call.first])
    apart, first = call.to.reshape(f"{call.name}.apart", call.first, (*lead, *kernel, *count)), len(lead)
    moved = call.to.transpose(f"{call.name}.moved", apart, (*range(first), first + 2, first, first + 3, first + 1))
    return call.to.reshape(call.name, moved, call.out)


def _unfolded(call: TorchCall) -> Tensor:
    """The points in each window along one axis, on a new last axis."""
    rank = len(call.first.shape)
    axis, slide = call.get("dimension", 0) % rank, WindowSlide(call.arguments["size"], call.arguments["step"])
    x = windows(call.to, f"{call.name}.windows", call.first, axis, slide)
    return call.to.transpose(call.name, x, (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1))


def windows(to: Assembly, name: str, x: Tensor, axis: int, slide: WindowSlide) -> Tensor:
    """Cuts an axis of a tensor, padded with zeros, into windows: [..., extent, ...] as [..., windows, points, ...].
    Windows side by side are a reshape; else the points are gathered, for which the whole axis must be there."""
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    count = (extent + 2 * slide.pad - slide.reach(1)) // slide.stride + 1
    flat = (*before, count * slide.kernel, *after)
    if not (count * slide.kernel == extent and slide == WindowSlide(slide.kernel, slide.kernel)) and not x.constant:
        x = to.node(f"{name}.picked", "gather", [x], flat, (axis,))
    return to.reshape(f"{name}.apart", Tensor(flat, x.node), (*before, count, slide.kernel, *after))


FUNCTIONS: dict[str, Maker] = by_name({
    lambda call: call.to.reshape(call.name, call.first, call.out):
        "view reshape _unsafe_view flatten unflatten squeeze unsqueeze ravel atleast_1d atleast_2d atleast_3d "
        "_reshape_alias view_as reshape_as",
    _pool: "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d "
           "avg_pool3d " + " ".join(f"{prefix}adaptive_{kind}_pool{axes}d" for prefix in ("", "_")
                                    for kind in ("avg", "max") for axes in (1, 2, 3)),
    _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])): "layer_norm native_layer_norm",
    _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])): "rms_norm _fused_rms_norm",
    _norm("groupnorm", lambda call: len(call.first.shape) - 1): "group_norm native_group_norm",
    _norm("instancenorm", lambda call: len(call.first.shape) - 2): "instance_norm",
    _transpose: "permute transpose swapaxes swapdims t numpy_T mT adjoint",
    lambda call: call.to.expand(call.name, call.first, call.out): "expand expand_as broadcast_to",
    lambda call: call.to.expand(call.name, call.arguments["src"], call.out): "copy",  # all elements come from `src`
    lambda call: assembly.as_complex(call.to, call.name, call.first): "view_as_complex view_as_complex_copy",
    lambda call: assembly.as_pairs(call.to, call.name, call.first): "view_as_real view_as_real_copy",
    _windows: "im2col", _folded: "col2im", _unfolded: "unfold",
})
"""Operators without multiply-accumulates that need arguments -> the function that adds their nodes."""


def _convolution(call: TorchCall) -> Tensor:
    """A convolution, transposed where its name or the general operator's argument says so."""
    transposed = call.get("transposed", False) or "transpose" in call.operator
    x, weight = call.tensors[:2]
    groups = call.get("groups", 1) if transposed else x.shape[1 - len(weight.shape)] // weight.shape[1]
    return (convolutions.transposed_convolution if transposed else convolutions.convolution)(
        call.to, call.name, x, weight, _window(call, weight), groups, call.out)


def _window(call: TorchCall, weight: Tensor) -> Window:
    """The window of a convolution."""
    kernel, padding = weight.shape[2:], call.get("padding", 0)
    dilation = call.per_axis("dilation", kernel)
    if isinstance(padding, str):  # "same" pads the larger half behind
        spans = [WindowSlide(k, 1, d).reach(1) - 1 if padding == "same" else 0
                 for k, d in zip(kernel, dilation, strict=True)]
        pad = tuple((span // 2, span - span // 2) for span in spans)
    else:
        pad = tuple((p, p) for p in call.per_axis("padding", kernel, 0))
    return Window(kernel, call.per_axis("stride", kernel), pad, dilation)


def _convolution_gradients(call: TorchCall) -> list[Tensor]:
    """The gradients of input, weights and bias."""
    operands = call.tensors[:3]
    if len(operands[2].shape) > 5:
        return call.to.unknown(call.name, call.operator, call.tensors, call.outs)
    return convolutions.convolution_gradients(
        call.to, call.name, operands, _window(call, operands[2]), call.get("groups", 1), call.get("transposed", False),
        call.arguments["output_mask"])


def _product(call: TorchCall) -> Tensor:
    """mm, bmm, matmul, mv, dot."""
    a, b = call.one_of("self", "mat1", "batch1"), call.one_of("mat2", "other", "batch2", "vec", "tensor")
    if a.picked_from and b.shape[-1] == 1:  # [S, out, in] [S, in, 1], a matrix for every row
        rows = call.to.reshape(f"{call.name}.row", b, b.shape[:-1])
        out = assembly.experts(call.to, call.name, rows, (a.picked_from, a.shape[-1], a.shape[-2]), call.out[:-1])
        return call.to.reshape(f"{call.name}.column", out, call.out)
    if b.picked_from:  # [S, n, in] [S, in, out]
        return assembly.experts(call.to, call.name, a, (b.picked_from, b.shape[-2], b.shape[-1]), call.out)
    return call.product(a, b)


def _experts(call: TorchCall) -> Tensor:
    """Grouped products: rows in the order of their experts [S, in] times a weight for each expert [experts, in, out].
    Where both operands have an axis of groups, they are products of a batch."""
    rows, weights = call.tensors[:2]
    if len(rows.shape) == len(weights.shape) == 3:
        return call.product(rows, weights)
    if len(rows.shape) == 2 and len(weights.shape) == 3 and weights.constant:
        count, k, m = weights.shape
        return assembly.experts(call.to, call.name, rows, (count, k, m), call.out)
    # groups of rows, of columns, or of the inner axis
    return call.unknown(rows.shape[-2] * rows.shape[-1] * weights.shape[-1])


def _fourier(call: TorchCall) -> Tensor:
    """A Fourier transform: not understood, but with its multiply-accumulates (`assembly.fourier_macs`)."""
    signal = call.first.shape if call.operator == "_fft_r2c" else call.out
    points = math.prod(signal[axis] for axis in call.arguments["dim"])
    return call.unknown(assembly.fourier_macs(points, math.prod(signal) // points, call.operator != "_fft_c2c"))


def _summed_products(call: TorchCall) -> Tensor:
    """addbmm: the sum of a batch of products is one product, with the batch as part of the inner axis."""
    to, a, b = call.to, call.arguments["batch1"], call.arguments["batch2"]
    (batch, n, k), m = a.shape, b.shape[-1]
    rows = to.reshape(f"{call.name}.rows", to.transpose(f"{call.name}.left", a, (1, 0, 2)), (n, batch * k))
    columns = to.reshape(f"{call.name}.columns", b, (batch * k, m))
    return call.plus(call.product(rows, columns), call.arguments["self"])


def _bilinear(call: TorchCall) -> Tensor:
    """x W_m y for every output m: one product of all x with W [in, out * in'], then one product per row with its y."""
    to, name = call.to, call.name
    left, right, weight = (call.arguments[key] for key in ("input1", "input2", "weight"))
    (m, i, j), rows = weight.shape, math.prod(left.shape[:-1])
    turned = to.reshape(f"{name}.columns", to.transpose(f"{name}.turned", weight, (1, 0, 2)), (i, m * j))
    first = assembly.product(to, f"{name}.first", to.reshape(f"{name}.left", left, (rows, i)), turned, (rows, m * j))
    matrices = to.reshape(f"{name}.matrices", first, (rows, m, j))
    second = assembly.product(to, name, matrices, to.reshape(f"{name}.right", right, (rows, j, 1)), (rows, m, 1))
    return call.plus(to.reshape(f"{name}.shape", second, call.out), call.get("bias"))


COMPLEX = {"mm": "nk,km->nm", "bmm": "bnk,bkm->bnm", "mv": "nk,k->n", "dot": "k,k->", "vdot": "k,k->",
           "linear": "...k,mk->...m", "addmm": "nk,km->nm", "baddbmm": "bnk,bkm->bnm", "addmv": "nk,k->n"}
"""Operators that are understood for complex numbers, besides matmul and einsum -> their equation."""


def _complex_product(call: TorchCall) -> Tensor | list[Tensor]:
    """A product of complex numbers; any other operator on them is not understood, with four real products for each."""
    added = call.operator.startswith(("addm", "badd"))
    operands = call.tensors[1:3] if added else call.tensors
    if call.operator == "matmul":
        left, right = (len(tensor.shape) > 1 for tensor in operands)
        equation = (f"{'...n' if left else ''}k,{'...km' if right else 'k'}->"
                    f"{'...' if left or right else ''}{'n' if left else ''}{'m' if right else ''}")
    else:
        equation = str(call.arguments["equation"]) if call.operator == "einsum" else COMPLEX.get(call.operator, "")
    if "->" in equation:
        result = assembly.complex_einsum(call.to, call.name, equation, operands[:equation.count(",") + 1], call.out)
        return call.plus(result, call.arguments["self"]) if len(operands) < len(call.tensors) else result
    inner = Assembly(call.to.where)
    LAYERS[call.operator](replace(call, to=inner))
    return call.to.unknown(call.name, f"complex {call.operator}", call.tensors, call.outs, 4 * inner.macs)


def _recurrent(call: TorchCall) -> list[Tensor]:
    """lstm.input, gru.input, rnn_tanh.input, rnn_relu.input: a stack of layers; results are the output, last states."""
    to, name = call.to, call.name
    if "input" not in call.arguments:
        return to.unknown(name, f"{call.operator} of packed sequences", call.tensors, call.outs)
    data, weights, first = call.arguments["input"], list(call.arguments["params"]), call.get("batch_first", False)
    projected = call.operator == "lstm" and weights[1].shape[0] != 4 * weights[1].shape[1]
    size, ways = 2 + 2 * bool(call.get("has_biases")) + projected, 1 + bool(call.get("bidirectional"))
    sets = [weights[start:start + size] for start in range(0, len(weights), size)]
    directions = [[*one[:2], *(one[-1:] if projected else [])] for one in sets]
    layers = [directions[start:start + ways] for start in range(0, len(directions), ways)]
    steps = to.transpose(f"{name}.steps", data, (1, 0, 2)) if first else data
    out = convolutions.recurrent_stack(to, name, steps, layers)
    out = to.transpose(f"{name}.batch", out, (1, 0, 2)) if first else out
    return [out, *(to.node(f"{name}.last{index}", "slice", [out], shape) for index, shape in enumerate(call.outs[1:]))]


KERNELS = ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention",
           "fused_attention_overrideable")
"""Kernels of attention that PyTorch chooses from."""


def _attention(call: TorchCall) -> Tensor:
    """Scaled dot-product attention, for each of PyTorch's kernels."""
    operands = [call.arguments[name] for name in ("query", "key", "value")]
    alike = operands[0].shape[-2] == operands[1].shape[-2]  # else PyTorch's mask begins with the first key
    return assembly.attention(call.to, call.name, operands, call.get("attn_mask") or call.get("attn_bias"), call.out,
                              alike and call.get("is_causal", False))


LAYERS: dict[str, Maker] = by_name({
    _convolution: "convolution conv1d conv2d conv3d _convolution conv_transpose1d conv_transpose2d conv_transpose3d "
                  "convolution_overrideable cudnn_convolution cudnn_convolution_transpose miopen_convolution "
                  "miopen_convolution_transpose miopen_depthwise_convolution mkldnn_convolution _mps_convolution "
                  "_mps_convolution_transpose conv_depthwise3d _conv_depthwise2d slow_conv_dilated2d "
                  "slow_conv_dilated3d _nnpack_spatial_convolution",
    _convolution_gradients: "convolution_backward convolution_backward_overrideable",
    lambda call: convolutions.deformable_convolution(
        call, call.arguments["weight"], call.first.shape[1] // call.arguments["weight"].shape[1]):
        "torchvision::deform_conv2d",
    _bilinear: "bilinear",
    lambda call: assembly.linear(call.to, call.name, *call.tensors[:2]):
        "linear mkldnn_linear _weight_int8pack_mm",
    _product: "mm bmm matmul mv dot vdot _int_mm _scaled_mm _scaled_mm_v2",
    lambda call: call.plus(call.product(call.one_of("mat1", "batch1", "mat"), call.one_of("mat2", "batch2", "vec")),
                           call.arguments["self"]): "addmm baddbmm addmv _addmm_activation",
    _summed_products: "addbmm",
    _experts: "_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2 transformers::grouped_mm_fallback",
    TorchCall.packed_product: "_weight_int4pack_mm _weight_int4pack_mm_for_cpu "
                              "_weight_int4pack_mm_with_scales_and_zeros _dyn_quant_matmul_4bit _mixed_dtypes_linear "
                              "_sparse_semi_structured_linear",
    _fourier: "_fft_c2c _fft_r2c _fft_c2r", _recurrent: "lstm gru rnn_tanh rnn_relu",
    lambda call: assembly.einsum(call.to, call.name, call.arguments["equation"], call.arguments["tensors"],
                                 call.out): "einsum",
    _attention: "scaled_dot_product_attention " + " ".join(f"_scaled_dot_product_{kernel}" for kernel in (
        *KERNELS, "attention_math", "attention_math_for_mps")),
    lambda call: [*convolutions.attention_gradients(call.to, call.name, call.tensors[0], call.tensors[1:4]),
                  *call.constants[3:]]:   # gradients of masks are constants
        " ".join(f"_scaled_dot_product_{kernel}_backward" for kernel in KERNELS),
})
"""Operators with multiply-accumulates -> the function that adds their nodes."""

TRAINED = ("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update",
           "_batch_norm_with_update_functional", "cudnn_batch_norm", "miopen_batch_norm")
"""Batch norms that take mean and variance of the batch: networks in training mode."""


def has_name(operator: str, tag: str) -> bool:
    """Whether `understood` knows an operator, by name or by PyTorch's tag, without decomposition by PyTorch."""
    return bool(tag) or any(operator in table for table in (SAME, FILLS, NAMES, LAYERS, FUNCTIONS))


def understood(call: TorchCall) -> list[Tensor]:
    """Adds the nodes of one call, `not_understood` where no table has the operator, and returns its results.
    Results behind the first are constants where later nodes get no data from them."""
    name = call.operator
    op = NAMES.get(name, {"pointwise": "elementwise", "reduction": "other"}.get(call.tag, ""))
    kind = KIND.get(op)
    made: Tensor | list[Tensor]
    if name in SAME:
        made = call.first
    elif name in FILLS:
        made = call.constants
    elif name in TRAINED or (name in ("batch_norm", "native_batch_norm") and call.get("training")):
        # every channel needs the whole batch and all points
        made = call.node("batchstatistics", [call.first], (0, *range(2, len(call.first.shape))))
    elif name in LAYERS and call.is_complex and not name.startswith("_fft"):
        made = _complex_product(call)
    elif name in LAYERS or name in FUNCTIONS:
        made = (LAYERS.get(name) or FUNCTIONS[name])(call)
    elif kind in ("pointwise", "join") or call.tag == "pointwise":  # such as the maximum of two tensors
        made = call.pointwise(op if kind in ("pointwise", "join") else "elementwise")
    elif kind in ("rows", "reduce"):
        made = _each(call, _over_axes, op)
    elif op:
        made = _each(call, _picked, op)
    else:
        made = call.to.unknown(call.name, name, call.tensors, call.outs)
    return made if isinstance(made, list) else [made, *call.constants[1:]]


def _each(call: TorchCall, make: Callable[[TorchCall, str, str, int], Tensor], op: str) -> list[Tensor]:
    """A tensor for every result of a call, made from the call, the operation and name of its node, and its number."""
    return [make(call, op, f"{call.name}.{index}" if call.several else call.name, index)
            for index in range(len(call.outs))]


def _picked(call: TorchCall, op: str, name: str, index: int) -> Tensor:
    """One of several results that pick or concatenate elements; no opaque node where all elements are picked."""
    shape, first = call.outs[index] or (), call.first
    filled = [tensor for tensor in call.tensors if math.prod(tensor.shape)]
    if op in ("slice", "pad", "expand", "concat") and len(filled) == 1 and shape == filled[0].shape:
        return filled[0]
    if op == "slice" and math.prod(shape) == math.prod(first.shape):
        return call.to.reshape(name, first, shape)
    result = call.to.node(name, op, call.tensors, shape, what=call.operator, **_details(call, op, index))
    if result.node and (call.operator in SUMMING or call.arguments.get("accumulate") or call.tag == "reduction"):
        call.to.summing.add(result.node)
    matrices = call.operator in ("index", "index_select") and first.constant and len(first.shape) == len(shape) == 3
    return replace(result, picked_from=first.shape[0]) if matrices else result


SUMMING = ("scatter_add", "scatter_reduce", "index_add", "index_reduce", "_embedding_bag", "_upsample_bilinear2d_aa",
           "_upsample_bicubic2d_aa")
"""Operators that sum the elements that they gather or scatter; operators with `accumulate` do so, too."""

def _details(call: TorchCall, op: str, index: int) -> Details:
    """The details, beside the shapes, of how a result of a call picks, pads or resizes elements."""
    name, before, after = call.operator, call.first.shape, call.outs[index] or ()
    rank, dim = len(before), call.arguments.get("dim")
    by_constants = all(tensor.constant for tensor in call.tensors[1:])
    if name in ("slice", "select", "narrow", "slice_scatter") and rank:
        start = call.arguments.get("start", call.arguments.get("index"))
        return assembly.taken(before, assembly.axis_of(dim, rank), start, call.arguments.get("step"))
    if op == "slice" and rank:  # split and the like: one part of an axis after the other
        axis = assembly.axis_of(dim, rank)
        earlier = (1 if name == "unbind" or out is None else out[axis] for out in call.outs[:index])
        return assembly.taken(before, axis, sum(earlier), 1)
    if name == "stack":
        return {"axes": (assembly.axis_of(dim, rank + 1),)}
    if name in ("roll", "flip") or (name == "index_select" and by_constants):
        dims = call.arguments.get("dims", dim)
        listed = list(dims) if isinstance(dims, list | tuple) else [dims or 0]
        return {"axes": tuple(sorted({assembly.axis_of(dim, rank) for dim in listed or range(rank)}))}
    if name == "index" and by_constants and len(after) == rank:
        indices = call.arguments.get("indices") or []
        return {"axes": tuple(axis for axis, index in enumerate(indices) if index is not None)}
    if name in ("constant_pad_nd", "pad") and call.arguments.get("mode") in (None, "constant"):
        pads = list(call.arguments.get("pad") or ())  # (before, after) from the last axis on
        return assembly.padding(rank, list(zip(pads[::2], pads[1::2], strict=True))[::-1])
    if name.startswith("upsample_nearest"):
        return assembly.nearest(rank - 2)
    if name == "upsample_bilinear2d" and not call.arguments.get("align_corners"):
        return assembly.bilinear(before, after)
    return {}


def _over_axes(call: TorchCall, op: str, name: str, index: int) -> Tensor:
    """A node that needs whole rows along the argument `dim`: one axis, several axes, or by default all."""
    rank, shape = len(call.first.shape), call.outs[index]
    if not rank:
        return call.to.node(name, "elementwise", [call.first], shape, what=call.operator)
    dim = call.get("dim", list(range(rank)))
    axes = (tuple(dim) if isinstance(dim, list) else (dim,)) or tuple(range(rank))
    return call.to.node(name, op, [call.first], shape, axes, call.operator)
