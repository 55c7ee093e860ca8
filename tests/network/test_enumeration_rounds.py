"""Which segments are enumerated: short ones, those that extend a cheap one, and again where a layer is known better."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from math import inf
from pathlib import Path

import pytest

from fadiff_mapper import NetworkOptions, SearchOptions, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.network.checkpoint import opened
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.planning import ALL, PlanningRun, list_candidates
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.workload import Workload


def run_of(network: str | Workload, design: str) -> PlanningRun:
    """The segments of a network on a design, bundled ones by their names; none of them enumerated."""
    workload = network if isinstance(network, Workload) else load_network(f"bundled:networks/{network}")
    options = NetworkOptions()
    found = Path(design) if Path(design).exists() else bundled_files.find(design if "/" in design else f"arch/{design}")
    specs = specs_of(workload, found, "estimate" if "/" in design else "bundled", strict=True)
    results = tuple(map_layers(specs, SearchOptions(effort="quick"), bounds=False))
    run = PlanningRun(workload, options, results, [[] for _ in results], None,
                      PlanningClock(None, lambda: False), opened(None, workload, specs, options),
                      lambda *_: None)
    run.take_segments(segments(workload, options.longest, units=bool(run.hardware.arch.units)))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("design", ["gemmini_large", "gemmini_small"])
def test_a_long_segment_is_enumerated_where_it_extends_one_that_beats_its_layers_divided(design: str) -> None:
    """On the large design long groups of MobileNetV1 pay, on the small one hardly any does."""
    run = run_of("mobilenet_v1", design)
    assert list_candidates(run)
    price = run.price
    least = {(name,): price(point) for name, point in run.alone.items()} | {
        nodes: price(state.waiting[0].estimate) for nodes, state in run.by_nodes.items() if state.waiting}

    def divided(nodes: tuple[str, ...]) -> float:
        """By all ways to set borders between the layers, but the one without a border."""
        borders = (cuts for count in range(1, len(nodes)) for cuts in combinations(range(1, len(nodes)), count))
        return min(sum(least.get(nodes[start:stop], inf) for start, stop in pairwise((0, *cuts, len(nodes))))
                   for cuts in borders)

    for nodes, state in run.by_nodes.items():
        if len(nodes) < 9 and nodes == state.segment.nodes:
            parts = (nodes[1:], nodes[:-1])
            worthwhile = any(least.get(part, inf) < divided(part) for part in parts if len(part) > 1)
            assert bool(state.listed_for) == (len(nodes) <= ALL or worthwhile)
            assert not state.listed_for or state.grows == (least.get(nodes, inf) < divided(nodes))
    longest = max(len(nodes) for nodes, state in run.by_nodes.items() if state.listed_for)
    assert longest > 8 if design == "gemmini_large" else longest <= 5


def test_segments_are_enumerated_again_where_a_layer_is_known_better() -> None:
    run = run_of("gpt3_6b7_block", "gemmini_small")
    assert list_candidates(run)
    before = {key: state.listed_for for key, state in run.known.items()}
    waiting = {key: list(state.waiting) for key, state in run.known.items()}
    assert list_candidates(run) and waiting == {key: state.waiting for key, state in run.known.items()}
    name, base = next(iter(run.bases.items()))
    run.bases[name] = replace(base, inside=base.inside / 2)
    assert list_candidates(run)
    again = {key for key, state in run.known.items() if state.listed_for is not before[key]}
    assert again == {key for key, state in run.known.items() if before[key] and name in state.segment.nodes}


def test_a_time_limit_that_is_over_leaves_one_segment_to_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("gpt3_6b7_block", "gemmini_small")
    monkeypatch.setattr(PlanningRun, "over_in", lambda *_: lambda: True)
    for count in range(1, 4):
        assert not list_candidates(run)
        assert sum(bool(state.listed_for) for state in run.known.values()) == count
