"""Which segments are enumerated, and which once more at the prices of a plan."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import inf
from typing import Any

import pytest

from fadiff_mapper import NetworkOptions, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.chains.segments import segments
from fadiff_mapper.network.layers.edp_prices import OperatingPoint
from fadiff_mapper.network.layers.one_design import specs_of
from fadiff_mapper.network.map_network import QUICK
from fadiff_mapper.network.plan import checkpoint
from fadiff_mapper.network.plan.enumeration_rounds import (
    DEARER,
    grown_candidates,
    listed_candidates,
    near_plan,
    unlisted,
)
from fadiff_mapper.network.plan.group_prices import price_of
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.planning_clock import PlanningClock
from fadiff_mapper.network.plan.proposals import propose
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.tilings.tile_nests import LOOPED
from fadiff_mapper.search.map_layers import map_layers


def board_of(network: str, design: str) -> PlanningBoard:
    """The segments of a network, none of them enumerated."""
    workload, options = load_network(f"bundled:networks/{network}"), NetworkOptions()
    specs = specs_of(workload, bundled_files.find(f"arch/{design}"), "bundled", strict=True)
    results = tuple(map_layers(specs, QUICK, bounds=False))
    run = PlanningRun(workload, options, results, [[result] for result in results], [[] for _ in results], None,
                      PlanningClock(None, lambda: False), checkpoint.opened(None, workload, specs, options),
                      lambda *_: None)
    found = segments(workload, options.longest)
    known = {segment.key: PlanningFacts(segment) for segment in reversed(found)}
    return PlanningBoard(run, [(segment, known[segment.key]) for segment in found], known)


@pytest.fixture(scope="module")
def board() -> PlanningBoard:
    """The segments of an attention block on `gemmini_small` with all their candidates waiting."""
    listed = board_of("gpt3_6b7_block", "gemmini_small")
    left = unlisted(listed)
    assert set(left) == set(listed.known)
    for key, candidates in listed_candidates(listed, left).items():
        propose(listed.run, listed.known[key], candidates)
    return listed


@pytest.mark.parametrize("design", ["gemmini_large", "gemmini_small"])
def test_a_long_segment_is_enumerated_where_it_extends_one_that_beats_its_layers_divided(design: str) -> None:
    """On the large design long groups of MobileNetV1 pay, on the small one hardly any does."""
    board = board_of("mobilenet_v1", design)
    grown = grown_candidates(board)
    assert not unlisted(board)
    price = price_of(board.run)
    least = {(name,): price(point) for name, point in board.run.alone.items()} | {
        segment.nodes: price(grown[segment.key][0].estimate) for segment in board.segments if grown.get(segment.key)}

    def divided(nodes: tuple[str, ...]) -> float:
        """By all ways to set borders between the layers, but the one without a border."""
        borders = (cuts for count in range(1, len(nodes)) for cuts in combinations(range(1, len(nodes)), count))
        return min(sum(least.get(nodes[start:stop], inf) for start, stop in pairwise((0, *cuts, len(nodes))))
                   for cuts in borders)

    for segment in board.segments:
        parts = (segment.nodes[1:], segment.nodes[:-1])
        if LOOPED < len(segment.nodes) < 9:
            worthwhile = any(least.get(part, inf) < divided(part) for part in parts)
            same = [other.nodes for other in board.segments if other.key == segment.key]
            assert worthwhile <= (segment.key in grown) and (len(same) > 1 or (segment.key in grown) == worthwhile)
    longest = max(len(segment.nodes) for segment in board.segments if segment.key in grown)
    assert longest > 8 if design == "gemmini_large" else longest <= 5


def test_a_segment_is_enumerated_once(board: PlanningBoard) -> None:
    assert all(facts.listed for facts in board.known.values()) and not unlisted(board)
    last = next(reversed(board.known))
    board.known[last].listed = False
    assert set(unlisted(board)) == {last}
    board.known[last].listed = True


def test_segments_without_a_candidate_near_the_plan_are_not_enumerated_again(board: PlanningBoard) -> None:
    """Without a group the plan is that of the layers one by one."""
    run, near = board.run, near_plan(board, ())
    price = price_of(run)
    with_candidates = [facts for facts in board.known.values() if facts.waiting]
    assert near and len(with_candidates) < len(board.known)
    assert {facts.segment.key for facts in near} == {facts.segment.key for facts in with_candidates}
    for facts in near:
        alone = sum(price(run.alone[name]) for name in facts.segment.nodes)
        assert min(price(candidate.estimate) for candidate in facts.waiting) < (1 + DEARER) * alone


def test_segments_far_above_a_plan_are_left_out(board: PlanningBoard) -> None:
    price = price_of(board.run)
    facts = next(facts for facts in board.known.values() if facts.waiting)
    estimate = facts.waiting[0].estimate
    for dearness, again in ((1 + DEARER / 2, True), (1 + 2 * DEARER, False)):
        point = OperatingPoint(estimate.energy_pj / dearness, estimate.cycles / dearness)
        assert price(point) == pytest.approx(price(estimate) / dearness)
        plan: list[CoverPart[Any]] = [CoverPart(facts.segment.nodes, point, None)]
        assert (facts in near_plan(board, plan)) == again
