"""The groups of a plan: which candidates are worth mapping exactly, where groups begin and end, and their refinement.

Problem. Estimates of candidates are cheap; the exact cost of one takes a search of mappings for every tile. Only few
can be evaluated, and the plan should be the best nevertheless.

Method. Optimism in the face of uncertainty: the plan that would be best if all estimates held (`partition` over exact
and estimated groups) is evaluated, again and again, until it consists of evaluated groups only or promises next to
nothing more. Candidates come from the descent (`descent.decoding`), from enumeration (`tilings.candidates`) and from
around the plan (`tilings.reshaping`). Where the plan has other shares of energy and cycles than the layers one by one,
candidates are enumerated once more at its prices. A group that falls short of its estimate is searched for longer, then
proposed again in smaller tiles; one that is faster corrects the estimates of its layers. At last, tile sizes and
mappings of the plan's groups are refined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.chains.segments import segments
from fadiff_mapper.network.plan.enumeration_rounds import (
    LISTING,
    grown_candidates,
    listed_candidates,
    near_plan,
    unlisted,
)
from fadiff_mapper.network.plan.exact_evaluation import evaluate_candidates
from fadiff_mapper.network.plan.group_prices import WORTH
from fadiff_mapper.network.plan.group_refinement import refine_groups
from fadiff_mapper.network.plan.groups import LIGHT, EvaluatedGroup
from fadiff_mapper.network.plan.hoped_plan import best_known_plan, hopeful
from fadiff_mapper.network.plan.layers_alone import layers_alone
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.proposals import decoded_from_descent, propose, reshaped_around_plan
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.results.mapped_network import LayerAlone

MOVED = 1.2
"""The factor by which a plan must change the ratio of energy to cycles for candidates to be listed again at its prices.

Prices are a tangent of the metric, at first that of the network layer by layer. MobileNetV2 gains 4.9 % by it on
`eyeriss_like` (0.73 of the first ratio), 0.04 % on `simba_like` (0.58), the GPT-3 block on `gemmini_small` (1.02)
nothing; it takes 3 to 4 of 17 s.
"""

RESHAPED = 3
"""How often the groups next to those of the plan are proposed, as long as that brings `WORTH`. A limit of time, not
measured."""

ENUMERATED_AT_ONCE = 128
"""Distinct segments near the plan, spread over the network, that are enumerated at its prices before `WORTH` decides on
more.

A chain of 200 distinct layers has 749 of them, which bring nothing with any of four seeds; with 512 at once planning
takes 5 % longer, and 25 other pairs of network and design save the same. Few may bring nothing although the rest does:
the 83 of MobileNetV2 on `eyeriss_like` bring 1.3 %, all in the sixth of eight parts, and with the groups around them
3.0 % (23 November 2026).
"""

PATIENCE, STALLED = 6, 2e-3
"""Evaluations in a row, and the part of the network's metric that these must bring together for more of them."""


def planned_groups(run: PlanningRun, *, explain: bool = False,
                   ) -> tuple[tuple[CoverPart[EvaluatedGroup], ...], tuple[LayerAlone, ...]]:
    """Finds the groups of the plan.

    Args:
        run: The run; its history, estimates and checkpoint are updated on the way.
        explain: Whether to find out why layers are in no group.

    Returns:
        Groups that do not overlap, exactly evaluated, with which the network is better than layer by layer; and the
        layers in none of them, if asked for.
    """
    run.workload.links()  # found once, so that listing has its part of the time to itself
    listed = run.over_in(LISTING)
    every = segments(run.workload, run.options.longest, listed)
    run.cut = listed()
    known = {segment.key: PlanningFacts(segment) for segment in reversed(every)}
    board = PlanningBoard(run, [(segment, known[segment.key]) for segment in every], known)
    _take_up(board, decoded_from_descent(board))
    if run.enumerates and run.clock.limit is None:
        _take_up(board, grown_candidates(board))
    _propose_listed(board)
    _propose_reshaped(board)
    _propose_at_prices_of_plan(board)
    plan = best_known_plan(board)
    if plan and not run.over():
        refine_groups(board, {part.nodes for part in plan})
        plan = best_known_plan(board)
    return tuple(plan), layers_alone(board, plan) if explain else ()


def _propose_listed(board: PlanningBoard) -> None:
    """Takes up the candidates of all segments that are yet to be enumerated."""
    while left := unlisted(board):
        _take_up(board, listed_candidates(board, left))


def _propose_reshaped(board: PlanningBoard) -> None:
    """Takes up candidates around the plan as long as that is worth it."""
    run = board.run
    for _ in range(RESHAPED):
        before = run.value(best_known_plan(board))
        if run.over() or not _take_up(board, reshaped_around_plan(board)) < before * (1 - WORTH):
            break


def _propose_at_prices_of_plan(board: PlanningBoard) -> None:
    """Lists candidates anew where the ratio of energy to cycles differs by `MOVED`; keeps its prices if worth it."""
    run, plan = board.run, best_known_plan(board)
    planned, first, before = run.sums(plan), run.total, run.value(plan)
    moved = planned.energy_pj / first.energy_pj * first.cycles / max(planned.cycles, 1)
    if run.over() or run.options.metric != "edp" or 1 / MOVED < moved < MOVED:
        return
    run.total = planned
    near, value = near_plan(board, plan), before
    for start in range(0, len(near), ENUMERATED_AT_ONCE):
        for facts in near[start:start + ENUMERATED_AT_ONCE]:
            facts.listed = False
        _propose_listed(board)
        last, value = value, run.value(best_known_plan(board))
        if run.over() or not value < last * (1 - WORTH):
            break
    _propose_reshaped(board)
    if not run.value(best_known_plan(board)) < before * (1 - WORTH):
        run.total = first


def _take_up(board: PlanningBoard, proposed: Mapping[Any, Sequence[Candidate]]) -> float:
    """Evaluates candidates as long as they promise something and gains do not stall.

    Returns:
        The network's metric with the best plan.
    """
    run = board.run
    for key, candidates in proposed.items():
        propose(run, board.known[key], candidates)
    values = [run.value(best_known_plan(board))]
    while not run.over() and (picked := hopeful(board)):
        evaluate_candidates(board, picked, LIGHT, "groups")
        values.append(run.value(best_known_plan(board)))
        if len(values) > PATIENCE and values[-1] > values[-1 - PATIENCE] * (1 - STALLED):
            break
    return values[-1]


