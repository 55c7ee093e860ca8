"""Windows that slide over an axis: the points that they read, and several windows in a row as one.

All window extents of this room are computed here. `tensor_axes` has a worked example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

Points = TypeVar("Points", int, np.ndarray)  # a number of points, or an array of such numbers


@dataclass(frozen=True)
class WindowSlide:
    """A window that slides over one axis.

    Points [a, b) of the output read the input points from block * floor((a * stride - pad) / shrink) up to, excluding,
    block * ceil((a * stride - pad + span) / shrink), where
    span = (b - a - 1) * stride + (kernel - 1) * dilation + 1."""

    kernel: int  # input points that one output point covers
    stride: int  # input points from one output point to the next
    dilation: int = 1  # input points from one covered point to the next
    pad: int = 0  # padding points in front of the first input point
    shrink: int = 1  # output points per input point, as behind a resizing; for merged minor axes, their extent
    block: int = 1  # adjacent input points that count as one, such as the rows of a strip of windows

    def reach(self, points: Points) -> Points:
        """Input points from the first to the last one under `points` adjacent outputs: Timeloop's extent of a rank.

        1 + stride * (points - 1) + dilation * (kernel - 1); elementwise for an array. With `shrink`, the largest number
        for outputs that start at a multiple of `shrink`.
        """
        reach = (points - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        if self.shrink == self.block == 1:
            return reach
        ahead = -self.pad % self.shrink  # points of the first input point that lie before the window
        return -(-(reach + ahead) // self.shrink) * self.block

    def read(self, points: range) -> range:
        """The input points that some adjacent outputs read, padding in front of and behind the axis included."""
        if not len(points):
            return range(0)
        start = points.start * self.stride - self.pad
        span = (len(points) - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        return range(start // self.shrink * self.block, -(-(start + span) // self.shrink) * self.block)

    @property
    def advance(self) -> float:
        """Input points from one output point to the next, on average."""
        return self.stride * self.block / self.shrink

    @property
    def ahead(self) -> int:
        """Padding points that the first output reads in front of the first input point."""
        return -self.read(range(1)).start

    @property
    def overlaps(self) -> bool:
        """True if tiles of any size side by side may read the same input point."""
        return (self.kernel - 1) * self.dilation + 1 > self.stride or self.shrink > 1


def composed(slides: Sequence[WindowSlide]) -> WindowSlide:
    """One window, without dilation, that reaches as far as several windows in a row.

    Windows come in the order from the producer to the consumer. The result reads the producer's points for outputs of
    the last window. Its `reach`, stride and padding are exact; where strides exceed kernels it may cover more points
    in between.
    """
    whole = WindowSlide(1, 1)
    for slide in slides:
        plain, before = replace(slide, shrink=1, block=1), replace(whole, shrink=1, block=1)
        if slide.shrink > 1 or slide.block > 1:  # behind windows of one point, whose padding counts in shrunk points
            whole = replace(plain, kernel=plain.reach(1), dilation=1, pad=slide.pad + whole.pad * slide.shrink,
                            shrink=slide.shrink * whole.shrink, block=slide.block * whole.block)
        else:
            whole = replace(whole, kernel=before.reach(plain.reach(1)), stride=whole.stride * slide.stride, dilation=1,
                            pad=whole.pad + whole.stride * slide.pad)
    return whole


def composable(slides: Sequence[WindowSlide]) -> bool:
    """True if `composed` can combine these windows: before a window that shrinks, all windows have one point; a window
    with blocks is the first."""
    moved = [(slide.kernel, slide.stride, slide.block) != (1, 1, 1) for slide in slides]
    return all((slide.shrink == 1 or not any(moved[:index])) and (slide.block == 1 or not index)
               for index, slide in enumerate(slides))
