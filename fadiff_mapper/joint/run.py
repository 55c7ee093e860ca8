"""Mapping a network: every layer by itself, then groups, then where groups begin and end, then their refinement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.inputs import Spec
from fadiff_mapper.joint import checkpoint
from fadiff_mapper.joint.candidates import Candidate, homes, neighbours
from fadiff_mapper.joint.design import Design, specs_of
from fadiff_mapper.joint.estimate import LayerBase, layer_base
from fadiff_mapper.joint.groups import LIGHT, Evaluated, alone, evaluated, ranked
from fadiff_mapper.joint.options import NetworkOptions, check
from fadiff_mapper.joint.outcome import network_result
from fadiff_mapper.joint.partition import Way, partition
from fadiff_mapper.joint.prices import Point, metric_price, metric_value, summed
from fadiff_mapper.joint.result import NetworkResult
from fadiff_mapper.joint.segments import Segment, chains, runs_in_order, segments
from fadiff_mapper.joint.sigma import Edge, descend
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
                time_limit: float | None = None, model: str = "refined", longest: int = 3, kept: int = 4,
                threads: int | None = None, energy: str = "bundled",
                checkpoint_file: str | os.PathLike[str] | None = None, on_progress: OnProgress = lambda *_: None,
                stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """Decide which layers of a network to fuse, how to tile the groups, and how to map every layer.

    arch_spec       the design: a `Spec` (its problem is left out), a dict, a file or several
    metric          "edp" (sum of energies times sum of cycles), "energy" or "delay" of the whole network
    fuse            False maps every layer by itself: energy and cycles are then the sums over the layers
    seed            the same seed gives the same plan unless time runs out
    time_limit      seconds; what is there by then is returned
    model           the relaxed model of fusion: "refined", or "paper" for equations (13) to (15) and (24) as printed
    longest, kept   layers of a group at most; candidates of each group of the plan that are evaluated exactly
    energy          as in `inputs.load`
    checkpoint_file  where mappings of layers and groups are written as they are found, and read from if it is there
    on_progress, stopped   are told of every improvement; asked whether to come to an end

    The plan is never worse than the layers one by one. Raises SpecError or FadiffError for bad input, for a layer
    without a legal mapping, and for a checkpoint of another network, design or version.
    """
    options = NetworkOptions(metric, fuse, seed, time_limit, model, longest, kept, threads or os.cpu_count() or 1)
    check(options)
    specs = specs_of(workload, arch_spec, energy)
    clock = _Clock(time_limit, stopped)
    saved = checkpoint.opened(checkpoint_file, workload, specs, options)
    results = _layers(workload, specs, options, clock, saved, on_progress)
    run = _Run(workload, options, results, clock, saved, on_progress)
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
    clock: _Clock
    saved: checkpoint.Saved
    on_progress: OnProgress
    history: list[dict[str, Any]] = field(default_factory=list)
    sigma: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = self.results[0].spec
        self.hardware = Hardware(spec.arch, spec.tables)
        self.by_node = {name: result for entry, result in zip(self.workload.distinct(), self.results, strict=True)
                        for name in entry.nodes}
        self.bases = {name: layer_base(result) for name, result in self.by_node.items()}
        self.repeats = {node.name: node.layer.repeat for node in self.workload.layers if node.layer}
        self.alone = {name: Point(self.repeats[name] * base.whole.energy_pj, self.repeats[name] * base.whole.cycles)
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
    found = map_layers([specs[index] for index in missing], metric=options.metric, seed=options.seed, time_limit=limit,
                       threads=options.threads, stopped=clock.stopped,
                       on_better=lambda at, result: saved.keep(missing[at], result))
    for index, result in zip(missing, found, strict=True):
        known[index] = result
    results = [result for result in known if result is not None]
    if options.metric != "edp" or clock.over():
        return tuple(results)
    results = searched_again(results, replace(AGAIN, seed=options.seed, threads=options.threads), clock.over)
    ways = variants(results, replace(VARIANTS, seed=options.seed, threads=options.threads), clock.over)
    return tuple(best_together(ways, [entry.times for entry in workload.distinct()], options.metric))


def _groups(run: _Run) -> tuple[Way[Evaluated], ...]:
    """The groups of the plan."""
    every = segments(run.workload, run.options.longest)
    distinct = {segment.key: segment for segment in reversed(every)}
    found = ranked(run.hardware, distinct, run.bases, run.total, run.options.metric, run.clock.over)
    run.sigma.update(_sigma(run, every, found))
    order = sorted((key for key in found if found[key]), key=lambda key: -_promise(run, distinct[key], found[key][0]))
    exact: dict[Any, list[Evaluated]] = {key: [] for key in distinct}
    picked = [(key, found[key][0]) for key in order if max(_sigmas(run, distinct[key])) > DECODED]
    light = replace(LIGHT, seed=run.options.seed, threads=run.options.threads)
    for start in range(0, len(picked), BATCH):
        if run.clock.over():
            break
        _add(run, picked[start:start + BATCH], light, exact)
        run.note("groups", _plan(run, every, exact))
    for further in range(1, run.options.kept):
        _add(run, [(key, found[key][further]) for key, _ in picked if not exact[key] and len(found[key]) > further],
             light, exact)
    plan = _plan(run, every, exact)
    if plan and not run.clock.over():
        used = {segment.key: segment for segment in every if segment.nodes in {way.nodes for way in plan}}
        _refine(run, used, found, exact)
        plan = _plan(run, every, exact)
        run.note("refined groups", plan)
    return tuple(plan)


BATCH = 12
"""Candidates that are mapped side by side."""


def _promise(run: _Run, segment: Segment, candidate: Candidate) -> float:
    """What the best estimate of a segment would save."""
    own = alone(segment, [run.bases[name] for name in segment.nodes])
    return (metric_price(own, run.total, run.options.metric)
            - metric_price(candidate.estimate, run.total, run.options.metric))


def _plan(run: _Run, every: list[Segment], exact: Mapping[Any, list[Evaluated]]) -> list[Way[Evaluated]]:
    """The best partition with the groups known so far that the network's order allows."""
    ways = [Way(segment.nodes, one.point, one) for segment in every for one in exact[segment.key]]
    while True:
        plan = partition([names for names, _ in chains(run.workload)], run.alone, ways, run.options.metric)
        if runs_in_order(run.workload, [way.nodes for way in plan]):
            return plan
        ways = [way for way in ways if way is not plan[-1]]


