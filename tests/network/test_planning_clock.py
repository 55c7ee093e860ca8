"""The time limit of a network holds for the whole run: the search leaves time for what follows it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fadiff_mapper import NetworkOptions, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network import map_network as map_network_module
from fadiff_mapper.network.map_network import plan_network
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.planning_clock import PlanningClock, command_clock
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload


def never() -> bool:
    return False


def test_without_a_limit_time_is_never_over() -> None:
    assert not PlanningClock(None, never, start=time.monotonic() - 1e6).over(10 ** 9)


def test_time_for_the_last_steps_is_kept_back_and_grows_with_the_plan() -> None:
    clock = PlanningClock(10.0, never, start=time.monotonic() - 5, plan=1.5, layers=0.5, per_tile=0.1)
    assert clock.left() == pytest.approx(3.0, abs=0.5) and not clock.over()
    assert clock.left(20) == pytest.approx(1.0, abs=0.5) and not clock.over(20)
    assert clock.over(40)


def test_an_interruption_ends_everything() -> None:
    assert PlanningClock(None, lambda: True).over()


def test_larger_networks_and_slower_machines_are_given_more_time_for_their_files() -> None:
    """A command that began slowly expects to end slowly."""
    small, large = (load_network(f"bundled:networks/{name}") for name in ("gpt3_6b7_block", "mobilenet_v1"))

    def clock_after(spent: float, workload: Workload, limit: float | None = None) -> PlanningClock:
        return command_clock(limit, never, time.monotonic() - spent, workload)

    fast, slow, larger = clock_after(50.0, small), clock_after(500.0, small), clock_after(50.0, large)
    assert larger.plan + larger.layers > 1.5 * (fast.plan + fast.layers)
    assert slow.plan == pytest.approx(10 * fast.plan, rel=0.2)
    assert slow.per_tile == pytest.approx(10 * fast.per_tile, rel=0.2)
    assert fast.spent() == pytest.approx(50.0, abs=5.0), "the limit counts from the beginning of the command"
    assert fast.limit is None
    assert 60.0 < (clock_after(50.0, small, 60.0).limit or 0.0) < 61.0, "two seconds are for the error of the guess"


def test_segments_are_listed_from_short_to_long_as_long_as_there_is_time() -> None:
    network = load_network("bundled:networks/mobilenet_v1")
    every, asked = segments(network, 4), 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > 40
    some = segments(network, 4, over)
    assert set(map(len, (found.nodes for found in every))) == {2, 3, 4}
    assert some and [found.nodes for found in some] == [found.nodes for found in every if found in some]
    assert max(len(found.nodes) for found in some) < 4
    assert {found.nodes for found in every if len(found.nodes) == 2} <= {found.nodes for found in some}
    assert segments(network, 4, lambda: True) == []


@pytest.mark.slow
def test_the_limit_of_a_command_covers_its_files(tmp_path: Path) -> None:
    start = time.monotonic()
    assert main(["network", "bundled:networks/mobilenet_v1", "bundled:arch/gemmini_large", "-o", str(tmp_path),
                 "--time-limit", "2.5", "--quiet"]) == 0
    assert time.monotonic() - start < 20   # 3 s where nothing else runs
    plan = json.loads((tmp_path / "fadiff.network.json").read_text())
    assert plan["status"].startswith(("out of time after 2.5 s", "search ended"))
    assert plan["edp"] <= plan["unfused"]["edp"]


def test_where_reading_has_taken_all_the_time_the_layers_are_mapped_all_the_same() -> None:
    late = PlanningClock(1.0, never, start=time.monotonic() - 60)
    network = load_network("bundled:networks/llama3_8b_decode")
    plan = plan_network(network, specs_of(network, bundled_files.find("arch/gemmini_small")),
                        NetworkOptions(time_limit=1.0, threads=1), clock=late)
    assert plan.status == "out of time after 1 s: the best plan so far"
    assert all(layer.stats.edp > 0 for layer in plan.layers)


def test_where_time_is_short_layers_still_end_near_their_best_mappings() -> None:
    design, network = str(bundled_files.find("arch/gemmini_large")), load_network("bundled:networks/resnet18")
    short = map_network(network, design, NetworkOptions(time_limit=1e-3, threads=1)).unfused_stats.edp
    assert short <= 1.02 * map_network(network, design, NetworkOptions(fuse=False, threads=1)).unfused_stats.edp


@pytest.mark.parametrize(("limit", "effort"), [(None, "full"), (1e4, "full"), (0.5, "short")])
def test_layers_are_searched_with_less_effort_where_a_limit_leaves_little_for_each(
        limit: float | None, effort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SearchOptions] = []

    def noted(specs: Sequence[Spec], options: SearchOptions, **keywords: Any) -> list[Result]:
        asked.append(options)
        return map_layers(specs, replace(options, effort="light", time_limit=None), bounds=False)

    monkeypatch.setattr(map_network_module, "map_layers", noted)
    options = NetworkOptions(metric="energy", seed=3, time_limit=limit, threads=1, fuse=False)
    map_network(load_network("bundled:networks/gpt3_6b7_block"), "bundled:arch/gemmini_large", options)
    assert [(one.effort, one.metrics, one.seed) for one in asked] == [(effort, ("energy",), 3)]


def test_a_checkpoint_is_told_of_every_layer_once_when_its_search_has_ended() -> None:
    workload = load_network("bundled:networks/llama3_8b_decode")
    specs = specs_of(workload, bundled_files.find("arch/gemmini_small"))[:2]
    ended: list[tuple[int, str, float]] = []
    results = map_layers(specs, SearchOptions(effort="short"), bounds=False, before="quick",
                         on_end=lambda index, result: ended.append(
        (index, result.status, result.stats.edp)))
    assert ended == [(index, result.status, result.stats.edp) for index, result in enumerate(results)]
