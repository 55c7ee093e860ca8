"""Axes of a tensor behind nodes that pick, repeat or put together elements: slices, concatenations, resizings.

Problem. Most of these nodes leave all axes but one as they are. Tiles along the others pass; along that one, they pass
where windows can say what is read, and else the dimensions behind it must be there whole.

    concat    the axis along which tensors are put together is scattered among all that come from the producer; the
              part of its points that comes from other tensors is `Picked.elsewhere`
    slice     the axis of which a part is taken is scattered: the producer computes all of it
    pad       a window of one point with padding where the node says how many zeros stand before, else scattered
    resize    a window that shrinks where the node states its interpolation, else scattered
    expand    an axis of one point that is repeated is scattered among nothing; one of more points among itself
    gather    picks along the axes that it states, which are scattered; without any, elements are picked by an index
              that is computed, and nothing is known
    interleave  several tensors whose points take turns along some axes, which are scattered
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fadiff_mapper.workload.axis_algebra import (
    SCATTERED,
    TensorAxis,
    WindowSlide,
    composable,
    scattered,
)
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Shape

FOLLOWED = ("concat", "slice", "pad", "resize", "expand", "gather", "interleave")
"""Nodes of the kind "opaque" of which this file knows what they do; of all others nothing is known."""

Axes = tuple[TensorAxis, ...]

Arrival = tuple[Axes | None, Shape | None]
"""The axes of an operand, None where it comes from elsewhere, and its shape."""


@dataclass(frozen=True)
class Picked:
    """Axes behind a node that picks, repeats or puts together elements.

    Attributes:
        axes: one per axis of the output; None where nothing is known.
        whole: axes of the operands whose dimensions must be there whole.
        elsewhere: the part of the output that comes from other tensors.
    """

    axes: Axes | None
    whole: tuple[TensorAxis, ...] = ()
    elsewhere: Fraction = Fraction(0)


def picked(node: Node, arrivals: Sequence[Arrival]) -> Picked:
    """The axes behind a node of the kind "opaque".

    Args:
        node: the node, of known shape.
        arrivals: its operands, of which at least one has axes.
    """
    assert node.shape is not None
    if node.op not in FOLLOWED:
        return Picked(None)
    if node.op == "concat":
        return _put_together(node, node.shape, arrivals)
    if node.op == "interleave":
        return _interleaved(node.shape, [axes for axes, _ in arrivals if axes is not None])
    axes = next(axes for axes, _ in arrivals if axes is not None)
    if node.op == "expand":
        return _repeated(node.shape, axes)
    if node.op == "slice" and len(axes) == len(node.shape) + 1 and len(node.axes) == 1:
        taken = axes[node.axes[0]]
        return Picked(axes[:node.axes[0]] + axes[node.axes[0] + 1:], (taken,))
    if len(axes) != len(node.shape) or (node.op == "gather" and not node.axes):
        return Picked(None)
    return _along_axes(node, node.shape, axes)


def _along_axes(node: Node, shape: Shape, axes: Axes) -> Picked:
    """A slice, a padding, a resizing, or elements picked along stated axes; all other axes stay."""
    result, whole = list(axes), []
    for index, (axis, extent) in enumerate(zip(axes, shape, strict=True)):
        if axis.extent == extent and not (node.op == "gather" and index in node.axes):
            continue
        window = _window(node, index, axis, extent)
        if window is not None and composable((*axis.slides, window)):
            result[index] = TensorAxis(extent, axis.pieces, (*axis.slides, window))
        else:
            result[index] = scattered([axis], extent)
            whole.append(axis)
    return Picked(tuple(result), tuple(whole))


def _window(node: Node, index: int, axis: TensorAxis, extent: int) -> WindowSlide | None:
    """The window through which a padded or resized axis is read; None where the node does not say, or none can."""
    regular = len(axis.pieces) == 1 and axis.pieces[0].dimension != SCATTERED
    if not regular:
        return None
    if node.op == "pad" and index in node.axes and node.window is not None:
        return WindowSlide(1, 1, 1, node.window.pad[node.axes.index(index)][0])
    if node.op == "resize" and node.window is not None and extent % axis.extent == 0:
        place = index - (len(node.shape or ()) - len(node.window.kernel))
        if place >= 0:
            return WindowSlide(node.window.kernel[place], 1, 1, node.window.pad[place][0], extent // axis.extent)
    return None


def _interleaved(shape: Shape, own: Sequence[Axes]) -> Picked:
    """Points of several tensors in turn, along all axes that are longer behind the node than before it."""
    if any(len(axes) != len(shape) for axes in own):
        return Picked(None)
    columns = [list(dict.fromkeys(axes[index] for axes in own)) for index in range(len(shape))]
    longer = [any(axis.extent != extent for axis in column) for column, extent in zip(columns, shape, strict=True)]
    result = tuple(scattered(column, extent) if grown or len(column) > 1 else column[0]
                   for column, extent, grown in zip(columns, shape, longer, strict=True))
    elements = sum(math.prod(axis.extent for axis in axes) for axes in own)
    whole = tuple(axis for column, grown in zip(columns, longer, strict=True) if grown for axis in column)
    return Picked(result, whole, max(1 - Fraction(elements, math.prod(shape)), Fraction(0)))


def _repeated(shape: Shape, axes: Axes) -> Picked:
    """Axes aligned at the last one; those of one point are repeated."""
    padded = (TensorAxis(1, ()),) * (len(shape) - len(axes)) + axes
    if len(padded) != len(shape):
        return Picked(None)
    return Picked(tuple(axis if axis.extent == extent else scattered([axis] if axis.extent > 1 else [], extent)
                        for axis, extent in zip(padded, shape, strict=True)),
                  tuple(axis for axis, extent in zip(padded, shape, strict=True) if 1 < axis.extent != extent))


def _put_together(node: Node, shape: Shape, arrivals: Sequence[Arrival]) -> Picked:
    """Tensors one behind the other along one axis, or as the points of a new one."""
    own = [axes for axes, _ in arrivals if axes is not None]
    stacked = len(own[0]) + 1 == len(shape)
    if stacked:
        if len(node.axes) != 1:
            return Picked(None)
        own = [(*axes[:node.axes[0]], TensorAxis(1, ()), *axes[node.axes[0]:]) for axes in own]
    if any(len(axes) != len(shape) for axes in own):
        return Picked(None)
    joined = [index for index, extent in enumerate(shape) if any(axes[index].extent != extent for axes in own)]
    if len(joined) > 1 or not joined:
        return Picked(None)
    (along,) = joined
    columns = [list(dict.fromkeys(axes[index] for axes in own)) for index in range(len(shape))]
    if any(len(column) > 1 and any(axis.slides for axis in column) for column in columns):
        return Picked(None)
    result = tuple(scattered(column, extent) if index == along or len(column) > 1 else column[0]
                   for index, (column, extent) in enumerate(zip(columns, shape, strict=True)))
    elements = sum(math.prod(axis.extent for axis in axes) for axes in own)
    return Picked(result, tuple(axes[along] for axes in own), 1 - Fraction(elements, math.prod(shape)))