def _sigma(run: _Run, every: list[Segment], found: Mapping[Any, list[Candidate]]) -> dict[tuple[str, str], float]:
    """The fusion variable of every link, see `sigma`."""
    pairs = [segment for segment in every if len(segment.nodes) == 2]
    names = list(run.bases)
    places = homes(run.hardware)
    if not places:
        return {}
    level = run.hardware.arch.levels[run.hardware.level(places[0]) or 0]
    edges = [_edge(run, segment, found.get(segment.key, []), names) for segment in pairs]
    values = descend([run.bases[name] for name in names], [run.repeats[name] for name in names], edges,
                     float(level.usable or 2 ** 62), places[0], run.options.model, run.options.seed)
    return {(segment.nodes[0], segment.nodes[1]): value for segment, value in zip(pairs, values, strict=True)}


def _edge(run: _Run, segment: Segment, found: list[Candidate], names: list[str]) -> Edge:
    first, after = segment.problems
    before = alone(segment, [run.bases[name] for name in segment.nodes])
    best = found[0].estimate if found else None
    weights = sum(problem.tensor_size(space) for problem in (first, after) for space in problem.dataspaces
                  if not space.read_write and space.name != segment.links[0].tensor)
    return Edge(names.index(segment.nodes[0]), names.index(segment.nodes[1]), segment.links[0].tensor,
                first.output.name, segment.repeat, float(weights + first.tensor_size(first.output)),
                best and Point(best.energy_pj - before.energy_pj, best.cycles - before.cycles))


