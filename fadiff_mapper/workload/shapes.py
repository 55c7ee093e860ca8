"""Shapes of tensors: the output of a node from the tensors that it reads, and errors where these do not fit.

An operator's tensors fit its problem by extent, axis by axis, except along sliding axes: the problem counts the padded
points that its windows read (padding as data), the tensor has only the real ones, so a range of extents is accepted
(`_check_window`). Extents of windows are those of `WindowSlide.reach`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import REPEAT, Operator, Shape
from fadiff_mapper.workload.window_slide import WindowSlide

Operands = Sequence[Shape | None]
"""Shapes of the tensors that a node reads; None where a shape is not known."""


def output_shape(node: Node, operands: Operands) -> Shape | None:
    """The shape of a node's output.

    Args:
        node: the node, with a stated shape or without.
        operands: shapes of the tensors that it reads, in the order of `node.inputs`.

    Returns:
        The stated shape, else the one that follows from the operands; None where the source leaves it open.

    Raises:
        SpecError: an operand does not fit, or the stated shape contradicts them; the message names the node.
    """
    if node.layer:
        for dataspace, shape in zip(node.operands, operands, strict=True):
            _check_operand(node, node.layer, dataspace, shape)
        computed = node.layer.tensor_shape(node.layer.problem.output.name)
        if node.shape is not None:
            _same_size(node, node.shape, computed, "its output")
        return node.shape or computed
    if node.kind == "reshape" and node.shape is None:
        raise node.where.error(f"{node.name}: a reshape does not say what to", "out: [...]")
    inferred = _inferred_shape(node, operands)
    if node.shape is None:
        return inferred
    if node.kind == "reshape" and inferred is not None:
        _same_size(node, node.shape, inferred, "its output")
    elif inferred is not None and not _agree(node, node.shape, inferred):
        raise node.where.error(f"{node.name} ({node.op}) is said to be {_shown(node.shape)}, its operands make it "
                               f"{_shown(inferred)}")
    return node.shape


def _agree(node: Node, stated: Shape, inferred: Shape) -> bool:
    """True if a stated shape can be right: a constant operand may broadcast, a reduction may drop its axes."""
    if node.kind == "join":
        aligned = zip(reversed(stated), reversed(inferred), strict=False)
        return len(stated) >= len(inferred) and all(own in (1, whole) for whole, own in aligned)
    if node.kind == "reduce":
        return math.prod(stated) == math.prod(inferred)
    if node.kind == "pool":  # rounding up, or part of a window beyond the edge
        return len(stated) == len(inferred) and all(0 <= a - b <= 1 for a, b in zip(stated, inferred, strict=True))
    return stated == inferred


def _inferred_shape(node: Node, operands: Operands) -> Shape | None:
    """The output of a node without multiply-accumulates, from its kind; None where it does not follow."""
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


def possible_macs(operands: Operands, results: Operands) -> int | None:
    """Multiply-accumulates that an operator may well have of which nothing but its tensors is known.

    No contraction of two tensors of a and b elements to one of c has more than sqrt(a b c) of them (the inequality of
    Loomis and Whitney), and a matrix product has just as many. An operator that multiplies more than once has more.

    Args:
        operands: shapes of the tensors that it reads, constants among them.
        results: shapes of those that it writes.

    Returns:
        The number for its two largest operands (one counts twice) and all its results; results of unknown shapes count
        as the largest operand. None where no shape of an operand is known.
    """
    read = sorted((math.prod(shape) for shape in operands if shape is not None), reverse=True)
    if not read:
        return 0 if not operands else None
    written = sum(read[0] if shape is None else math.prod(shape) for shape in results)
    return math.isqrt(read[0] * read[:2][-1] * written)


def whole_axes(node: Node, rank: int) -> frozenset[int]:
    """The axes along which a node of kind rows or reduce needs whole rows.

    Args:
        node: the node, with the axes that it states; the last one where it states none.
        rank: number of axes of its operand.

    Returns:
        Axes counted from 0.

    Raises:
        SpecError: the operand has no such axis.
    """
    axes = node.axes or (-1,)
    if any(not -rank <= axis < rank for axis in axes):
        raise node.where.error(f"{node.name}: axes {list(axes)} of a tensor with {rank} axes", f"{-rank} to {rank - 1}")
    return frozenset(axis % rank for axis in axes)


def _broadcast(node: Node, shapes: Sequence[Shape]) -> Shape | None:
    """The shape of a join: axes are aligned at the last one, points of extent 1 repeated (NumPy's rule)."""
    if not shapes:
        return None
    rank = max(map(len, shapes))
    columns = list(zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True))
    if any(len(set(column) - {1}) > 1 for column in columns):
        raise node.where.error(f"{node.name} ({node.op}) joins tensors that do not fit: "
                               f"{', '.join(map(_shown, shapes))}", "equal shapes, or 1 along an axis")
    return tuple(max(column) for column in columns)


