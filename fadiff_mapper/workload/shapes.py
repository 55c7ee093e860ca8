"""Which shapes fit together: the output of a node from those of its operands, and the complaints where they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import REPEAT, Operator, Shape

Operands = Sequence[Shape | None]


def output_shape(node: Node, operands: Operands) -> Shape | None:
    """The shape of a node's output, None where the file leaves it open.

    Raises SpecError naming the node where an operand does not fit, or where the stated shape contradicts them.
    """
    if node.layer:
        for dataspace, shape in zip(node.operands, operands, strict=True):
            _check_operand(node, node.layer, dataspace, shape)
        found: Shape | None = node.layer.tensor_shape(node.layer.problem.output.name)
        if node.shape is not None and found is not None:
            _same_size(node, node.shape, found, "its output")
        return node.shape or found
    if node.kind == "reshape" and node.shape is None:
        raise node.where.error(f"{node.name}: a reshape does not say what to", "out: [...]")
    found = _of_kind(node, operands)
    if node.shape is None:
        return found
    if node.kind == "reshape" and found is not None:
        _same_size(node, node.shape, found, "its output")
    elif found is not None and not _agree(node, node.shape, found):
        raise node.where.error(f"{node.name} ({node.op}) is said to be {_shown(node.shape)}, its operands make it "
                               f"{_shown(found)}")
    return node.shape


def _agree(node: Node, stated: Shape, found: Shape) -> bool:
    """Whether a stated shape can be right. A constant operand may broadcast, a reduction may drop its axes."""
    if node.kind == "join":
        return math.prod(stated) % math.prod(found) == 0
    if node.kind == "reduce":
        return math.prod(stated) == math.prod(found)
    if node.kind == "pool":  # rounding up, or part of a window beyond the edge
        return len(stated) == len(found) and all(0 <= a - b <= 1 for a, b in zip(stated, found, strict=True))
    return stated == found


def _of_kind(node: Node, operands: Operands) -> Shape | None:
    if node.kind == "join":
        return _broadcast(node, [shape for shape in operands if shape is not None])
    shape = operands[0] if operands else None
    if shape is None or node.kind in ("opaque", "not_understood", "input"):
        return None
    if node.kind == "pool":
        return _pooled(node, shape)
    if node.kind == "transpose":
        if sorted(node.axes) != list(range(len(shape))):
            raise node.where.error(f"{node.name}: the axes {list(node.axes)} do not reorder a tensor of "
                                   f"{_shown(shape)}", f"each of 0 to {len(shape) - 1} once")
        return tuple(shape[axis] for axis in node.axes)
    if node.kind in ("rows", "reduce"):
        axes = whole_axes(node, len(shape))
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape)) if node.kind == "reduce" else shape
    return shape


def whole_axes(node: Node, rank: int) -> frozenset[int]:
    """The axes, counted from 0, along which a node of kind rows or reduce needs whole rows."""
    axes = node.axes or (-1,)
    if any(not -rank <= axis < rank for axis in axes):
        raise node.where.error(f"{node.name}: axes {list(axes)} of a tensor with {rank} axes", f"{-rank} to {rank - 1}")
    return frozenset(axis % rank for axis in axes)


def _broadcast(node: Node, shapes: Sequence[Shape]) -> Shape | None:
    if not shapes:
        return None
    rank = max(map(len, shapes))
    columns = list(zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True))
    if any(len(set(column) - {1}) > 1 for column in columns):
        raise node.where.error(f"{node.name} ({node.op}) joins tensors that do not fit: "
                               f"{', '.join(map(_shown, shapes))}", "equal shapes, or 1 along an axis")
    return tuple(max(column) for column in columns)


def _pooled(node: Node, shape: Shape) -> Shape | None:
    """floor((extent + padding - span) / stride) + 1 along every sliding axis."""
    window = node.window
    if window is None:
        return None
    lead = len(shape) - len(window.kernel)
    if lead < 1:
        raise node.where.error(f"{node.name}: a window over {len(window.kernel)} axes on a tensor of {_shown(shape)}")
    found = []
    for extent, kernel, stride, pad, dilation in zip(shape[lead:], window.kernel, window.stride, window.pad,
                                                     window.dilation, strict=True):
        room = extent + sum(pad) - (dilation * (kernel - 1) + 1)
        if room < 0:
            raise node.where.error(f"{node.name}: a window of {kernel} does not fit into {extent} with padding "
                                   f"{list(pad)}")
        found.append(room // stride + 1)
    return shape[:lead] + tuple(found)


def _check_operand(node: Node, layer: Operator, dataspace: str, shape: Shape | None) -> None:
    """A tensor fits a data space by its axes where these slide, else by its number of elements."""
    if shape is None:
        return
    wanted = layer.tensor_shape(dataspace)
    axes = layer.view(dataspace)
    if layer.op in ("gemm",) or REPEAT in axes[0]:
        _same_size(node, shape, wanted, dataspace)
        return
    if len(shape) != len(wanted):
        raise node.where.error(f"{node.name}: {dataspace} has {len(wanted)} axes {_shown(wanted)}, the tensor "
                               f"{_shown(shape)} has {len(shape)}")
    sliding = sliding_axes(layer, dataspace)
    for index, (found, extent) in enumerate(zip(shape, wanted, strict=True)):
        if index in sliding:
            _check_window(node, layer, dataspace, index, sliding[index], found, extent)
        elif found != extent:
            raise node.where.error(f"{node.name}: {dataspace} has {extent} along {'*'.join(axes[index])}, the tensor "
                                   f"{_shown(shape)} has {found}")


def sliding_axes(layer: Operator, dataspace: str) -> dict[int, int]:
    """Axis of a data space that windows slide over -> which of the layer's paddings is its own."""
    space = layer.dataspace(dataspace)
    ranks = {term.dimension: rank for rank in space.ranks for term in rank}
    found = [index for index, axis in enumerate(layer.view(dataspace))
             if axis != (REPEAT,) and any(len(ranks[name]) > 1 for name in axis)]
    return {axis: position for position, axis in enumerate(found)}


