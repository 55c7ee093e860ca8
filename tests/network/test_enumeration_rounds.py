"""Which segments are enumerated, and which once more at the prices of a plan."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import inf
from typing import Any

import pytest

from fadiff_mapper import NetworkOptions, SearchOptions, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.candidates import LOOPED
from fadiff_mapper.fusion.prices import CoverPart, OperatingPoint
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.network.checkpoint import opened
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.planning import (
    DEARER,
    PlanningRun,
    grown_candidates,
    listed_candidates,
    near_plan,
    propose,
    unlisted,
)
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.search.map_layers import map_layers


def run_of(network: str, design: str) -> PlanningRun:
    """The segments of a network, none of them enumerated."""
    workload, options = load_network(f"bundled:networks/{network}"), NetworkOptions()
    specs = specs_of(workload, bundled_files.find(f"arch/{design}"), "bundled", strict=True)
    results = tuple(map_layers(specs, SearchOptions(effort="quick"), bounds=False))
    run = PlanningRun(workload, options, results, [[result] for result in results], [[] for _ in results], None,
                      PlanningClock(None, lambda: False), opened(None, workload, specs, options),
                      lambda *_: None)
    run.take_segments(segments(workload, options.longest))
    return run


@pytest.fixture(scope="module")
def run() -> PlanningRun:
    """The segments of an attention block on `gemmini_small` with all their candidates waiting."""
    listed = run_of("gpt3_6b7_block", "gemmini_small")
    left = unlisted(listed)
    assert set(left) == set(listed.known)
    for key, candidates in listed_candidates(listed, left).items():
        propose(listed, listed.known[key], candidates)
    return listed


@pytest.mark.slow
@pytest.mark.parametrize("design", ["gemmini_large", "gemmini_small"])
def test_a_long_segment_is_enumerated_where_it_extends_one_that_beats_its_layers_divided(design: str) -> None:
    """On the large design long groups of MobileNetV1 pay, on the small one hardly any does."""
    run = run_of("mobilenet_v1", design)
    grown = grown_candidates(run)
    assert not unlisted(run)
    price = run.price
    least = {(name,): price(point) for name, point in run.alone.items()} | {
        segment.nodes: price(grown[segment.key][0].estimate) for segment in run.segments if grown.get(segment.key)}

    def divided(nodes: tuple[str, ...]) -> float:
        """By all ways to set borders between the layers, but the one without a border."""
        borders = (cuts for count in range(1, len(nodes)) for cuts in combinations(range(1, len(nodes)), count))
        return min(sum(least.get(nodes[start:stop], inf) for start, stop in pairwise((0, *cuts, len(nodes))))
                   for cuts in borders)

    for segment in run.segments:
        parts = (segment.nodes[1:], segment.nodes[:-1])
        if LOOPED < len(segment.nodes) < 9:
            worthwhile = any(least.get(part, inf) < divided(part) for part in parts)
            same = [other.nodes for other in run.segments if other.key == segment.key]
            assert worthwhile <= (segment.key in grown) and (len(same) > 1 or (segment.key in grown) == worthwhile)
    longest = max(len(segment.nodes) for segment in run.segments if segment.key in grown)
    assert longest > 8 if design == "gemmini_large" else longest <= 5


def test_a_segment_is_enumerated_once(run: PlanningRun) -> None:
    assert all(facts.listed for facts in run.known.values()) and not unlisted(run)
    last = next(reversed(run.known))
    run.known[last].listed = False
    assert set(unlisted(run)) == {last}
    run.known[last].listed = True


def test_segments_without_a_candidate_near_the_plan_are_not_enumerated_again(run: PlanningRun) -> None:
    """Without a group the plan is that of the layers one by one."""
    near, price = near_plan(run, ()), run.price
    with_candidates = [facts for facts in run.known.values() if facts.waiting]
    assert near and len(with_candidates) < len(run.known)
    assert {facts.segment.key for facts in near} == {facts.segment.key for facts in with_candidates}
    for facts in near:
        alone = sum(price(run.alone[name]) for name in facts.segment.nodes)
        assert min(price(candidate.estimate) for candidate in facts.waiting) < (1 + DEARER) * alone


def test_segments_far_above_a_plan_are_left_out(run: PlanningRun) -> None:
    price = run.price
    facts = next(facts for facts in run.known.values() if facts.waiting)
    estimate = facts.waiting[0].estimate
    for dearness, again in ((1 + DEARER / 2, True), (1 + 2 * DEARER, False)):
        point = OperatingPoint(estimate.energy_pj / dearness, estimate.cycles / dearness)
        assert price(point) == pytest.approx(price(estimate) / dearness)
        plan: list[CoverPart[Any]] = [CoverPart(facts.segment.nodes, point, None)]
        assert (facts in near_plan(run, plan)) == again
