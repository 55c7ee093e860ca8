"""The search of layers, as users call it: specs in, results out.

Everything that can be wrong with the input is found before the search starts: options, constraints that contradict
each other, warm starts. A legal mapping of each problem is handed on before the search begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import inf
from typing import TYPE_CHECKING

from fadiff_mapper.base.deadline import Over, in_time, never, with_grace
from fadiff_mapper.base.errors import FadiffError, OutOfTime, listed
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import single_letter
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, is_sparse, layers_of
from fadiff_mapper.model.loop_nest import Nest, cut_off, pack, without_lasts
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.first_mapping import first_of
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.mapspace import MapSpace, check_mapping, conflicts, rounded_up
from fadiff_mapper.search.options import Progress, SearchOptions, check_metrics, check_options
from fadiff_mapper.search.result import Result
from fadiff_mapper.search.result_stream import ResultStream, bounds_of, least_of, with_bound
from fadiff_mapper.search.search_family import SearchOutcome
from fadiff_mapper.search.search_many import search_all

if TYPE_CHECKING:
    from fadiff_mapper.search.lower_bound import LowerBound

LEAST = 0.1
"""Seconds of a search at least that is given a deadline, which may be over by then. Set by hand, not measured."""


def map_layers(specs: Sequence[Spec], options: SearchOptions | None = None, *,
               metric: str | Sequence[str] | None = None, seed: int | None = None, time_limit: float | None = None,
               warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None,
               on_end: Callable[[int, Result], None] | None = None,
               stopped: Callable[[], bool] = lambda: False, deadline: float | None = None, bounds: bool = True,
               before: str | None = None) -> list[Result]:
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
            in `result_stream.WRITE_EVERY` seconds, then the result.
        on_end: Called with the number of a problem and its result alone.
        stopped: Asked again and again; once true, the search ends with the best so far.
        deadline: When the time limit is over, seconds of `time.monotonic`, of a caller whose time began earlier; None:
            the limit from now on.
        bounds: False leaves out the lower bounds, some 10 ms a problem; `with_bounds` adds them.
        before: Name of the effort of a search of every problem, one after the other, from which that of `options` goes
            on, so that few are left with random mappings when time is over; None: no such search.

    Returns:
        One result per problem, in order.

    Raises:
        FadiffError: An option is out of range, constraints contradict each other, a space is too large for an
            exhaustive search, a warm start is not a legal mapping of its problem, or no legal mapping is found; the
            results of the other problems have then been passed to `on_better` and `on_end`.
        OutOfTime: Not all problems were prepared for their search in time.
    """
    if not specs:
        return []
    options = _resolved(options or SearchOptions(), specs[0], metric, seed, time_limit)
    least = 0.0 if deadline is None else LEAST
    if deadline is None:
        deadline = inf if options.time_limit is None else time.monotonic() + options.time_limit
    late = with_grace(max(deadline, time.monotonic()), stopped)
    stream = ResultStream(specs, options.priorities, on_progress, on_better, on_end, options.calibration, options.seed,
                          options.imperfect, deadline, late)
    tasks = _prepared([_rounded_up(spec) for spec in specs] if options.imperfect else specs, options, late)
    _refuse_combinations(specs, tasks, options)
    tasks = [task if mapping is None else replace(task, given=_start_nest(spec, task.space, mapping))
             for spec, task, mapping in zip_longest(specs, tasks, warm_starts)]
    stream.send_first(tasks)
    last = max(deadline - stream.last_s, time.monotonic() + least)
    begun: Sequence[SearchOutcome] = ()
    if before is not None:
        begun = search_all(tasks, replace(options, effort=before), stopped=stopped, deadline=last, in_turn=True)
        tasks = [replace(task, given=outcome.nest) if outcome.legal else task
                 for task, outcome in zip(tasks, begun, strict=True)]
    bounds = bounds and all(spec.problem.bounds == task.space.problem.bounds
                            for spec, task in zip(specs, tasks, strict=True))
    with bounds_of(tasks if bounds else (), options.workers, options.imperfect, late) as bound_of:
        outcomes = search_all(tasks, options, watcher=stream.watch, stopped=stopped, deadline=last,
                              in_turn=before is not None, begun=begun)
        if options.imperfect:
            outcomes = _with_residuals(specs, tasks, outcomes, options, stopped, last)
        return stream.send_last(tasks, outcomes, options.as_dict(), bound_of)


def _prepared(specs: Sequence[Spec], options: SearchOptions, late: Over) -> list[MappingTask]:
    """The search problems of all specs; spaces that are too large for an exhaustive search are refused.

    Raises:
        FadiffError: See `checked_task` and `exhaustive.refuse_large`.
        OutOfTime: There was no time for all of them.
    """
    tasks: list[MappingTask] = []
    try:
        for spec, layer in in_time(zip(specs, layers_of(specs), strict=True), late):
            tasks.append(checked_task(spec, layer, late))
            if options.method == "exhaustive":
                from fadiff_mapper.search.exhaustive import refuse_large
                refuse_large(tasks[-1].space, options.exhaustive_limit, late)
    except OutOfTime:
        raise OutOfTime(f"out of time: {len(tasks)} of {len(specs)} problems were prepared for their search; accepted: "
                        "a longer time limit") from None
    return tasks


