"""ONNX operators without multiply-accumulates that need attributes: name -> the function that adds their nodes.

Attributes and the order of operands are those of the ONNX operator sets (github.com/onnx/onnx, docs/Operators.md) and
of ONNX Runtime's own (github.com/microsoft/onnxruntime, docs/ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.node import GENERIC
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.convolutions import Pads
from fadiff_mapper.workload.readers.onnx_call import OnnxCall, padding
from fadiff_mapper.workload.readers.onnx_names import REDUCE, RESHAPES, ROWS


def _pool(call: OnnxCall, to: Assembly) -> Tensor:
    """A pool, whose window covers all sliding axes where it is global."""
    op = "maxpool" if "Max" in call.operator else "avgpool"
    sliding = len(call.first.shape) - 2
    if "Global" in call.operator:
        kernel = stride = call.first.shape[2:]
        pad: Pads = ((0, 0),) * sliding
        dilation: Shape = (1,) * sliding
    else:
        ones = (1,) * sliding
        kernel = call.integers("kernel_shape", ones)
        stride, dilation = call.integers("strides", ones), call.integers("dilations", ones)
        pad = padding(call, call.first, kernel, stride, dilation)
    if call.first.node is None:
        raise call.where.error("pools a constant", "a computed tensor")
    window = Window(kernel, stride, pad, dilation)
    return to.put(Node(call.name, op, (call.first.node,), call.out, window=window, where=call.where))


def _softmax(call: OnnxCall, to: Assembly) -> Tensor:
    """Whole rows along one axis; before version 13 of the operator set along all axes from `axis` on."""
    axis, rank = call.axes_from(-1 if call.version >= 13 else 1)
    axes = (axis,) if call.version >= 13 else tuple(range(axis, rank))
    op = "logsoftmax" if call.operator == "LogSoftmax" else "softmax"
    return to.plain_node(call.name, op, [call.first], call.out, call.where, axes)


def _norm(op: str, first_axis: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """A normalisation over the axes from the attribute `axis`, or else from `first_axis`, to the last."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        axes = tuple(range(*call.axes_from(first_axis)))
        return to.plain_node(call.name, op, [call.first], call.out, call.where, axes)
    return make


def _skip_norm(op: str) -> Callable[[OnnxCall, Assembly], list[Tensor]]:
    """A sum and its normalisation along the last axis; the last of four outputs is the sum."""
    def make(call: OnnxCall, to: Assembly) -> list[Tensor]:
        total = to.plain_node(f"{call.name}.sum", "add", call.tensors[:2], call.out, call.where)
        normed = to.plain_node(call.name, op, [total], call.out, call.where, (-1,))
        return [normed, Tensor(()), Tensor(()), total]
    return make


def _whole_tensor(op: str) -> Callable[[OnnxCall, Assembly], Tensor]:
    """An operator that needs all of its operand before its first output."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return to.plain_node(call.name, op, [call.first], call.out, call.where, tuple(range(len(call.first.shape))))
    return make


def _along(op: str, default: int) -> Callable[[OnnxCall, Assembly], Tensor]:
    """An operator that needs whole rows along the attribute `axis`."""
    def make(call: OnnxCall, to: Assembly) -> Tensor:
        return to.plain_node(call.name, op, [call.first], call.out, call.where, (call.axes_from(default)[0],))
    return make


def _reduce(call: OnnxCall, to: Assembly) -> Tensor:
    """A reduction over the axes of the attribute (older models) or of the second operand; over all without any."""
    rank = len(call.first.shape)
    stated = call.attributes.get("axes")
    given = tuple(stated) if stated is not None else (call.numbers[1] if len(call.numbers) > 1 else ())
    if given is None:
        return to.plain_node(call.name, "other", call.tensors, call.out, call.where,
                             what=f"{call.operator} over computed axes")
    if not given and call.whole("noop_with_empty_axes", 0):
        return call.first
    axes = tuple(given) or tuple(range(rank))
    op = REDUCE[call.operator]
    return to.plain_node(call.name, op, [call.first], call.out, call.where, axes,
                         call.operator if op in GENERIC else "")


def _reshape(call: OnnxCall, to: Assembly) -> Tensor:
    """A reshape to the inferred shape."""
    return to.reshape(call.name, call.first, call.out, call.where)


def _transpose(call: OnnxCall, to: Assembly) -> Tensor:
    """A transpose; without the attribute `perm` the axes are reversed."""
    rank = len(call.first.shape)
    order = call.integers("perm", tuple(reversed(range(rank))), 0)
    if sorted(order) != list(range(rank)):
        raise call.where.error(f"perm is {list(order)}", f"each of 0 to {rank - 1} once")
    return to.transpose(call.name, call.first, order, call.where)


def _expand(call: OnnxCall, to: Assembly) -> Tensor:
    """A value repeated to the inferred shape."""
    return to.expand(call.name, call.first, call.out, call.where)


OPERATORS: dict[str, Callable[[OnnxCall, Assembly], Tensor | list[Tensor]]] = {
    **dict.fromkeys(RESHAPES, _reshape),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "LpPool", "GlobalLpPool"), _pool),
    "com.microsoft.QLinearGlobalAveragePool": _pool, "com.microsoft.QLinearAveragePool": _pool,
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(REDUCE, _reduce),
    **{name: _along(op, -1) for name, op in ROWS.items()},
    "LRN": _along("localresponse", 1), "DynamicQuantizeLinear": _whole_tensor("dynamicquantize"),
    "LayerNormalization": _norm("layernorm", -1), "RMSNormalization": _norm("rmsnorm", -1),
    "com.microsoft.LayerNormalization": _norm("layernorm", -1),
    "SimplifiedLayerNormalization": _norm("rmsnorm", -1),
    "com.microsoft.SimplifiedLayerNormalization": _norm("rmsnorm", -1),
    "com.microsoft.SkipLayerNormalization": _skip_norm("layernorm"),
    "com.microsoft.SkipSimplifiedLayerNormalization": _skip_norm("rmsnorm"),
    "GroupNormalization": _norm("groupnorm", 1), "InstanceNormalization": _norm("instancenorm", 2),
    "MeanVarianceNormalization": _norm("instancenorm", 1),
    "Transpose": _transpose, "Expand": _expand,
}
"""Operators without, whose shapes must be known to be understood."""
