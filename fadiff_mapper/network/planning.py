"""The groups of a plan: which candidates are worth mapping exactly, where groups begin and end, and their refinement.

Problem. Estimates of candidates are cheap; the exact cost of one takes a search of mappings for every tile. Only few
can be evaluated, and the plan should be the best nevertheless. A network has ten times as many segments as layers, and
long ones are rarely worth a group: enumerating the candidates of all of them can take longer than a time limit.

Method. Best first, with optimism: the plan that would be best if all estimates held (`partition`, a shortest path over
exact and estimated groups) is evaluated, again and again, until it consists of evaluated groups only. A group that
costs more than its estimate is searched with all strategies (`tile_mappings`), then proposed again in smaller tiles. A
group that is faster corrects the estimates of its layers, and candidates of segments with these layers are enumerated
again. The bound on all plans (`network_bound`) is least at some tile sizes: these are evaluated, too, as an estimate
may be too high and a grid too coarse. Where the plan may still be far from the best, tile sizes of its groups are
refined. Strategies of its tiles are compared. At last, tensors stay on the chip from group to group where that pays
(`lasting_tensors`).

Enumeration (`fusion.candidates`). Candidates are enumerated for the segments of the plan that would be best if each
segment cost its bound, or its best candidate once it is enumerated: if estimates hold, no other segment can be in a
better plan, except where two groups would wait for each other. With a time limit each round enumerates for a part of
the time left, and maps the best candidates before the next round. Segments that join two groups of the plan, or move an
end of one, are tried with the loops of these groups. With the method "gradient" a descent proposes candidates, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, prod
from typing import Any, TypeAlias

from fadiff_mapper.base.deadline import Over
from fadiff_mapper.base.errors import attempted
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, hardware_of
from fadiff_mapper.fusion.candidates import (
    candidates,
    candidates_along,
    distinct,
    narrower,
    neighbours,
    reshaped,
    with_second_reads,
)
from fadiff_mapper.fusion.estimates import (
    Candidate,
    CompiledSegment,
    LayerBase,
    compiled_segment,
    group_bases,
    homes,
    layer_base,
    revised,
)
from fadiff_mapper.fusion.group_legality import checked_costs
from fadiff_mapper.fusion.prices import (
    CoverPart,
    NetworkPrice,
    covered_total,
    metric_value,
    other_reads,
    partition,
    summed,
    word_costs,
)
from fadiff_mapper.fusion.segments import RUNS, Segment, chains, runs_in_order, segments
from fadiff_mapper.fusion.tile_steps import layer_steps, resident_words
from fadiff_mapper.network.checkpoint import Checkpoint, batch_key
from fadiff_mapper.network.lasting_tensors import LastingCover, PartVersion, PlanPart, VersionKey, lasting_rows, runs_of
from fadiff_mapper.network.network_bound import (
    MOST_WORK,
    PATIENCE,
    KnownLeast,
    LeastGroup,
    LeastLayer,
    NetworkLeast,
    PathStep,
    network_least,
)
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.network.options import NetworkOptions
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.network.result import EvaluatedGroup
from fadiff_mapper.network.tile_mappings import SEARCH, TileMemory, strategies_known, with_mappings
from fadiff_mapper.search.lower_bound.assemble import gap_above
from fadiff_mapper.search.lower_bound.refine import refine
from fadiff_mapper.search.map_layers import with_lower_bounds
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import OperatingPoint, Workload

WORTH = 1e-3
"""The least gain, as a share of the metric or of a group's price, for which a step is repeated. A limit of time."""

LISTING = 0.4
"""Share of the time left for each of: listing segments; enumerating candidates before they are mapped, in each round;
bounding plans. A time limit that enumeration could use up leaves time for a plan. Set by hand."""

LISTED = 200
"""Enumeration ends, unless a gap is asked for, once so many further segments make the best plan of enumerated segments
less than `WORTH` cheaper: a limit of time."""

SHORT = 0.04
"""Share by which a group may cost more than its estimate before its strategies are compared. Set by hand."""

ENOUGH = 0.03
"""Gap to which plans are bounded, and above which tile sizes are refined, if none is asked for: most work of bounds
goes into the last percents, and refinement rarely improves a plan that is as close."""

NARROWED = 3
"""How often a segment's candidates that cost more than estimated are proposed in smaller tiles. A limit of time."""

NEARLY, AT_BOUND = 0.01, 0.2
"""Shares above a segment's best group up to which candidates are evaluated: of groups of the plan, as estimates may be
off by as much; and of tile sizes at which the bound is least, where estimates are off by more. Set by hand."""

