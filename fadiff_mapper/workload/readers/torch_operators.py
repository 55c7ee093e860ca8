"""Turns ATen operators into nodes: by the tables of `torch_names`, or by a function where arguments matter.

`torch_layers.LAYERS` holds the operators with multiply-accumulates, `torch_between.FUNCTIONS` others that need
arguments. Operators in no table are taken by PyTorch's own tags (pointwise, reduction); the rest become nodes that are
not understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.node import GENERIC
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import (
    Assembly,
    Tensor,
    as_complex,
    as_pairs,
    attention,
    complex_einsum,
    einsum,
    experts,
    fourier_macs,
    linear,
    product,
)
from fadiff_mapper.workload.readers.convolutions import (
    Pads,
    Recurrence,
    Sliding,
    attention_gradients,
    convolution,
    convolution_gradients,
    deformable_convolution,
    recurrent_stack,
    transposed_convolution,
)
from fadiff_mapper.workload.readers.picked_details import torch_details
from fadiff_mapper.workload.window_slide import WindowSlide


@dataclass(frozen=True)
class TorchCall:
    """A call of an exported program.

    Attributes:
        operator: its ATen operator, such as "conv2d"; the full name for operators of others.
        name: name for the node.
        arguments: arguments by name, tensors as values of the assembly.
        operands: the tensors among them, in order.
        shape: shape of the result, a list of shapes where it has several.
        where: place in the program, for messages.
        tag: PyTorch's tag of the operator: "pointwise", "reduction" or "".
        is_complex: whether its result has complex numbers.
    """

    operator: str
    name: str
    arguments: Mapping[str, Any]
    operands: Sequence[Tensor]
    shape: Any
    where: Where
    tag: str = ""
    is_complex: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or the default where it is missing or None."""
        value = self.arguments.get(name)
        return default if value is None else value

    @property
    def first(self) -> Tensor:
        """The first tensor among the arguments."""
        return self.operands[0]

    @property
    def out(self) -> Shape:
        """The shape of the result, of the first where there are several."""
        shape: Shape = self.shape[0] if isinstance(self.shape, list) else self.shape
        return shape


def per_axis(value: Any, kernel: Shape) -> Shape:
    """A number per sliding axis; a single number holds for all.

    Args:
        value: a number, or a list of one or several.
        kernel: extents of the window, one per sliding axis.
    """
    values = tuple(value) if isinstance(value, list) else (value,)
    return values * len(kernel) if len(values) == 1 else values


# Names are those of PyTorch's schemas (pytorch, aten/src/ATen/native/native_functions.yaml), without the overload and
# the underscore of in-place variants; operators of other libraries have theirs in front.

SAME = ("dropout", "feature_dropout", "native_dropout", "alpha_dropout", "contiguous", "clone", "alias", "detach", "to",
        "_to_copy", "type_as", "lift_fresh_copy", "_assert_tensor_metadata", "positive", "float", "resolve_conj",
        "resolve_neg")
"""Operators whose first result is their first tensor."""

RESHAPES = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "atleast_1d",
            "atleast_2d", "atleast_3d", "_reshape_alias", "view_as", "reshape_as")
"""Operators that keep elements and their order."""

FILLS = ("full_like", "zeros_like", "ones_like", "empty_like", "rand_like", "randn_like", "randint_like", "new_zeros",
         "new_ones", "new_full", "new_empty", "new_empty_strided", "fill", "zero", "bernoulli", "uniform", "normal",
         "exponential", "random", "empty_permuted", "normal_functional")
"""Operators that take a shape from a tensor, and no data: constants."""

POINTWISE = {
    **{name: name for name in ("relu", "gelu", "silu", "sigmoid", "tanh", "erf", "exp", "log", "sqrt", "rsqrt", "neg",
                               "abs", "reciprocal", "square", "elu", "celu", "selu", "softplus", "hardsigmoid",
                               "hardswish", "mish", "round", "floor", "ceil", "sin", "cos", "prelu")},
    "relu6": "clip", "hardtanh": "clip", "clamp": "clip", "clamp_min": "clip", "clamp_max": "clip",
    "leaky_relu": "leakyrelu", "logical_not": "not", "bitwise_not": "not", "batch_norm": "batchnorm",
    "_native_batch_norm_legit_no_training": "batchnorm", "native_batch_norm": "batchnorm",
    "log_sigmoid": "softplus", "log_sigmoid_forward": "softplus",
    **{f"quantized_decomposed::{way}_per_{part}": way for way in ("quantize", "dequantize")
       for part in ("tensor", "channel", "channel_group", "token")},
    "torchao::quantize_affine": "quantize", "torchao::dequantize_affine": "dequantize",
}
"""Pointwise operators -> their names here."""

