"""Origins: the elements of a tensor that one producer computes, as opposed to elements of other tensors.

Problem. Behind a concatenation only some elements of a tensor come from the operator at which its route starts; the
others are fetched. A later slice, as of shuffled channels, may hold more or fewer of the producer's elements.

Method. `Origins` is an array of booleans, True where the producer makes the element (or a part of it), with as many
axes as the tensor. It has extent 1 along an axis whose points all have the same origin, so that an image needs one
boolean for each channel. Nodes rearrange it like the tensor. None: the places are not known.

Worked example. Channel shuffle of 4 channels, of which the producer makes the last two, in two groups:

    behind the concatenation        [False, False, True, True]
    as 2 x 2, transposed, flat      [False, True, False, True]
    the second half                 [False, True]: one half of the words comes from elsewhere
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from fadiff_mapper.workload.operator import Shape

Origins: TypeAlias = np.ndarray  # booleans, an axis per axis of the tensor; extent 1 broadcasts over the axis

MOST_ELEMENTS = 1 << 20  # booleans of one array; places beyond are not followed: a plain safety limit


def all_own(rank: int) -> Origins:
    """The origins of a tensor of so many axes whose elements all come from the producer."""
    return np.ones((1,) * rank, dtype=bool)


def share_from_elsewhere(own: Origins) -> Fraction:
    """The fraction of the elements produced by other tensors."""
    return 1 - Fraction(int(own.sum()), own.size)


def stretches(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes of several points, before and after a reshape, that hold the same elements."""
    old, new = ([axis for axis, extent in enumerate(shape) if extent > 1] for shape in (before, after))
    runs: list[tuple[list[int], list[int]]] = []
    while old and new:
        run: tuple[list[int], list[int]] = ([old.pop(0)], [new.pop(0)])
        while (left := math.prod(before[a] for a in run[0])) != (right := math.prod(after[a] for a in run[1])):
            (run[0] if left < right else run[1]).append((old if left < right else new).pop(0))
        runs.append(run)
    return runs


def reshaped(own: Origins, before: Shape, after: Shape) -> Origins | None:
    """The same elements under another shape; axes are taken together only where their points differ.

    None where the shapes have different numbers of elements, or there are too many.
    """
    if math.prod(before) != math.prod(after):
        return None
    extents, shape = [1] * len(before), [1] * len(after)
    for old, new in stretches(before, after):
        if any(own.shape[axis] > 1 for axis in old):
            for axis in old:
                extents[axis] = before[axis]
            for axis in new:
                shape[axis] = after[axis]
    return np.broadcast_to(own, extents).reshape(shape) if math.prod(extents) <= MOST_ELEMENTS else None


def taken(own: Origins, axis: int, places: range | None) -> Origins | None:
    """The origins at some places of an axis; None where places outside, or unknown places, make a difference."""
    if own.shape[axis] == 1:
        return own
    inside = places is not None and all(0 <= end < own.shape[axis] for end in (*places[:1], *places[-1:]))
    return own.take(np.asarray(places, dtype=np.int64), axis) if inside else None


def uniform(own: Origins, axes: Sequence[int]) -> bool:
    """Whether all points along some axes have one origin, so that picking, pooling or resizing changes nothing."""
    return all(own.shape[axis] == 1 for axis in axes)


def put_together(parts: Sequence[Origins], shapes: Sequence[Shape], axis: int) -> Origins | None:
    """The origins of tensors concatenated along an axis; None where there are more than `MOST_ELEMENTS`."""
    if all(part.all() for part in parts):
        return all_own(len(shapes[0]))
    longest = [max(column) for column in zip(*(part.shape for part in parts), strict=True)]
    extents = [(*longest[:axis], shape[axis], *longest[axis + 1:]) for shape in shapes]
    if sum(map(math.prod, extents)) > MOST_ELEMENTS:
        return None
    return np.concatenate([np.broadcast_to(part, extent) for part, extent in zip(parts, extents, strict=True)], axis)


def overwritten(own: Origins, part: Origins, shape: Shape, axis: int, places: range) -> Origins | None:
    """The origins of a tensor after another tensor, `part`, overwrites some places of an axis; None where places lie
    outside, or there are more than `MOST_ELEMENTS`."""
    if own.all() and part.all():
        return own
    extents = [max(first, second) for first, second in zip(own.shape, part.shape, strict=True)]
    extents[axis] = shape[axis]
    if math.prod(extents) > MOST_ELEMENTS or not all(0 <= end < shape[axis] for end in (places[0], places[-1])):
        return None
    result = np.broadcast_to(own, extents).copy()
    result[(slice(None),) * axis + (np.asarray(places),)] = part
    return result


def joined(paths: Sequence[Origins], rank: int) -> Origins:
    """The origins of a join, a tensor of so many axes, operands aligned at the last axis: an element comes from the
    producer if the element of any operand does."""
    result = all_own(rank) & False
    for path in paths:
        result = result | path.reshape((1,) * (rank - path.ndim) + path.shape)
    return result


def reduced(own: Origins, axes: Sequence[int]) -> Origins:
    """The origins after a reduction of axes to extent 1: a point is the producer's if any point along them is."""
    return np.asarray(own.any(axis=tuple(axes), keepdims=True))