NEAR, CLIMBS = 2, 5
"""Most other candidates, or neighbouring tile sizes, tried for each group in one step of the refinement; most steps of
the descent over tile sizes."""

ROUNDS = 12
"""Most rounds in which the best plan with lasting tensors is found and its versions are evaluated. A limit of time."""

REFINED, LASTING = "refined groups", "tensors kept between groups"
"""Names, as told to the user, of the stages that refine the groups of the plan and that keep tensors on the chip from
group to group."""

OnProgress = Callable[[str, float], None]
"""Called with a stage and the network's metric whenever the plan is better."""


@dataclass(frozen=True)
class DescendedNetwork:
    """The result of a descent on the relaxed network (see `gradient.network_descent`)."""

    results: Sequence[Result]  # a mapping of each distinct layer by itself, chosen for the network as a whole
    sigma: Mapping[tuple[str, str], float]  # fusion variable of each link in the best restart, by the names of layers
    # candidates of segments by the segment's key, from the design, the segments, single layers by name, the price
    # of parts of the network, and the end of time
    candidates: Callable[[Hardware, Sequence[Segment], Mapping[str, LayerBase], NetworkPrice, Callable[[], bool]],
                         dict[Hashable, list[Candidate]]]


NetworkDescent: TypeAlias = Callable[[Workload, Sequence[Result], str, int, Callable[[], bool]],
                                     "DescendedNetwork | None"]
"""Descends from the best mapping of every distinct layer by itself, given the metric, a seed and the end of time; None
where no link can be fused."""


@dataclass
class SegmentState:
    """The candidates and groups of one distinct segment so far."""

    segment: Segment
    waiting: list[Candidate] = field(default_factory=list)  # candidates with an estimate only, the best first
    tried: list[FusedGroup] = field(default_factory=list)  # groups that were evaluated
    compared: list[FusedGroup] = field(default_factory=list)  # evaluated groups with the best strategies of their tiles
    exact: list[EvaluatedGroup] = field(default_factory=list)  # the groups that can run, with their exact cost
    narrowed: int = 0  # how often candidates were proposed again in smaller tiles
    listed_for: tuple[LayerBase, ...] = ()  # the estimates of its layers when candidates were enumerated

    def least(self, price: NetworkPrice) -> float:
        """The lowest price of the groups that can run; infinite where there is none."""
        return min((price(group.point) for group in self.exact), default=inf)

    def hoped(self, price: NetworkPrice) -> float:
        """The lowest price of the groups that can run, at exact cost, and of the candidates, by estimate."""
        return min([self.least(price), *(price(candidate.estimate) for candidate in self.waiting[:1])])

    def hopeful(self, price: NetworkPrice) -> Candidate | None:
        """The candidate with the lowest estimate, if it is below the price of all groups that can run."""
        best = self.waiting[0] if self.waiting else None
        return best if best and price(best.estimate) < self.least(price) else None

    def promising(self, price: NetworkPrice) -> Candidate | None:
        """The candidate with the lowest estimate among groups that can run, with strategies not compared yet."""
        return min((group.candidate for group in self.exact if group.candidate.group not in self.compared),
                   key=lambda candidate: price(candidate.estimate), default=None)


