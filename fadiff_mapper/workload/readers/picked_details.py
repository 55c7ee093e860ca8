"""Details of operators that pick, pad, resize or put together elements: what `picked_axes` needs beside the shapes.

A slice, a concatenation and a repetition follow from the shapes of their operands. Not so the axis of a selection, the
zeros before a padded axis, the interpolation of a resizing, or the axes along which a constant index picks.
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


def torch_details(operator: str, arguments: Mapping[str, Any], before: Shape, after: Shape,
                  constant_index: bool) -> Details:
    """The details of an ATen operator.

    Args:
        operator: its name, such as "select".
        arguments: its arguments by name.
        before: shape of its first operand.
        after: shape of its result.
        constant_index: True if all tensors beside the first operand are constants.
    """
    rank = len(before)
    if operator in ("select", "unbind"):
        return {"axes": (_axis(arguments.get("dim"), rank),)}
    if operator == "stack":
        return {"axes": (_axis(arguments.get("dim"), rank + 1),)}
    if operator in ("roll", "flip") or (operator == "index_select" and constant_index):
        dims = arguments.get("dims", arguments.get("dim"))
        listed = list(dims) if isinstance(dims, list | tuple) else [dims or 0]
        return {"axes": tuple(sorted({_axis(dim, rank) for dim in listed or range(rank)}))}
    if operator == "index" and constant_index and len(after) == rank:
        given = arguments.get("indices") or []
        return {"axes": tuple(axis for axis, index in enumerate(given) if index is not None)}
    if operator in ("constant_pad_nd", "pad") and arguments.get("mode") in (None, "constant"):
        pads = list(arguments.get("pad") or ())  # (before, after) from the last axis on
        return padding(rank, list(zip(pads[::2], pads[1::2], strict=True))[::-1])
    if operator.startswith("upsample_nearest"):
        return nearest(rank - 2)
    if operator == "upsample_bilinear2d" and not arguments.get("align_corners"):
        return linear(before, after)
    return {}


def onnx_details(operator: str, attributes: Mapping[str, Any], numbers: Sequence[tuple[int, ...] | None],
                 before: Shape, after: Shape, constant_index: bool) -> Details:
    """The details of an ONNX operator.

    Args:
        operator: its name, such as "Gather".
        attributes: its attributes by name.
        numbers: per operand, its values where it is a small constant of whole numbers.
        before: shape of its first operand.
        after: shape of its output.
        constant_index: True if all operands beside the first are constants.
    """
    rank = len(before)
    mode = attributes.get("mode", b"")
    if operator == "Gather" and constant_index and rank - 1 <= len(after) <= rank:
        return {"axes": (_axis(attributes.get("axis"), rank),)}
    if operator == "Pad" and mode in (b"", b"constant"):
        stated = attributes.get("pads") or (numbers[1] if len(numbers) > 1 else None) or ()
        return padding(rank, list(zip(stated[:rank], stated[rank:], strict=True))) if len(stated) == 2 * rank else {}
    if operator in ("Resize", "Upsample") and mode in (b"", b"nearest"):
        return nearest(rank - 2)
    half = attributes.get("coordinate_transformation_mode", b"half_pixel") in (b"half_pixel", b"pytorch_half_pixel")
    return linear(before, after) if operator == "Resize" and mode == b"linear" and half else {}


def padding(rank: int, pads: Sequence[tuple[int, int]]) -> Details:
    """Zeros (before, after) the last axes of a tensor; no details where points are taken away instead.

    Args:
        rank: number of axes.
        pads: one pair for each of the last axes.
    """
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
