"""The groups of a plan: what is proposed, what of it is worth mapping exactly, where groups begin and end, refinement.

Proposals have estimates. The plan that would be best if these held is mapped and costed exactly, again and again, until
it is known to hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod
from typing import Any

from fadiff_mapper.fusion import FusedGroup
from fadiff_mapper.network.chains.partition import CoverPart, partition
from fadiff_mapper.network.chains.segments import Segment, runs_in_order, segments
from fadiff_mapper.network.descent.decoding import decoded_groups
from fadiff_mapper.network.layers.edp_prices import metric_price
from fadiff_mapper.network.plan.groups import LIGHT, EvaluatedGroup, enumerated, evaluated, ranked
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.tilings.candidates import narrower, neighbours
from fadiff_mapper.network.tilings.estimate import LayerBase, revised
from fadiff_mapper.network.tilings.estimate_sheet import Candidate, Price
from fadiff_mapper.network.tilings.reshaping import reshaped
from fadiff_mapper.search.options import SearchOptions

HEAVY = replace(LIGHT, chains=48, rounds=60)
"""For the tiles of groups that are in the plan."""

SHORT = 0.04
"""The part by which a group may fall short of its estimate before its mappings are searched for longer."""

NARROWED = 3
"""How often candidates of a segment that fall short are tried in smaller tiles."""

PROMISE = 3e-5
"""The part of the network's metric that candidates must promise to be evaluated."""

RESHAPED = 3
"""How often the groups next to those of the plan are looked at."""

NEAR = 2
"""Neighbouring tile sizes that are tried of each group in the plan, in one step of its descent."""

REFINED = "refined groups"
"""What a plan is called whose groups were looked at closer."""

CLIMBS, WORTH = 5, 1e-3
"""Steps of that descent, and the part of a group's price that a step must bring for another one."""


@dataclass
class PlanningFacts:
    """What is known of one distinct segment.

    waiting: candidates that are estimated, the best first. tried: those that were evaluated. exact: those that can run.
    narrowed: how many candidates stand for others that fell short, in smaller tiles.
    """

    segment: Segment
    waiting: list[Candidate] = field(default_factory=list)
    tried: list[FusedGroup] = field(default_factory=list)
    exact: list[EvaluatedGroup] = field(default_factory=list)
    narrowed: int = 0

    def left(self, kept: int) -> int:
        """How many candidates may still be tried; those that stand for others take no tries from them."""
        return max(kept + self.narrowed - len(self.tried), 0)


@dataclass(frozen=True)
class PlanningBoard:
    """All segments of a run, with what is known of each, and what is known of the distinct ones, by their key."""

    run: PlanningRun
    every: Sequence[tuple[Segment, PlanningFacts]]
    known: Mapping[Any, PlanningFacts]

    @property
    def segments(self) -> list[Segment]:
        """All segments."""
        return [segment for segment, _ in self.every]


def planned_groups(run: PlanningRun) -> tuple[CoverPart[EvaluatedGroup], ...]:
    """The groups of the plan."""
    every = [(segment.key, segment) for segment in segments(run.workload, run.options.longest)]
    known = {key: PlanningFacts(segment) for key, segment in reversed(every)}
    board = PlanningBoard(run, [(segment, known[key]) for key, segment in every], known)
    for proposed in (_decoded, _enumerated, *[_reshaped] * RESHAPED):
        for key, own in proposed(board).items():
            _propose(run, board.known[key], own)
        while not run.clock.over() and (picked := _hopeful(board)):
            _add(board, picked, LIGHT, "groups")
    plan = _plan(board)
    if plan and not run.clock.over():
        _refine(board, {way.nodes for way in plan})
        plan = _plan(board)
    return tuple(plan)


