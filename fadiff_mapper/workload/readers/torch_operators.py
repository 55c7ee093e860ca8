"""Turns ATen operators into nodes: one table per kind, and a function for each operator that needs arguments.

Names and arguments are those of PyTorch's schemas (pytorch, aten/src/ATen/native/native_functions.yaml), without the
overload and the underscore of in-place variants. The tables `SAME` to `REDUCE` need a name only, `FUNCTIONS` holds
functions. An operator in none of them becomes a node that is not understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.axis_algebra import WindowSlide
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
from fadiff_mapper.workload.readers.picked_details import torch_details
from fadiff_mapper.yaml.located import Where


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
    """

    operator: str
    name: str
    arguments: Mapping[str, Any]
    operands: Sequence[Tensor]
    shape: Any
    where: Where

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


SAME = ("dropout", "feature_dropout", "native_dropout", "alpha_dropout", "contiguous", "clone", "alias", "detach", "to",
        "_to_copy", "type_as", "lift_fresh_copy", "_assert_tensor_metadata", "positive")
"""Operators whose first result is their first tensor."""

RESHAPES = ("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel")
"""Operators that keep elements and their order."""

POINTWISE = {
    **{name: name for name in ("relu", "gelu", "silu", "sigmoid", "tanh", "erf", "exp", "log", "sqrt", "rsqrt", "neg",
                               "abs", "reciprocal", "square", "elu", "celu", "selu", "softplus", "hardsigmoid",
                               "hardswish", "mish", "round", "floor", "ceil", "sin", "cos", "prelu")},
    "relu6": "clip", "hardtanh": "clip", "clamp": "clip", "clamp_min": "clip", "clamp_max": "clip",
    "isnan": "isnan", "isinf": "isnan",
    "leaky_relu": "leakyrelu", "logical_not": "not", "bitwise_not": "not", "batch_norm": "batchnorm",
    "_native_batch_norm_legit_no_training": "batchnorm", "native_batch_norm": "batchnorm",
    "_native_batch_norm_legit": "batchnorm", "_batch_norm_with_update": "batchnorm", "log_sigmoid": "softplus",
}
"""Pointwise operators -> their names here."""

JOINS = {
    **{name: name for name in ("add", "sub", "mul", "div", "pow", "where")},
    "rsub": "sub", "maximum": "max", "minimum": "min", "masked_fill": "where", "logical_and": "and",
    "bitwise_and": "and", "logical_or": "or", "bitwise_or": "or",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "compare"),
}
"""Operators that join tensors point by point -> their names here."""

OPAQUE = {
    "cat": "concat", "concat": "concat", "stack": "concat", "slice": "slice", "split": "slice", "chunk": "slice",
    "split_with_sizes": "slice", "unbind": "slice", "select": "slice", "narrow": "slice", "tensor_split": "slice",
    "index": "gather", "index_select": "gather", "gather": "gather", "embedding": "gather", "roll": "gather",
    "flip": "gather", "pixel_shuffle": "gather", "channel_shuffle": "gather", "constant_pad_nd": "pad", "pad": "pad",
    "repeat": "expand", "repeat_interleave": "expand", "upsample_nearest2d": "resize", "upsample_bilinear2d": "resize",
}
"""Operators that pick, repeat or put together elements -> their names here."""

ROWS = {"softmax": "softmax", "_safe_softmax": "softmax", "_softmax": "softmax", "log_softmax": "logsoftmax",
        "_log_softmax": "logsoftmax",
        "cumsum": "cumsum"}
"""Operators that need whole rows -> their names here."""

REDUCE = {"mean": "mean", "sum": "sum", "amax": "amax", "amin": "amin"}
"""Reductions -> their names here."""


def understood(call: TorchCall, to: Assembly) -> Any:
    """Adds the nodes of one call.

    Args:
        call: the call.
        to: the network.

    Returns:
        Its tensor, or the list of its tensors, from nodes `not_understood` where no table has the operator.

    Raises:
        SpecError: a transposed convolution, or factors of a product that do not fit.
    """
    name = call.operator
    if name in SAME:
        return _results(call, call.first)
    if name in RESHAPES:
        return to.reshape(call.name, call.first, call.out, call.where)
    if name in POINTWISE or name in JOINS:
        result = to.plain_node(call.name, POINTWISE.get(name) or JOINS[name], call.operands, call.out, call.where)
        return _results(call, result)
    if name in ROWS or name in REDUCE:
        return _over_axes(call, to)
    if name in OPAQUE:
        return _each(call, lambda tag, shape: _picked(call, to, call.name + tag, shape))
    if name in FUNCTIONS:
        return _results(call, FUNCTIONS[name](call, to))
    return _each(call, lambda tag, shape: to.unknown(call.name + tag, name, call.operands, shape, call.where))


def _results(call: TorchCall, first: Tensor) -> Any:
    """A tensor, or the list of a call's results: the first, and the others as constants, which carry no data on."""
    return [first, *(Tensor(shape) for shape in call.shape[1:])] if isinstance(call.shape, list) else first


