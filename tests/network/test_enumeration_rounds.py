"""Which segments are enumerated, and which once more at the prices of a plan."""

from __future__ import annotations

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
from fadiff_mapper.network.plan.enumeration_rounds import DEARER, listed_candidates, near_plan, unlisted
from fadiff_mapper.network.plan.group_prices import price_of
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.planning_clock import PlanningClock
from fadiff_mapper.network.plan.proposals import propose
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.search.map_layers import map_layers


@pytest.fixture(scope="module")
def board() -> PlanningBoard:
    """The segments of an attention block on `gemmini_small` with all their candidates waiting."""
    workload, options = load_network("bundled:networks/gpt3_6b7_block"), NetworkOptions()
    specs = specs_of(workload, bundled_files.find("arch/gemmini_small"), "bundled", strict=True)
    results = tuple(map_layers(specs, QUICK, bounds=False))
    run = PlanningRun(workload, options, results, [[result] for result in results], [[] for _ in results], None,
                      PlanningClock(None, lambda: False), checkpoint.opened(None, workload, specs, options),
                      lambda *_: None)
    found = segments(workload, options.longest)
    known = {segment.key: PlanningFacts(segment) for segment in reversed(found)}
    listed = PlanningBoard(run, [(segment, known[segment.key]) for segment in found], known)
    left = unlisted(listed)
    assert set(left) == set(known)
    for key, candidates in listed_candidates(listed, left).items():
        propose(run, known[key], candidates)
    return listed


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
