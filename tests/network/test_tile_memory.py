"""Searches of tiles: none is made twice in a run, and layers whose strategies are known are not compared again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from made_graphs import conv

from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network import tile_mappings
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.tile_mappings import (
    TileMemory,
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


def mapped(group: FusedGroup, compared: bool, known: dict[str, str], memory: TileMemory) -> FusedGroup | None:
    specs = two_layers()[1]
    hardware = Hardware(specs[0].arch, specs[0].tables)
    memory = replace(memory, strategies=known)
    return with_mappings(hardware, [group], [specs], SUMS, compared=compared, memory=memory)[0]


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


@pytest.mark.parametrize("compared", [False, True])
def test_a_search_is_not_made_twice(compared: bool, searches: list[MappingTask]) -> None:
    memory = TileMemory()
    first = mapped(fused(4), compared, {}, memory)
    made = len(searches)
    assert first and made
    assert mapped(fused(4), compared, {}, memory) == first
    assert len(searches) == made


def test_remembered_outcomes_are_those_of_searches_made_anew() -> None:
    memory = TileMemory()
    mapped(fused(6), False, {}, memory)
    assert mapped(fused(4), True, {}, memory) == mapped(fused(4), True, {}, TileMemory())


def test_other_tiles_are_searched(searches: list[MappingTask]) -> None:
    memory = TileMemory()
    mapped(fused(4), False, {}, memory)
    made = len(searches)
    mapped(fused(6), False, {}, memory)
    assert len(searches) > made


def test_a_tile_with_less_room_is_searched_again(searches: list[MappingTask]) -> None:
    memory = TileMemory()
    whole = mapped(fused(4), False, {}, memory)
    made = len(searches)
    beside = mapped(fused(4, resident=True), False, {}, memory)
    rooms = [task.room.words.tolist() for task in searches if task.room]
    assert whole and beside and len(rooms) == 2 * made
    assert all(less <= more for more, less in zip(rooms[0], rooms[made], strict=True)) and rooms[0] != rooms[made]


def test_strategies_are_compared_for_layers_that_have_none_yet(searches: list[MappingTask]) -> None:
    known: dict[str, str] = {}
    assert not strategies_known(fused(4), known)
    mapped(fused(4), True, known, TileMemory())
    compared = len(searches)
    assert strategies_known(fused(4), known) and strategies_known(fused(6), known)
    mapped(fused(4), False, known, TileMemory())
    assert len(searches) - compared < compared
    again = len(searches)
    mapped(fused(4), True, known, TileMemory())
    assert len(searches) - again == again - compared    # as many as with the best strategies alone
