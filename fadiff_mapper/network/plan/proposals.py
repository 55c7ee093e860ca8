"""Candidates for groups: from the descent, from around the plan, with residual operands on the chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fadiff_mapper.network.plan.group_prices import price_of
from fadiff_mapper.network.plan.groups import ranked
from fadiff_mapper.network.plan.hoped_plan import best_known_plan
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.tilings.candidates import narrower
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.kept_residuals import with_second_reads
from fadiff_mapper.network.tilings.layer_estimate import group_bases
from fadiff_mapper.network.tilings.reshaping import reshaped


def decoded_from_descent(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """Candidates of any length that the descent proposes."""
    run = board.run
    return run.descended.candidates(run.hardware, board.segments, run.bases, price_of(run),
                                    run.over) if run.descended else {}


def reshaped_around_plan(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """Candidates next to the groups of the plan so far."""
    run, plan = board.run, [(part.nodes, part.plan.group) for part in best_known_plan(board)]
    return reshaped(run.hardware, plan, run.chains, board.segments, run.bases, price_of(run), run.over)


def propose(run: PlanningRun, facts: PlanningFacts, proposed: Sequence[Candidate]) -> None:
    """Adds candidates of a segment that are not evaluated yet, and the best one with residual operands on the chip."""
    facts.waiting = _ranked(run, facts, [*facts.waiting, *proposed])
    if kept := [other for candidate in facts.waiting[:1] for other in _with_residuals(run, candidate)]:
        facts.waiting = _ranked(run, facts, [*kept, *facts.waiting])


def _ranked(run: PlanningRun, facts: PlanningFacts, proposed: Sequence[Candidate]) -> list[Candidate]:
    """The different candidates of a segment that promise a gain and are not evaluated yet, the best first."""
    return [candidate for candidate in ranked(proposed, facts.segment, run.bases, run.total, run.options.metric)
            if candidate.group not in facts.tried]


def _with_residuals(run: PlanningRun, candidate: Candidate) -> list[Candidate]:
    """The candidate with residual operands on the chip; where they do not fit, the best in half of one tile."""
    if not candidate.segment.residuals or candidate.group.second_reads:
        return []
    kept = with_second_reads(run.hardware, candidate, run.word_costs)
    if kept:
        return kept
    price = price_of(run)
    halves = narrower(run.hardware, candidate, group_bases(candidate.segment, run.bases), price)
    smaller = [other for half in halves for other in with_second_reads(run.hardware, half, run.word_costs)]
    return [min(smaller, key=lambda other: price(other.estimate))] if smaller else []
