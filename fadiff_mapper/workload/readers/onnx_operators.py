"""Turns ONNX operators into nodes: by the tables of `onnx_names`, or by a function where attributes matter.

`onnx_layers.LAYERS` holds the operators with multiply-accumulates, `onnx_between.OPERATORS` others that need
attributes. An operator in no table becomes a node that is not understood.
"""

from __future__ import annotations

from fadiff_mapper.workload import Node
from fadiff_mapper.workload.node import GENERIC
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.onnx_between import OPERATORS
from fadiff_mapper.workload.readers.onnx_call import OnnxCall
from fadiff_mapper.workload.readers.onnx_layers import LAYERS
from fadiff_mapper.workload.readers.onnx_names import ELEMENTWISE, JOINS, OPAQUE, OTHERS, POINTWISE, SAME
from fadiff_mapper.workload.readers.picked_details import Details, onnx_details


def understood(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """Adds the nodes of one ONNX node.

    Args:
        call: the ONNX node.
        to: the network.

    Returns:
        Its outputs, from nodes `not_understood` where no table has the operator or its shapes are not known.

    Raises:
        SpecError: an operator with multiply-accumulates lacks a shape, or attributes and operands contradict one
            another.
    """
    name = call.operator
    if name in LAYERS:
        return _results(call, LAYERS[name](call, to))
    if name in SAME:
        return _results(call, call.tensors[0])
    if name in POINTWISE or name in JOINS or name in ELEMENTWISE:
        return _results(call, _pointwise(call, to))
    known = call.tensors[0].known and call.outs[0] is not None
    if known and name in OPERATORS:
        return _results(call, OPERATORS[name](call, to))
    return _each_output(call, to)


def _results(call: OnnxCall, first: Tensor | list[Tensor]) -> list[Tensor]:
    """The first output, and the others as constants, since they carry no data on (masks, running statistics)."""
    if isinstance(first, list):
        return first[:len(call.outs)]
    return [first, *(Tensor(shape or ()) for shape in call.outs[1:])]


def _pointwise(call: OnnxCall, to: Assembly) -> Tensor:
    """Points of one tensor by themselves, or those of several joined; scales and zero points of integers are none."""
    if call.operator in JOINS:
        return to.plain_node(call.name, JOINS[call.operator], call.tensors, call.outs[0], call.where)
    read = [tensor for tensor in call.tensors if tensor.node]
    alone = len(read) == 1 and (not read[0].known or call.outs[0] in (None, read[0].shape))
    op = POINTWISE.get(call.operator, "elementwise") if alone else "combine"
    return to.plain_node(call.name, op, read, call.outs[0], call.where, what=call.operator if op in GENERIC else "")


def _each_output(call: OnnxCall, to: Assembly) -> list[Tensor]:
    """A node per output, opaque or not understood; a slice or a padding that changes nothing is left out."""
    if not any(call.operator in table for table in (OPAQUE, OPERATORS, OTHERS)):
        stated = [Tensor((len(value),)) for value in call.attributes.values() if isinstance(value, list)]
        stated += [Tensor(tuple(value.dims)) for value in call.attributes.values() if hasattr(value, "dims")]
        return to.unknown(call.name, call.operator, [*call.tensors, *stated], call.outs, call.where)
    outputs = []
    for index, shape in enumerate(call.outs):
        name = call.name if len(call.outs) == 1 else f"{call.name}.{index}"
        op = OPAQUE.get(call.operator, "other")
        same = op in ("slice", "pad", "expand", "resize") and shape == call.tensors[0].shape
        if same and call.tensors[0].known:
            outputs.append(call.tensors[0])
        else:
            outputs.append(_picked(call, to, name, index, op))
    return outputs


def _picked(call: OnnxCall, to: Assembly, name: str, index: int, op: str) -> Tensor:
    """A node that picks, repeats or puts together elements, with what its attributes and constants say of it."""
    first, details, shape = call.tensors[0], Details(), call.outs[index]
    if shape is not None and first.known:
        details = onnx_details(call.operator, call.attributes, call.numbers, first.shape, call.outs, index,
                               all(tensor.constant for tensor in call.tensors[1:]))
        op = "slice" if op == "gather" and details and len(shape) < len(first.shape) else op
    return to.put(Node(name, op, tuple(t.node for t in call.tensors if t.node), shape, where=call.where,
                       what=call.operator if op in GENERIC else "", **details))