ELEMENTWISE = ("tril", "triu", "rrelu", "rrelu_with_noise", "bucketize", "softshrink", "hardshrink",
               "threshold", "fake_quantize_per_tensor_affine", "quantize_per_tensor", "quantize_per_channel",
               "dequantize", "int_repr", "real", "imag", "_conj", "_conj_copy", "_neg_view", "_neg_view_copy",
               "_masked_scale", "rrelu_with_noise_functional", "fake_quantize_per_tensor_affine_cachemask",
               "fake_quantize_per_channel_affine_cachemask",
               "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
               "_fake_quantize_learnable_per_tensor_affine", "_fake_quantize_learnable_per_channel_affine",
               "_fused_moving_avg_obs_fq_helper", "_fused_moving_avg_obs_fq_helper_functional",
               "quantized_decomposed::convert_element_type", "quantized_decomposed::fake_quant_per_channel")
"""Pointwise operators that PyTorch does not tag as such."""

JOINS = {
    **{name: name for name in ("add", "sub", "mul", "div", "pow", "where")},
    "rsub": "sub", "maximum": "max", "minimum": "min", "masked_fill": "where", "logical_and": "and",
    "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "compare"),
}
"""Operators that join tensors point by point -> their names here."""

OPAQUE = {
    **dict.fromkeys(("cat", "concat", "stack", "hstack", "vstack", "column_stack"), "concat"),
    **dict.fromkeys(("slice", "split", "chunk", "split_with_sizes", "unbind", "select", "narrow", "tensor_split",
                     "unsafe_split", "unsafe_chunk", "unsafe_split_with_sizes"), "slice"),
    **dict.fromkeys(("index", "index_select", "gather", "embedding", "_embedding_bag", "roll", "flip", "pixel_shuffle",
                     "channel_shuffle", "pixel_unshuffle", "take", "take_along_dim", "rot90",
                     "_unsafe_index", "masked_select",
                     "block_diag", "meshgrid", "diagonal", "as_strided", "grid_sampler", "grid_sampler_2d",
                     "grid_sampler_3d", "torchvision::roi_align", "torchvision::roi_pool", "torchvision::ps_roi_align",
                     "_unsafe_masked_index"), "gather"),
    **dict.fromkeys(("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
                     "replication_pad1d", "replication_pad2d", "replication_pad3d", "_pad_circular"), "pad"),
    **dict.fromkeys(("repeat", "repeat_interleave", "tile"), "expand"),
    **dict.fromkeys(("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_bilinear2d",
                     "upsample_linear1d", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bicubic2d_aa",
                     "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
                     "_upsample_nearest_exact3d"), "resize"),
    **dict.fromkeys(("index_put", "_index_put_impl", "_unsafe_index_put", "scatter", "scatter_add", "scatter_reduce",
                     "index_add", "index_copy", "index_fill", "index_reduce", "masked_scatter", "select_scatter",
                     "slice_scatter", "diagonal_scatter", "as_strided_scatter", "put",
                     "one_hot"), "scatter"),
    **dict.fromkeys(("sort", "topk", "argsort", "nonzero", "nonzero_static", "unique_consecutive", "_unique2",
                     "unique_dim", "searchsorted", "kthvalue", "median", "nanmedian", "mode", "multinomial", "bincount",
                     "histc", "torchvision::nms", "argwhere", "_local_scalar_dense", "item"), "sort"),
}
"""Operators that pick, repeat or put together elements -> their names here."""

