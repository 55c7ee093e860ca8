"""Details of operators that pick, pad, resize or put together elements: what `tensor_routes` needs beside the shapes.

A concatenation and a repetition follow from the shapes of their operands. Not so the place of a slice, the axis of a
selection, the zeros before a padded axis, the interpolation of a resizing, or the axes along which a constant index
picks. A slice states its place as the window of one point through which it reads: negative padding, and a stride.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from fadiff_mapper.workload.node import Window
from fadiff_mapper.workload.operator import Shape


class Details(TypedDict, total=False):
    """Fields of a `Node` of the kind "opaque"."""

    axes: tuple[int, ...]
    window: Window


def torch_details(operator: str, arguments: Mapping[str, Any], before: Shape, results: Sequence[Shape], index: int,
                  constant_index: bool) -> Details:
    """The details of an ATen operator.

    Args:
        operator: its name, such as "select".
        arguments: its arguments by name.
        before: shape of its first operand.
        results: shapes of its results.
        index: the result that is meant.
        constant_index: True if all tensors beside the first operand are constants.
    """
    rank, after, dim = len(before), results[index], arguments.get("dim")
    if operator in ("slice", "select", "narrow", "slice_scatter") and rank:
        return taken(before, _axis(dim, rank), arguments.get("start", arguments.get("index")), arguments.get("step"))
    if operator in SPLITS and rank:
        axis = _axis(dim, rank)
        return taken(before, axis, sum(1 if operator == "unbind" else shape[axis] for shape in results[:index]), 1)
    if operator == "stack":
        return {"axes": (_axis(dim, rank + 1),)}
    if operator in ("roll", "flip") or (operator == "index_select" and constant_index):
        dims = arguments.get("dims", dim)
        listed = list(dims) if isinstance(dims, list | tuple) else [dims or 0]
        return {"axes": tuple(sorted({_axis(dim, rank) for dim in listed or range(rank)}))}
    if operator == "index" and constant_index and len(after) == rank:
        return {"axes": tuple(axis for axis, index in enumerate(arguments.get("indices") or []) if index is not None)}
    if operator in ("constant_pad_nd", "pad") and arguments.get("mode") in (None, "constant"):
        pads = list(arguments.get("pad") or ())  # (before, after) from the last axis on
        return padding(rank, list(zip(pads[::2], pads[1::2], strict=True))[::-1])
    if operator.startswith("upsample_nearest"):
        return nearest(rank - 2)
    if operator == "upsample_bilinear2d" and not arguments.get("align_corners"):
        return linear(before, after)
    return {}


def onnx_details(operator: str, attributes: Mapping[str, Any], numbers: Sequence[tuple[int, ...] | None],
                 before: Shape, results: Sequence[Shape | None], index: int, constant_index: bool) -> Details:
    """The details of an ONNX operator.

    Args:
        operator: its name, such as "Gather".
        attributes: its attributes by name.
        numbers: per operand, its values where it is a small constant of whole numbers.
        before: shape of its first operand.
        results: shapes of its outputs; that of the one that is meant is known.
        index: the output that is meant.
        constant_index: True if all operands beside the first are constants.
    """
    rank, after, mode = len(before), results[index] or (), attributes.get("mode", b"")

    def stated(name: str, place: int) -> tuple[int, ...]:  # an attribute of older operator sets, an operand since
        return tuple(attributes.get(name) or (numbers[place] if len(numbers) > place else None) or ())
    if operator == "Gather" and constant_index and rank - 1 <= len(after) <= rank:
        axis, points = _axis(attributes.get("axis"), rank), stated("", 1)
        single = len(after) < rank and len(points) == 1
        return taken(before, axis, points[0], 1) if single else {"axes": (axis,)}
    if operator == "Slice":
        starts, steps = stated("starts", 1), stated("steps", 4)
        axes = tuple(_axis(axis, rank) for axis in stated("axes", 3)) or tuple(range(len(starts)))
        cut = [place for place, axis in enumerate(axes) if len(after) == rank and before[axis] != after[axis]]
        if len(cut) != 1 or len(starts) != len(axes) or (steps and len(steps) != len(axes)):
            return {}
        return taken(before, axes[cut[0]], starts[cut[0]], steps[cut[0]] if steps else 1)
    if operator == "Split" and rank:
        axis, earlier = _axis(attributes.get("axis"), rank), [shape for shape in results[:index] if shape is not None]
        return taken(before, axis, sum(shape[axis] for shape in earlier), 1) if len(earlier) == index else {}
    if operator == "Pad" and mode in (b"", b"constant"):
        pads = stated("pads", 1)
        return padding(rank, list(zip(pads[:rank], pads[rank:], strict=True))) if len(pads) == 2 * rank else {}
    if operator in ("Resize", "Upsample") and mode in (b"", b"nearest"):
        return nearest(rank - 2)
    half = attributes.get("coordinate_transformation_mode", b"half_pixel") in (b"half_pixel", b"pytorch_half_pixel")
    return linear(before, after) if operator == "Resize" and mode == b"linear" and half else {}


SPLITS = ("split", "chunk", "split_with_sizes", "unbind", "tensor_split", "unsafe_split", "unsafe_chunk",
          "unsafe_split_with_sizes")
"""ATen operators that take one part of an axis after the other."""


def taken(before: Shape, axis: int, start: Any, step: Any) -> Details:
    """A part of one axis of a tensor: from a point on (None: 0; negative ones count from the end), by steps (None: 1).
    The axis and the window; the axis without one where start and step are no numbers, or the step leads back."""
    first, apart = 0 if start is None else start, 1 if step is None else step
    if type(first) is not int or type(apart) is not int or apart < 1:
        return {"axes": (axis,)}
    first = min(max(first + before[axis] if first < 0 else first, 0), before[axis])
    return {"axes": (axis,), "window": Window((1,), (apart,), ((-first, 0),), (1,))}


def padding(rank: int, pads: Sequence[tuple[int, int]]) -> Details:
    """Zeros (before, after) the last axes of a tensor; no details where points are taken away instead."""
    if not pads or any(min(pair) < 0 for pair in pads):
        return {}
    ones = (1,) * len(pads)
    return {"axes": tuple(range(rank - len(pads), rank)), "window": Window(ones, ones, tuple(pads), ones)}


def nearest(sliding: int) -> Details:
    """A resizing in which every point is a copy of one point, over so many trailing axes."""
    ones = (1,) * sliding
    return {"window": Window(ones, ones, ((0, 0),) * sliding, ones)}


def linear(before: Shape, after: Shape) -> Details:
    """A resizing between the two nearest points along the last two axes, with corners that are not aligned.

    Point i of an axis that grows f times lies at (i + 1/2) / f - 1/2; for even f its two neighbours are the points that
    the window from i - f/2 to i + f/2 touches. Other factors have no such window.
    """
    factors = [b // a if a and b % a == 0 else 1 for a, b in zip(before[-2:], after[-2:], strict=True)]
    if any(factor % 2 for factor in factors):
        return {}
    ones = (1, 1)
    return {"window": Window(tuple(factor + 1 for factor in factors), ones,
                             tuple((factor // 2, factor // 2) for factor in factors), ones)}


def _axis(dim: Any, rank: int) -> int:
    """An axis counted from 0; the first where none is stated."""
    return (dim if isinstance(dim, int) else 0) % rank
