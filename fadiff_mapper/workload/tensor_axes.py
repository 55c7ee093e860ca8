"""The axes of a tensor, expressed in the dimensions of the operator that computed it.

Problem. Two operators can share tiles along a dimension of the consumer that runs over a dimension of the producer, at
most through windows; all other dimensions must be there whole. Between the operators the tensor may be pooled,
transposed, reshaped, cut, repeated, resized and concatenated.

Method. An axis is a row of pieces of dimensions, major first, with the windows that slide over it (`TensorAxis`):

a whole dimension         one piece:  AxisPiece("P", 112)
a reshape                 cuts pieces up or puts them side by side (`regrouped`):
                          M = 64 channels as 8 heads of 8 are AxisPiece("M", 8, step=8) and AxisPiece("M", 8), and
                          put side by side again they join to AxisPiece("M", 64)
a transpose               moves axes
a pool, a padding         adds a window: WindowSlide(kernel, stride, dilation, pad)
a resizing by two         adds a window that shrinks: WindowSlide(1, 1, shrink=2)
a slice, a concatenation  scatters the pieces (`scattered`): the axis still has points of known dimensions, but in an
                          order that tiles cannot follow, so that these dimensions must be there whole
a repetition              is a scattered piece without any dimension

So an arrangement of heads, or a flattening, is followed exactly, or its dimensions must be there whole.

Worked example. A convolution writes [1, 64, 112, 112]; a max pool of 3 x 3, stride 2, padding 1 makes [1, 64, 56,
56]; a convolution of 3 x 3, stride 2, padding 1 reads it and has P = 28 rows of outputs.

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

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.origins import stretches
from fadiff_mapper.workload.window_slide import WindowSlide, composable, composed

SCATTERED = "?"  # the dimension of a piece whose points follow no dimension of the producer


@dataclass(frozen=True)
class AxisPiece:
    """A part of one dimension of the producer: the points 0, step, 2 * step, ... in one step of the piece outside."""

    dimension: str  # the producer's dimension, `operator.REPEAT` for its runs, or `SCATTERED`
    extent: int  # number of steps
    step: int = 1  # points from one step to the next, the extent of all minor pieces of the same dimension
    # of a scattered piece, the dimensions of its points, each with the length of the aligned stretches within which
    # points are rearranged: 128 where channels are rearranged within each head of 128
    among: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True)
class TensorAxis:
    """An axis of a tensor."""

    extent: int  # its points
    pieces: tuple[AxisPiece, ...]  # parts of the producer's dimensions, major first; none for a single point
    slides: tuple[WindowSlide, ...] = ()  # the windows that slide over the pieces, in order

    @property
    def spans(self) -> frozenset[tuple[str, int]]:
        """Each dimension in the axis, with the length of the aligned stretches that hold the points of the axis."""
        return frozenset().union(*(piece.among if piece.dimension == SCATTERED else
                                   {(piece.dimension, piece.extent * piece.step)} for piece in self.pieces))


POINT = TensorAxis(1, ())  # an axis of one point


def axis_of(pieces: Sequence[AxisPiece]) -> TensorAxis:
    """An axis over some pieces, major first: single points are dropped, neighbours that continue each other joined."""
    joined: list[AxisPiece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if piece.extent == 1:
            continue
        if last and last.dimension == piece.dimension == SCATTERED:
            joined[-1] = AxisPiece(SCATTERED, last.extent * piece.extent, 1, last.among | piece.among)
        elif last and last.dimension == piece.dimension and last.step == piece.extent * piece.step:
            joined[-1] = AxisPiece(piece.dimension, last.extent * piece.extent, piece.step)
        else:
            joined.append(piece)
    return TensorAxis(math.prod(piece.extent for piece in joined), tuple(joined))


def merged(axes: Sequence[TensorAxis]) -> TensorAxis:
    """The axis of a tensor that arrives over several paths, with a different axis on each; a single axis stays.

    Paths with the same pieces and windows of equal strides get one window that covers all of theirs: x joined with a
    pool of x, 5 wide, is read through the window of the pool. Other paths make a scattered axis.
    """
    if len(axes) == 1:
        return axes[0]
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
    """An axis with the points of other axes, in an order that tiles cannot follow; `axes` is empty where points are
    repeated or come from elsewhere."""
    among = frozenset().union(*(axis.spans for axis in axes))
    return TensorAxis(extent, (AxisPiece(SCATTERED, extent, 1, among),)) if extent > 1 else TensorAxis(extent, ())


def regrouped(axes: Sequence[TensorAxis], shape: Shape) -> tuple[TensorAxis, ...]:
    """The axes of a reshaped tensor, one per extent: the same elements in the same order under another shape.

    Old and new axes are matched in the shortest runs of equal size. An axis that is a run by itself keeps its windows.
    The other runs are cut at the new boundaries; an axis with windows is scattered then, and the whole run is scattered
    where boundaries do not divide its pieces. Every axis is scattered where the numbers of elements differ.
    """
    if math.prod(axis.extent for axis in axes) != math.prod(shape):
        return tuple(scattered(axes, extent) for extent in shape)
    result = [POINT] * len(shape)
    for old, new in stretches(tuple(axis.extent for axis in axes), shape):
        before = [axes[index] for index in old]
        cut = before if len(old) == len(new) == 1 else _cut(before, [shape[index] for index in new])
        for index, axis in zip(new, cut, strict=True):
            result[index] = axis
    return tuple(result)


def _cut(axes: Sequence[TensorAxis], shape: Sequence[int]) -> list[TensorAxis]:
    """The pieces of several axes, cut into axes of these extents."""
    pieces = [piece for axis in axes for piece in (scattered([axis], axis.extent) if axis.slides else axis).pieces]
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
