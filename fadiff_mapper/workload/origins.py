"""The elements of a tensor that one producer makes, where elements of other tensors are put together with them.

Problem. Behind a concatenation only some elements of a tensor come from the operator that a route starts at; the others
are fetched. A part taken later, as of shuffled channels, may hold more or fewer of the producer's elements.

Method. `Origins` is an array of booleans, True where the producer makes the element (or a part of it), with as many
axes as the tensor. Along an axis on which all points are alike it has one point only, so that the channels of an image
need as many booleans as there are channels. Nodes rearrange it like the tensor. None: the places are not known.

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

Origins: TypeAlias = np.ndarray  # booleans, an axis per axis of the tensor; a single point stands for any number

MOST_ELEMENTS = 1 << 20  # booleans of one array; places beyond are not followed: a plain safety limit


def all_own(rank: int) -> Origins:
    """The origins of a tensor of so many axes that the producer makes by itself."""
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
    """The elements at some places of an axis; None where the places matter and are not stated, or lie outside."""
    if own.shape[axis] == 1:
        return own
    inside = places is not None and all(0 <= end < own.shape[axis] for end in (*places[:1], *places[-1:]))
    return own.take(np.asarray(places, dtype=np.int64), axis) if inside else None


def uniform(own: Origins, axes: Sequence[int]) -> bool:
    """Whether all points along some axes are alike, so that picking, pooling or resizing along them changes nothing."""
    return all(own.shape[axis] == 1 for axis in axes)


def put_together(parts: Sequence[Origins], shapes: Sequence[Shape], axis: int) -> Origins | None:
    """Tensors one behind the other along the one axis in which their shapes differ; None for too many elements."""
    if all(part.all() for part in parts):
        return all_own(len(shapes[0]))
    longest = [max(column) for column in zip(*(part.shape for part in parts), strict=True)]
    extents = [(*longest[:axis], shape[axis], *longest[axis + 1:]) for shape in shapes]
    if sum(map(math.prod, extents)) > MOST_ELEMENTS:
        return None
    return np.concatenate([np.broadcast_to(part, extent) for part, extent in zip(parts, extents, strict=True)], axis)


def overwritten(own: Origins, part: Origins, shape: Shape, axis: int, places: range) -> Origins | None:
    """A tensor of some shape of which another one takes these places of an axis; None where these lie outside, or
    there are too many elements."""
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
    """Tensors joined point by point to one of so many axes, aligned at the last one: an element needs the producer
    if the element of any operand does."""
    result = all_own(rank) & False
    for path in paths:
        result = result | path.reshape((1,) * (rank - path.ndim) + path.shape)
    return result


def reduced(own: Origins, axes: Sequence[int]) -> Origins:
    """Reduces the axes to extent 1: a point is the producer's if any point along them is."""
    return np.asarray(own.any(axis=tuple(axes), keepdims=True))