def slide(layer: Operator, dataspace: str, axis: int) -> tuple[int, int, int]:
    """(kernel, stride, dilation) of a layer along a sliding axis: the view names the output's dimension of the rank."""
    name = layer.view(dataspace)[axis][0]
    rank = next(rank for rank in layer.dataspace(dataspace).ranks if name in [term.dimension for term in rank])
    moving = next(term for term in rank if term.dimension == name)
    kernel = next(term for term in rank if term.dimension != name)
    return layer.problem.bounds[kernel.dimension], moving.coefficient, kernel.coefficient


def _check_window(node: Node, layer: Operator, dataspace: str, axis: int, position: int, found: int, read: int) -> None:
    """The tensor, padded, must give as many outputs as the layer has: read <= padded < read + stride."""
    kernel, stride, dilation = slide(layer, dataspace, axis)
    name = layer.view(dataspace)[axis][0]
    span = dilation * (kernel - 1)
    low, high = (found, found + 2 * span) if node.pad is None else (found + sum(node.pad[position]),) * 2
    if high < read or low >= read + stride:
        padding = "any usual padding" if node.pad is None else f"padding {list(node.pad[position])}"
        raise node.where.error(f"{node.name}: {dataspace} needs {read} along {name}, the tensor has {found} with "
                               f"{padding}")


def pad_before(node: Node, layer: Operator, dataspace: str, axis: int, position: int, found: int) -> int:
    """Padding before the first element: as stated, else half a kernel where the tensor is smaller than what is read."""
    if node.pad is not None:
        return node.pad[position][0]
    kernel, _, dilation = slide(layer, dataspace, axis)
    return dilation * (kernel - 1) // 2 if found < layer.tensor_shape(dataspace)[axis] else 0


def _same_size(node: Node, found: Shape, wanted: Shape, what: str) -> None:
    if math.prod(found) != math.prod(wanted):
        raise node.where.error(f"{node.name}: {what} is {_shown(wanted)}, {math.prod(wanted)} elements, the tensor "
                               f"{_shown(found)} has {math.prod(found)}")


def _shown(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "one number"