def _with_residuals(specs: Sequence[Spec], tasks: Sequence[MappingTask], outcomes: Sequence[SearchOutcome],
                    options: SearchOptions, stopped: Callable[[], bool], deadline: float) -> list[SearchOutcome]:
    """The outcomes of all legal mappings, gone on from through residual factors; equal problems once.

    Those of problems that were rounded up are cut off at their bounds.
    """
    from fadiff_mapper.search.residual_search import search_residuals  # most searches go without it
    found: dict[int, SearchOutcome] = {}
    for index, outcome in enumerate(outcomes):
        bounds = specs[index].problem.bounds
        if bounds != tasks[index].space.problem.bounds:
            found[id(outcome)] = replace(outcome, nest=without_lasts(cut_off(outcome.nest, list(bounds.values()))))
            continue
        if outcome.legal and id(outcome) not in found:
            now = time.monotonic()
            found[id(outcome)] = search_residuals(specs[index], tasks[index], outcome, options, stopped=stopped,
                                                  deadline=now + (deadline - now) / (len(outcomes) - index))
    return [found.get(id(outcome), outcome) for outcome in outcomes]


def with_bounds(results: Sequence[Result], stopped: Callable[[], bool] = lambda: False) -> list[Result]:
    """Adds the lower bound over all mappings of the same problem to each result.

    Args:
        results: Mapped problems, without bounds.
        stopped: Asked before every bound; once true, the results left stay without.
    """
    specs = [result.spec for result in results]
    bounded = list(results)
    with suppress(OutOfTime):
        for index, layer in enumerate(in_time(layers_of(specs), stopped)):
            bounded[index] = with_bound(results[index], partial(_least, specs[index], layer, stopped))
    return bounded


def _least(spec: Spec, layer: PreparedLayer, over: Over) -> LowerBound | None:
    """The bound of a problem by itself."""
    return least_of(mapping_task(spec, layer=layer), over=over)


def _resolved(options: SearchOptions, first: Spec, metric: str | Sequence[str] | None, seed: int | None,
              time_limit: float | None) -> SearchOptions:
    """The options with the keyword arguments and the mapper section of the first input in place. Raises FadiffError."""
    metrics = check_metrics((metric,) if isinstance(metric, str) else metric or options.metrics or first.mapper.metrics)
    resolved = replace(options, metrics=metrics, seed=options.seed if seed is None else seed,
                       time_limit=options.time_limit if time_limit is None else time_limit,
                       threads=first.mapper.num_threads if options.threads is None else options.threads)
    check_options(resolved)
    return resolved


def _refuse_combinations(specs: Sequence[Spec], tasks: Sequence[MappingTask], options: SearchOptions) -> None:
    """Raises FadiffError for residual factors or a calibration where the search cannot have them."""
    if options.imperfect and any(is_sparse(spec) for spec in specs):
        raise FadiffError("imperfect: found with densities or sparse optimizations; accepted: dense designs")
    if options.calibration is not None:
        from fadiff_mapper.search.calibrated_choice import check_calibrated  # most searches go without it
        if options.imperfect:
            raise FadiffError("imperfect: found with a calibration; accepted: one of them")
        check_calibrated(tasks, options.calibration)


def checked_task(spec: Spec, layer: PreparedLayer | None = None, over: Over = never) -> MappingTask:
    """The search problem of a spec.

    Args:
        spec: Architecture, problem, energies and constraints.
        layer: The spec's problem on its dense design where it is prepared already.
        over: Tells whether time is over.

    Raises:
        FadiffError: No mapping can meet the constraints, or none can be written.
        OutOfTime: Time was over.
    """
    if not single_letter(spec.problem.dimensions):
        raise FadiffError(f"the dimensions {listed(spec.problem.dimensions)} cannot be ordered in Timeloop's mapping "
                          "files; accepted: names of one letter")
    task = mapping_task(spec, layer=layer)
    # A legal mapping proves that there is no contradiction, sooner than looking for one.
    contradictions = conflicts(task.space, over) if first_of(task.family, 0) is None else []
    if contradictions:
        raise FadiffError("\n".join(f"no mapping can meet the constraints: {reason}" for reason in contradictions))
    if task.impossible:
        raise FadiffError("no mapping can meet the constraints: the factors that constraints and fan-outs allow do not "
                          f"multiply to the bounds of {listed(task.impossible)}")
    return task


def _rounded_up(spec: Spec) -> Spec:
    """The spec with the bounds that the fixed factors of its constraints divide."""
    return replace(spec, problem=replace(spec.problem, bounds=rounded_up(spec.problem, spec.constraints)))


def _start_nest(spec: Spec, space: MapSpace, mapping: Mapping) -> Nest:
    """A warm start as a nest of one row. Raises FadiffError where it breaks a constraint or is illegal."""
    if space.problem.bounds != spec.problem.bounds:
        raise FadiffError("warm start: found with constraints whose factors do not divide a dimension; accepted: one "
                          "of them")
    nest = pack([mapping], spec.problem)
    reasons = check_mapping(space, mapping)
    if reasons:
        raise FadiffError("\n".join(f"the mapping to start from breaks a constraint: {reason}" for reason in reasons))
    evaluate_mapping(spec, mapping)
    return nest