@dataclass
class PlanningRun:
    """The state of one planning run, shared by all functions of this module."""

    workload: Workload
    options: NetworkOptions
    results: tuple[Result, ...]  # mapping of every distinct layer by itself, chosen for the network
    padded: Sequence[Sequence[Result]]  # for every distinct layer its mappings of `padded_layers`
    descended: DescendedNetwork | None
    clock: PlanningClock
    saved: Checkpoint
    on_progress: OnProgress
    layers: Sequence[LeastLayer] = ()   # bounds on one run of each distinct layer, once computed
    history: list[dict[str, Any]] = field(default_factory=list)  # seconds, metric and stage of every improvement
    tiles: int = 0  # mappings of tiles to write for the best plan so far
    cut: bool = False  # whether there was no time to list all segments
    listed_enough: bool = False     # whether further segments would hardly improve the plan
    least_known: KnownLeast = field(default_factory=KnownLeast)  # bounds on groups of segments
    bounded: NetworkLeast | None = None  # bounds on all parts of plans, once computed
    least: float | None = None  # lower bound on the metric of all plans
    unbounded: str = ""     # why there is no bound, if its computation failed
    memory: TileMemory = field(default_factory=TileMemory)
    segments: Sequence[Segment] = ()  # all segments
    known: Mapping[Any, SegmentState] = field(default_factory=dict)  # the state of every distinct segment, by its key
    by_nodes: Mapping[tuple[str, ...], SegmentState] = field(default_factory=dict)  # of every segment, by its layers

    def __post_init__(self) -> None:
        """Adds `bases` (estimates of each layer by itself, which planning corrects), `alone` (energy and cycles of each
        layer by itself, all repeats together), `joined` (cost of other inputs of element-wise operators) and `price`
        (of parts of the network, at the sums of the layers one by one)."""
        spec = self.results[0].spec
        self.hardware = hardware_of([result.spec for result in self.results])
        self.by_node = by_node(self.workload, self.results)
        self.bases = by_node(self.workload, [layer_base(*known) for known in zip(
            self.results, self.padded, strict=True)])
        repeats = repeats_of(self.workload)
        self.alone = {name: base.whole.times(repeats[name]) for name, base in self.bases.items()}
        self.joined = other_reads(self.workload, spec, metric=self.options.metric)
        self.word_costs = word_costs(spec)
        self.price = self.price_at(())

    def take_segments(self, found: Sequence[Segment]) -> None:
        """Sets the segments of the network, without candidates."""
        self.segments, self.known = found, {segment.key: SegmentState(segment) for segment in reversed(found)}
        self.by_nodes = {segment.nodes: self.known[segment.key] for segment in found}

    def compiled(self, segment: Segment) -> CompiledSegment:
        """A segment in the kernel's form, with the estimates of its layers so far."""
        return compiled_segment(self.hardware, segment, group_bases(segment, self.bases), self.least_known.translated)

    def one_by_one(self, segment: Segment) -> OperatingPoint:
        """Energy and cycles of the layers of a segment one by one, all repeats together."""
        return summed([self.bases[name].whole.times(runs)
                       for name, runs in zip(segment.nodes, segment.runs, strict=True)]).times(segment.repeat)

    def price_at(self, groups: Sequence[CoverPart[Any]]) -> NetworkPrice:
        """Prices per pJ and per cycle at the sums of a plan with some groups."""
        return NetworkPrice(covered_total(self.alone, groups, self.joined), self.options.metric)

    @cached_property
    def promises(self) -> NetworkLeast | None:
        """Lower bounds on all groups without lasting tensors, and 0 for layers by themselves; None where time runs out
        or the computation fails."""
        specs, unknown = [result.spec for result in self.results], [LeastLayer(0.0, 0.0) for _ in self.results]
        return attempted("gap", lambda: network_least(
            self.workload, self.hardware, specs, unknown, self.segments, self.least_known, lasting=False,
            over=self.over_in(LISTING)))[0]

    @cached_property
    def promised(self) -> list[tuple[PathStep, SegmentState | None]]:
        """The steps of `promises`, each with the state of its segment; None for a layer by itself."""
        return [(step, self.by_nodes.get(step.nodes)) for step in self.promises.steps] if self.promises else []

    @cached_property
    def promised_by(self) -> dict[int, list[int]]:
        """The numbers of the steps in `promised` of each distinct segment, by the identity of its state."""
        found: dict[int, list[int]] = {}
        for number, (_, state) in enumerate(self.promised):
            found.setdefault(id(state), []).append(number)
        return found

    @cached_property
    def chains(self) -> list[tuple[str, ...]]:
        """Names of the layers of every chain; found on first use."""
        return [names for names, _ in chains(self.workload)]

    def late(self) -> bool:
        """Whether the search must end, as the rest of the time is needed to write the plan so far."""
        return self.clock.over(self.tiles)

    def over(self) -> bool:
        """Whether the search ends: it is late, or the gap that is asked for is proven."""
        return self.late() or (self.least is not None and self.options.gap is not None
                               and gap_above(self.history[-1]["value"], self.least) <= self.options.gap)

    def over_in(self, part: float) -> Callable[[], bool]:
        """A test that is true once a stage has used its part, in (0, 1], of the time that is left now."""
        reserved = (1 - part) * max(self.clock.left(self.tiles), 0.0)
        return lambda: self.clock.stopped() or self.clock.left(self.tiles) < reserved

    def value(self, groups: Sequence[CoverPart[Any]] = ()) -> float:
        """The network's metric with groups that do not overlap and every other layer by itself."""
        return metric_value(covered_total(self.alone, groups, self.joined), self.options.metric)

    def note(self, stage: str, groups: Sequence[CoverPart[EvaluatedGroup]] = ()) -> None:
        """Records the network's metric with the groups of a plan after a stage, if it is better than before."""
        value = self.value(groups)
        if not self.history or value < self.history[-1]["value"]:
            self.history.append({"time_s": self.clock.spent(), "value": value, "stage": stage})
            self.tiles = _tiles_of(groups)
            self.on_progress(stage, value)