def _each(call: TorchCall, make: Callable[[str, Shape], Tensor]) -> Any:
    """A tensor for every result of a call, made from a tag for its name and its shape."""
    if isinstance(call.shape, list):
        return [make(f".{index}", shape) for index, shape in enumerate(call.shape)]
    return make("", call.shape)


def _picked(call: TorchCall, to: Assembly, name: str, shape: Shape) -> Tensor:
    """Elements picked or put together; no opaque node where all of them are picked."""
    op = OPAQUE[call.operator]
    if op in ("slice", "pad") and shape == call.first.shape:
        return call.first
    if op == "slice" and math.prod(shape) == math.prod(call.first.shape):
        return to.reshape(name, call.first, shape, call.where)
    details = torch_details(call.operator, call.arguments, call.first.shape, shape,
                            all(tensor.constant for tensor in call.operands[1:]))
    return to.put(Node(name, op, tuple(t.node for t in call.operands if t.node), shape, where=call.where, **details))


def _over_axes(call: TorchCall, to: Assembly) -> Tensor:
    """Whole rows along the argument `dim`: one axis, several, or all where it is not given."""
    dim = call.get("dim", list(range(len(call.first.shape))))
    axes = tuple(dim) if isinstance(dim, list) else (dim,)
    op = ROWS.get(call.operator) or REDUCE[call.operator]
    return to.plain_node(call.name, op, [call.first], call.out, call.where, axes or tuple(range(len(call.first.shape))))


def _convolution(call: TorchCall, to: Assembly) -> Tensor:
    """A convolution; the general operator may say that it is transposed."""
    if call.get("transposed", False):
        return _transposed_convolution(call, to)
    x, weight = call.arguments["input"], call.arguments["weight"]
    kernel = weight.shape[2:]
    stride, dilation = _per_axis(call.get("stride", 1), kernel), _per_axis(call.get("dilation", 1), kernel)
    padding = call.get("padding", 0)
    if isinstance(padding, str):  # "same" pads the larger half behind
        spans = [WindowSlide(k, 1, d).reach(1) - 1 if padding == "same" else 0
                 for k, d in zip(kernel, dilation, strict=True)]
        pad: Pads = tuple((span // 2, span - span // 2) for span in spans)
    else:
        pad = tuple((p, p) for p in _per_axis(padding, kernel))
    return convolution(to, call.name, x, weight, Sliding(stride, pad, dilation, call.get("groups", 1)), call.out,
                       call.where)


def _transposed_convolution(call: TorchCall, to: Assembly) -> Tensor:
    """Raises SpecError: transposed convolutions are refused by name."""
    raise call.where.error(f"{call.name} is a transposed convolution (aten.{call.operator}), which is not supported",
                           "convolutions without transposition or output padding")


def _per_axis(value: Any, kernel: Shape) -> Shape:
    """A number per sliding axis; a single number holds for all."""
    values = tuple(value) if isinstance(value, list) else (value,)
    return values * len(kernel) if len(values) == 1 else values


def _linear(call: TorchCall, to: Assembly) -> Tensor:
    """A product with the transpose of a weight."""
    return linear(to, call.name, call.arguments["input"], call.arguments["weight"], call.out, call.where)


def _product(call: TorchCall, to: Assembly) -> Tensor:
    """mm, bmm, matmul, mv, whose factors have different names in each schema."""
    a, b = (next(call.arguments[key] for key in keys if key in call.arguments) for keys in
            (("self", "mat1", "batch1"), ("mat2", "other", "batch2", "vec")))
    return product(to, call.name, a, b, call.out, call.where)


def _added_product(call: TorchCall, to: Assembly) -> Tensor:
    """addmm, baddbmm: a product, and a tensor added where that is no constant."""
    a, b = ((call.arguments["mat1"], call.arguments["mat2"]) if "mat1" in call.arguments else
            (call.arguments["batch1"], call.arguments["batch2"]))
    result = product(to, call.name, a, b, call.out, call.where)
    bias = call.arguments["self"]
    return result if bias.constant else to.plain_node(f"{call.name}.add", "add", [result, bias], call.out, call.where)


def _attention(call: TorchCall, to: Assembly) -> Tensor:
    """Scaled dot-product attention, whichever kernel PyTorch chose for it."""
    operands = (call.arguments["query"], call.arguments["key"], call.arguments["value"])
    return attention(to, call.name, operands, call.get("attn_mask") or call.get("attn_bias"), call.out, call.where)


def _pool(call: TorchCall, to: Assembly) -> Tensor:
    """A pool; without a stride its windows stand side by side."""
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
        a, b = (call.get("dim0", 0), call.get("dim1", 1)) if call.operator == "transpose" else \
            (-2, -1) if call.operator in ("mT", "adjoint") else (0, 1)
        order[a], order[b] = order[b], order[a]
    return to.transpose(call.name, call.first, tuple(order), call.where)


def _expand(call: TorchCall, to: Assembly) -> Tensor:
    """A value repeated to the shape of the result."""
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
"""Operators with arguments -> the function that adds their nodes."""
