"""The exact evaluation of candidates, and the follow-up: corrected estimates, longer searches, smaller tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fadiff_mapper.network.plan.group_prices import least_price, price_of
from fadiff_mapper.network.plan.groups import COMPARING, EvaluatedGroup, evaluated
from fadiff_mapper.network.plan.hoped_plan import best_known_plan
from fadiff_mapper.network.plan.map_tiles import strategies_known
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.proposals import propose
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.plan.strategy_search import TileEffort
from fadiff_mapper.network.tilings.candidates import narrower
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.layer_estimate import group_bases, revised

SHORT = 0.04
"""The part by which a group may fall short of its estimate before its mappings are searched for longer.

Set by hand, not measured.
"""

NARROWED = 3
"""How often candidates of one segment that fall short are proposed again in smaller tiles. A limit, not measured."""


def evaluate_candidates(board: PlanningBoard, chosen: list[Candidate], effort: TileEffort, stage: str) -> None:
    """Evaluates candidates exactly, adds those that can run, and follows up on those that fall short."""
    run, known = board.run, board.known
    if run.over() or not chosen:
        return
    own = effort.of(run.options.seed, run.options.workers)
    outcome = evaluated(run.hardware, chosen, run.by_node, price_of(run), own, run.over, run.saved, run.strategies,
                        run.memory)
    for candidate, group in zip(chosen, outcome, strict=True):
        facts = known[candidate.segment.key]
        facts.waiting = [other for other in facts.waiting if other is not candidate]
        facts.tried += [candidate.group] if candidate.group not in facts.tried else []
        facts.exact += [group] if group is not None else []
        facts.searched += [candidate.group] if effort.thorough and effort.known_too else []
    run.note(stage, best_known_plan(board))
    for candidate, group in zip(chosen, outcome, strict=True):
        if group is not None:
            _learn(run, candidate, group)
    short = [candidate for candidate, group in zip(chosen, outcome, strict=True)
             if _falls_short(run, candidate, group, known[candidate.segment.key].exact)]
    new = {} if effort.thorough else {id(candidate): candidate for candidate in short
                                      if not strategies_known(candidate.group, run.strategies)}
    for candidate in short:
        if id(candidate) not in new:
            _narrow(run, known[candidate.segment.key], candidate)
    evaluate_candidates(board, list(new.values()), COMPARING, stage)


def _falls_short(run: PlanningRun, candidate: Candidate, group: EvaluatedGroup | None,
                 exact: Sequence[EvaluatedGroup]) -> bool:
    """Whether a candidate falls short of its estimate, which would beat all evaluated groups of its segment."""
    price = price_of(run)
    promised = price(candidate.estimate)
    return (group is None or price(group.point) > (1 + SHORT) * promised) and promised < least_price(price, exact)


def _learn(run: PlanningRun, candidate: Candidate, group: EvaluatedGroup) -> None:
    """Corrects the estimates of layers that a group runs in fewer cycles than their mappings by themselves."""
    if candidate.segment.batched:  # mappings over several runs say nothing of the lanes of one
        return
    for name, layer, cost in zip(candidate.segment.nodes, group.group.layers, group.cost.layers, strict=True):
        base, operations = run.bases[name], prod(layer.problem.bounds.values())
        largest = max(layer.mappings, key=prod)
        known = revised(base, cost.cycles * operations / cost.computes, layer.mappings[largest])
        run.bases.update({other: known for other, same in run.bases.items() if same is base})


def _narrow(run: PlanningRun, facts: PlanningFacts, candidate: Candidate) -> None:
    """Proposes a candidate that fell short again in smaller tiles."""
    own, price = group_bases(candidate.segment, run.bases), price_of(run)
    halved = narrower(run.hardware, candidate, own, price) if facts.narrowed < NARROWED else []
    if halved:
        propose(run, facts, [min(halved, key=lambda other: price(other.estimate))])
        facts.narrowed += 1
