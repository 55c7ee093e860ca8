"""The roofline: work lies where its intensity and its rate are, below the roof of memory and array."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fadiff_mapper.output.drawing import Dot, Label, Stroke
from fadiff_mapper.output.roofline import RooflinePoint, draw_roofline

PEAK, BANDWIDTH = 1024.0, 8.0   # multiply-accumulates and words in a cycle
STREAM = RooflinePoint("stream", macs=8e6, words=4e6, time=5e5, colour="c0")     # 2 a word, 16 in a cycle
DENSE = RooflinePoint("dense", macs=1.024e9, words=1e6, time=1e6, colour="c1")   # 1024 a word, 1024 in a cycle


def test_work_that_one_of_both_limits_lies_on_the_roof() -> None:
    drawing = draw_roofline([STREAM, DENSE], PEAK, BANDWIDTH, "cycle")
    assert drawing is not None
    memory, array = (shape for shape in drawing.shapes if isinstance(shape, Dot))
    assert (memory.title, array.title) == ("stream: 0.016 k MAC/cycle", "dense: 1.024 k MAC/cycle")
    assert memory.x < array.x and memory.y > array.y
    roof, = (shape.path for shape in drawing.shapes if isinstance(shape, Stroke) and shape.css_class == "edge")
    start, bend = (tuple(map(float, point.split())) for point in roof[1:].split("H")[0].split("L"))
    assert array.y == pytest.approx(bend[1], abs=0.06)   # drawn to a tenth of a pixel
    slope = (start[1] - bend[1]) / (bend[0] - start[0])
    assert memory.y == pytest.approx(start[1] - slope * (memory.x - start[0]), abs=0.2)
    assert "multiply-accumulates a word" in [shape.text for shape in drawing.shapes if isinstance(shape, Label)]


@pytest.mark.parametrize("left_out", ["macs", "words", "time"])
def test_work_without_words_time_or_computes_has_no_place(left_out: str) -> None:
    drawing = draw_roofline([STREAM, replace(DENSE, **{left_out: 0.0})], PEAK, BANDWIDTH, "cycle")
    assert drawing is not None
    assert sum(isinstance(shape, Dot) for shape in drawing.shapes) == 1
    assert draw_roofline([replace(DENSE, **{left_out: 0.0})], PEAK, BANDWIDTH, "cycle") is None


def test_a_memory_without_a_limit_has_no_roof() -> None:
    assert draw_roofline([STREAM], PEAK, None, "cycle") is None