def begin_bounds(run: PlanningRun, over: Over) -> None:
    """Bounds every layer by itself and, with undivided groups, all plans, so that runs that end early have a gap."""
    if not run.layers and not over():
        run.results = tuple(with_lower_bounds(run.results, run.options.metric, over))
        run.layers = [LeastLayer(bound.energy, bound.delay, bound.edp) for result in run.results
                      if (bound := result.bound)]
    if len(run.layers) == len(run.results) and not over():
        run.bounded, run.unbounded = attempted("gap", lambda: network_least(
            run.workload, run.hardware, [result.spec for result in run.results], run.layers, run.segments,
            run.least_known, searched=run.options.gap is not None))


def bound_plans(run: PlanningRun, over: Over, enough: float = inf) -> None:
    """Raises the bound on all plans, if `begin_bounds` made one; work is limited unless a gap is asked for.

    `over` and `enough` are those of `NetworkLeast.bound`.
    """
    most, patience = (MOST_WORK, PATIENCE) if run.options.gap is None else (inf, inf)
    if run.bounded:
        run.least, run.unbounded = attempted("gap", partial(
            run.bounded.bound, run.options.metric, most, over, enough, patience))


def _tiles_of(groups: Sequence[CoverPart[EvaluatedGroup]]) -> int:
    """Number of tile mappings to evaluate and write for a plan; equal groups count once."""
    return sum({id(part.plan): sum(len(layer.mappings) for layer in part.plan.group.layers)
                for part in groups}.values())


def planned_groups(run: PlanningRun, *, bounded: bool = False) -> tuple[CoverPart[EvaluatedGroup], ...]:
    """The groups of the plan, exactly evaluated, which do not overlap and improve the network over layers one by one.

    History, estimates and checkpoint of the run are updated on the way. `bounded`: all plans are bounded, too, so that
    tile sizes of the bound are evaluated, and a plan close to the bound is not refined.
    """
    run.workload.links()  # computed now, so that listing gets its full part of the time
    listed = run.over_in(LISTING)
    run.take_segments(segments(run.workload, run.options.longest, listed, units=bool(run.hardware.arch.units)))
    run.cut = listed()
    if (bounded or run.options.gap is not None) and not run.cut:
        begin_bounds(run, run.late)
    if run.descended:
        for key, own in run.descended.candidates(run.hardware, run.segments, run.bases, run.price, run.over).items():
            propose(run, run.known[key], own)
    hoped: HopedSteps | None = None
    while not run.over():
        complete = list_candidates(run, hoped)
        _evaluate_hopeful(run)
        if complete and not run.over():
            around = [(part.nodes, part.plan.group) for part in best_known_plan(run)]
            for key, own in reshaped(around, run.chains, run.segments, run.compiled, run.price, run.over).items():
                propose(run, run.known[key], own)
            _evaluate_hopeful(run)
        hoped = HopedSteps(run)
        if not hoped.unlisted():
            break
    gap = ENOUGH if run.options.gap is None else run.options.gap
    bound_plans(run, run.over_in(LISTING), run.value(best_known_plan(run)) / (1 + gap))
    _evaluate_least(run)
    if run.least is None or run.value(best_known_plan(run)) > (1 + gap) * run.least:
        _refine_groups(run, {part.nodes for part in best_known_plan(run)})
    _compare_strategies(run)
    return tuple(_with_lasting_tensors(run, best_known_plan(run)))


def _evaluate_hopeful(run: PlanningRun) -> None:
    """Evaluates the plan that would be best if estimates held, until it consists of evaluated groups or is hardly
    better than the best plan of evaluated groups. The first groups are evaluated however small their gain."""
    while not run.over():
        hoped = _hoped_plan(run, lambda state: state.hopeful(run.price))
        picked = _candidates_of(hoped)
        some = any(state.tried for state in run.known.values())
        if not picked or (some and run.value(hoped) > run.value(best_known_plan(run)) * (1 - WORTH)):
            break
        evaluate_candidates(run, picked, "groups")


def _candidates_of(plan: Sequence[CoverPart[Any]]) -> list[Candidate]:
    """The candidates in a plan, which are not evaluated yet; equal segments share a candidate."""
    return list({id(part.plan): part.plan for part in plan if isinstance(part.plan, Candidate)}.values())


# Which segments are enumerated.

