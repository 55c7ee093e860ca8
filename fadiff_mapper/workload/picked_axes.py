"""Axes of a tensor behind nodes that pick, repeat or put together elements: slices, concatenations, resizings.

Problem. Most of these nodes leave all axes but one as they are. Tiles along the others pass; along that one, they pass
where windows can say what is read, and else the dimensions behind it must be there whole.

    concat    the axis along which tensors are put together is scattered among all that come from the producer; the
              part of its points that comes from other tensors is `Picked.elsewhere`
    slice     the axis of which a part is taken is scattered: the producer computes all of it. Where several tensors
              stand along that axis, the places that are taken must be stated
    pad       a window of one point with padding where the node says how many zeros stand before, else scattered
    resize    a window that shrinks where the node states its interpolation, else scattered
    expand    an axis of one point that is repeated is scattered among nothing; one of more points among itself
    gather    picks along the axes that it states, which are scattered; without any, elements are picked by an index
              that is computed, and nothing is known
    scatter   where the places of an axis are stated that another tensor takes, that axis is scattered among both
    interleave  several tensors whose points take turns along some axes, which are scattered
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.origins import (
    Origins,
    all_own,
    overwritten,
    put_together,
    share_from_elsewhere,
    taken,
    uniform,
)
from fadiff_mapper.workload.window_slide import WindowSlide, composable, composed

# Problem. Two operators can share tiles where a dimension of the consumer runs over one of the producer, through
# windows at most, and all other dimensions are there whole. Between them a tensor may be pooled, transposed,
# reshaped, cut, repeated, resized and put together with others.
#
# Method. An axis is a row of pieces, major first, and the windows that slid over it since (`TensorAxis`):
#
# a whole dimension         one piece:  AxisPiece("P", 112)
# a reshape                 cuts pieces up or puts them side by side (`regrouped`):
#                           M = 64 channels as 8 heads of 8 are AxisPiece("M", 8, step=8) and AxisPiece("M", 8), and
#                           put side by side again they join to AxisPiece("M", 64)
# a transpose               moves axes
# a pool, a padding         adds a window: WindowSlide(kernel, stride, dilation, pad)
# a resizing by two         adds a window that shrinks: WindowSlide(1, 1, shrink=2)
# a slice, a concatenation  scatters the pieces (`scattered`): the axis still has points of known dimensions, in an
#                           order that no tile follows, so that these dimensions must be there whole
# a repetition              is a scattered piece among no dimension at all
#
# So an arrangement of heads, or a flattening, is followed exactly, or is known to need whole dimensions.
#
# Worked example. A convolution writes [1, 64, 112, 112]; a max pool of 3 x 3, stride 2, padding 1 makes [1, 64, 56,
# 56]; a convolution of 3 x 3, stride 2, padding 1 reads it and has P = 28 rows of outputs.
#
# axis of rows behind the producer    TensorAxis(112, (AxisPiece("P", 112),))
# behind the pool                     TensorAxis(56, (AxisPiece("P", 112),), (WindowSlide(3, 2, 1, 1),))
# the consumer's own window           WindowSlide(3, 2, 1, 1)
# both as one (`composed`)            WindowSlide(7, 4, 1, 3): kernel (3 - 1) * 2 + 3 = 7, stride 2 * 2 = 4, padding
#                                     1 + 2 * 1 = 3
#
# A tile of two output rows reads (2 - 1) * 4 + 7 = 11 rows of the producer, from row 0 * 4 - 3 on; rows below 0 are
# padding. Consecutive tiles of two rows start 8 rows apart, so their halo is 3 rows.

SCATTERED = "?"
"""The dimension of a piece whose points follow no dimension of the producer."""


@dataclass(frozen=True)
class AxisPiece:
    """A part of one dimension of the producer: the points 0, step, 2 * step, ... within a piece that is further out.

    Attributes:
        dimension: the producer's dimension, `operator.REPEAT` for its runs, or `SCATTERED`.
        extent: number of steps.
        step: points from one step to the next, the extent of all minor pieces of the same dimension.
        among: of a scattered piece, the dimensions that its points come from, each with the length of the aligned
            stretches that hold them: 128 where channels are rearranged within each head of 128.
    """

    dimension: str
    extent: int
    step: int = 1
    among: frozenset[tuple[str, int]] = frozenset()

    @property
    def spans(self) -> frozenset[tuple[str, int]]:
        """Each dimension of the piece with the length of the aligned stretches that its points lie in."""
        return self.among if self.dimension == SCATTERED else frozenset({(self.dimension, self.extent * self.step)})


@dataclass(frozen=True)
class TensorAxis:
    """An axis of a tensor.

    Attributes:
        extent: its points.
        pieces: the parts of the producer's dimensions that it runs over, major first; none for a single point.
        slides: the windows that slid over the pieces since, in order.
    """

    extent: int
    pieces: tuple[AxisPiece, ...]
    slides: tuple[WindowSlide, ...] = ()


def axis_of(pieces: Sequence[AxisPiece]) -> TensorAxis:
    """An axis over some pieces: single points are dropped, neighbours that continue each other joined.

    Args:
        pieces: parts of the producer's dimensions, major first.
    """
    joined: list[AxisPiece] = []
    for piece in pieces:
        if piece.extent == 1:
            continue
        last = joined[-1] if joined else None
        if last and last.dimension == piece.dimension == SCATTERED:
            joined[-1] = AxisPiece(SCATTERED, last.extent * piece.extent, 1, last.among | piece.among)
        elif last and last.dimension == piece.dimension and last.step == piece.extent * piece.step:
            joined[-1] = AxisPiece(piece.dimension, last.extent * piece.extent, piece.step)
        else:
            joined.append(piece)
    return TensorAxis(math.prod(piece.extent for piece in joined), tuple(joined))


def merged(axes: Sequence[TensorAxis]) -> TensorAxis:
    """The axis of a tensor that arrives over several paths, arranged or slid over differently.

    Args:
        axes: the axis as it arrives over each path, all of the same extent.

    Returns:
        An axis behind one window that covers those of all paths, where they slide over the same pieces with equal
        strides: x and a pool of x, 5 wide, are together read through the window of the pool. Else a scattered one.
    """
    extent, pieces = axes[0].extent, axes[0].pieces
    slides = [composed(axis.slides) for axis in axes if composable(axis.slides)]
    fits = len(slides) == len(axes) and all(axis.pieces == pieces for axis in axes) and all(
        (slide.stride, slide.shrink, slide.block) == (slides[0].stride, 1, 1) for slide in slides)
    if not fits or any(piece.dimension == SCATTERED for piece in pieces):
        return scattered(axes, extent)
    pad = max(slide.pad for slide in slides)
    kernel = pad + max(slide.reach(1) - slide.pad for slide in slides)
    return TensorAxis(extent, pieces, (WindowSlide(kernel, slides[0].stride, 1, pad),))


def scattered(axes: Sequence[TensorAxis], extent: int) -> TensorAxis:
    """An axis of some extent whose points come from those of other axes, in an order that no tile follows.

    Args:
        axes: the axes that the points come from; none where they are repeated or come from elsewhere.
        extent: points of the axis.
    """
    among = frozenset(span for axis in axes for piece in axis.pieces for span in piece.spans)
    return TensorAxis(extent, (AxisPiece(SCATTERED, extent, 1, among),) if extent > 1 else ())


def regrouped(axes: Sequence[TensorAxis], shape: Shape) -> tuple[TensorAxis, ...]:
    """The axes of a reshaped tensor: the same elements in the same order under another shape.

    Args:
        axes: the axes before.
        shape: the extents after.

    Returns:
        An axis per extent. Stretches of axes of equal size are taken together: an axis that stays as it is keeps its
        windows, others are cut at the new boundaries. The points of an axis behind windows are scattered then, and
        where the boundaries do not divide the pieces, those of the whole stretch; all of them where the tensor has
        another number of elements than stated.
    """
    if math.prod(axis.extent for axis in axes) != math.prod(shape):
        return tuple(scattered(axes, extent) for extent in shape)
    result: list[TensorAxis] = []
    rest = [axis for axis in axes if axis.extent != 1]
    wanted = list(shape)
    while wanted:
        if wanted[0] == 1:
            result.append(TensorAxis(1, ()))
            wanted.pop(0)
            continue
        old, new = _stretch(rest, wanted)
        result += [old[0]] if len(old) == len(new) == 1 else _cut(old, new)
        rest, wanted = rest[len(old):], wanted[len(new):]
    return tuple(result)


def _stretch(rest: Sequence[TensorAxis], wanted: Sequence[int]) -> tuple[Sequence[TensorAxis], Sequence[int]]:
    """The shortest heads of both lists with equal products, which exist since the whole products are equal."""
    old, new = 1, 1
    size_old, size_new = rest[0].extent, wanted[0]
    while size_old != size_new:
        if size_old < size_new:
            size_old *= rest[old].extent
            old += 1
        else:
            size_new *= wanted[new]
            new += 1
    return rest[:old], wanted[:new]


def _cut(axes: Sequence[TensorAxis], shape: Sequence[int]) -> list[TensorAxis]:
    """The pieces of several axes as axes of these extents."""
    pieces = [piece for axis in axes
              for piece in (scattered([axis], axis.extent) if axis.slides else axis).pieces]
    result = []
    for extent in reversed(shape):  # from the minor end, where a boundary falls at a multiple
        taken: list[AxisPiece] = []
        while extent > 1:
            piece = pieces.pop()
            share = math.gcd(piece.extent, extent)
            if share not in (piece.extent, extent):
                return [scattered(axes, size) for size in shape]
            step = 0 if piece.dimension == SCATTERED else piece.step
            taken.append(AxisPiece(piece.dimension, share, step or 1, piece.among))
            if share < piece.extent:
                pieces.append(AxisPiece(piece.dimension, piece.extent // share, step * share or 1, piece.among))
            extent //= share
        result.append(axis_of(taken[::-1]))
    return result[::-1]


FOLLOWED = ("concat", "slice", "pad", "resize", "expand", "gather", "interleave")
"""Nodes of the kind "opaque" of which this file knows what they do; of all others nothing is known."""

Axes = tuple[TensorAxis, ...]

@dataclass(frozen=True)
class Arrival:
    """An operand of a node.

    Attributes:
        axes: its axes in the producer's dimensions; None where it comes from elsewhere.
        shape: its extents, None where they are not known.
        own: the elements that the producer makes; None where their places are not known.
        elsewhere: the part of the elements that other tensors bring.
    """

    axes: Axes | None
    shape: Shape | None
    own: Origins | None = field(default=None, compare=False)
    elsewhere: Fraction = Fraction(0)


@dataclass(frozen=True)
class Picked:
    """A tensor behind a node that picks, repeats or puts together elements.

    Attributes:
        axes: one per axis of the output; None where an obstacle stands in the way.
        whole: axes of the operands whose dimensions must be there whole.
        own: the elements that the producer makes; None where their places are not known.
        elsewhere: the part of the output that comes from other tensors.
        obstacle: where there are no axes, the reason: a key of `obstacles.OBSTACLES`.
    """

    axes: Axes | None
    whole: tuple[TensorAxis, ...] = ()
    own: Origins | None = field(default=None, compare=False)
    elsewhere: Fraction = Fraction(0)
    obstacle: str = ""


NOT_FOLLOWED = {"scatter": "placed", "sort": "sorted", "recurrence": "in_turn"}
"""Nodes that are not followed -> the obstacle that they are; of all others nothing is known."""


def picked(node: Node, arrivals: Sequence[Arrival]) -> Picked:
    """The tensor behind a node of the kind "opaque".

    Args:
        node: the node, of known shape.
        arrivals: its operands, of which at least one has axes.
    """
    assert node.shape is not None
    if node.op == "scatter" and len(node.axes) == 1 and node.window is not None:
        return _overwritten(node, node.shape, arrivals)
    if node.op not in FOLLOWED:
        return _refused(NOT_FOLLOWED.get(node.op, "untold"))
    if node.op == "concat":
        return _put_together(node, node.shape, arrivals)
    if node.op == "interleave":
        return _interleaved(node.shape, arrivals)
    arrival = next(arrival for arrival in arrivals if arrival.axes is not None)
    assert arrival.axes is not None
    if node.op == "expand":
        return _repeated(node.shape, arrival)
    if any(not 0 <= axis < len(arrival.axes) for axis in node.axes):
        return _refused("untold")
    if node.op == "slice" and len(arrival.axes) == len(node.shape) + 1 and len(node.axes) == 1:
        return _one_point(node, arrival)
    if node.op == "gather" and not node.axes:
        return _refused("picked")
    if len(arrival.axes) != len(node.shape):
        return _refused("untold")
    return _along_axes(node, node.shape, arrival)


def _refused(obstacle: str) -> Picked:
    """Nothing to follow."""
    return Picked(None, obstacle=obstacle)


def _found(axes: Axes, whole: Sequence[TensorAxis], own: Origins | None, elsewhere: Fraction) -> Picked:
    """The result, where the places of elements from elsewhere are known, or there are none."""
    if own is not None:
        return Picked(axes, tuple(whole), own, share_from_elsewhere(own))
    return _refused("mixed") if elsewhere else Picked(axes, tuple(whole))


def _one_point(node: Node, arrival: Arrival) -> Picked:
    """One point of an axis, which is no axis any more."""
    axes, (gone,) = arrival.axes or (), node.axes
    own = None if arrival.own is None else taken(arrival.own, gone, _places(node, gone, 1))
    return _found(axes[:gone] + axes[gone + 1:], (axes[gone],), None if own is None else np.take(own, 0, gone),
                  arrival.elsewhere)


def _places(node: Node, axis: int, extent: int) -> range | None:
    """The places along an axis that a slice takes or a scatter gives, None where it does not state them."""
    if node.op not in ("slice", "scatter") or node.window is None or axis not in node.axes:
        return None
    index = node.axes.index(axis)
    if index >= len(node.window.pad):
        return None
    start, step = -node.window.pad[index][0], node.window.stride[index]
    return range(start, start + extent * step, step)


def _along_axes(node: Node, shape: Shape, arrival: Arrival) -> Picked:
    """A slice, a padding, a resizing, or elements picked along stated axes; all other axes stay."""
    axes, own = arrival.axes or (), arrival.own
    result, whole = list(axes), []
    for index, (axis, extent) in enumerate(zip(axes, shape, strict=True)):
        if axis.extent == extent and not (node.op == "gather" and index in node.axes):
            continue
        own = None if own is None else taken(own, index, _places(node, index, extent))
        window = _window(node, index, axis, extent)
        if window is not None and composable((*axis.slides, window)):
            result[index] = TensorAxis(extent, axis.pieces, (*axis.slides, window))
        else:
            result[index] = scattered([axis], extent)
            whole.append(axis)
    return _found(tuple(result), whole, own, arrival.elsewhere)


def _window(node: Node, index: int, axis: TensorAxis, extent: int) -> WindowSlide | None:
    """The window through which a padded or resized axis is read; None where the node does not say, or none can."""
    regular = len(axis.pieces) == 1 and axis.pieces[0].dimension != SCATTERED
    if not regular:
        return None
    if node.op == "pad" and index in node.axes and node.window is not None and len(node.window.pad) == len(node.axes):
        return WindowSlide(1, 1, 1, node.window.pad[node.axes.index(index)][0])
    if node.op == "resize" and node.window is not None and extent % axis.extent == 0:
        place = index - (len(node.shape or ()) - len(node.window.kernel))
        if place >= 0:
            return WindowSlide(node.window.kernel[place], 1, 1, node.window.pad[place][0], extent // axis.extent)
    return None


def _interleaved(shape: Shape, arrivals: Sequence[Arrival]) -> Picked:
    """Points of several tensors in turn, along all axes that are longer behind the node than before it."""
    found = [arrival for arrival in arrivals if arrival.axes is not None]
    own = [arrival.axes or () for arrival in found]
    if any(len(axes) != len(shape) for axes in own):
        return _refused("untold")
    if any(arrival.elsewhere for arrival in found):
        return _refused("mixed")
    columns = [list(dict.fromkeys(axes[index] for axes in own)) for index in range(len(shape))]
    longer = [any(axis.extent != extent for axis in column) for column, extent in zip(columns, shape, strict=True)]
    result = tuple(scattered(column, extent) if grown or len(column) > 1 else column[0]
                   for column, extent, grown in zip(columns, shape, longer, strict=True))
    elements = sum(math.prod(axis.extent for axis in axes) for axes in own)
    whole = tuple(axis for column, grown in zip(columns, longer, strict=True) if grown for axis in column)
    return Picked(result, whole, None, max(1 - Fraction(elements, math.prod(shape)), Fraction(0)))


def _repeated(shape: Shape, arrival: Arrival) -> Picked:
    """Axes aligned at the last one; those of one point are repeated."""
    axes = arrival.axes or ()
    lead = len(shape) - len(axes)
    padded = (TensorAxis(1, ()),) * lead + axes
    if lead < 0:
        return _refused("untold")
    again = [index for index, (axis, extent) in enumerate(zip(padded, shape, strict=True)) if 1 < axis.extent != extent]
    own = None if arrival.own is None else arrival.own.reshape((1,) * lead + arrival.own.shape)
    own = None if own is None or not uniform(own, again) else own
    return _found(tuple(axis if axis.extent == extent else scattered([axis] if axis.extent > 1 else [], extent)
                        for axis, extent in zip(padded, shape, strict=True)),
                  [padded[index] for index in again], own, arrival.elsewhere)


def _put_together(node: Node, shape: Shape, arrivals: Sequence[Arrival]) -> Picked:
    """Tensors one behind the other along one axis, or as the points of a new one."""
    stacked = any(arrival.axes is not None and len(arrival.axes) + 1 == len(shape) for arrival in arrivals)
    if stacked and (len(node.axes) != 1 or not 0 <= node.axes[0] < len(shape)):
        return _refused("untold")
    every = [_with_new_axis(arrival, node.axes[0]) for arrival in arrivals] if stacked else list(arrivals)
    found = [arrival for arrival in every if arrival.axes is not None]
    own = [arrival.axes or () for arrival in found]
    if any(len(axes) != len(shape) for axes in own):
        return _refused("untold")
    joined = [index for index, extent in enumerate(shape) if any(axes[index].extent != extent for axes in own)]
    if len(joined) > 1 or not joined:
        return _refused("untold")
    (along,) = joined
    columns = [list(dict.fromkeys(axes[index] for axes in own)) for index in range(len(shape))]
    result = tuple(scattered(column, extent) if index == along else column[0] if len(column) == 1 else merged(column)
                   for index, (column, extent) in enumerate(zip(columns, shape, strict=True)))
    elements = sum(math.prod(axis.extent for axis in axes) for axes in own)
    elsewhere = 1 - Fraction(elements, math.prod(shape))
    if elsewhere < 0:
        return _refused("untold")
    places = _origins(every, along, shape)
    if places is None and not any(arrival.elsewhere for arrival in found):
        return Picked(result, tuple(axes[along] for axes in own), None, elsewhere)
    return _found(result, [axes[along] for axes in own], places, elsewhere)


def _overwritten(node: Node, shape: Shape, arrivals: Sequence[Arrival]) -> Picked:
    """A tensor, stretches of one axis of which come from another one; either may be a constant, and no operand."""
    (along,) = node.axes
    parts = [arrival for arrival in arrivals if arrival.shape != shape]
    whole = [arrival for arrival in arrivals if arrival.shape == shape]
    own = [arrival.axes for arrival in arrivals if arrival.axes is not None]
    if len(parts) > 1 or len(whole) > 1 or any(len(axes) != len(shape) for axes in own) or not 0 <= along < len(shape):
        return _refused("untold")
    if any(axes[index].extent != extent for axes in own for index, extent in enumerate(shape) if index != along):
        return _refused("untold")
    columns = [list(dict.fromkeys(axes[index] for axes in own)) for index in range(len(shape))]
    result = tuple(scattered(column, extent) if index == along else column[0] if len(column) == 1 else merged(column)
                   for index, (column, extent) in enumerate(zip(columns, shape, strict=True)))
    length = (parts[0].shape or shape)[along] if parts else 0
    places = _places(node, along, length)
    base, part = (_own_of(each[0] if each else None, len(shape)) for each in (whole, parts))
    known = None if base is None or part is None or not places else overwritten(base, part, shape, along, places)
    return _found(result, columns[along], known, Fraction(1))


def _own_of(arrival: Arrival | None, rank: int) -> Origins | None:
    """The elements of an operand that the producer makes: none of a tensor from elsewhere. A constant is fetched by
    nobody, and counts as its own."""
    if arrival is None:
        return all_own(rank)
    return all_own(rank) & False if arrival.axes is None else arrival.own


def _with_new_axis(arrival: Arrival, axis: int) -> Arrival:
    """An operand with an axis of one point more."""
    axes, shape, own = arrival.axes, arrival.shape, arrival.own
    return Arrival(None if axes is None else (*axes[:axis], TensorAxis(1, ()), *axes[axis:]),
                   None if shape is None else (*shape[:axis], 1, *shape[axis:]),
                   None if own is None else np.expand_dims(own, axis), arrival.elsewhere)


def _origins(arrivals: Sequence[Arrival], axis: int, shape: Shape) -> Origins | None:
    """The elements of tensors put together that the producer makes; None where not all places are known.

    They are not where a constant, which is no operand, takes some of them.
    """
    shapes = [arrival.shape for arrival in arrivals if arrival.shape is not None]
    if any(len(each) != len(shape) for each in shapes) or sum(each[axis] for each in shapes) != shape[axis]:
        return None
    parts = [all_own(len(shapes[0])) & False if arrival.axes is None else arrival.own for arrival in arrivals]
    known = [part for part in parts if part is not None]
    return put_together(known, shapes, axis) if len(shapes) == len(known) == len(arrivals) else None
