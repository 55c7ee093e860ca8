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
from dataclasses import replace
from math import inf, prod
from typing import Any

from fadiff_mapper.fusion import FusedGroup
from fadiff_mapper.network.chains.partition import CoverPart, partition
from fadiff_mapper.network.chains.segments import runs_in_order, segments
from fadiff_mapper.network.layers.edp_prices import NetworkPrice, summed
from fadiff_mapper.network.plan.enumeration_rounds import listed_candidates, unlisted
from fadiff_mapper.network.plan.groups import COMPARING, LIGHT, THOROUGH, EvaluatedGroup, evaluated, ranked
from fadiff_mapper.network.plan.map_tiles import strategies_known
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.plan.run_state import PlanningRun, planned_tiles
from fadiff_mapper.network.plan.strategy_search import TileEffort
from fadiff_mapper.network.tilings.candidates import narrower, neighbours
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.kept_residuals import with_second_reads
from fadiff_mapper.network.tilings.layer_estimate import group_bases, revised
from fadiff_mapper.network.tilings.reshaping import reshaped

SHORT = 0.04
"""The part by which a group may fall short of its estimate before its mappings are searched for longer.

Set by hand, not measured.
"""

EXACT_TO = 5e-3
"""The part of a price to which estimates are exact.

An estimate must beat the evaluated groups of its segment by more than that for the candidate to be evaluated, or come
that close when groups are refined; and a group of the plan must fall short of its own estimate by more to be searched
thoroughly. Of 90 evaluations for MobileNetV1 on `gemmini_small`, the 45 with estimates above brought nothing; nor did
the 4 thorough searches for ResNet-18 on `gemmini_large`.
"""

NARROWED = 3
"""How often candidates of one segment that fall short are proposed again in smaller tiles. A limit, not measured."""

PROMISE = 3e-5
"""The part of the network's metric that the unevaluated candidates of a plan must promise to be evaluated.

Introduced with the shorter descent of 30 steps, when plans of MobileNetV1, ResNet-18 and VGG-16 on the large bundled
design stayed the same; the value itself was not varied.
"""

MOVED = 1.2
"""The factor by which a plan must change the ratio of energy to cycles for candidates to be listed again at its prices.

Prices are a tangent of the metric, at first that of the network layer by layer. MobileNetV2 gains 4.9 % by it on
`eyeriss_like` (0.73 of the first ratio), 0.04 % on `simba_like` (0.58), the GPT-3 block on `gemmini_small` (1.02)
nothing; it takes 3 to 4 of 17 s.
"""

RESHAPED = 3
"""How often the groups next to those of the plan are proposed, as long as that brings `WORTH`. A limit of time, not
measured."""

PATIENCE, STALLED = 6, 2e-3
"""Evaluations in a row, and the part of the network's metric that these must bring together for more of them."""

NEAR = 2
"""Neighbouring tile sizes of each group of the plan that are tried in one step of its descent. Not measured."""

REFINED = "refined groups"
"""The stage of planning in which the groups of the plan are refined, as told to the user."""

CLIMBS, WORTH = 5, 1e-3
"""Steps of the descent over tile sizes, and the part of a price that a step must bring for another one.

Limits of time, not measured.
"""


def planned_groups(run: PlanningRun) -> tuple[CoverPart[EvaluatedGroup], ...]:
    """Finds the groups of the plan.

    Args:
        run: The run; its history, estimates and checkpoint are updated on the way.

    Returns:
        Groups that do not overlap, exactly evaluated, with which the network is better than layer by layer.
    """
    every = [(segment.key, segment) for segment in segments(run.workload, run.options.longest)]
    known = {key: PlanningFacts(segment) for key, segment in reversed(every)}
    board = PlanningBoard(run, [(segment, known[key]) for key, segment in every], known)
    _take_up(board, _decoded(board))
    _propose_all(board)
    _propose_at_prices_of_plan(board)
    plan = _plan(board)
    if plan and not run.over():
        _refine(board, {part.nodes for part in plan})
        plan = _plan(board)
    return tuple(plan)


def _propose_all(board: PlanningBoard) -> None:
    """Takes up candidates of all segments, then those around the plan as long as that is worth it."""
    run = board.run
    while left := unlisted(board):
        _take_up(board, listed_candidates(board, left))
    for _ in range(RESHAPED):
        before = run.value(_plan(board))
        if run.over() or not _take_up(board, _reshaped(board)) < before * (1 - WORTH):
            break