class HopedSteps:
    """The steps of `PlanningRun.promises` with expected prices at the plan so far: layers by themselves, and segments.

    The price of a segment is its bound until it is enumerated with the current estimates of its layers, and then that
    of its best candidate or group. No group is evaluated meanwhile, as all prices belong to one plan.
    """

    def __init__(self, run: PlanningRun) -> None:
        """Prices all steps at the best plan known."""
        self.run, self.price = run, run.price_at(best_known_plan(run))
        self.listed = {id(state) for state in run.known.values() if state.listed_for    # compares few states
                       and state.listed_for == tuple(run.bases[name] for name in state.segment.nodes)}
        bounds = run.promises.prices(*self.at) if run.promises else ()
        self.prices = [bound if state and id(state) not in self.listed else self._hoped(step, state)
                       for (step, state), bound in zip(run.promised, bounds, strict=True)]

    @property
    def at(self) -> tuple[float, float]:
        """Prices per pJ and per cycle at the plan so far."""
        energy, cycles = self.price.sums
        return 1 / energy, 1 / cycles

    def _hoped(self, step: PathStep, state: SegmentState | None) -> float:
        """The expected price of a layer by itself, or of an enumerated segment."""
        return state.hoped(self.price) if state else self.price(self.run.alone[step.nodes[0]])

    def update(self, changed: SegmentState, *, listed: bool) -> None:
        """Updates prices after a segment was enumerated (`listed`) or its bound was raised."""
        if listed:
            self.listed.add(id(changed))
        for number in self.run.promised_by.get(id(changed), ()):
            step, state = self.run.promised[number]
            self.prices[number] = self._hoped(step, state) if listed else step.price(*self.at)

    def enumerated(self) -> float:
        """The least price of a plan in which all segments are enumerated."""
        assert self.run.promises
        return self.run.promises.shortest([
            inf if state and id(state) not in self.listed else price
            for (_, state), price in zip(self.run.promised, self.prices, strict=True)])[0]

    def unlisted(self) -> list[PathStep]:
        """The distinct segments on the path of the least price that are not enumerated. Without bounds: all segments
        that are not enumerated, the shortest first."""
        run = self.run
        if run.listed_enough:
            return []
        if run.promises is None:
            left = [state.segment.nodes for state in run.known.values() if id(state) not in self.listed]
            return [PathStep(0, 0, nodes, LeastLayer(0.0, 0.0)) for nodes in sorted(left, key=len)]
        path = [run.promised[number] for number in run.promises.shortest(self.prices)[1]]
        return list({id(state): step for step, state in path if state and id(state) not in self.listed}.values())


def list_candidates(run: PlanningRun, hoped: HopedSteps | None = None) -> bool:
    """Enumerates candidates of the segments that `HopedSteps` names, until none is left or many brought little gain.

    `hoped`: the steps with their prices now, if known.

    Returns:
        Whether no segment is left; a time limit may leave some, of which the next call enumerates at least one.
    """
    stopped, price, listed, reached = run.over_in(LISTING), run.price, 0, inf
    energy, cycles = (1 / total for total in price.sums)
    steps = hoped or HopedSteps(run)

    def opened(step: PathStep) -> int:
        """Computes a segment's bound by parts, which takes less time, or else enumerates candidates."""
        nonlocal listed, reached
        state, own = run.by_nodes[step.nodes], step.least
        if isinstance(own, LeastGroup) and own.bound is None and not (own.ended or stopped()):
            _, failed = attempted("gap", partial(own.raise_price, energy, cycles, inf))
            own.ended = own.ended or bool(failed)
            steps.update(state, listed=False)
            return 1
        propose(run, state, candidates(run.compiled(state.segment), price, price(run.one_by_one(state.segment))))
        state.listed_for = tuple(run.bases[name] for name in state.segment.nodes)
        steps.update(state, listed=True)
        listed += 1
        if run.promises and run.options.gap is None and listed % LISTED == 0:
            before, reached = reached, steps.enumerated()
            run.listed_enough = reached > before * (1 - WORTH)
        return 1
    refine(steps.unlisted, opened, over=lambda: run.listed_enough or (listed > 0 and stopped()))
    return not steps.unlisted()


# Which candidates are evaluated.

