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
}
"""Pointwise operators -> their names here."""

ELEMENTWISE = ("tril", "triu", "rrelu", "rrelu_with_noise", "bucketize", "softshrink", "hardshrink",
               "threshold", "fake_quantize_per_tensor_affine", "quantize_per_tensor", "real", "imag")
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
                     "channel_shuffle", "pixel_unshuffle", "im2col", "col2im", "unfold", "view_as_complex",
                     "view_as_real", "take", "take_along_dim", "rot90", "_unsafe_index", "masked_select",
                     "block_diag", "meshgrid", "diagonal", "as_strided", "grid_sampler", "grid_sampler_2d",
                     "grid_sampler_3d", "torchvision::roi_align", "torchvision::roi_pool", "torchvision::ps_roi_align",
                     "_unsafe_masked_index", "view_as_complex_copy", "_view_as_complex"), "gather"),
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

ROWS = {"softmax": "softmax", "_softmax": "softmax", "log_softmax": "logsoftmax", "_log_softmax": "logsoftmax",
        "_safe_softmax": "softmax", "cumsum": "cumsum", "cumprod": "cumsum", "logcumsumexp": "cumsum",
        "cummax": "cumsum", "cummin": "cumsum"}
"""Operators that need whole rows -> their names here."""

REDUCE = {"mean": "mean", "sum": "sum", "amax": "amax", "amin": "amin"}
"""Reductions -> their names here; PyTorch tags all others."""

FURTHER_REDUCTIONS = ("any", "all", "prod", "var", "std", "argmax", "argmin", "max", "min", "logsumexp", "norm",
                      "linalg_vector_norm", "var_mean", "std_mean", "count_nonzero", "nansum", "aminmax")
"""Reductions without a name of their own here."""
