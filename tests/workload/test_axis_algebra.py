"""The axis algebra: windows in a row as one, reshaped axes, the worked example."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.workload import AxisPiece, Node, Window, build_workload, make_operator
from fadiff_mapper.workload.producer_consumer import AxisMap
from fadiff_mapper.workload.tensor_axes import SCATTERED, axis_of, regrouped
from fadiff_mapper.workload.window_slide import WindowSlide, composed


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=3), st.integers(1, 6))
def test_the_points_that_a_stretch_needs_are_those_that_its_windows_touch(
        windows: list[tuple[int, int, int]], points: int) -> None:
    slides = tuple(WindowSlide(*window) for window in windows)
    touched = set(range(points))
    for window in reversed(slides):
        touched = {p * window.stride + k * window.dilation for p in touched for k in range(window.kernel)}
    assert AxisMap("P", "P", slides).needed(points) == max(touched) - min(touched) + 1


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 4), st.integers(1, 3), st.integers(0, 5),
       st.integers(1, 6))
def test_a_window_reads_from_the_first_to_the_last_point_that_its_taps_fall_into(
        kernel: int, stride: int, pad: int, shrink: int, block: int, start: int, count: int) -> None:
    slide = WindowSlide(kernel, stride, 1, pad, shrink, block)
    cells = {(point * stride - pad + tap) // shrink for point in range(start, start + count) for tap in range(kernel)}
    assert slide.read(range(start, start + count)) == range(min(cells) * block, (max(cells) + 1) * block)
    assert len(slide.read(range(count))) <= slide.reach(count)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)), max_size=2), st.integers(1, 3),
       st.integers(0, 3), st.integers(1, 4), st.integers(1, 5))
def test_windows_behind_one_that_shrinks_are_composed_exactly(
        windows: list[tuple[int, int, int]], shrink: int, pad: int, start: int, count: int) -> None:
    slides = (WindowSlide(1, 1, 1, pad, shrink), *(WindowSlide(k, s, 1, p) for k, s, p in windows))
    points = set(range(start, start + count))
    for slide in reversed(slides):
        points = {(point * slide.stride - slide.pad + tap) // slide.shrink for point in points
                  for tap in range(slide.kernel)}
    assert composed(slides).read(range(start, start + count)) == range(min(points), max(points) + 1)

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(SHAPES, st.data())
def test_regrouped_axes_name_the_same_elements_in_the_same_order(shape: list[int], data: st.DataObject) -> None:
    def elements(axes: Any) -> list[dict[str, int]]:
        found: list[dict[str, int]] = [{}]
        for piece in (piece for axis in axes for piece in axis.pieces):
            found = [{**e, piece.dimension: e.get(piece.dimension, 0) + i * piece.step}
                     for e in found for i in range(piece.extent)]
        return found
    axes = tuple(axis_of([AxisPiece(f"d{index}", size)]) for index, size in enumerate(shape))
    rest, wanted = math.prod(shape), []
    while rest > 1:
        wanted.append(data.draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0])))
        rest //= wanted[-1]
    found = regrouped(axes, tuple(wanted))
    assert found is not None
    assert [axis.extent for axis in found] == wanted
    if not any(piece.dimension == SCATTERED for axis in found for piece in axis.pieces):
        assert elements(found) == elements(axes)
        assert regrouped(found, tuple(shape)) == axes


def test_the_worked_example_of_the_axis_algebra() -> None:
    pixels = dict.fromkeys("PQ", 112) | dict.fromkeys("RS", 7)
    nodes = [Node("image", "input", shape=(1, 3, 224, 224)),
             Node("first", "conv", ("image",), None, make_operator("conv", {"N": 1, "M": 64, "C": 3} | pixels, (2, 2)),
                  ("Inputs",), ((3, 3),) * 2),
             Node("pool", "maxpool", ("first",), window=Window((3, 3), (2, 2), ((1, 1),) * 2, (1, 1))),
             Node("second", "conv", ("pool",), None, make_operator(
                 "conv", {"N": 1, "M": 64, "C": 64, "P": 28, "Q": 28, "R": 3, "S": 3}, (2, 2)), ("Inputs",),
                 ((1, 1),) * 2)]
    link, = build_workload("pooled", nodes).links()
    rows = next(axis for axis in link.axes if axis.dimension == "P")
    assert rows.slides == (WindowSlide(3, 2, 1, 1), WindowSlide(3, 2, 1, 1)) and rows.pools == 1
    assert composed(rows.slides) == WindowSlide(7, 4, 1, 3) and rows.needed(2) == 11
