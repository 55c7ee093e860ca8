"""Turns ATen operators into nodes: by the tables of `torch_names`, or by a function where arguments matter.

Arguments have the names of PyTorch's schemas. `LAYERS` holds the operators with multiply-accumulates, `FUNCTIONS`
others that need arguments. Operators in no table are taken by PyTorch's own tags (pointwise, reduction); the rest
become nodes that are not understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.axis_algebra import WindowSlide
from fadiff_mapper.workload.node import GENERIC
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, linear, product
from fadiff_mapper.workload.readers.convolutions import Pads, Sliding, convolution, transposed_convolution
from fadiff_mapper.workload.readers.einsum import contraction, is_plain
from fadiff_mapper.workload.readers.experts import experts
from fadiff_mapper.workload.readers.picked_details import torch_details
from fadiff_mapper.workload.readers.recurrent import Recurrence, recurrent_stack
from fadiff_mapper.workload.readers.torch_names import (
    ELEMENTWISE,
    FILLS,
    FURTHER_REDUCTIONS,
    JOINS,
    OPAQUE,
    POINTWISE,
    REDUCE,
    RESHAPES,
    ROWS,
    SAME,
)
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
        tag: PyTorch's tag of the operator: "pointwise", "reduction" or "".
    """

    operator: str
    name: str
    arguments: Mapping[str, Any]
    operands: Sequence[Tensor]
    shape: Any
    where: Where
    tag: str = ""

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


def has_name(operator: str, tag: str) -> bool:
    """Whether `understood` knows an operator without PyTorch taking it apart.

    Args:
        operator: its name.
        tag: PyTorch's tag of it.
    """
    tables = (SAME, RESHAPES, FILLS, POINTWISE, ELEMENTWISE, JOINS, OPAQUE, ROWS, REDUCE, FURTHER_REDUCTIONS, LAYERS,
              FUNCTIONS)
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
    if call.tag == "reduction":
        return _each(call, lambda tag, shape: to.plain_node(call.name + tag, "other", call.operands, shape, call.where,
                                                            what=name))
    return _each(call, lambda tag, shape: to.unknown(call.name + tag, name, call.operands, shape, call.where))


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


def _convolution(call: TorchCall, to: Assembly) -> Tensor:
    """A convolution, transposed where its name or the general operator's argument says so."""
    transposed = call.get("transposed", False) or "transpose" in call.operator
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


def _per_axis(value: Any, kernel: Shape) -> Shape:
    """A number per sliding axis; a single number holds for all."""
    values = tuple(value) if isinstance(value, list) else (value,)
    return values * len(kernel) if len(values) == 1 else values


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
        named = {"transpose": ("dim0", "dim1"), "swapdims": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1")}
        a, b = (call.get(name) for name in named[call.operator]) if call.operator in named else \
            (-2, -1) if call.operator in ("mT", "adjoint") else (0, 1)
        order[a], order[b] = order[b], order[a]
    return to.transpose(call.name, call.first, tuple(order), call.where)


def _expand(call: TorchCall, to: Assembly) -> Tensor:
    """A value repeated to the shape of the result."""
    return to.expand(call.name, call.first, call.out, call.where)


def _overwritten(call: TorchCall, to: Assembly) -> Tensor:
    """A tensor whose elements are all those of another one."""
    return to.expand(call.name, call.arguments["src"], call.out, call.where)


LAYERS: dict[str, Callable[[TorchCall, Assembly], Tensor | list[Tensor]]] = {
    **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d", "_convolution", "conv_transpose1d",
                     "conv_transpose2d", "conv_transpose3d"), _convolution),
    "torchvision::deform_conv2d": _deformable,
    "linear": _linear,
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
}
"""Other operators that need arguments -> the function that adds their nodes."""
