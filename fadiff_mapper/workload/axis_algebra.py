"""The axes of a tensor, written in the dimensions of the operator that computed it.

Problem. Two operators can share tiles only if each dimension of the consumer runs over one whole dimension of the
producer, through windows at most. Between them a tensor may be pooled, transposed and reshaped.

Method. An axis is a row of pieces, major first, and the windows that slid over it since (`TensorAxis`):

    a whole dimension         one piece:  AxisPiece("P", 112)
    a reshape                 cuts pieces up or puts them side by side (`regrouped`):
                              M = 64 channels as 8 heads of 8 are AxisPiece("M", 8, step=8) and AxisPiece("M", 8), and
                              put side by side again they join to AxisPiece("M", 64)
    a transpose               moves axes
    a pool                    adds a window: WindowSlide(kernel, stride, dilation, pad)

So an arrangement of heads, or a flattening, is followed exactly or not at all.

Worked example. A convolution writes [1, 64, 112, 112]; a max pool of 3 x 3, stride 2, padding 1 makes [1, 64, 56, 56];
a convolution of 3 x 3, stride 2, padding 1 reads it and has P = 28 rows of outputs.

    axis of rows behind the producer    TensorAxis(112, (AxisPiece("P", 112),))
    behind the pool                     TensorAxis(56, (AxisPiece("P", 112),), (WindowSlide(3, 2, 1, 1),))
    the consumer's own window           WindowSlide(3, 2, 1, 1)
    both as one (`composed`)            WindowSlide(7, 4, 1, 3): kernel (3 - 1) * 2 + 3 = 7, stride 2 * 2 = 4, padding
                                        1 + 2 * 1 = 3

A tile of two output rows reads (2 - 1) * 4 + 7 = 11 rows of the producer, from row 0 * 4 - 3 on; rows below 0 are
padding. Consecutive tiles of two rows start 8 rows apart, so their halo is 3 rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fadiff_mapper.workload.operator import Shape


@dataclass(frozen=True)
class Obstacle:
    """The reason why two operators cannot share tiles.

    Attributes:
        name: a key of `OBSTACLES`.
        sentence: the same for a reader, with the node at fault.
    """

    name: str
    sentence: str


OBSTACLES = {
    "not_understood": "an operator in between is not understood",
    "opaque": "elements are picked, repeated or put together in between (concat, slice, gather, ...)",
    "rearranged": "a reshape in between cuts axes where no tile can follow",
    "flattened": "a dimension of the consumer runs over several dimensions of the producer",
    "part": "a dimension of the consumer runs over a part of a dimension of the producer",
    "repeat": "the two layers run a different number of times",
    "window": "a pooling window in between is not stated",
    "far": "too many operators lie in between",
    "two_paths": "the tensor arrives over two paths that arrange it differently",
}
"""Names of obstacles, and their sentences."""


@dataclass(frozen=True)
class AxisPiece:
    """A part of one dimension of the producer: the points 0, step, 2 * step, ... within a piece that is further out.

    Attributes:
        dimension: the producer's dimension, or `operator.REPEAT` for its runs.
        extent: number of steps.
        step: points from one step to the next, the extent of all minor pieces of the same dimension.
    """

    dimension: str
    extent: int
    step: int = 1


Points = TypeVar("Points", int, np.ndarray)
"""A number of points, or an array of such numbers."""


@dataclass(frozen=True)
class WindowSlide:
    """A window that slides over one axis.

    Attributes:
        kernel: input points that one output point covers.
        stride: input points from one output point to the next.
        dilation: input points from one covered point to the next.
        pad: points before the first input that the first output covers, too.
    """

    kernel: int
    stride: int
    dilation: int = 1
    pad: int = 0

    def reach(self, points: Points) -> Points:
        """Input points from the first to the last one under `points` adjacent outputs: Timeloop's extent of a rank.

        1 + stride * (points - 1) + dilation * (kernel - 1); elementwise for an array. All window extents of this room
        are computed here.
        """
        return (points - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


def composed(slides: Sequence[WindowSlide]) -> WindowSlide:
    """The window, without dilation, that reaches as far as several windows in a row.

    Args:
        slides: windows in the order in which they were applied: from the producer's axis to the consumer's.

    Returns:
        A window from the producer's points to the last window's outputs. Its `reach`, stride and padding are exact; the
        points that it covers in between may be more where strides exceed kernels.
    """
    whole = WindowSlide(1, 1)
    for slide in slides:
        whole = WindowSlide(whole.reach(slide.reach(1)), whole.stride * slide.stride, 1,
                            whole.pad + whole.stride * slide.pad)
    return whole


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
        if last and last.dimension == piece.dimension and last.step == piece.extent * piece.step:
            joined[-1] = AxisPiece(piece.dimension, last.extent * piece.extent, piece.step)
        else:
            joined.append(piece)
    return TensorAxis(math.prod(piece.extent for piece in joined), tuple(joined))


def regrouped(axes: Sequence[TensorAxis], shape: Shape) -> tuple[TensorAxis, ...] | None:
    """The axes of a reshaped tensor: the same elements in the same order under another shape.

    Args:
        axes: the axes before.
        shape: the extents after.

    Returns:
        An axis per extent; None where no tile can follow. Stretches of axes of equal size are taken together: an axis
        that stays as it is keeps its windows, others are cut at the new boundaries, which must divide the pieces.
    """
    if math.prod(axis.extent for axis in axes) != math.prod(shape):
        return None
    result: list[TensorAxis] = []
    rest = [axis for axis in axes if axis.extent != 1]
    wanted = list(shape)
    while wanted:
        if wanted[0] == 1:
            result.append(TensorAxis(1, ()))
            wanted.pop(0)
            continue
        old, new = _stretch(rest, wanted)
        parts = [old[0]] if len(old) == len(new) == 1 else _cut(old, new)
        if parts is None:
            return None
        result += parts
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


def _cut(axes: Sequence[TensorAxis], shape: Sequence[int]) -> list[TensorAxis] | None:
    """The pieces of several axes as axes of these extents; None where a window or a piece stands across a boundary."""
    if any(axis.slides for axis in axes):
        return None
    pieces = [piece for axis in axes for piece in axis.pieces]
    result = []
    for extent in reversed(shape):  # from the minor end, where a boundary falls at a multiple
        taken: list[AxisPiece] = []
        while extent > 1:
            piece = pieces.pop()
            share = math.gcd(piece.extent, extent)
            if share not in (piece.extent, extent):
                return None
            taken.append(AxisPiece(piece.dimension, share, piece.step))
            if share < piece.extent:
                pieces.append(AxisPiece(piece.dimension, piece.extent // share, piece.step * share))
            extent //= share
        result.append(axis_of(taken[::-1]))
    return result[::-1]