OTHERS = frozenset((
    *(f"{name}_backward" for name in (
        "avg_pool2d", "avg_pool3d", "max_pool2d", "max_pool2d_with_indices", "max_pool3d_with_indices",
        "adaptive_max_pool2d", "adaptive_max_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
        "adaptive_avg_pool3d", "fractional_max_pool2d", "fractional_max_pool3d", "grid_sampler_2d", "grid_sampler_3d",
        "replication_pad1d", "replication_pad2d", "replication_pad3d", "masked_scatter", "hardshrink", "softshrink",
        "_masked_softmax", "_weight_norm_interface", "_embedding_bag", "_embedding_bag_dense",
        "_embedding_bag_per_sample_weights", "_fake_quantize_learnable_per_channel_affine",
        "_fake_quantize_learnable_per_tensor_affine", "_ctc_loss", "segment_reduce", "_thnn_fused_gru_cell",
        "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d",
        "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
        "multi_margin_loss", "multilabel_margin_loss")),
    "_masked_softmax", "addr", "quantize_per_tensor_dynamic", "_thnn_fused_lstm_cell",
    "_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell", "native_norm", "batch_norm_backward_elemt",
    "batch_norm_backward_reduce", "batch_norm_elemt", "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts",
    "batch_norm_stats", "batch_norm_update_stats", "quantized_batch_norm",
    "binomial", "poisson", "_standard_gamma", "_sample_dirichlet", "fractional_max_pool2d", "fractional_max_pool3d",
    "quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d", "_embedding_bag_forward_only",
    "embedding_renorm", "lu_unpack", "segment_reduce", "unique_dim_consecutive", "_unique", "histogram",
    "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors", "_ctc_loss", "_cudnn_ctc_loss",
    "_pack_padded_sequence", "to_padded_tensor", "_jagged_to_padded_dense_forward",
    "_padded_dense_to_jagged_forward", "hash_tensor", "_stack",
    "_fused_adam", "_fused_adamw", "_fused_adagrad", "_fused_sgd", "_aminmax", "_is_all_true", "_is_any_true",
    "_upsample_lanczos2d_aa", "_functional_assert_async",
    "quantized_decomposed::choose_qparams", "quantized_decomposed::choose_qparams_symmetric",
    "quantized_decomposed::choose_qparams_per_token", "quantized_decomposed::choose_qparams_per_token_asymmetric",
    "torchao::choose_qparams_affine",
))
"""Further operators without multiply-accumulates, through which no tile is followed."""

ROWS = {"softmax": "softmax", "_softmax": "softmax", "log_softmax": "logsoftmax", "_log_softmax": "logsoftmax",
        "_safe_softmax": "softmax", "cumsum": "cumsum", "cumprod": "cumsum", "logcumsumexp": "cumsum",
        "cummax": "cumsum", "cummin": "cumsum"}
"""Operators that need whole rows -> their names here."""

REDUCE = {"mean": "mean", "sum": "sum", "amax": "amax", "amin": "amin"}
"""Reductions -> their names here; PyTorch tags all others."""

FURTHER_REDUCTIONS = ("any", "all", "prod", "var", "std", "argmax", "argmin", "max", "min", "logsumexp", "norm",
                      "linalg_vector_norm", "var_mean", "std_mean", "count_nonzero", "nansum", "aminmax")
"""Reductions without a name of their own here."""


# Arguments have the names of PyTorch's schemas.

def _pool(call: TorchCall, to: Assembly) -> Tensor:
    """A pool; without a stride its windows stand side by side."""
    op = "maxpool" if call.operator.startswith("max") else "avgpool"
    kernel = per_axis(call.arguments["kernel_size"], (1,) * _pool_rank(call))
    stride = per_axis(call.get("stride") or list(kernel), kernel)
    pad = tuple((p, p) for p in per_axis(call.get("padding", 0), kernel))
    return _windowed(call, to, op, Window(kernel, stride, pad, per_axis(call.get("dilation", 1), kernel)))


def _pool_rank(call: TorchCall) -> int:
    """The number of sliding axes: the digit in max_pool2d."""
    return int(call.operator[call.operator.index("pool") + 4])


