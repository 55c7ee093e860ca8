"""Searches of tiles: none is made twice in a run, tiles that differ in their room share one, and layers whose
strategies are known are not compared again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_graphs import conv

from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network import tile_mappings
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.tile_mappings import (
    LIGHT,
    STEP,
    THOROUGH,
    TileEffort,
    TileMemory,
    TileShape,
    TileStrategy,
    ample_room,
    strategies_known,
    with_mappings,
)
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.workload import Node, Workload, build_workload

SUMS = (1e9, 1e6)
"""Energy in pJ and cycles of a network, in which tiles minimise their shares."""

@cache
def two_layers() -> tuple[Workload, list[Spec]]:
    network = build_workload("two", [Node("x", "input", shape=(1, 8, 12, 12)), conv("wide", "x", 8, 16, 12),
                                     conv("narrow", "wide", 16, 8, 12)], ["narrow"])
    return network, list(specs_of(network, bundled_files.find("arch/gemmini_large")))


def fused(rows: int, resident: bool = False) -> FusedGroup:
    """The two layers in tiles of some rows; with `resident` the weights of the second one stay on the chip."""
    segment, stay = segments(two_layers()[0], 2)[0], Stay("Scratchpad")
    first, second = (FusedLayer(problem, {}) for problem in segment.problems)
    return FusedGroup((first, replace(second, operands={"Weights": stay}) if resident else second),
                      tuple(replace(link, stay=stay) for link in segment.links), (TileLoop("P", rows),))


def mapped(group: FusedGroup, effort: TileEffort, known: dict[str, str], memory: TileMemory) -> FusedGroup | None:
    specs = two_layers()[1]
    hardware = Hardware(specs[0].arch, specs[0].tables)
    return with_mappings(hardware, [group], [specs], SUMS, effort, memory=replace(memory, strategies=known))[0]


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[MappingTask]:
    """The tasks that are searched from here on."""
    made: list[MappingTask] = []
    original: Callable[..., Any] = tile_mappings.search_all

    def counted(tasks: Sequence[MappingTask], *rest: Any, **named: Any) -> Any:
        made.extend(tasks)
        return original(tasks, *rest, **named)

    monkeypatch.setattr(tile_mappings, "search_all", counted)
    return made


@pytest.mark.parametrize("effort", [LIGHT, THOROUGH], ids=["light", "thorough"])
def test_a_search_is_not_made_twice(effort: TileEffort, searches: list[MappingTask]) -> None:
    memory = TileMemory()
    first = mapped(fused(4), effort, {}, memory)
    made = len(searches)
    assert first and made
    assert mapped(fused(4), effort, {}, memory) == first
    assert len(searches) == made


def test_remembered_outcomes_are_those_of_searches_made_anew() -> None:
    memory = TileMemory()
    mapped(fused(6), LIGHT, {}, memory)
    assert mapped(fused(4), THOROUGH, {}, memory) == mapped(fused(4), THOROUGH, {}, TileMemory())


def test_other_tiles_are_searched(searches: list[MappingTask]) -> None:
    memory = TileMemory()
    mapped(fused(4), LIGHT, {}, memory)
    made = len(searches)
    mapped(fused(6), LIGHT, {}, memory)
    assert len(searches) > made


def test_tiles_that_differ_in_their_room_share_a_search(searches: list[MappingTask]) -> None:
    memory = TileMemory()
    whole = mapped(fused(4), LIGHT, {}, memory)
    made = [task.layer.problem.bounds["M"] for task in searches]
    beside = mapped(fused(4, resident=True), LIGHT, {}, memory)
    again = [task.layer.problem.bounds["M"] for task in searches[len(made):]]
    assert whole and beside and whole.layers[0].mappings == beside.layers[0].mappings
    assert made == [16, 8] and again == [8]     # the constraints of the second layer differ


def test_a_tile_that_a_mapping_in_ample_room_does_not_fit_is_searched_in_its_own(
        searches: list[MappingTask], monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[TileShape] = []
    original = tile_mappings.tile_outcomes

    def noted(wanted: Sequence[tuple[TileShape, TileStrategy]], *rest: Any) -> Any:
        shapes.extend(tile for tile, _ in wanted)
        return original(wanted, *rest)

    monkeypatch.setattr(tile_mappings, "tile_outcomes", noted)
    mapped(fused(4), LIGHT, {}, TileMemory())
    searches.clear()
    strategy = shapes[0].strategies[0]
    outcome, = original([(shapes[0], strategy)], LIGHT.options, lambda: False, TileMemory())
    with monkeypatch.context() as crowded:
        crowded.setattr(TileShape, "fits", lambda *_: False)
        tight, = original([(shapes[0], strategy)], LIGHT.options, lambda: False, TileMemory())
    assert outcome and tight and outcome.legal and tight.legal
    assert len(searches) == 3
    rooms = [task.room.words for task in searches if task.room]
    assert (rooms[0] == rooms[1]).all() and (rooms[2] < rooms[1]).any() and list(rooms[2]) == list(shapes[0].room)
    assert shapes[0].fits(tight.nest)


@given(st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_ample_room_holds_the_room_and_less_than_twice_as_much(parts: list[float]) -> None:
    architecture = two_layers()[1][0].arch
    room = [inf if level.usable is None else level.usable * part
            for level, part in zip(architecture.levels, parts[:len(architecture.levels)], strict=True)]
    for own, ample, level in zip(room, ample_room(architecture, room), architecture.levels, strict=True):
        assert own <= ample <= (inf if level.usable is None else level.usable)
        assert own < 1 or own == inf or ample < own * STEP * (1 + 1e-9)


def test_strategies_are_compared_for_layers_that_have_none_yet(searches: list[MappingTask]) -> None:
    known: dict[str, str] = {}
    assert not strategies_known(fused(4), known)
    mapped(fused(4), THOROUGH, known, TileMemory())
    compared = len(searches)
    assert strategies_known(fused(4), known) and strategies_known(fused(6), known)
    mapped(fused(4), LIGHT, known, TileMemory())
    assert len(searches) - compared < compared
    again = len(searches)
    mapped(fused(4), THOROUGH, known, TileMemory())
    shapes = len(searches) - again
    assert shapes == 2 * (again - compared)     # a light and a deep search of every tile
