"""Finding mappings: for one problem, or for many at once."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fadiff_mapper.analysis.lower_bound import lower_bound
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.mapspace import MapSpace, build_mapspace, check_mapping, conflicts
from fadiff_mapper.model.exact.evaluate_spec import evaluate_mapping, layer_of
from fadiff_mapper.model.loop_nest import Nest, pack, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.relaxation.objective import check_metrics
from fadiff_mapper.results.mapped_layer import Result
from fadiff_mapper.search.first_mapping import first_nest
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import single_letter
from fadiff_mapper.spec.spec import Spec

if TYPE_CHECKING:
    from fadiff_mapper.search.options import Progress
    from fadiff_mapper.search.search_family import SearchOutcome
    from fadiff_mapper.search.search_many import MappingTask

MOST = {"seed": 2 ** 63 - 1, "restarts": 4096, "steps": 100_000, "chains": 65536, "rounds": 1_000_000, "threads": 1024,
        "exhaustive_limit": 10 ** 12}
"""The largest value of each option of a search."""

MODELS = ("refined", "paper")
"""What the gradient can be taken of."""

WRITE_EVERY = 1.0
"""Seconds between two mappings of one problem that are handed on while the search runs."""

SEARCHING = "searching: the best mapping so far"


def check_options(time_limit: float | None, numbers: dict[str, int | None]) -> None:
    """FadiffError for an option of the wrong kind or out of range; None stands for the default."""
    if time_limit is not None and (not isinstance(time_limit, int | float) or not time_limit > 0):
        raise FadiffError(f"time limit: found {time_limit!r}; accepted: seconds greater than 0")
    for name, value in numbers.items():
        least = 0 if name == "seed" else 1
        if value is not None and (not isinstance(value, int) or not least <= value <= MOST[name]):
            raise FadiffError(f"{name}: found {value!r}; accepted: a whole number from {least} to {MOST[name]}")


def map_layer(spec: Spec, *, metric: str | tuple[str, ...] | list[str] | None = None, seed: int = 0,
              time_limit: float | None = None, restarts: int | None = None, steps: int | None = None,
              chains: int | None = None, rounds: int | None = None, gradient: bool = True, refinement: bool = True,
              orders: bool = True, model: str = "refined", exhaustive: bool = False,
              exhaustive_limit: int | None = None, threads: int | None = None,
              warm_start: Mapping | None = None,
              on_progress: Callable[[Progress], None] | None = None) -> Result:
    """Find a mapping by gradient descent on the relaxed model and refinement on the exact one.

    The options are those of `map_layers`; `warm_start` is a mapping to start from: the result is at least as good.
    """
    return map_layers([spec], metric=metric, seed=seed, time_limit=time_limit, restarts=restarts, steps=steps,
                      chains=chains, rounds=rounds, gradient=gradient, refinement=refinement, orders=orders,
                      model=model, exhaustive=exhaustive, exhaustive_limit=exhaustive_limit, threads=threads,
                      warm_starts=[warm_start],
                      on_progress=on_progress and (lambda _, step: on_progress(step)))[0]


def map_layers(specs: Sequence[Spec], *, metric: str | tuple[str, ...] | list[str] | None = None, seed: int = 0,
               time_limit: float | None = None, restarts: int | None = None, steps: int | None = None,
               chains: int | None = None, rounds: int | None = None, gradient: bool = True, refinement: bool = True,
               orders: bool = True, model: str = "refined", exhaustive: bool = False,
               exhaustive_limit: int | None = None, threads: int | None = None,
               warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None,
               stopped: Callable[[], bool] = lambda: False) -> list[Result]:
    """Find a mapping for each of many problems, all at once; equal problems are mapped once.

    metric                        "edp", "energy", "delay" or "last_level_accesses", or several in order of priority;
                                  None takes what the input's mapper section says, else EDP
    seed                          the same seed gives the same mappings unless time runs out
    time_limit                    seconds for all of them
    restarts, steps, chains, rounds   see `SearchOptions`; where `rounds` is given, nothing is heated up again
    gradient, refinement, orders  switch these parts off
    model                         what the gradient is taken of: "refined", or "paper" for FADiff's equations as printed
    exhaustive                    evaluate every mapping instead: the true optimum of a small problem
    exhaustive_limit              how many mappings that may be; None is 20 million
    threads                       how many work at a time; it does not change the answer
    warm_starts                   for each problem a mapping to start from, or None
    on_progress, on_better        are called with the number of a problem: whenever its best mapping improves, and with
                                  its first legal mapping and then the best so far, at most once in `WRITE_EVERY` s
    stopped                       is asked again and again; once true, the search ends with what it has

    Raises FadiffError where constraints contradict each other, there are more mappings than an exhaustive search may
    take, a warm start is not a legal mapping of its problem, or no legal mapping is found; what was found for the other
    problems has then been handed to `on_better`.
    """
    check_options(time_limit, {"seed": seed, "restarts": restarts, "steps": steps, "chains": chains, "rounds": rounds,
                                "threads": threads, "exhaustive_limit": exhaustive_limit})
    if model not in MODELS:
        raise FadiffError(f"model: found {model!r}; accepted: {listed(MODELS)}")
    if not specs:
        return []
    metrics = check_metrics((metric,) if isinstance(metric, str) else metric or specs[0].mapper.metrics)
    handed = _Handed(specs, metrics, on_progress, on_better)
    prepared = [_prepared(spec) for spec in specs]
    if exhaustive:
        _refuse_large([space for _, space in prepared], exhaustive_limit)
    given = [_nest_of(spec, space, mapping) for spec, (_, space), mapping in zip_longest(specs, prepared, warm_starts)]
    handed.firsts(prepared)

    from fadiff_mapper.search.options import SearchOptions
    from fadiff_mapper.search.search_many import MappingTask, search_all

    default = SearchOptions()
    options = SearchOptions(
        metrics=metrics, seed=seed, time_limit=time_limit, restarts=restarts or default.restarts,
        steps=steps or default.steps, chains=chains or default.chains, rounds=rounds or default.rounds,
        further=0 if rounds else default.further, exhaustive=exhaustive,
        gradient=gradient, refinement=refinement, orders=orders, model=model,
        threads=threads or specs[0].mapper.num_threads or os.cpu_count() or 1)
    tasks = [MappingTask(layer, space, nest) for (layer, space), nest in zip(prepared, given, strict=True)]
    return handed.finals(tasks, search_all(tasks, options, watcher=handed.watch, stopped=stopped), options.as_dict())


@dataclass
class _Handed:
    """What the caller of a search is handed, problem by problem: first, better and final mappings."""

    specs: Sequence[Spec]
    metrics: tuple[str, ...]
    on_progress: Callable[[int, Progress], None] | None
    on_better: Callable[[int, Result], None] | None
    start: float = field(default_factory=time.monotonic)
    shown: dict[int, float] = field(default_factory=dict)

    def result(self, index: int, nest: Nest, status: str) -> Result:
        """What is known of a mapping while the search runs."""
        spec = self.specs[index]
        mapping = with_reuse(unpack(nest, 0, spec.problem), spec.constraints)
        return Result(spec, mapping, evaluate_mapping(spec, mapping), status, (), {"metrics": self.metrics}, 0,
                      time.monotonic() - self.start)

    def hand(self, index: int, nest: Nest) -> None:
        """A mapping that may not be the last."""
        if self.on_better:
            self.on_better(index, self.result(index, nest, SEARCHING))
            self.shown[index] = time.monotonic()

    def firsts(self, prepared: Sequence[tuple[PreparedLayer, MapSpace]]) -> None:
        """A legal mapping of each problem before the search begins, where one is at hand."""
        for index, (layer, space) in enumerate(prepared if self.on_better else ()):
            nest = first_nest(layer, space)
            if nest is not None:
                self.hand(index, nest)

    def watch(self, index: int, nest: Nest, step: Progress) -> None:
        """Called by the search whenever a mapping is better."""
        if self.on_progress:
            self.on_progress(index, step)
        if step.legal and time.monotonic() - self.shown.get(index, -math.inf) > WRITE_EVERY:
            self.hand(index, nest)

    def finals(self, tasks: Sequence[MappingTask], found: Sequence[SearchOutcome],
               options: dict[str, Any]) -> list[Result]:
        """The results; FadiffError for the problems without a legal mapping, once the others are handed on."""
        results, failures = [], []
        for index, (task, best) in enumerate(zip(tasks, found, strict=True)):
            if not best.legal:
                failures.append(_failure(task, best))
                continue
            results.append(replace(
                self.result(index, best.nest, best.status), options=options, evaluations=best.evaluations,
                history=tuple(map(_improvement, best.history)), bound=lower_bound(task.layer, task.space)))
            if self.on_better:
                self.on_better(index, results[-1])
        if failures:
            raise FadiffError("\n".join(failures))
        return results


def _refuse_large(spaces: Sequence[MapSpace], limit: int | None) -> None:
    from fadiff_mapper.search.exhaustive import LIMIT, refuse_large
    for space in spaces:
        refuse_large(space, limit or LIMIT)


def _prepared(spec: Spec) -> tuple[PreparedLayer, MapSpace]:
    """What a search needs of a spec. Raises FadiffError where nothing can be found."""
    if not single_letter(spec.problem.dimensions):
        raise FadiffError(f"the dimensions {listed(spec.problem.dimensions)} cannot be ordered in Timeloop's mapping "
                          "files; accepted: names of one letter")
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    contradictions = conflicts(space)
    if contradictions:
        raise FadiffError("\n".join(f"no mapping can meet the constraints: {reason}" for reason in contradictions))
    return layer_of(spec), space


def _nest_of(spec: Spec, space: MapSpace, mapping: Mapping | None) -> Nest | None:
    """A mapping to start from as a nest. Raises FadiffError where it is none of this spec."""
    if mapping is None:
        return None
    reasons = check_mapping(space, mapping)
    if reasons:
        raise FadiffError("\n".join(f"the mapping to start from breaks a constraint: {reason}" for reason in reasons))
    evaluate_mapping(spec, mapping)
    return pack([mapping], spec.problem)


def _improvement(step: Progress) -> dict[str, Any]:
    return {"time_s": step.time_s, "evaluations": step.evaluations, "value": step.metric_value, "stage": step.stage}


def _failure(task: MappingTask, found: SearchOutcome) -> str:
    from fadiff_mapper.search.diagnosis import diagnosis
    return (f"{task.space.problem.name}: no legal mapping was found in {found.evaluations} evaluations: "
            f"{diagnosis(task.layer, task.space)}")