def _sigmas(run: _Run, segment: Segment) -> list[float]:
    return [run.sigma.get(pair, 1.0) for pair in pairwise(segment.nodes)]


def _refine(run: _Run, used: Mapping[Any, Segment], found: Mapping[Any, list[Candidate]],
            exact: dict[Any, list[Evaluated]]) -> None:
    """For the plan's groups: further candidates, tile sizes next to theirs, and a longer search of their mappings."""
    light = replace(LIGHT, seed=run.options.seed, threads=run.options.threads)
    _add(run, [(key, one) for key in used for one in found[key][1:run.options.kept]], light, exact)
    climbing = dict.fromkeys(used, float("inf"))
    for _ in range(CLIMBS):
        now = {key: _price(run, _best(run, exact[key])) for key in climbing}
        climbing = {key: price for key, price in now.items() if price < climbing[key] * (1 - WORTH)}
        _add(run, [(key, one) for key in climbing for one in _near(run, used[key], _best(run, exact[key]))], light,
             exact)
    heavy = replace(HEAVY, seed=run.options.seed, threads=run.options.threads)
    best = {key: _best(run, exact[key]) for key in used}
    _add(run, [(key, Candidate(used[key], one.group, one.point)) for key, one in best.items()], heavy, exact)


def _price(run: _Run, one: Evaluated) -> float:
    return metric_price(one.point, run.total, run.options.metric)


def _best(run: _Run, known: list[Evaluated]) -> Evaluated:
    return min(known, key=lambda one: _price(run, one))


def _near(run: _Run, segment: Segment, one: Evaluated) -> list[Candidate]:
    """The neighbours of a group with the best estimates."""
    own: list[LayerBase] = [run.bases[name] for name in segment.nodes]
    price = partial(metric_price, total=run.total, metric=run.options.metric)
    return neighbours(run.hardware, Candidate(segment, one.group, one.point), own, price)[:NEAR]


def _add(run: _Run, todo: list[tuple[Any, Candidate]], effort: SearchOptions,
         exact: dict[Any, list[Evaluated]]) -> None:
    """Evaluates candidates and adds those that can run."""
    if run.clock.over() or not todo:
        return
    outcome = evaluated(run.hardware, [one for _, one in todo], run.by_node, run.total, effort, run.clock.over,
                        run.saved)
    for (key, _), one in zip(todo, outcome, strict=True):
        exact[key] += [one] if one is not None else []
    short = [pair for pair, one in zip(todo, outcome, strict=True) if effort.rounds < HEAVY.rounds and _short(
        run, pair, one, exact)]
    _add(run, short, replace(HEAVY, seed=effort.seed, threads=effort.threads), exact)


def _short(run: _Run, pair: tuple[Any, Candidate], one: Evaluated | None, exact: dict[Any, list[Evaluated]]) -> bool:
    """Whether what was found for a candidate falls short of its estimate, which would beat what its segment has."""
    metric, (key, candidate) = run.options.metric, pair
    promised = metric_price(candidate.estimate, run.total, metric)
    known = [_price(run, other) for other in exact[key]]
    return (one is None or _price(run, one) > (1 + SHORT) * promised) and promised < min(known, default=inf)


SHORT = 0.04
"""The part by which a group may fall short of its estimate before its mappings are searched for longer."""

NEAR = 2
"""Neighbouring tile sizes that are tried of each group in the plan, in one step of its descent."""

CLIMBS, WORTH = 5, 1e-3
"""Steps of that descent, and the part of a group's price that a step must bring for another one."""

DECODED = 0.5
"""Segments are tried where some link's sigma exceeds this."""
