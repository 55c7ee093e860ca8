"""The refinement of a plan's groups: neighbouring tile sizes, and a thorough search of mappings."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fadiff_mapper.fusion import FusedGroup
from fadiff_mapper.network.plan.exact_evaluation import evaluate_candidates
from fadiff_mapper.network.plan.group_prices import WORTH, best_of, least_price, price_of
from fadiff_mapper.network.plan.groups import LIGHT, THOROUGH
from fadiff_mapper.network.plan.hoped_plan import EXACT_TO, promises
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.tilings.candidates import neighbours
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.kept_residuals import with_second_reads
from fadiff_mapper.network.tilings.layer_estimate import group_bases

NEAR = 3
"""Neighbouring tile sizes of each group of the plan that are tried in one step of its descent.

MobileNetV2 on `gemmini_small` saves 37.2 % of its EDP with 4 in place of 37.1 with 2, at 5 % more time
(23 November 2026).
"""

REFINED = "refined groups"
"""The stage of planning in which the groups of the plan are refined, as told to the user."""

CLIMBS = 5
"""Steps of the descent over tile sizes at most. A limit of time, not measured."""


def refine_groups(board: PlanningBoard, planned: set[tuple[str, ...]]) -> None:
    """Refines the plan's groups: further candidates, a descent over tile sizes, and a longer search of mappings.

    Args:
        board: All segments with their groups.
        planned: The layers of each group of the plan, by name.
    """
    run = board.run
    used = {segment.key: facts for segment, facts in board.every if segment.nodes in planned}
    price = price_of(run)
    close = [candidate for facts in used.values() for candidate in facts.waiting[:facts.left]
             if promises(price, facts, candidate, -EXACT_TO)]
    evaluate_candidates(board, close, LIGHT, REFINED)
    climbing = dict.fromkeys(used, inf)
    for _ in range(CLIMBS):
        now = {key: least_price(price, used[key].exact) for key in climbing}
        climbing = {key: least for key, least in now.items() if least < climbing[key] * (1 - WORTH)}
        if run.over() or not climbing:
            break
        near = [candidate for key in climbing for candidate in _near(run, used[key])]
        evaluate_candidates(board, near, LIGHT, REFINED)
    best = [(facts, best_of(price, facts.exact)) for facts in used.values()]
    short = [Candidate(facts.segment, group.group, group.promised, group.left_out) for facts, group in best
             if price(group.point) > (1 + EXACT_TO) * price(group.promised)
             and _bare(group.group) not in facts.searched]
    evaluate_candidates(board, short, THOROUGH, REFINED)


def _bare(group: FusedGroup) -> FusedGroup:
    """A group without its mappings, as it was proposed."""
    return replace(group, layers=tuple(replace(layer, mappings={}) for layer in group.layers))


def _near(run: PlanningRun, facts: PlanningFacts) -> list[Candidate]:
    """The neighbours of a segment's best group with the best estimates."""
    own, price = group_bases(facts.segment, run.bases), price_of(run)
    best = best_of(price, facts.exact)
    near = neighbours(run.hardware, Candidate(facts.segment, best.group, best.point), own, price)[:NEAR]
    if best.group.second_reads:
        near = [kept for candidate in near for kept in with_second_reads(run.hardware, candidate, run.word_costs)]
    return [candidate for candidate in near if candidate.group not in facts.tried and promises(price, facts, candidate)]
