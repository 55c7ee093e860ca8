"""Which segments are enumerated: those that could be in a better plan, and again where a layer is known better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from fadiff_mapper import NetworkOptions, SearchOptions, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.network import planning
from fadiff_mapper.network.checkpoint import opened
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.planning import HopedSteps, PlanningRun, list_candidates
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.workload import Workload


def run_of(network: str | Workload, design: str, gap: float | None = None) -> PlanningRun:
    """The segments of a network on a design, bundled ones by their names; none of them enumerated."""
    workload = network if isinstance(network, Workload) else load_network(f"bundled:networks/{network}")
    options = NetworkOptions(gap=gap)
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
def test_no_plan_with_other_segments_than_those_enumerated_promises_more(design: str) -> None:
    """The rest costs its bound; the layers of MobileNetV1 are one chain."""
    run = run_of("mobilenet_v1", design)
    assert list_candidates(run) and not HopedSteps(run).unlisted()
    assert run.promises
    price, (names,) = run.price, run.chains
    prices = {step.nodes: least for step, least in zip(
        run.promises.steps, run.promises.prices(*(1 / total for total in price.sums)), strict=True)}
    promised = {(name,): price(point) for name, point in run.alone.items()} | {
        nodes: state.hoped(price) for nodes, state in run.by_nodes.items() if state.listed_for}

    def cheapest(prices: Mapping[tuple[str, ...], float]) -> float:
        least = [0.0]
        for stop in range(1, len(names) + 1):
            least.append(min(least[start] + prices.get(names[start:stop], inf) for start in range(stop)))
        return least[-1]
    assert cheapest(promised) == pytest.approx(cheapest(prices | promised), rel=1e-12)
    assert len(promised) - len(names) < len(run.by_nodes) / 2


def test_segments_are_enumerated_again_where_a_layer_is_known_better() -> None:
    run = run_of("gpt3_6b7_block", "gemmini_small")
    assert list_candidates(run)
    before = {key: state.listed_for for key, state in run.known.items()}
    assert list_candidates(run) and before == {key: state.listed_for for key, state in run.known.items()}
    name = next(state for state in run.known.values() if state.waiting).segment.nodes[0]
    run.bases[name] = replace(run.bases[name], inside=run.bases[name].inside / 2)
    assert list_candidates(run)
    again = {key for key, state in run.known.items() if state.listed_for is not before[key]}
    assert again and all(name in run.known[key].segment.nodes for key in again)


def test_a_time_limit_that_is_over_leaves_one_segment_to_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("mobilenet_v1", "gemmini_small")
    monkeypatch.setattr(PlanningRun, "over_in", lambda *_: lambda: True)
    for count in range(1, 4):
        assert not list_candidates(run)
        assert sum(bool(state.listed_for) for state in run.known.values()) == count


@pytest.mark.parametrize("gap", [None, 0.01])
def test_enumeration_ends_where_many_segments_bring_little_unless_a_gap_is_asked_for(
        gap: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("mobilenet_v1", "gemmini_small", gap)
    monkeypatch.setattr(planning, "LISTED", 5)  # the plan hoped for stays the same for more segments than these
    assert list_candidates(run)
    assert run.listed_enough == (gap is None) and not HopedSteps(run).unlisted()
    listed = [state for state in run.known.values() if state.listed_for]
    run.listed_enough = False
    assert bool(HopedSteps(run).unlisted()) == (gap is None)
    assert len(listed) % 5 == 0 or gap
    run.listed_enough = gap is None
    run.bases.update({name: replace(base, inside=base.inside / 2) for name, base in run.bases.items()})
    assert list_candidates(run)
    assert (gap is None) == (listed == [state for state in run.known.values() if state.listed_for])