def propose(run: PlanningRun, state: SegmentState, proposed: Sequence[Candidate]) -> None:
    """Adds candidates of a segment that are not evaluated yet, and the best one also with residual operands on the
    chip.

    Where residual operands do not fit, the best candidate with one tile halved gets them.
    """
    price = run.price
    limit = price(run.one_by_one(state.segment))

    def ranked(some: Sequence[Candidate]) -> list[Candidate]:
        """The different candidates that are not evaluated yet and cost less than the layers one by one: lowest estimate
        first; of equal estimates (nine digits) the fewest steps first, then the order of proposal."""
        scored = sorted((round(price(candidate.estimate), 9), candidate.group.steps, number)
                        for number, candidate in enumerate(some))
        return [candidate for candidate in distinct([some[number] for least, _, number in scored if least < limit])
                if candidate.group not in state.tried]

    state.waiting = ranked([*state.waiting, *proposed])
    best = state.waiting[0] if state.waiting else None
    if best is None or not state.segment.residuals or best.group.second_reads:
        return
    kept = with_second_reads(run.hardware, best, run.word_costs)
    if not kept:
        halves = narrower(run.compiled(best.segment), best, price)
        smaller = [other for half in halves for other in with_second_reads(run.hardware, half, run.word_costs)]
        kept = sorted(smaller, key=lambda other: price(other.estimate))[:1]
    state.waiting = ranked([*kept, *state.waiting])


def best_known_plan(run: PlanningRun) -> list[CoverPart[EvaluatedGroup]]:
    """The best partition of the network into evaluated groups and layers by themselves."""
    return _hoped_plan(run, lambda state: None)


def _hoped_plan(run: PlanningRun, promise: Callable[[SegmentState], Candidate | None]) -> list[CoverPart[Any]]:
    """The best partition with evaluated groups and, for each segment, the candidate that `promise` gives, by estimate.

    Partitions with groups that wait for each other are left out, as no order of the network allows them.
    """
    promised = {key: promise(state) for key, state in run.known.items()}
    parts: list[CoverPart[Any]] = [CoverPart(nodes, group.point, group)
                                   for nodes, state in run.by_nodes.items() for group in state.exact]
    parts += [CoverPart(nodes, candidate.estimate, candidate)
              for nodes, state in run.by_nodes.items() if (candidate := promised[state.segment.key])]
    while True:
        plan = partition(run.chains, run.alone, parts, run.options.metric, run.joined)
        if runs_in_order(run.workload, [part.nodes for part in plan]):
            return plan
        parts = [part for part in parts if part is not plan[-1]]


# Exact evaluation and what follows from it.

def evaluate_candidates(run: PlanningRun, chosen: list[Candidate], stage: str, *, compared: bool = False) -> None:
    """Evaluates candidates exactly, adds those that can run, and proposes others for those that cost too much.

    Where a group runs a layer in fewer cycles than the layer's own mapping, the estimate of the layer is corrected.
    `compared` is that of `with_mappings`.
    """
    if run.over() or not chosen:
        return
    settled = [compared or strategies_known(candidate.group, run.memory.strategies) for candidate in chosen]
    pairs = list(zip(chosen, evaluated(run, chosen, run.price, compared), strict=True))
    for (candidate, group), of_best_strategies in zip(pairs, settled, strict=True):
        state = run.known[candidate.segment.key]
        state.waiting = [other for other in state.waiting if other is not candidate]
        state.tried += [candidate.group] if candidate.group not in state.tried else []
        state.exact += [group] if group is not None else []
        state.compared += [candidate.group] if of_best_strategies else []
    run.note(stage, best_known_plan(run))
    for candidate, group in pairs:
        if group is None:
            continue
        segment = candidate.segment
        for name, runs, layer, cost in zip(segment.nodes, segment.runs, group.group.layers, group.cost.layers,
                                           strict=True):
            largest = max(layer.mappings, key=prod)
            if runs > 1 and largest[layer.problem.dimensions.index(RUNS)] > 1:
                continue    # a mapping over several runs tells nothing about one run
            base, operations = run.bases[name], prod(layer.problem.bounds.values())
            known = revised(base, cost.cycles * operations / cost.computes / runs, layer.mappings[largest])
            run.bases.update({other: known for other, same in run.bases.items() if same is base})
    price = run.price
    short = [candidate for candidate, group in pairs
             if (group is None or price(group.point) > (1 + SHORT) * price(candidate.estimate))
             and price(candidate.estimate) < run.known[candidate.segment.key].least(price)]
    new = {} if compared else {id(candidate): candidate for candidate in short
                               if not strategies_known(candidate.group, run.memory.strategies)}
    for candidate in short:
        state = run.known[candidate.segment.key]
        if id(candidate) not in new and state.narrowed < NARROWED:  # propose smaller tiles
            halved = narrower(run.compiled(candidate.segment), candidate, price)
            if halved:
                propose(run, state, [min(halved, key=lambda other: price(other.estimate))])
                state.narrowed += 1
    evaluate_candidates(run, list(new.values()), stage, compared=True)


