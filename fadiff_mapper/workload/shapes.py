"""Shapes of tensors: the output of a node from the tensors that it reads, and errors where these do not fit.

An operator's tensors fit its problem by extent, axis by axis, except along sliding axes. There the problem counts
padding as data, and the tensor has only the real points, so a range of extents is accepted.
Extents of windows come from `WindowSlide.reach`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import REPEAT, Operator, Shape
from fadiff_mapper.workload.window_slide import WindowSlide

Operands = Sequence[Shape | None]  # shapes of the tensors that a node reads; None where a shape is not known


def output_shape(node: Node, operands: Operands) -> Shape | None:
    """The stated shape of a node's output, else the inferred shape; None where neither is known.

    Raises SpecError where an operand does not fit, or the stated shape contradicts them; the message names the node.
    """
    stated = node.shape
    if node.layer:
        for dataspace, shape in zip(node.operands, operands, strict=True):
            if shape is not None:
                _check_operand(node, node.layer, dataspace, shape)
        computed = node.layer.tensor_shape(node.layer.problem.output.name)
        if stated is not None:
            _check_same_size(node, stated, computed, "its output")
        return stated or computed
    if node.kind == "reshape" and stated is None:
        raise node.where.error(f"{node.name}: a reshape does not say what to", "out: [...]")
    inferred = _inferred_shape(node, operands)
    if stated is None or inferred is None:
        return inferred if stated is None else stated
    if node.kind == "reshape":
        _check_same_size(node, stated, inferred, "its output")
        return stated
    if node.kind == "join":  # a constant operand may broadcast
        aligned = zip(reversed(stated), reversed(inferred), strict=False)
        agree = len(stated) >= len(inferred) and all(own in (1, whole) for whole, own in aligned)
    elif node.kind == "reduce":  # which may drop its axes
        agree = math.prod(stated) == math.prod(inferred)
    elif node.kind == "pool":  # one more output point where the division is rounded up
        agree = len(stated) == len(inferred) and all(0 <= a - b <= 1 for a, b in zip(stated, inferred, strict=True))
    else:
        agree = stated == inferred
    if not agree:
        raise node.where.error(f"{node.name} ({node.op}) is said to be {_shown(stated)}, its operands make it "
                               f"{_shown(inferred)}")
    return stated


def _inferred_shape(node: Node, operands: Operands) -> Shape | None:
    """The output shape of a node without multiply-accumulates, from its kind; None where it cannot be inferred."""
    if node.kind == "join":  # axes are aligned at the last one, points of extent 1 repeated (NumPy's rule)
        shapes = [shape for shape in operands if shape is not None]
        rank = max(map(len, shapes), default=0)
        columns = list(zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True))
        if any(len(set(column) - {1}) > 1 for column in columns):
            raise node.where.error(f"{node.name} ({node.op}) joins tensors that do not fit: "
                                   f"{', '.join(map(_shown, shapes))}", "equal shapes, or 1 along an axis")
        return tuple(max(column) for column in columns) if shapes else None
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
    """Estimates the multiply-accumulates of an operator of which only the tensors are known.

    A contraction of tensors of a and b elements to a tensor of c elements has at most sqrt(a b c) multiply-accumulates
    (the inequality of Loomis and Whitney); a matrix product has exactly as many. An operator of several contractions
    may have more. Here a and b are the two largest operands (a single one counts twice), and c all results together;
    results of unknown shapes count as the largest operand. None where no shape of an operand is known.
    """
    read = sorted((math.prod(shape) for shape in operands if shape is not None), reverse=True)
    if not read:
        return 0 if not operands else None
    written = sum(read[0] if shape is None else math.prod(shape) for shape in results)
    return math.isqrt(read[0] * read[:2][-1] * written)


def whole_axes(node: Node, rank: int) -> frozenset[int]:
    """The axes, counted from 0, along which a node of the kind rows or reduce needs whole rows of its operand.

    The last axis counts where the node states none. Raises SpecError where the operand has no such axis.
    """
    axes = node.axes or (-1,)
    if any(not -rank <= axis < rank for axis in axes):
        raise node.where.error(f"{node.name}: axes {list(axes)} of a tensor with {rank} axes", f"{-rank} to {rank - 1}")
    return frozenset(axis % rank for axis in axes)


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
        if room < 0 and (node.shape is None or room <= -stride):  # rounded up, a part of a window counts as a window
            raise node.where.error(f"{node.name}: a window of {kernel} does not fit into {extent} with padding "
                                   f"{list(pad)}")
        pooled.append(room // stride + 1)
    return shape[:lead] + tuple(pooled)


def _check_operand(node: Node, layer: Operator, dataspace: str, shape: Shape) -> None:
    """Checks a tensor against a data space: axis by axis where windows slide, else by its number of elements.

    Along a sliding axis the padded tensor must give as many outputs as the operator has: read <= padded < read +
    stride. Where no padding is stated, each side may have up to a window less a point. Raises SpecError.
    """
    wanted, axes = layer.tensor_shape(dataspace), layer.view(dataspace)
    if layer.op == "gemm" or REPEAT in axes[0]:
        _check_same_size(node, shape, wanted, dataspace)
        return
    if len(shape) != len(wanted):
        raise node.where.error(f"{node.name}: {dataspace} has {len(wanted)} axes {_shown(wanted)}, the tensor "
                               f"{_shown(shape)} has {len(shape)}")
    windows = sliding_windows(layer, dataspace)
    for index, (extent, read) in enumerate(zip(shape, wanted, strict=True)):
        if index not in windows:
            if extent != read:
                raise node.where.error(f"{node.name}: {dataspace} has {read} along {'*'.join(axes[index])}, the tensor "
                                       f"{_shown(shape)} has {extent}")
            continue
        slide, pad = windows[index], None if node.pad is None else node.pad[list(windows).index(index)]
        low, high = (extent, extent + 2 * (slide.reach(1) - 1)) if pad is None else (extent + sum(pad),) * 2
        if high < read or low >= read + slide.stride:
            padding = "any usual padding" if pad is None else f"padding {list(pad)}"
            raise node.where.error(f"{node.name}: {dataspace} needs {read} along {axes[index][0]}, the tensor has "
                                   f"{extent} with {padding}")


def sliding_windows(layer: Operator, dataspace: str) -> dict[int, WindowSlide]:
    """The axes of a data space that windows slide over, in the order of the operator's paddings (`Node.pad`).

    Returns the axis of the tensor -> the operator's window over it, without padding.
    """
    ranks = {term.dimension: rank for rank in layer.dataspace(dataspace).ranks for term in rank}
    windows = {}
    for index, axis in enumerate(layer.view(dataspace)):
        if axis != (REPEAT,) and any(len(ranks[name]) > 1 for name in axis):  # the view names the output's dimension
            moving = next(term for term in ranks[axis[0]] if term.dimension == axis[0])
            kernel = next(term for term in ranks[axis[0]] if term.dimension != axis[0])
            windows[index] = WindowSlide(layer.problem.bounds[kernel.dimension], moving.coefficient, kernel.coefficient)
    return windows


def _check_same_size(node: Node, shape: Shape, wanted: Shape, what: str) -> None:
    """Raises SpecError where a tensor has another number of elements than `what` has."""
    if math.prod(shape) != math.prod(wanted):
        raise node.where.error(f"{node.name}: {what} is {_shown(wanted)}, {math.prod(wanted)} elements, the tensor "
                               f"{_shown(shape)} has {math.prod(shape)}")


def _shown(shape: Shape) -> str:
    return " x ".join(map(str, shape)) or "one number"