def _adaptive_pool(call: TorchCall, to: Assembly) -> Tensor:
    """A pool to a given size: an ordinary one where it divides the input."""
    rank = _pool_rank(call)
    before, after = call.first.shape[-rank:], call.out[-rank:]
    if any(a % b for a, b in zip(before, after, strict=True)):
        return to.plain_node(call.name, "resize", [call.first], call.out, call.where)
    kernel = tuple(a // b for a, b in zip(before, after, strict=True))
    op = "maxpool" if "max" in call.operator else "avgpool"
    return _windowed(call, to, op, Window(kernel, kernel, ((0, 0),) * rank, (1,) * rank))


def _windowed(call: TorchCall, to: Assembly, op: str, window: Window) -> Tensor:
    """A node with a window, unless each window is one point."""
    if call.first.shape == call.out and set(window.kernel) == {1}:
        return call.first
    assert call.first.node
    return to.put(Node(call.name, op, (call.first.node,), call.out, window=window, where=call.where))


def _norm(op: str, axes: Callable[[TorchCall], int]) -> Callable[[TorchCall, Assembly], Tensor]:
    """A normalisation over the trailing axes, counted by `axes`."""
    def make(call: TorchCall, to: Assembly) -> Tensor:
        return to.plain_node(call.name, op, [call.first], call.out, call.where, tuple(range(-axes(call), 0)))
    return make


def _transpose(call: TorchCall, to: Assembly) -> Tensor:
    """The axes in the order of `permute`, or two of them swapped."""
    rank = len(call.first.shape)
    order = list(range(rank))
    if call.operator == "permute":
        order = [axis % rank for axis in call.arguments["dims"]]
    elif rank > 1:
        named = {"transpose": ("dim0", "dim1"), "swapdims": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1")}
        a, b = (call.get(name) for name in named[call.operator]) if call.operator in named else \
            (-2, -1) if call.operator in ("mT", "adjoint") else (0, 1)
        order[a], order[b] = order[b], order[a]
    return to.transpose(call.name, call.first, tuple(order), call.where)


def _expand(call: TorchCall, to: Assembly) -> Tensor:
    """A value repeated to the shape of the result."""
    return to.expand(call.name, call.first, call.out, call.where)


def _complex(call: TorchCall, to: Assembly) -> Tensor:
    """Pairs of real numbers as complex ones."""
    return as_complex(to, call.name, call.first, call.where)


def _pairs(call: TorchCall, to: Assembly) -> Tensor:
    """Complex numbers as pairs of real ones."""
    return as_pairs(to, call.name, call.first, call.where)


def _windows(call: TorchCall, to: Assembly) -> Tensor:
    """The points under each window of an image, over its last axes (im2col): [N, C, ...] as [N, C * taps, windows]."""
    kernel = tuple(call.arguments["kernel_size"])
    stride, dilation = per_axis(call.get("stride", 1), kernel), per_axis(call.get("dilation", 1), kernel)
    x, lead = call.first, len(call.first.shape) - len(kernel)
    for index, (size, step, apart, pad) in enumerate(zip(kernel, stride, dilation,
                                                         per_axis(call.get("padding", 0), kernel), strict=True)):
        x = windows(to, f"{call.name}.{index}", x, lead + index * 2, WindowSlide(size, step, apart, pad), call.where)
    rank = len(x.shape)
    order = (*range(lead), *range(lead + 1, rank, 2), *range(lead, rank, 2))
    return to.reshape(call.name, to.transpose(f"{call.name}.moved", x, order, call.where), call.out, call.where)


def _folded(call: TorchCall, to: Assembly) -> Tensor:
    """The image of the points under each window, which are summed where windows overlap (col2im)."""
    kernel, image, lead = tuple(call.arguments["kernel_size"]), call.out[-2:], call.out[:-2]
    stride, pad, dilation = (per_axis(call.get(key, default), kernel) for key, default in (
        ("stride", 1), ("padding", 0), ("dilation", 1)))
    count = tuple(extent // size for extent, size in zip(image, kernel, strict=True))
    covered = tuple(number * size for number, size in zip(count, kernel, strict=True)) == image
    if (stride, pad, dilation) != (kernel, (0, 0), (1, 1)) or not covered:
        return to.plain_node(call.name, "gather", [call.first], call.out, call.where)
    apart = to.reshape(f"{call.name}.apart", call.first, (*lead, *kernel, *count), call.where)
    first = len(lead)
    order = (*range(first), first + 2, first, first + 3, first + 1)
    return to.reshape(call.name, to.transpose(f"{call.name}.moved", apart, order, call.where), call.out, call.where)


def _unfolded(call: TorchCall, to: Assembly) -> Tensor:
    """The points under each window along one axis, on a further axis behind all others."""
    rank = len(call.first.shape)
    axis = call.get("dimension", 0) % rank
    x = windows(to, f"{call.name}.windows", call.first, axis, WindowSlide(call.arguments["size"],
                                                                          call.arguments["step"]), call.where)
    order = (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1)
    return to.transpose(call.name, x, order, call.where)


def windows(to: Assembly, name: str, x: Tensor, axis: int, slide: WindowSlide, where: Where) -> Tensor:
    """Cuts an axis into windows: [..., extent, ...] as [..., windows, points, ...].

    Args:
        to: the network.
        name: prefix of the nodes' names.
        x: the tensor.
        axis: the axis.
        slide: the windows; points before and behind the axis are zeros.
        where: place in the source, for messages.

    Returns:
        The points rearranged, where windows stand side by side; else picked out of the axis, all of which is there
        then.
    """
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    count = (extent + 2 * slide.pad - slide.reach(1)) // slide.stride + 1
    flat = (*before, count * slide.kernel, *after)
    if not (count * slide.kernel == extent and slide == WindowSlide(slide.kernel, slide.kernel)) and not x.constant:
        x = to.put(Node(f"{name}.picked", "gather", (x.node or "",), flat, axes=(axis,), where=where))
    return to.reshape(f"{name}.apart", Tensor(flat, x.node), (*before, count, slide.kernel, *after), where)


def _overwritten(call: TorchCall, to: Assembly) -> Tensor:
    """A tensor whose elements are all those of another one."""
    return to.expand(call.name, call.arguments["src"], call.out, call.where)


FUNCTIONS: dict[str, Callable[[TorchCall, Assembly], Tensor]] = {
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices",
                     "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **dict.fromkeys((f"{prefix}adaptive_{kind}_pool{axes}d" for prefix in ("", "_") for kind in ("avg", "max")
                     for axes in (1, 2, 3)), _adaptive_pool),
    "layer_norm": _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])),
    "native_layer_norm": _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])),
    "rms_norm": _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])),
    "_fused_rms_norm": _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])),
    "group_norm": _norm("groupnorm", lambda call: len(call.first.shape) - 1),
    "native_group_norm": _norm("groupnorm", lambda call: len(call.first.shape) - 1),
    "instance_norm": _norm("instancenorm", lambda call: len(call.first.shape) - 2),
    **dict.fromkeys(("permute", "transpose", "swapaxes", "swapdims", "t", "numpy_T", "mT",
                     "adjoint"), _transpose),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    "copy": _overwritten,
    **dict.fromkeys(("view_as_complex", "view_as_complex_copy"), _complex),
    **dict.fromkeys(("view_as_real", "view_as_real_copy"), _pairs),
    "im2col": _windows, "col2im": _folded, "unfold": _unfolded,
}
"""Other operators that need arguments -> the function that adds their nodes."""