def evaluated(run: PlanningRun, chosen: Sequence[Candidate], price: NetworkPrice,
              compared: bool) -> list[EvaluatedGroup | None]:
    """Maps all tiles of some candidates and evaluates them exactly. Every tile minimises its share in the network.

    Mappings in the checkpoint are not searched again. Returns for every candidate the group with mappings and cost, or
    None if it cannot run.
    """
    groups = [candidate.group for candidate in chosen]
    options = replace(SEARCH, seed=run.options.seed, threads=run.options.workers)
    batch = batch_key(groups, price.sums, options, compared) if run.saved.file else ""
    if kept := run.saved.mapped(batch, groups):
        mapped, strategies = kept
        run.memory.strategies.update(strategies)
    else:
        specs = [[run.by_node[name].spec for name in candidate.segment.nodes] for candidate in chosen]
        mapped = with_mappings(run.hardware, groups, specs, price.sums, options, compared=compared, stopped=run.over,
                               memory=run.memory)
        if not run.over():
            run.saved.keep_mapped(batch, mapped, run.memory.strategies)
    return _with_costs(run, chosen, mapped)


def _with_costs(run: PlanningRun, chosen: Sequence[Candidate],
                mapped: Sequence[FusedGroup | None]) -> list[EvaluatedGroup | None]:
    """The mapped groups of candidates with their exact costs; None for a group without mappings or that is illegal."""
    costs = iter(checked_costs(run.hardware, [group for group in mapped if group], run.memory.evaluations))
    return [EvaluatedGroup(candidate, group, cost) if group and (cost := next(costs)[1]) else None
            for candidate, group in zip(chosen, mapped, strict=True)]


def _refine_groups(run: PlanningRun, planned: set[tuple[str, ...]]) -> None:
    """Refines the groups of the plan with layers `planned`: evaluates nearly as good candidates, then descends over
    tile sizes."""
    used = {state.segment.key: state for nodes, state in run.by_nodes.items() if nodes in planned}
    price = run.price
    evaluate_candidates(run, [candidate for state in used.values() for candidate in state.waiting[:NEAR]
                              if price(candidate.estimate) < (1 + NEARLY) * state.least(price)], REFINED)
    for above in (0.0, NEARLY):     # better by estimate, then up to a share worse
        climbing = dict.fromkeys(used, inf)
        for _ in range(CLIMBS):
            now = {key: used[key].least(price) for key in climbing}
            climbing = {key: least for key, least in now.items() if least < climbing[key] * (1 - WORTH)}
            if run.over() or not climbing:
                break
            near = []
            for state in (used[key] for key in climbing):   # the cheapest neighbours of the best group
                best = min(state.exact, key=lambda group: price(group.point))
                found = neighbours(run.compiled(state.segment), best.candidate, price)[:NEAR]
                if best.group.second_reads:
                    found = [kept for one in found for kept in with_second_reads(run.hardware, one, run.word_costs)]
                near += [candidate for candidate in found if candidate.group not in state.tried
                         and price(candidate.estimate) < (1 + above) * state.least(price)]
            evaluate_candidates(run, near, REFINED)


def _evaluate_least(run: PlanningRun) -> None:
    """Evaluates the plan that would be best if all groups cost their bound, in the tile sizes at which the bound is
    least, as long as the plan improves."""
    before = inf
    while run.bounded and not run.over():
        plan = best_known_plan(run)
        value = run.value(plan)
        if value >= before:
            break
        before, price, found = value, run.price, list[Candidate]()
        energy, cycles = (1 / total for total in run.price_at(plan).sums)
        for group in run.bounded.path(energy, cycles)[1]:
            if not isinstance(group, LeastGroup) or not (sizes := group.sizes(energy, cycles)):
                continue
            state = run.known[group.segment.key]
            limit = (1 + AT_BOUND) * min(state.least(price), price(run.one_by_one(group.segment)))
            found += [candidate for candidate in candidates_along(
                run.compiled(group.segment), tuple(sizes), price, [tuple(sizes.values())])
                if candidate.group not in state.tried and price(candidate.estimate) < limit]
        evaluate_candidates(run, distinct(found), REFINED, compared=True)


def _compare_strategies(run: PlanningRun) -> None:
    """Compares strategies for groups of the plan that would be best if estimates held, until all are compared: a tile
    in the wrong strategy may lose most of the gain of its group."""
    while not run.over():
        hoped, plan = _hoped_plan(run, lambda state: state.promising(run.price)), best_known_plan(run)
        planned = {part.nodes for part in plan}
        worth = run.value(hoped) <= run.value(plan) * (1 - WORTH)   # else only groups of the plan are compared
        picked = _candidates_of([part for part in hoped if worth or part.nodes in planned])
        if not picked:
            return
        evaluate_candidates(run, picked, REFINED, compared=True)