def _propose_at_prices_of_plan(board: PlanningBoard) -> None:
    """Lists candidates anew where the ratio of energy to cycles differs by `MOVED`; keeps its prices if worth it."""
    run = board.run
    planned, first, before = run.sums(_plan(board)), run.total, run.value(_plan(board))
    moved = planned.energy_pj / first.energy_pj * first.cycles / max(planned.cycles, 1)
    if run.over() or run.options.metric != "edp" or 1 / MOVED < moved < MOVED:
        return
    run.total = planned
    for facts in board.known.values():
        facts.listed = False
    _propose_all(board)
    if not run.value(_plan(board)) < before * (1 - WORTH):
        run.total = first


def _take_up(board: PlanningBoard, proposed: Mapping[Any, Sequence[Candidate]]) -> float:
    """Evaluates candidates as long as they promise something and gains do not stall.

    Returns:
        The network's metric with the best plan.
    """
    run = board.run
    for key, candidates in proposed.items():
        _propose(run, board.known[key], candidates)
    values = [run.value(_plan(board))]
    while not run.over() and (picked := _hopeful(board)):
        _evaluate(board, picked, LIGHT, "groups")
        values.append(run.value(_plan(board)))
        if len(values) > PATIENCE and values[-1] > values[-1 - PATIENCE] * (1 - STALLED):
            break
    return values[-1]


# Proposals.