# Arguments have the names of PyTorch's schemas.

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


def has_name(operator: str, tag: str) -> bool:
    """Whether `understood` knows an operator without PyTorch taking it apart.

    Args:
        operator: its name.
        tag: PyTorch's tag of it.
    """
    tables = (SAME, RESHAPES, FILLS, POINTWISE, ELEMENTWISE, JOINS, OPAQUE, OTHERS, ROWS, REDUCE, FURTHER_REDUCTIONS,
              LAYERS, FUNCTIONS)
    return bool(tag) or any(operator in table for table in tables)


def understood(call: TorchCall, to: Assembly) -> Any:
    """Adds the nodes of one call.

    Args:
        call: the call.
        to: the network.

    Returns:
        Its tensor, or the list of its tensors, from nodes `not_understood` where no table has the operator.

    Raises:
        SpecError: factors of a product do not fit.
    """
    name = call.operator
    if name in SAME:
        return _results(call, call.first)
    if name in FILLS:
        return _each(call, lambda tag, shape: Tensor(shape))
    if name in RESHAPES:
        return to.reshape(call.name, call.first, call.out, call.where)
    if name in ("batch_norm", "native_batch_norm", *TRAINED) and (name in TRAINED or call.get("training")):
        return _results(call, _batch_statistics(call, to))
    if name in LAYERS and call.is_complex and not name.startswith("_fft"):
        return _results(call, complex_product(call, to))
    if name in LAYERS or name in FUNCTIONS:
        return _results(call, (LAYERS.get(name) or FUNCTIONS[name])(call, to))
    if name in ROWS or name in REDUCE or (name in FURTHER_REDUCTIONS and call.tag != "pointwise"):
        return _each(call, lambda tag, shape: _over_axes(call, to, call.name + tag, shape))
    if name in POINTWISE or name in JOINS or name in ELEMENTWISE or call.tag == "pointwise":
        return _results(call, _pointwise(call, to))
    if name in OPAQUE:
        shapes = call.shape if isinstance(call.shape, list) else [call.shape]
        parts = [_picked(call, to, index, shapes) for index in range(len(shapes))]
        return parts if isinstance(call.shape, list) else parts[0]
    if call.tag == "reduction" or name in OTHERS:
        return _each(call, lambda tag, shape: to.plain_node(call.name + tag, "other", call.operands, shape, call.where,
                                                            what=name))
    results = to.unknown(call.name, name, call.operands, call.shape if isinstance(call.shape, list) else [call.shape],
                         call.where)
    return results if isinstance(call.shape, list) else results[0]


