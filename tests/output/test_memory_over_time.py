"""The page of a plan draws the words of a memory over time, layer by layer."""

from __future__ import annotations

import re

import pytest

from fadiff_mapper.fusion.group_cost import evaluate_tiles
from fadiff_mapper.fusion.group_legality import live_words, live_words_by_layer
from fadiff_mapper.output.layer_views import layer_views
from fadiff_mapper.output.network_page import MEMORY, draw_memory, network_html
from tests.network.test_trees_in_plans import plan


def test_each_layer_is_as_wide_as_its_cycles_and_as_high_as_its_words() -> None:
    found = plan()
    views = layer_views(found)
    (drawing,) = draw_memory(found, views)
    room = found.hardware.arch.levels[found.hardware.level("Scratchpad")].usable
    assert room
    bars = [shape for shape in drawing.shapes if hasattr(shape, "height")]
    assert len(bars) == len(views)
    for bar, view in zip(bars, views, strict=True):
        said = re.fullmatch(r"(\w+), (by itself|in group \d+): ([\d,]+) of [\d,]+ words for [\d,]+ cycles", bar.title)
        assert said and said[1] == view.name
        assert bar.height == pytest.approx(MEMORY * int(said[3].replace(",", "")) / room, abs=0.01)
        assert bar.height <= MEMORY * (1 + 1e-9)
    widths = sum(bar.width + 0.5 for bar in bars)
    assert bars[0].width + 0.5 == pytest.approx(widths * views[0].planned.cycles / sum(
        view.planned.cycles for view in views))
    assert "Memory over time" in network_html(found)


def test_the_peak_of_a_group_is_that_of_its_fullest_layer() -> None:
    found = plan()
    for outcome in found.groups:
        evaluated, = evaluate_tiles(found.hardware, [outcome.group])
        for level in range(len(found.hardware.arch.levels) - 1):
            by_layer = live_words_by_layer(found.hardware, outcome.group, level, evaluated)
            assert len(by_layer) == len(outcome.nodes)
            assert max(by_layer) == live_words(found.hardware, outcome.group, level)