def _pooled(node: Node, shape: Shape) -> Shape | None:
    """The shape behind a pool: floor((extent + padding - window) / stride) + 1 along every sliding axis."""
    window = node.window
    if window is None:
        return None
    lead = len(shape) - len(window.kernel)
    if lead < 1:
        raise node.where.error(f"{node.name}: a window over {len(window.kernel)} axes on a tensor of {_shown(shape)}")
    pooled = []
    for extent, kernel, stride, pad, dilation in zip(shape[lead:], window.kernel, window.stride, window.pad,
                                                     window.dilation, strict=True):
        room = extent + sum(pad) - WindowSlide(kernel, stride, dilation).reach(1)
        if room < 0 and (node.shape is None or room <= -stride):  # rounded up, a part of a window counts as one
            raise node.where.error(f"{node.name}: a window of {kernel} does not fit into {extent} with padding "
                                   f"{list(pad)}")
        pooled.append(room // stride + 1)
    return shape[:lead] + tuple(pooled)


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
    for index, (given, extent) in enumerate(zip(shape, wanted, strict=True)):
        if index in sliding:
            _check_window(node, layer, dataspace, index, sliding[index], given, extent)
        elif given != extent:
            raise node.where.error(f"{node.name}: {dataspace} has {extent} along {'*'.join(axes[index])}, the tensor "
                                   f"{_shown(shape)} has {given}")


def sliding_axes(layer: Operator, dataspace: str) -> dict[int, int]:
    """The axes of a data space that windows slide over.

    Args:
        layer: the operator.
        dataspace: one of its data spaces.

    Returns:
        Axis of the tensor -> position among the operator's paddings (`Node.pad`).
    """
    space = layer.dataspace(dataspace)
    ranks = {term.dimension: rank for rank in space.ranks for term in rank}
    sliding = [index for index, axis in enumerate(layer.view(dataspace))
               if axis != (REPEAT,) and any(len(ranks[name]) > 1 for name in axis)]
    return {axis: position for position, axis in enumerate(sliding)}


def own_slide(layer: Operator, dataspace: str, axis: int) -> WindowSlide:
    """An operator's window along a sliding axis, without padding; the view names the output's dimension of the rank.

    Args:
        layer: the operator.
        dataspace: one of its data spaces.
        axis: a key of `sliding_axes`.
    """
    name = layer.view(dataspace)[axis][0]
    rank = next(rank for rank in layer.dataspace(dataspace).ranks if name in [term.dimension for term in rank])
    moving = next(term for term in rank if term.dimension == name)
    kernel = next(term for term in rank if term.dimension != name)
    return WindowSlide(layer.problem.bounds[kernel.dimension], moving.coefficient, kernel.coefficient)


def _check_window(node: Node, layer: Operator, dataspace: str, axis: int, position: int, extent: int,
                  read: int) -> None:
    """The tensor, padded, must give as many outputs as the operator has: read <= padded < read + stride.

    Where no padding is stated, any from none to a window less a point on either side is accepted.
    """
    slide = own_slide(layer, dataspace, axis)
    name = layer.view(dataspace)[axis][0]
    most = 2 * (slide.reach(1) - 1)
    low, high = (extent, extent + most) if node.pad is None else (extent + sum(node.pad[position]),) * 2
    if high < read or low >= read + slide.stride:
        padding = "any usual padding" if node.pad is None else f"padding {list(node.pad[position])}"
        raise node.where.error(f"{node.name}: {dataspace} needs {read} along {name}, the tensor has {extent} with "
                               f"{padding}")


def pad_before(node: Node, layer: Operator, dataspace: str, axis: int, position: int, extent: int) -> int:
    """Padding before the first element of a sliding axis.

    Args:
        node: the operator's node.
        layer: its problem.
        dataspace: the data space that the tensor becomes.
        axis: a sliding axis of it.
        position: the axis' position among the paddings.
        extent: points of the tensor along the axis.

    Returns:
        The padding as stated; else half a window where the tensor is smaller than the points that are read, or 0.
    """
    if node.pad is not None:
        return node.pad[position][0]
    span = own_slide(layer, dataspace, axis).reach(1) - 1
    return span // 2 if extent < layer.tensor_shape(dataspace)[axis] else 0


def _same_size(node: Node, shape: Shape, wanted: Shape, what: str) -> None:
    """Raises SpecError where a tensor has another number of elements than `what` has."""
    if math.prod(shape) != math.prod(wanted):
        raise node.where.error(f"{node.name}: {what} is {_shown(wanted)}, {math.prod(wanted)} elements, the tensor "
                               f"{_shown(shape)} has {math.prod(shape)}")


def _shown(shape: Shape) -> str:
    """A shape for messages."""
    return " x ".join(map(str, shape)) or "one number"
