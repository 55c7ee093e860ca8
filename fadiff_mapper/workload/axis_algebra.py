"""What the axes of a tensor are, in the dimensions of the layer that wrote it, and what reordering makes of them.

An axis is a row of pieces, major first. A whole dimension is one piece; a reshape cuts pieces up or puts them side by
side, a transpose moves axes. So an arrangement of heads, or a flattening, is followed exactly or not at all.
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
    """Why two layers cannot share tiles: a name to ask for, and a sentence to print. `OBSTACLES` lists the names."""

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


@dataclass(frozen=True)
class AxisPiece:
    """`extent` steps of `step` points along one dimension of the producer."""

    dimension: str
    extent: int
    step: int = 1


Points = TypeVar("Points", int, np.ndarray)


@dataclass(frozen=True)
class WindowSlide:
    """A window over one axis: an output point covers `kernel` inputs, `dilation` apart; the next starts `stride` on."""

    kernel: int
    stride: int
    dilation: int = 1
    pad: int = 0

    def reach(self, points: Points) -> Points:
        """Inputs from the first to the last one of `points` adjacent outputs; a number, or an array of them."""
        return (points - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


def composed(slides: Sequence[WindowSlide]) -> WindowSlide:
    """The one window, without dilation, that reaches as far as several ones, each over what those before it make."""
    whole = WindowSlide(1, 1)
    for slide in slides:
        whole = WindowSlide(whole.reach(slide.reach(1)), whole.stride * slide.stride, 1,
                            whole.pad + whole.stride * slide.pad)
    return whole


@dataclass(frozen=True)
class TensorAxis:
    """One axis of a tensor: its extent, the pieces that it is made of, and the windows that slid over them since."""

    extent: int
    pieces: tuple[AxisPiece, ...]
    slides: tuple[WindowSlide, ...] = ()


def axis_of(pieces: Sequence[AxisPiece]) -> TensorAxis:
    """An axis over these pieces, without those of one point, and with neighbours joined that continue each other."""
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
    """The axes of the same elements, in the same order, as a tensor of `shape`; None where no tile can follow.

    Stretches of axes of equal size are taken together: an axis that stays as it is keeps its windows, others are
    cut at the new boundaries, which must divide the pieces.
    """
    if math.prod(axis.extent for axis in axes) != math.prod(shape):
        return None
    found: list[TensorAxis] = []
    rest = [axis for axis in axes if axis.extent != 1]
    wanted = list(shape)
    while wanted:
        if wanted[0] == 1:
            found.append(TensorAxis(1, ()))
            wanted.pop(0)
            continue
        old, new = _stretch(rest, wanted)
        parts = [old[0]] if len(old) == len(new) == 1 else _cut(old, new)
        if parts is None:
            return None
        found += parts
        rest, wanted = rest[len(old):], wanted[len(new):]
    return tuple(found)


def _stretch(rest: Sequence[TensorAxis], wanted: Sequence[int]) -> tuple[Sequence[TensorAxis], Sequence[int]]:
    """The shortest heads of both lists with equal products."""
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
    """The pieces of several axes as axes of these extents."""
    if any(axis.slides for axis in axes):
        return None
    pieces = [piece for axis in axes for piece in axis.pieces]
    found = []
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
        found.append(axis_of(taken[::-1]))
    return found[::-1]
