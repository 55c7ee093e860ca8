"""ATen operators -> nodes: one table per kind, and a function for each that needs arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import (
    Assembly,
    Pads,
    Sliding,
    Tensor,
    attention,
    convolution,
    linear,
    product,
)
from fadiff_mapper.yaml.located import Where


@dataclass(frozen=True)
class TorchCall:
    """One call: the operator's name, a name for its node, arguments by name, the tensors among them, the shape of the
    result (a list of shapes where it has several), and its place."""

    operator: str
    name: str
    arguments: Mapping[str, Any]
    operands: Sequence[Tensor]
    shape: Any
    where: Where

    def get(self, name: str, default: Any = None) -> Any:
        found = self.arguments.get(name)
        return default if found is None else found

    @property
    def first(self) -> Tensor:
        return self.operands[0]

    @property
    def out(self) -> Shape:
        """The shape of the result, of the first where there are several."""
        shape: Shape = self.shape[0] if isinstance(self.shape, list) else self.shape
        return shape


SAME = ("dropout", "feature_dropout", "native_dropout", "alpha_dropout", "contiguous", "clone", "alias", "detach", "to",
        "_to_copy", "type_as", "lift_fresh_copy", "_assert_tensor_metadata", "positive")
RESHAPES = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel")
POINTWISE = {
    **{name: name for name in ("relu", "gelu", "silu", "sigmoid", "tanh", "erf", "exp", "log", "sqrt", "rsqrt", "neg",
                               "abs", "reciprocal", "square", "elu", "celu", "selu", "softplus", "hardsigmoid",
                               "hardswish", "mish", "round", "floor", "ceil", "sin", "cos", "prelu")},
    "relu6": "clip", "hardtanh": "clip", "clamp": "clip", "clamp_min": "clip", "clamp_max": "clip",
    "leaky_relu": "leakyrelu", "logical_not": "not", "bitwise_not": "not", "batch_norm": "batchnorm",
    "_native_batch_norm_legit_no_training": "batchnorm", "native_batch_norm": "batchnorm",
    "_native_batch_norm_legit": "batchnorm", "_batch_norm_with_update": "batchnorm", "log_sigmoid": "softplus",
}
JOINS = {
    **{name: name for name in ("add", "sub", "mul", "div", "pow", "where")},
    "rsub": "sub", "maximum": "max", "minimum": "min", "masked_fill": "where", "logical_and": "and",
    "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "compare"),
}
OPAQUE = {
    "cat": "concat", "concat": "concat", "stack": "concat", "slice": "slice", "split": "slice", "chunk": "slice",
    "split_with_sizes": "slice", "unbind": "slice", "select": "slice", "narrow": "slice", "tensor_split": "slice",
    "index": "gather", "index_select": "gather", "gather": "gather", "embedding": "gather", "roll": "gather",
    "flip": "gather", "pixel_shuffle": "gather", "channel_shuffle": "gather", "constant_pad_nd": "pad", "pad": "pad",
    "repeat": "expand", "repeat_interleave": "expand", "upsample_nearest2d": "resize", "upsample_bilinear2d": "resize",
}
ROWS = {"softmax": "softmax", "_softmax": "softmax", "log_softmax": "logsoftmax", "_log_softmax": "logsoftmax",
        "cumsum": "cumsum"}
REDUCE = {"mean": "mean", "sum": "sum", "amax": "amax", "amin": "amin"}


def understood(call: TorchCall, to: Assembly) -> Any:
    """The tensor, or tensors, of one call; a node `not_understood` where no table has the operator."""
    name = call.operator
    if name in SAME:
        return _results(call, call.first)
    if name in RESHAPES:
        return to.reshape(call.name, call.first, call.out, call.where)
    if name in POINTWISE or name in JOINS:
        found = to.plain_node(call.name, POINTWISE.get(name) or JOINS[name], call.operands, call.out, call.where)
        return _results(call, found)
    if name in ROWS or name in REDUCE:
        return _over_axes(call, to)
    if name in OPAQUE:
        return _each(call, lambda tag, shape: _picked(call, to, call.name + tag, shape))
    if name in FUNCTIONS:
        return _results(call, FUNCTIONS[name](call, to))
    return _each(call, lambda tag, shape: to.unknown(call.name + tag, name, call.operands, shape, call.where))


def _results(call: TorchCall, first: Tensor) -> Any:
    """A tensor, or the list of results that the call stands for: the first, and others that carry no data on."""
    return [first, *(Tensor(shape) for shape in call.shape[1:])] if isinstance(call.shape, list) else first


def _each(call: TorchCall, make: Callable[[str, Shape], Tensor]) -> Any:
    if isinstance(call.shape, list):
        return [make(f".{index}", shape) for index, shape in enumerate(call.shape)]
    return make("", call.shape)


def _picked(call: TorchCall, to: Assembly, name: str, shape: Shape) -> Tensor:
    """Elements picked or put together; picking all of them changes nothing."""
    op = OPAQUE[call.operator]
    if op in ("slice", "pad") and shape == call.first.shape:
        return call.first
    if op == "slice" and math.prod(shape) == math.prod(call.first.shape):
        return to.reshape(name, call.first, shape, call.where)
    return to.plain_node(name, op, call.operands, shape, call.where)


def _over_axes(call: TorchCall, to: Assembly) -> Tensor:
    """Whole rows along `dim`, which is one axis, several, or all where it is not given."""
    dim = call.get("dim", list(range(len(call.first.shape))))
    axes = tuple(dim) if isinstance(dim, list) else (dim,)
    op = ROWS.get(call.operator) or REDUCE[call.operator]
    return to.plain_node(call.name, op, [call.first], call.out, call.where, axes or tuple(range(len(call.first.shape))))


def _convolution(call: TorchCall, to: Assembly) -> Tensor:
    if call.get("transposed", False):
        return _transposed_convolution(call, to)
    x, weight = call.arguments["input"], call.arguments["weight"]
    kernel = weight.shape[2:]
    stride, dilation = _per_axis(call.get("stride", 1), kernel), _per_axis(call.get("dilation", 1), kernel)
    padding = call.get("padding", 0)
    if isinstance(padding, str):  # "same" pads the larger half behind
        spans = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
        pad: Pads = tuple((span // 2, span - span // 2) for span in spans)
    else:
        pad = tuple((p, p) for p in _per_axis(padding, kernel))
    return convolution(to, call.name, x, weight, Sliding(stride, pad, dilation, call.get("groups", 1)), call.out,
                       call.where)


def _transposed_convolution(call: TorchCall, to: Assembly) -> Tensor:
    raise call.where.error(f"{call.name} is a transposed convolution (aten.{call.operator}), which is not supported",
                           "convolutions without transposition or output padding")


def _per_axis(value: Any, kernel: Shape) -> Shape:
    """One number per sliding axis; a single one holds for all."""
    values = tuple(value) if isinstance(value, list) else (value,)
    return values * len(kernel) if len(values) == 1 else values


def _linear(call: TorchCall, to: Assembly) -> Tensor:
    return linear(to, call.name, call.arguments["input"], call.arguments["weight"], call.out, call.where)


def _product(call: TorchCall, to: Assembly) -> Tensor:
    a, b = (next(call.arguments[key] for key in keys if key in call.arguments) for keys in
            (("self", "mat1", "batch1"), ("mat2", "other", "batch2", "vec")))
    return product(to, call.name, a, b, call.out, call.where)


def _added_product(call: TorchCall, to: Assembly) -> Tensor:
    """addmm, baddbmm: a product, and a tensor added where that is no constant."""
    a, b = ((call.arguments["mat1"], call.arguments["mat2"]) if "mat1" in call.arguments else
            (call.arguments["batch1"], call.arguments["batch2"]))
    found = product(to, call.name, a, b, call.out, call.where)
    bias = call.arguments["self"]
    return found if bias.constant else to.plain_node(f"{call.name}.add", "add", [found, bias], call.out, call.where)


def _attention(call: TorchCall, to: Assembly) -> Tensor:
    operands = (call.arguments["query"], call.arguments["key"], call.arguments["value"])
    return attention(to, call.name, operands, call.get("attn_mask") or call.get("attn_bias"), call.out, call.where)


def _pool(call: TorchCall, to: Assembly) -> Tensor:
    op = "maxpool" if call.operator.startswith("max") else "avgpool"
    kernel = _per_axis(call.arguments["kernel_size"], (1,) * _pool_rank(call))
    stride = _per_axis(call.get("stride") or list(kernel), kernel)
    pad = tuple((p, p) for p in _per_axis(call.get("padding", 0), kernel))
    return _windowed(call, to, op, Window(kernel, stride, pad, _per_axis(call.get("dilation", 1), kernel)))


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
    rank = len(call.first.shape)
    order = list(range(rank))
    if call.operator == "permute":
        order = [axis % rank for axis in call.arguments["dims"]]
    elif rank > 1:
        a, b = (call.get("dim0", 0), call.get("dim1", 1)) if call.operator == "transpose" else \
            (-2, -1) if call.operator in ("mT", "adjoint") else (0, 1)
        order[a], order[b] = order[b], order[a]
    return to.transpose(call.name, call.first, tuple(order), call.where)


def _expand(call: TorchCall, to: Assembly) -> Tensor:
    return to.expand(call.name, call.first, call.out, call.where)


FUNCTIONS: dict[str, Callable[[TorchCall, Assembly], Tensor]] = {
    **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d", "_convolution"), _convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _transposed_convolution),
    "linear": _linear,
    **dict.fromkeys(("mm", "bmm", "matmul", "mv"), _product),
    **dict.fromkeys(("addmm", "baddbmm"), _added_product),
    **dict.fromkeys(("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu",
                     "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention",
                     "_scaled_dot_product_cudnn_attention"), _attention),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "avg_pool1d", "avg_pool2d",
                     "avg_pool3d"), _pool),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d"),
                    _adaptive_pool),
    "layer_norm": _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])),
    "native_layer_norm": _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])),
    "rms_norm": _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])),
    "_fused_rms_norm": _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])),
    "group_norm": _norm("groupnorm", lambda call: len(call.first.shape) - 1),
    "native_group_norm": _norm("groupnorm", lambda call: len(call.first.shape) - 1),
    "instance_norm": _norm("instancenorm", lambda call: len(call.first.shape) - 2),
    **dict.fromkeys(("permute", "transpose", "t", "numpy_T", "mT", "adjoint"), _transpose),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
}
