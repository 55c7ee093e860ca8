"""Names of ATen operators without multiply-accumulates, by kind.

Names are those of PyTorch's schemas (pytorch, aten/src/ATen/native/native_functions.yaml), without the overload and the
underscore of in-place variants; operators of other libraries have theirs in front.
"""

from __future__ import annotations

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