# Tensors that stay on the chip from group to group.

def _with_lasting_tensors(run: PlanningRun, plan: list[CoverPart[EvaluatedGroup]]) -> list[CoverPart[EvaluatedGroup]]:
    """The best plan with lasting tensors (`lasting_tensors`), or the given plan if no other is better."""
    cover = None if run.over() else _lasting_cover(run)
    if cover is None:
        return plan
    for left in reversed(range(ROUNDS)):    # the last round counts no estimates
        price = run.price_at(plan)
        versions = cover.best(price, hopeful=left > 0 and not run.over())
        hoped = cover.cover_parts(versions)
        if run.value(hoped) > run.value(plan) * (1 - WORTH):
            break
        unknown = {version.key: version for version in versions if cover.unknown(version)}
        if unknown:
            cover.learn(_evaluated_versions(run, list(unknown.values()), price))
        elif not run.clock.over(_tiles_of(hoped)) and runs_in_order(run.workload, runs_of(versions)):
            plan = hoped
            run.note(LASTING, plan)
        else:
            break
    return plan


def _lasting_cover(run: PlanningRun) -> LastingCover | None:
    """The rows of the network with layers by themselves and evaluated groups; None where no tensor may last."""
    rows = lasting_rows(run.workload, run.hardware, {name: result.spec for name, result in run.by_node.items()})
    if not any(row.tensors for row in rows):
        return None
    price, repeats, level = run.price, repeats_of(run.workload), homes(run.hardware)[0]
    home = run.hardware.arch.levels[run.hardware.level(level)]

    def roomy(groups: Iterable[EvaluatedGroup]) -> Iterator[EvaluatedGroup]:
        """The groups from the cheapest one on, each only if it leaves more room in the home than all cheaper ones."""
        least = inf
        for group in groups:
            taken = max(resident_words(group.group, layer_steps(group.group), home))
            if taken < least:
                least = taken
                yield group

    alone, groups = dict[tuple[int, int], PlanPart](), dict[Hashable, list[PlanPart]]()
    parts: dict[tuple[str, ...], list[PlanPart]] = {}
    for name, result in run.by_node.items():
        problem, repeat = result.spec.problem, repeats[name]    # equal problems may run more or less often
        if (id(result), repeat) not in alone:
            group = FusedGroup((FusedLayer(problem, {tuple(problem.bounds.values()): result.mapping}),), repeat=repeat)
            alone[id(result), repeat] = PlanPart(
                Candidate(Segment((name,), (problem,), (), (), repeat), group, run.alone[name]),
                repeat * run.bases[name].known[0].compute, None)
        parts[name,] = [alone[id(result), repeat]]
    for nodes, state in run.by_nodes.items():
        segment = state.segment
        if segment.key not in groups:
            # a group without loops equals its layers one by one with lasting tensors
            exact = sorted((group for group in state.exact if group.group.loops or segment.repeat > 1),
                           key=lambda group: price(group.point))
            # groups that finish the sums of their output in each step, so that the output may stay
            finished = [group for group in exact
                        if segment.problems[-1].output.dimensions.issuperset(loop.dim for loop in group.group.loops)]
            inside = segment.repeat * sum(base.known[0].compute for base in group_bases(segment, run.bases))
            groups[segment.key] = [
                PlanPart(replace(group.candidate, group=group.group, estimate=group.point), inside, group)
                for group in {id(group): group for group in (*roomy(exact), *roomy(finished))}.values()]
        if groups[segment.key]:
            parts[nodes] = groups[segment.key]
    return LastingCover(rows, parts, run.by_nodes, home, run.word_costs)


def _evaluated_versions(run: PlanningRun, versions: Sequence[PartVersion],
                        price: NetworkPrice) -> dict[VersionKey, EvaluatedGroup | None]:
    """The exact cost of versions, with the mappings of their parts or, if these cost too much, with new mappings."""
    level = homes(run.hardware)[0]
    candidates = [replace(version.part.candidate, group=version.group(level), estimate=version.point)
                  for version in versions]
    known = _with_costs(run, candidates, [one.group for one in candidates])
    short = [index for index, (one, group) in enumerate(zip(candidates, known, strict=True))
             if group is None or price(group.point) > (1 + SHORT) * price(one.estimate)]
    for index, other in zip(short, evaluated(run, [candidates[index] for index in short], price, True),
                            strict=True):
        known[index] = min((group for group in (known[index], other) if group is not None),
                           key=lambda group: price(group.point), default=None)
    return {version.key: group for version, group in zip(versions, known, strict=True)}