def _decoded(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """What the descent proposes for segments of any length."""
    run = board.run
    if not run.relaxed:
        return {}
    network, ended = run.relaxed
    run.sigma.update({pair: float(ended.sigma[tie, 0]) for pair, tie in network.tie_of.items()})
    return decoded_groups(run.hardware, board.segments, network, ended, run.bases, _price_of(run))


def _enumerated(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """All candidates of short segments, and of long ones those without loops."""
    run, distinct = board.run, {key: here.segment for key, here in board.known.items()}
    return enumerated(run.hardware, distinct, run.bases, run.total, run.options.metric,
                      run.clock.over) if run.options.enumeration else {}


def _reshaped(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """What lies next to the groups of the plan so far."""
    run, plan = board.run, [(way.nodes, way.plan.group) for way in _plan(board)]
    return reshaped(run.hardware, plan, run.chains, board.segments, run.bases, _price_of(run))


def _hopeful(board: PlanningBoard) -> list[Candidate]:
    """The candidates not evaluated yet in the plan that would be best if they cost what is estimated; none where it
    promises next to nothing."""
    ways = _evaluated_ways(board)
    for segment, here in board.every:
        if here.waiting and here.left(board.run.options.kept):
            ways.append(CoverPart(segment.nodes, here.waiting[0].estimate, here.waiting[0]))
    hoped = _best_plan(board.run, ways)
    if board.run.value(hoped) > board.run.value(_plan(board)) * (1 - PROMISE):
        return []
    plans = {id(way.plan): way.plan for way in hoped}
    return [one for one in plans.values() if isinstance(one, Candidate)]


def _evaluated_ways(board: PlanningBoard) -> list[CoverPart[Any]]:
    return [CoverPart(segment.nodes, one.point, one) for segment, here in board.every for one in here.exact]


def _plan(board: PlanningBoard) -> list[CoverPart[EvaluatedGroup]]:
    """The best partition with the groups known so far."""
    return _best_plan(board.run, _evaluated_ways(board))


def _best_plan(run: PlanningRun, ways: list[CoverPart[Any]]) -> list[CoverPart[Any]]:
    """The best partition that the network's order allows."""
    while True:
        plan = partition(run.chains, run.alone, ways, run.options.metric)
        if runs_in_order(run.workload, [way.nodes for way in plan]):
            return plan
        ways = [way for way in ways if way is not plan[-1]]


def _refine(board: PlanningBoard, planned: set[tuple[str, ...]]) -> None:
    """For the plan's groups: further candidates, tile sizes next to theirs, and a longer search of their mappings."""
    run = board.run
    used = {segment.key: here for segment, here in board.every if segment.nodes in planned}
    _add(board, [one for here in used.values() for one in here.waiting[:here.left(run.options.kept)]], LIGHT, REFINED)
    climbing = dict.fromkeys(used, float("inf"))
    for _ in range(CLIMBS):
        now = {key: _price(run, _best(run, used[key].exact)) for key in climbing}
        climbing = {key: price for key, price in now.items() if price < climbing[key] * (1 - WORTH)}
        _add(board, [one for key in climbing for one in _near(run, used[key])], LIGHT, REFINED)
    best = [(here.segment, _best(run, here.exact)) for here in used.values()]
    _add(board, [Candidate(segment, one.group, one.point) for segment, one in best], HEAVY, REFINED)


def _price_of(run: PlanningRun) -> Price:
    return partial(metric_price, total=run.total, metric=run.options.metric)


def _price(run: PlanningRun, one: EvaluatedGroup) -> float:
    return metric_price(one.point, run.total, run.options.metric)


def _best(run: PlanningRun, known: list[EvaluatedGroup]) -> EvaluatedGroup:
    return min(known, key=lambda one: _price(run, one))


def _near(run: PlanningRun, here: PlanningFacts) -> list[Candidate]:
    """The neighbours of a segment's best group with the best estimates."""
    own: list[LayerBase] = [run.bases[name] for name in here.segment.nodes]
    best = _best(run, here.exact)
    return neighbours(run.hardware, Candidate(here.segment, best.group, best.point), own, _price_of(run))[:NEAR]


def _add(board: PlanningBoard, todo: list[Candidate], effort: SearchOptions, stage: str) -> None:
    """Evaluates candidates and adds those that can run."""
    run, known = board.run, board.known
    if run.clock.over() or not todo:
        return
    options = replace(effort, seed=run.options.seed, threads=run.options.workers)
    outcome = evaluated(run.hardware, todo, run.by_node, run.total, options, run.clock.over, run.saved)
    for candidate, one in zip(todo, outcome, strict=True):
        here = known[candidate.segment.key]
        here.waiting = [other for other in here.waiting if other is not candidate]
        here.tried += [candidate.group] if candidate.group not in here.tried else []
        here.exact += [one] if one is not None else []
    run.note(stage, _plan(board))
    for candidate, one in zip(todo, outcome, strict=True):
        if one is not None:
            _learn(run, candidate, one)
    short = [candidate for candidate, one in zip(todo, outcome, strict=True)
             if _short(run, candidate, one, known[candidate.segment.key].exact)]
    if effort.rounds < HEAVY.rounds:
        _add(board, short, HEAVY, stage)
        return
    for candidate in short:
        _narrow(run, known[candidate.segment.key], candidate)


def _learn(run: PlanningRun, candidate: Candidate, one: EvaluatedGroup) -> None:
    """Estimates know from now on of layers that a group runs in fewer cycles than their mappings by themselves."""
    for name, layer, cost in zip(candidate.segment.nodes, one.group.layers, one.cost.layers, strict=True):
        base, operations = run.bases[name], prod(layer.problem.bounds.values())
        largest = max(layer.mappings, key=prod)
        known = revised(base, cost.cycles * operations / cost.computes, layer.mappings[largest])
        run.bases.update({other: known for other, same in run.bases.items() if same is base})


def _narrow(run: PlanningRun, here: PlanningFacts, candidate: Candidate) -> None:
    """Proposes a candidate that fell short in smaller tiles."""
    own = [run.bases[name] for name in candidate.segment.nodes]
    found = narrower(run.hardware, candidate, own, _price_of(run)) if here.narrowed < NARROWED else []
    if found:
        _propose(run, here, [min(found, key=lambda one: float(_price_of(run)(one.estimate)))])
        here.narrowed += 1


def _propose(run: PlanningRun, here: PlanningFacts, found: Sequence[Candidate]) -> None:
    """Adds candidates of a segment that are not evaluated yet."""
    here.waiting = [one for one in ranked([*here.waiting, *found], here.segment, run.bases, run.total,
                                          run.options.metric) if one.group not in here.tried]


def _short(run: PlanningRun, candidate: Candidate, one: EvaluatedGroup | None, exact: Sequence[EvaluatedGroup]) -> bool:
    """Whether what was found for a candidate falls short of its estimate, which would beat what its segment has."""
    promised = metric_price(candidate.estimate, run.total, run.options.metric)
    known = min((_price(run, other) for other in exact), default=inf)
    return (one is None or _price(run, one) > (1 + SHORT) * promised) and promised < known
