"""Mapping a network: every layer by itself, all of them and their links at once on the relaxed model, then groups,
where groups begin and end, and their refinement, exactly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

from fadiff_mapper.fusion import FusedGroup, Hardware
from fadiff_mapper.inputs import Spec
from fadiff_mapper.joint import checkpoint
from fadiff_mapper.joint.candidates import Candidate, Price, narrower, neighbours
from fadiff_mapper.joint.decoding import decoded_groups, decoded_layers
from fadiff_mapper.joint.descent import Descended, descend
from fadiff_mapper.joint.design import Design, specs_of
from fadiff_mapper.joint.estimate import LayerBase, layer_base
from fadiff_mapper.joint.groups import LIGHT, Evaluated, enumerated, evaluated, ranked
from fadiff_mapper.joint.options import NetworkOptions, check
from fadiff_mapper.joint.outcome import network_result
from fadiff_mapper.joint.partition import Way, partition
from fadiff_mapper.joint.prices import Point, metric_price, metric_value, summed
from fadiff_mapper.joint.relaxed import RelaxedNetwork, relaxed_network
from fadiff_mapper.joint.reshaping import reshaped
from fadiff_mapper.joint.result import NetworkResult
from fadiff_mapper.joint.segments import Segment, chains, runs_in_order, segments
from fadiff_mapper.joint.tile_nests import homes
from fadiff_mapper.joint.unfused import AGAIN, VARIANTS, best_together, searched_again, variants
from fadiff_mapper.mapper import map_layers
from fadiff_mapper.result import Result
from fadiff_mapper.search import SearchOptions
from fadiff_mapper.workload import Workload

LAYERS_SHARE = 0.6
"""The part of a time limit after which the search of the layers ends."""

HEAVY = replace(LIGHT, chains=48, rounds=60)
"""For the tiles of groups that are in the plan."""

OnProgress = Callable[[str, float], None]
"""Called with a stage and the network's value whenever it is better."""


