"""The plan that would be best if all estimates held, and the best plan of evaluated groups."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.network.chains.partition import CoverPart, partition
from fadiff_mapper.network.chains.segments import runs_in_order
from fadiff_mapper.network.layers.edp_prices import NetworkPrice, summed
from fadiff_mapper.network.plan.group_prices import least_price, price_of
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.run_state import PlanningRun, planned_tiles
from fadiff_mapper.network.tilings.estimate_sheet import Candidate

EXACT_TO = 5e-3
"""The part of a price to which estimates are exact.

An estimate must beat the evaluated groups of its segment by more than that for the candidate to be evaluated, or come
that close when groups are refined; and a group of the plan must fall short of its own estimate by more to be searched
thoroughly. Of 90 evaluations for MobileNetV1 on `gemmini_small`, the 45 with estimates above brought nothing; nor did
the 4 thorough searches for ResNet-18 on `gemmini_large`.
"""

PROMISE = 3e-5
"""The part of the network's metric that the unevaluated candidates of a plan must promise to be evaluated.

Introduced with the shorter descent of 30 steps, when plans of MobileNetV1, ResNet-18 and VGG-16 on the large bundled
design stayed the same; the value itself was not varied.
"""


def hopeful(board: PlanningBoard) -> list[Candidate]:
    """The unevaluated candidates of the plan that would be best if estimates held; none where it promises too little.

    Only the best waiting candidate of a segment takes part: the next one cannot promise more.
    """
    parts, price = _evaluated_parts(board), price_of(board.run)
    for segment, facts in board.every:
        if facts.left and facts.waiting and promises(price, facts, facts.waiting[0]):
            parts.append(CoverPart(segment.nodes, facts.waiting[0].estimate, facts.waiting[0]))
    hoped = _best_plan(board.run, parts)
    if board.run.value(hoped) > board.run.value(best_known_plan(board)) * (1 - PROMISE):
        return []
    return _writable(board.run, hoped)


def _writable(run: PlanningRun, hoped: list[CoverPart[Any]]) -> list[Candidate]:
    """The candidates of a hoped plan, without those that save least where time is too short to write all of it."""
    plans = {id(part.plan): part.plan for part in hoped}    # equal segments share a candidate
    picked = [plan for plan in plans.values() if isinstance(plan, Candidate)]
    price, saved = price_of(run), dict.fromkeys(plans, 0.0)
    for part in hoped:
        saved[id(part.plan)] += price(summed([run.alone[name] for name in part.nodes])) - price(part.point)
    written = set(plans)
    while picked and run.clock.over(planned_tiles([part for part in hoped if id(part.plan) in written])):
        picked.sort(key=lambda plan: -saved[id(plan)])
        written -= {id(plan) for plan in picked[len(picked) // 2:]}
        picked = picked[:len(picked) // 2]
    return picked


def promises(price: NetworkPrice, facts: PlanningFacts, candidate: Candidate, part: float = EXACT_TO) -> bool:
    """Whether a candidate's estimate beats the evaluated groups of its segment by more than a part of their price."""
    return price(candidate.estimate) < least_price(price, facts.exact) * (1 - part)


def _evaluated_parts(board: PlanningBoard) -> list[CoverPart[Any]]:
    """All evaluated groups, wherever in the network they could run."""
    return [CoverPart(segment.nodes, group.point, group) for segment, facts in board.every for group in facts.exact]


def best_known_plan(board: PlanningBoard) -> list[CoverPart[EvaluatedGroup]]:
    """The best partition with the groups evaluated so far."""
    return _best_plan(board.run, _evaluated_parts(board))


def _best_plan(run: PlanningRun, parts: list[CoverPart[Any]]) -> list[CoverPart[Any]]:
    """The best partition that the network's order allows: two groups may each wait for the other."""
    while True:
        plan = partition(run.chains, run.alone, parts, run.options.metric, run.joined)
        if runs_in_order(run.workload, [part.nodes for part in plan]):
            return plan
        parts = [part for part in parts if part is not plan[-1]]
