"""Turns ATen operators into nodes: by the tables of `torch_names`, or by a function where arguments matter.

`torch_layers.LAYERS` holds the operators with multiply-accumulates, `torch_between.FUNCTIONS` others that need
arguments. Operators in no table are taken by PyTorch's own tags (pointwise, reduction); the rest become nodes that are
not understood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fadiff_mapper.workload import Node
from fadiff_mapper.workload.node import GENERIC
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.picked_details import torch_details
from fadiff_mapper.workload.readers.torch_between import FUNCTIONS
from fadiff_mapper.workload.readers.torch_call import TorchCall
from fadiff_mapper.workload.readers.torch_layers import LAYERS, complex_product
from fadiff_mapper.workload.readers.torch_names import (
    ELEMENTWISE,
    FILLS,
    FURTHER_REDUCTIONS,
    JOINS,
    OPAQUE,
    OTHERS,
    POINTWISE,
    REDUCE,
    RESHAPES,
    ROWS,
    SAME,
)


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