def _decoded(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """Candidates of any length that the descent proposes; notes the sigma of its best restart."""
    run = board.run
    if not run.relaxed:
        return {}
    from fadiff_mapper.network.descent.decoding import decoded_groups

    network, ended = run.relaxed
    run.sigma.update({pair: float(ended.sigma[tie, 0]) for pair, tie in network.tie_of.items()})
    return decoded_groups(run.hardware, board.segments, network, ended, run.bases, _price_of(run), run.over)


def _reshaped(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """Candidates next to the groups of the plan so far."""
    run, plan = board.run, [(part.nodes, part.plan.group) for part in _plan(board)]
    return reshaped(run.hardware, plan, run.chains, board.segments, run.bases, _price_of(run), run.over)


def _propose(run: PlanningRun, facts: PlanningFacts, proposed: Sequence[Candidate]) -> None:
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
    halves = narrower(run.hardware, candidate, group_bases(candidate.segment, run.bases), _price_of(run))
    smaller = [other for half in halves for other in with_second_reads(run.hardware, half, run.word_costs)]
    return [min(smaller, key=lambda other: _price_of(run)(other.estimate))] if smaller else []


# Plans.

def _hopeful(board: PlanningBoard) -> list[Candidate]:
    """The unevaluated candidates of the plan that would be best if estimates held; none where it promises too little.

    Only the best waiting candidate of a segment takes part: the next one cannot promise more.
    """
    parts = _evaluated_parts(board)
    for segment, facts in board.every:
        if facts.left(board.run.options.kept) and facts.waiting and _promises(board.run, facts, facts.waiting[0]):
            parts.append(CoverPart(segment.nodes, facts.waiting[0].estimate, facts.waiting[0]))
    hoped = _best_plan(board.run, parts)
    if board.run.value(hoped) > board.run.value(_plan(board)) * (1 - PROMISE):
        return []
    return _writable(board.run, hoped)


def _writable(run: PlanningRun, hoped: list[CoverPart[Any]]) -> list[Candidate]:
    """The candidates of a hoped plan, without those that save least where time is too short to write all of it."""
    plans = {id(part.plan): part.plan for part in hoped}    # equal segments share a candidate
    picked = [plan for plan in plans.values() if isinstance(plan, Candidate)]
    price, saved = _price_of(run), dict.fromkeys(plans, 0.0)
    for part in hoped:
        saved[id(part.plan)] += price(summed([run.alone[name] for name in part.nodes])) - price(part.point)
    written = set(plans)
    while picked and run.clock.over(planned_tiles([part for part in hoped if id(part.plan) in written])):
        picked.sort(key=lambda plan: -saved[id(plan)])
        written -= {id(plan) for plan in picked[len(picked) // 2:]}
        picked = picked[:len(picked) // 2]
    return picked


def _promises(run: PlanningRun, facts: PlanningFacts, candidate: Candidate, part: float = EXACT_TO) -> bool:
    """Whether a candidate's estimate beats the evaluated groups of its segment by more than a part of their price."""
    known = min((_price(run, group) for group in facts.exact), default=inf)
    return _price_of(run)(candidate.estimate) < known * (1 - part)


def _evaluated_parts(board: PlanningBoard) -> list[CoverPart[Any]]:
    """All evaluated groups, wherever in the network they could run."""
    return [CoverPart(segment.nodes, group.point, group) for segment, facts in board.every for group in facts.exact]


def _plan(board: PlanningBoard) -> list[CoverPart[EvaluatedGroup]]:
    """The best partition with the groups evaluated so far."""
    return _best_plan(board.run, _evaluated_parts(board))


def _best_plan(run: PlanningRun, parts: list[CoverPart[Any]]) -> list[CoverPart[Any]]:
    """The best partition that the network's order allows: two groups may each wait for the other."""
    while True:
        plan = partition(run.chains, run.alone, parts, run.options.metric, run.joined)
        if runs_in_order(run.workload, [part.nodes for part in plan]):
            return plan
        parts = [part for part in parts if part is not plan[-1]]


# Evaluation and refinement.

def _evaluate(board: PlanningBoard, chosen: list[Candidate], effort: TileEffort, stage: str) -> None:
    """Evaluates candidates exactly, adds those that can run, and follows up on those that fall short."""
    run, known = board.run, board.known
    if run.over() or not chosen:
        return
    own = effort.of(run.options.seed, run.options.workers)
    outcome = evaluated(run.hardware, chosen, run.by_node, run.total, own, run.over, run.saved, run.strategies,
                        run.memory)
    for candidate, group in zip(chosen, outcome, strict=True):
        facts = known[candidate.segment.key]
        facts.waiting = [other for other in facts.waiting if other is not candidate]
        facts.tried += [candidate.group] if candidate.group not in facts.tried else []
        facts.exact += [group] if group is not None else []
        facts.searched += [candidate.group] if effort.thorough and effort.again else []
    run.note(stage, _plan(board))
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
    _evaluate(board, list(new.values()), COMPARING, stage)


def _falls_short(run: PlanningRun, candidate: Candidate, group: EvaluatedGroup | None,
                 exact: Sequence[EvaluatedGroup]) -> bool:
    """Whether a candidate falls short of its estimate, which would beat all evaluated groups of its segment."""
    promised = _price_of(run)(candidate.estimate)
    known = min((_price(run, other) for other in exact), default=inf)
    return (group is None or _price(run, group) > (1 + SHORT) * promised) and promised < known


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
    own = group_bases(candidate.segment, run.bases)
    halved = narrower(run.hardware, candidate, own, _price_of(run)) if facts.narrowed < NARROWED else []
    if halved:
        _propose(run, facts, [min(halved, key=lambda other: _price_of(run)(other.estimate))])
        facts.narrowed += 1


def _refine(board: PlanningBoard, planned: set[tuple[str, ...]]) -> None:
    """Refines the plan's groups: further candidates, a descent over tile sizes, and a longer search of mappings."""
    run = board.run
    used = {segment.key: facts for segment, facts in board.every if segment.nodes in planned}
    _evaluate(board, [candidate for facts in used.values() for candidate in facts.waiting[:facts.left(run.options.kept)]
                      if _promises(run, facts, candidate, -EXACT_TO)], LIGHT, REFINED)
    climbing = dict.fromkeys(used, inf)
    for _ in range(CLIMBS):
        now = {key: _price(run, _best(run, used[key].exact)) for key in climbing}
        climbing = {key: price for key, price in now.items() if price < climbing[key] * (1 - WORTH)}
        if run.over() or not climbing:
            break
        _evaluate(board, [candidate for key in climbing for candidate in _near(run, used[key])], LIGHT, REFINED)
    best = [(facts, _best(run, facts.exact)) for facts in used.values()]
    _evaluate(board, [Candidate(facts.segment, group.group, group.promised, group.left_out) for facts, group in best
                      if _price(run, group) > (1 + EXACT_TO) * _price_of(run)(group.promised)
                      and _bare(group.group) not in facts.searched], THOROUGH, REFINED)


def _bare(group: FusedGroup) -> FusedGroup:
    """A group without its mappings, as it was proposed."""
    return replace(group, layers=tuple(replace(layer, mappings={}) for layer in group.layers))


def _near(run: PlanningRun, facts: PlanningFacts) -> list[Candidate]:
    """The neighbours of a segment's best group with the best estimates."""
    own = group_bases(facts.segment, run.bases)
    best = _best(run, facts.exact)
    near = neighbours(run.hardware, Candidate(facts.segment, best.group, best.point), own, _price_of(run))[:NEAR]
    if best.group.second_reads:
        near = [kept for candidate in near for kept in with_second_reads(run.hardware, candidate, run.word_costs)]
    return [candidate for candidate in near if candidate.group not in facts.tried and _promises(run, facts, candidate)]


# Prices.

def _price_of(run: PlanningRun) -> NetworkPrice:
    """The price of parts of the network."""
    return NetworkPrice(run.total, run.options.metric)


def _price(run: PlanningRun, group: EvaluatedGroup) -> float:
    """The price of an evaluated group."""
    return _price_of(run)(group.point)


def _best(run: PlanningRun, known: list[EvaluatedGroup]) -> EvaluatedGroup:
    """The group with the lowest price."""
    return min(known, key=lambda group: _price(run, group))
