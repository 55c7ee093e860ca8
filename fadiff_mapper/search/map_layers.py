"""Finding mappings: for one problem, or for many at once."""

from __future__ import annotations

import math
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
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.first_mapping import first_nest
from fadiff_mapper.search.options import Progress, SearchOptions, check_options
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import single_letter
from fadiff_mapper.spec.spec import Spec

if TYPE_CHECKING:
    from fadiff_mapper.search.mapping_task import MappingTask
    from fadiff_mapper.search.search_family import SearchOutcome

WRITE_EVERY = 1.0
"""Seconds between two mappings of one problem that are handed on while the search runs."""

SEARCHING = "searching: the best mapping so far"


def map_layers(specs: Sequence[Spec], options: SearchOptions | None = None, *,
               metric: str | Sequence[str] | None = None, seed: int | None = None, time_limit: float | None = None,
               warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, MappedLayer], None] | None = None,
               stopped: Callable[[], bool] = lambda: False) -> list[MappedLayer]:
    """Finds a mapping for each of many problems, all at once; equal problems are mapped once.

    Args:
        specs: The problems, each on its design.
        options: Effort and parts of the search; None is `SearchOptions()`.
        metric: One metric, or several in order of priority; takes the place of `options.metrics`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds for all problems together; takes the place of `options.time_limit`.
        warm_starts: For each problem a mapping to start from, or None; the result is at least as good.
        on_progress: Called with the number of a problem whenever its best mapping improves.
        on_better: Called with the number of a problem and its first legal mapping, then the best so far at most once
            in `WRITE_EVERY` seconds, then the result.
        stopped: Asked again and again; once true, the search ends with the best so far.

    Returns:
        One result per problem, in order.

    Raises:
        FadiffError: An option is out of range, constraints contradict each other, a space is too large for an
            exhaustive search, a warm start is not a legal mapping of its problem, or no legal mapping is found; the
            results of the other problems have then been passed to `on_better`.
    """
    if not specs:
        return []
    options = _resolved(options or SearchOptions(), specs[0], metric, seed, time_limit)
    handed = _Handed(specs, options.priorities, on_progress, on_better)
    prepared = [_prepared(spec) for spec in specs]
    if options.exhaustive:
        _refuse_large([space for _, space in prepared], options.exhaustive_limit)
    given = [_nest_of(spec, space, mapping) for spec, (_, space), mapping in zip_longest(specs, prepared, warm_starts)]
    handed.firsts(prepared)

    from fadiff_mapper.search.mapping_task import MappingTask
    from fadiff_mapper.search.search_many import search_all

    tasks = [MappingTask(layer, space, nest) for (layer, space), nest in zip(prepared, given, strict=True)]
    return handed.finals(tasks, search_all(tasks, options, watcher=handed.watch, stopped=stopped), options.as_dict())


def _resolved(options: SearchOptions, first: Spec, metric: str | Sequence[str] | None, seed: int | None,
              time_limit: float | None) -> SearchOptions:
    """The options with the keyword arguments and the mapper section of the first input in place. Raises FadiffError."""
    metrics = check_metrics((metric,) if isinstance(metric, str) else metric or options.metrics or first.mapper.metrics)
    resolved = replace(options, metrics=metrics, seed=options.seed if seed is None else seed,
                       time_limit=options.time_limit if time_limit is None else time_limit,
                       threads=first.mapper.num_threads if options.threads is None else options.threads)
    check_options(resolved)
    return resolved


@dataclass
class _Handed:
    """What the caller of a search is handed, problem by problem: first, better and final mappings."""

    specs: Sequence[Spec]
    metrics: tuple[str, ...]
    on_progress: Callable[[int, Progress], None] | None
    on_better: Callable[[int, MappedLayer], None] | None
    start: float = field(default_factory=time.monotonic)
    shown: dict[int, float] = field(default_factory=dict)

    def result(self, index: int, nest: Nest, status: str) -> MappedLayer:
        """What is known of a mapping while the search runs."""
        spec = self.specs[index]
        mapping = with_reuse(unpack(nest, 0, spec.problem), spec.constraints)
        return MappedLayer(spec, mapping, evaluate_mapping(spec, mapping), status, (), {"metrics": self.metrics}, 0,
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
               options: dict[str, Any]) -> list[MappedLayer]:
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


def _refuse_large(spaces: Sequence[MapSpace], limit: int) -> None:
    from fadiff_mapper.search.exhaustive import refuse_large
    for space in spaces:
        refuse_large(space, limit)


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