def map_network(workload: Workload, arch_spec: Design, *, metric: str = "edp", fuse: bool = True, seed: int = 0,
                time_limit: float | None = None, model: str = "refined", longest: int = 16, kept: int = 4,
                gradient: bool = True, enumeration: bool = True, threads: int | None = None,
                energy: str = "bundled",
                checkpoint_file: str | os.PathLike[str] | None = None, on_progress: OnProgress = lambda *_: None,
                stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """Decide which layers of a network to fuse, how to tile the groups, and how to map every layer.

    arch_spec       the design: a `Spec` (its problem is left out), a dict, a file or several
    metric          "edp" (sum of energies times sum of cycles), "energy" or "delay" of the whole network
    fuse            False maps every layer by itself: energy and cycles are then the sums over the layers
    seed            the same seed gives the same plan unless time runs out
    time_limit      seconds; what is there by then is returned
    model           the relaxed model: "refined", or "paper" for the paper's equations as printed
    longest, kept   layers of a group at most; candidates of each group of the plan that are evaluated exactly
    gradient, enumeration   switch off the groups that the descent proposes, and those that are enumerated (of up to
                            three layers)
    energy          as in `inputs.load`
    checkpoint_file  where mappings of layers and groups are written as they are found, and read from if it is there
    on_progress, stopped   are told of every improvement; asked whether to come to an end

    The plan is never worse than the layers one by one. Raises SpecError or FadiffError for bad input, for a layer
    without a legal mapping, and for a checkpoint of another network, design or version.
    """
    options = NetworkOptions(metric, fuse, seed, time_limit, model, longest, kept, gradient, enumeration,
                             threads or os.cpu_count() or 1)
    check(options)
    specs = specs_of(workload, arch_spec, energy)
    clock = _Clock(time_limit, stopped)
    saved = checkpoint.opened(checkpoint_file, workload, specs, options)
    results = _layers(workload, specs, options, clock, saved, on_progress)
    relaxed = _relaxed(workload, results, options, clock) if fuse and gradient and not clock.over() else None
    if relaxed:
        results = _better(workload, results, options, *relaxed)
    run = _Run(workload, options, results, relaxed, clock, saved, on_progress)
    run.note("layers")
    groups = _groups(run) if fuse and not clock.over() else ()
    status = "interrupted: the best plan so far" if stopped() else (
        f"out of time after {time_limit:g} s: the best plan so far" if clock.over() else "search ended")
    return network_result(workload, run.hardware, list(results), run.sigma, groups, run.history, options.as_dict(),
                          status, clock.spent())


class _Clock:
    """When to come to an end."""

    def __init__(self, limit: float | None, stopped: Callable[[], bool]) -> None:
        self.start, self.limit, self.stopped = time.monotonic(), limit, stopped

    def spent(self) -> float:
        return time.monotonic() - self.start

    def over(self) -> bool:
        return self.stopped() or (self.limit is not None and self.spent() > self.limit)


@dataclass
class _Run:
    """What the parts of one run share."""

    workload: Workload
    options: NetworkOptions
    results: tuple[Result, ...]
    relaxed: tuple[RelaxedNetwork, Descended] | None
    clock: _Clock
    saved: checkpoint.Saved
    on_progress: OnProgress
    history: list[dict[str, Any]] = field(default_factory=list)
    sigma: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = self.results[0].spec
        self.hardware = Hardware(spec.arch, spec.tables)
        self.by_node = _by_node(self.workload, self.results)
        self.bases = {name: layer_base(result) for name, result in self.by_node.items()}
        self.chains = [names for names, _ in chains(self.workload)]
        repeats = _repeats(self.workload)
        self.alone = {name: Point(repeats[name] * base.whole.energy_pj, repeats[name] * base.whole.cycles)
                      for name, base in self.bases.items()}
        self.total = summed(list(self.alone.values()))

    def note(self, stage: str, groups: list[Way[Evaluated]] | None = None) -> None:
        """Records the network's value after a stage."""
        fused = {name for way in groups or () for name in way.nodes}
        total = summed([*(point for name, point in self.alone.items() if name not in fused),
                        *(way.point for way in groups or ())])
        value = metric_value(total, self.options.metric)
        if not self.history or value < self.history[-1]["value"]:
            self.history.append({"time_s": self.clock.spent(), "value": value, "stage": stage})
            self.on_progress(stage, value)


def _layers(workload: Workload, specs: tuple[Spec, ...], options: NetworkOptions, clock: _Clock,
            saved: checkpoint.Saved, on_progress: OnProgress) -> tuple[Result, ...]:
    """Every distinct layer by itself, as is best for the network."""
    known = saved.results(specs)
    missing = [index for index, result in enumerate(known) if result is None]
    limit = None if options.time_limit is None else max(LAYERS_SHARE * options.time_limit - clock.spent(), 0.1)
    try:
        found = map_layers([specs[index] for index in missing], metric=options.metric, seed=options.seed,
                           time_limit=limit, threads=options.threads, stopped=clock.stopped,
                           on_better=lambda at, result: saved.keep(missing[at], result))
    finally:
        saved.write()
    for index, result in zip(missing, found, strict=True):
        known[index] = result
    results = [result for result in known if result is not None]
    if options.metric != "edp" or clock.over():
        return tuple(results)
    results = searched_again(results, replace(AGAIN, seed=options.seed, threads=options.threads), clock.over)
    ways = variants(results, replace(VARIANTS, seed=options.seed, threads=options.threads), clock.over)
    return tuple(best_together(ways, [entry.times for entry in workload.distinct()], options.metric))


def _by_node(workload: Workload, results: Sequence[Result]) -> dict[str, Result]:
    return {name: result for entry, result in zip(workload.distinct(), results, strict=True) for name in entry.nodes}


def _repeats(workload: Workload) -> dict[str, int]:
    return {node.name: node.layer.repeat for node in workload.layers if node.layer}


def _relaxed(workload: Workload, results: Sequence[Result], options: NetworkOptions,
             clock: _Clock) -> tuple[RelaxedNetwork, Descended] | None:
    """The relaxed network and where its descent ended, or None where nothing can be fused."""
    spec = results[0].spec
    hardware = Hardware(spec.arch, spec.tables)
    pairs = {(segment.nodes[0], segment.nodes[1]): segment for segment in segments(workload, 2)}
    places = homes(hardware)
    if not pairs or not places:
        return None
    network = relaxed_network([names for names, _ in chains(workload)], pairs, _by_node(workload, results),
                              _repeats(workload), hardware.level(places[0]) or 0)
    return network, descend(network, options.metric, options.model, options.seed, stopped=clock.over)


def _better(workload: Workload, results: Sequence[Result], options: NetworkOptions, network: RelaxedNetwork,
            ended: Descended) -> tuple[Result, ...]:
    """The layers' mappings, or those that the descent ended with where the network is better with them."""
    ways = decoded_layers(results, network, ended)
    return tuple(best_together(ways, [entry.times for entry in workload.distinct()], options.metric))


@dataclass
class _Known:
    """What is known of one distinct segment.

    waiting: candidates that are estimated, the best first. tried: those that were evaluated. exact: those that can run.
    """

    segment: Segment
    waiting: list[Candidate] = field(default_factory=list)
    tried: list[FusedGroup] = field(default_factory=list)
    exact: list[Evaluated] = field(default_factory=list)


def _groups(run: _Run) -> tuple[Way[Evaluated], ...]:
    """The groups of the plan."""
    every = segments(run.workload, run.options.longest)
    known = {segment.key: _Known(segment) for segment in reversed(every)}
    light = replace(LIGHT, seed=run.options.seed, threads=run.options.threads)
    for proposed in (_decoded, _enumerated, *[_reshaped] * RESHAPED):
        for key, own in proposed(run, every, known).items():
            _propose(run, known[key], own)
        while not run.clock.over() and (picked := _hopeful(run, every, known)):
            _add(run, picked, light, known)
            run.note("groups", _plan(run, every, known))
    plan = _plan(run, every, known)
    if plan and not run.clock.over():
        used = {way.nodes for way in plan}
        _refine(run, {segment.key: known[segment.key] for segment in every if segment.nodes in used}, known)
        plan = _plan(run, every, known)
        run.note("refined groups", plan)
    return tuple(plan)


def _decoded(run: _Run, every: Sequence[Segment], known: Mapping[Any, _Known]) -> dict[Any, list[Candidate]]:
    """What the descent proposes for segments of any length."""
    if not run.relaxed:
        return {}
    network, ended = run.relaxed
    run.sigma.update({pair: float(ended.sigma[tie, 0]) for pair, tie in network.tie_of.items()})
    return decoded_groups(run.hardware, every, network, ended, run.bases, _price_of(run))


def _enumerated(run: _Run, every: Sequence[Segment], known: Mapping[Any, _Known]) -> dict[Any, list[Candidate]]:
    """All candidates of short segments, and of long ones those without loops."""
    distinct = {key: here.segment for key, here in known.items()}
    return enumerated(run.hardware, distinct, run.bases, run.total, run.options.metric,
                      run.clock.over) if run.options.enumeration else {}


def _reshaped(run: _Run, every: Sequence[Segment], known: Mapping[Any, _Known]) -> dict[Any, list[Candidate]]:
    """What lies next to the groups of the plan so far."""
    plan = [(way.nodes, way.plan.group) for way in _plan(run, every, known)]
    return reshaped(run.hardware, plan, run.chains, every, run.bases, _price_of(run))


def _hopeful(run: _Run, every: Sequence[Segment], known: Mapping[Any, _Known]) -> list[Candidate]:
    """The candidates not evaluated yet in the plan that would be best if they cost what is estimated."""
    ways = _evaluated_ways(every, known)
    for segment in every:
        here = known[segment.key]
        if here.waiting and len(here.tried) < run.options.kept:
            ways.append(Way(segment.nodes, here.waiting[0].estimate, here.waiting[0]))
    plans = {id(way.plan): way.plan for way in _best_plan(run, ways)}
    return [one for one in plans.values() if isinstance(one, Candidate)]


def _evaluated_ways(every: Sequence[Segment], known: Mapping[Any, _Known]) -> list[Way[Any]]:
    return [Way(segment.nodes, one.point, one) for segment in every for one in known[segment.key].exact]


def _plan(run: _Run, every: Sequence[Segment], known: Mapping[Any, _Known]) -> list[Way[Evaluated]]:
    """The best partition with the groups known so far."""
    return _best_plan(run, _evaluated_ways(every, known))


def _best_plan(run: _Run, ways: list[Way[Any]]) -> list[Way[Any]]:
    """The best partition that the network's order allows."""
    while True:
        plan = partition(run.chains, run.alone, ways, run.options.metric)
        if runs_in_order(run.workload, [way.nodes for way in plan]):
            return plan
        ways = [way for way in ways if way is not plan[-1]]


def _refine(run: _Run, used: Mapping[Any, _Known], known: Mapping[Any, _Known]) -> None:
    """For the plan's groups: further candidates, tile sizes next to theirs, and a longer search of their mappings."""
    light = replace(LIGHT, seed=run.options.seed, threads=run.options.threads)
    _add(run, [one for here in used.values() for one in here.waiting[:run.options.kept - len(here.tried)]], light,
         known)
    climbing = dict.fromkeys(used, float("inf"))
    for _ in range(CLIMBS):
        now = {key: _price(run, _best(run, used[key].exact)) for key in climbing}
        climbing = {key: price for key, price in now.items() if price < climbing[key] * (1 - WORTH)}
        _add(run, [one for key in climbing for one in _near(run, used[key])], light, known)
    heavy = replace(HEAVY, seed=run.options.seed, threads=run.options.threads)
    best = [(here.segment, _best(run, here.exact)) for here in used.values()]
    _add(run, [Candidate(segment, one.group, one.point) for segment, one in best], heavy, known)


def _price_of(run: _Run) -> Price:
    return partial(metric_price, total=run.total, metric=run.options.metric)


def _price(run: _Run, one: Evaluated) -> float:
    return metric_price(one.point, run.total, run.options.metric)


def _best(run: _Run, known: list[Evaluated]) -> Evaluated:
    return min(known, key=lambda one: _price(run, one))


def _near(run: _Run, here: _Known) -> list[Candidate]:
    """The neighbours of a segment's best group with the best estimates."""
    own: list[LayerBase] = [run.bases[name] for name in here.segment.nodes]
    best = _best(run, here.exact)
    return neighbours(run.hardware, Candidate(here.segment, best.group, best.point), own, _price_of(run))[:NEAR]


def _add(run: _Run, todo: list[Candidate], effort: SearchOptions, known: Mapping[Any, _Known]) -> None:
    """Evaluates candidates and adds those that can run."""
    if run.clock.over() or not todo:
        return
    outcome = evaluated(run.hardware, todo, run.by_node, run.total, effort, run.clock.over, run.saved)
    for candidate, one in zip(todo, outcome, strict=True):
        here = known[candidate.segment.key]
        here.waiting = [other for other in here.waiting if other is not candidate]
        here.tried += [candidate.group] if candidate.group not in here.tried else []
        here.exact += [one] if one is not None else []
    short = [candidate for candidate, one in zip(todo, outcome, strict=True)
             if _short(run, candidate, one, known[candidate.segment.key].exact)]
    if effort.rounds < HEAVY.rounds:
        _add(run, short, replace(HEAVY, seed=effort.seed, threads=effort.threads), known)
        return
    for candidate in short:
        own = [run.bases[name] for name in candidate.segment.nodes]
        _propose(run, known[candidate.segment.key], narrower(run.hardware, candidate, own, _price_of(run)))


def _propose(run: _Run, here: _Known, found: Sequence[Candidate]) -> None:
    """Adds candidates of a segment that are not evaluated yet."""
    here.waiting = [one for one in ranked([*here.waiting, *found], here.segment, run.bases, run.total,
                                          run.options.metric) if one.group not in here.tried]


def _short(run: _Run, candidate: Candidate, one: Evaluated | None, exact: Sequence[Evaluated]) -> bool:
    """Whether what was found for a candidate falls short of its estimate, which would beat what its segment has."""
    promised = metric_price(candidate.estimate, run.total, run.options.metric)
    known = min((_price(run, other) for other in exact), default=inf)
    return (one is None or _price(run, one) > (1 + SHORT) * promised) and promised < known


SHORT = 0.04
"""The part by which a group may fall short of its estimate before its mappings are searched for longer."""

RESHAPED = 3
"""How often the groups next to those of the plan are looked at."""

NEAR = 2
"""Neighbouring tile sizes that are tried of each group in the plan, in one step of its descent."""

CLIMBS, WORTH = 5, 1e-3
"""Steps of that descent, and the part of a group's price that a step must bring for another one."""