def _results(call: TorchCall, first: Tensor | list[Tensor]) -> Any:
    """A tensor, or the list of a call's results: the first, and the others as constants, which carry no data on."""
    if isinstance(first, list):
        return first
    return [first, *(Tensor(shape) for shape in call.shape[1:])] if isinstance(call.shape, list) else first


def _each(call: TorchCall, make: Callable[[str, Shape], Tensor]) -> Any:
    """A tensor for every result of a call, made from a tag for its name and its shape."""
    if isinstance(call.shape, list):
        return [make(f".{index}", shape) for index, shape in enumerate(call.shape)]
    return make("", call.shape)


def _pointwise(call: TorchCall, to: Assembly) -> Tensor:
    """Points of one tensor by themselves, or those of several joined."""
    if call.operator in JOINS:
        return to.plain_node(call.name, JOINS[call.operator], call.operands, call.out, call.where)
    read = [tensor for tensor in call.operands if tensor.node]
    alone = len(read) == 1 and read[0].shape == call.out
    op = POINTWISE.get(call.operator, "elementwise") if alone else "combine"
    return to.plain_node(call.name, op, read, call.out, call.where, what=call.operator if op in GENERIC else "")


def _picked(call: TorchCall, to: Assembly, index: int, shapes: Sequence[Shape]) -> Tensor:
    """Elements picked or put together, one of several results; no opaque node where all of them are picked."""
    op, shape = OPAQUE[call.operator], shapes[index]
    name = f"{call.name}.{index}" if isinstance(call.shape, list) else call.name
    filled = [tensor for tensor in call.operands if math.prod(tensor.shape)]
    if op in ("slice", "pad", "expand", "concat") and len(filled) == 1 and shape == filled[0].shape:
        return filled[0]
    if op == "slice" and math.prod(shape) == math.prod(call.first.shape):
        return to.reshape(name, call.first, shape, call.where)
    details = torch_details(call.operator, call.arguments, call.first.shape, shapes, index,
                            all(tensor.constant for tensor in call.operands[1:]))
    result = to.put(Node(name, op, tuple(t.node for t in call.operands if t.node), shape, where=call.where,
                         what=call.operator if op in GENERIC else "", **details))
    matrices = call.operator in ("index", "index_select") and call.first.constant and len(call.first.shape) == 3
    return replace(result, picked_from=call.first.shape[0]) if matrices and len(shape) == 3 else result


def _over_axes(call: TorchCall, to: Assembly, name: str, shape: Shape) -> Tensor:
    """Whole rows along the argument `dim`: one axis, several, or all where it is not given."""
    rank = len(call.first.shape)
    dim = call.get("dim", list(range(rank)))
    axes = (tuple(dim) if isinstance(dim, list) else (dim,)) or tuple(range(rank))
    op = ROWS.get(call.operator) or REDUCE.get(call.operator, "reduction")
    what = call.operator if op == "reduction" else ""
    if not rank:
        return to.plain_node(name, "elementwise", [call.first], shape, call.where, what=call.operator)
    return to.plain_node(name, op, [call.first], shape, call.where, axes, what)


TRAINED = ("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_batch_norm_with_update",
           "_batch_norm_with_update_functional", "cudnn_batch_norm", "miopen_batch_norm")
"""Batch norms that take mean and variance of the batch: networks in training mode."""


def _batch_statistics(call: TorchCall, to: Assembly) -> Tensor:
    """A batch norm in training mode: every channel needs the whole batch and all points."""
    axes = (0, *range(2, len(call.first.shape)))
    return to.plain_node(call.name, "batchstatistics", [call.first], call.out, call.where, axes)
