"""The search of layers, as users call it: specs in, results out.

All errors of the input are found before the search starts: options, contradicting constraints, warm starts. The caller
gets a legal mapping of each problem before the search begins and better ones while it runs, to write at once: a killed
run should leave the best mapping so far. Only the last result has a history and a lower bound.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from math import inf
from typing import TYPE_CHECKING

from fadiff_mapper.base.deadline import Over, at_latest, in_time, never, with_grace
from fadiff_mapper.base.errors import FadiffError, OutOfTime, attempted
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import (
    KnownLayers,
    evaluate_mapping,
    evaluate_nests,
    found_mapping,
    is_sparse,
    shared_layer,
)
from fadiff_mapper.model.loop_nest import Nest, cut_off, pack, without_lasts
from fadiff_mapper.search.best_so_far import SearchOutcome, Watcher
from fadiff_mapper.search.layer_family import first_of
from fadiff_mapper.search.mapping_task import MappingTask, checked_task, mapping_task
from fadiff_mapper.search.mapspace.build import MapSpace, rounded_up
from fadiff_mapper.search.mapspace.conflicts import check_mapping
from fadiff_mapper.search.options import AT_ONCE, Progress, SearchOptions, check_options
from fadiff_mapper.search.result import Result
from fadiff_mapper.search.search_many import search_all

if TYPE_CHECKING:
    from fadiff_mapper.search.lower_bound.assemble import LowerBound

LEAST = 0.1
"""Least seconds of a search with a deadline, even if the deadline is already over."""

WRITE_EVERY = 1.0
"""Least seconds between two mappings of one problem that are passed to the caller: most callers write files, and
improvements come in bursts."""

HANDING = 0.1
"""Share of a limited time for passing interim mappings to the caller."""

SEARCHING = "searching: the best mapping so far"


def map_layers(specs: Sequence[Spec], options: SearchOptions | None = None, *,
               warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None,
               on_end: Callable[[int, Result], None] | None = None,
               stopped: Over = never, deadline: float | None = None, bounds: bool = True,
               before: str | None = None) -> list[Result]:
    """Finds a mapping for each of many problems, all at once; equal problems are mapped once.

    Arguments and errors not named here are those of `api.map_layers`.

    Args:
        on_better: Called with the number of a problem and its first legal mapping, then with its best mapping so far at
            most once in `WRITE_EVERY` seconds, then with the result.
        on_end: Called only with the number of a problem and its result.
        deadline: End of the time limit, seconds of `time.monotonic`, for a caller whose time began earlier; None: the
            limit from now on.
        bounds: False leaves out the lower bounds; `with_lower_bounds` adds them.
        before: Name of the effort of a first search of every problem, one after the other. The search of `options`
            continues from these, so that few problems have random mappings when time is over. None: no such search.
    Raises:
        FadiffError: As for `api.map_layers`; the results of all other problems have then been passed to `on_better` and
            `on_end`.
        OutOfTime: Time was over before all problems were prepared for their search.
    """
    if not specs:
        return []
    if len(warm_starts) > len(specs):
        raise FadiffError(f"warm starts: found {len(warm_starts)} for {len(specs)} problems; accepted: one for each")
    options, asked = options or SearchOptions(), specs[0].mapper
    options = replace(options, metrics=options.metrics or tuple(dict.fromkeys(asked.metrics)),  # Timeloop takes repeats
                      threads=asked.num_threads if options.threads is None else options.threads)
    check_options(options)
    start, least = time.monotonic(), 0.0 if deadline is None else LEAST
    if deadline is None:
        deadline = inf if options.time_limit is None else start + options.time_limit
    late = with_grace(max(deadline, start), stopped)
    searched = specs if not options.imperfect else [
        replace(spec, problem=replace(spec.problem, bounds=rounded_up(spec.problem, spec.constraints)))
        for spec in specs]
    tasks, known = list[MappingTask](), KnownLayers()
    try:
        for spec in in_time(searched, late):
            tasks.append(checked_task(spec, shared_layer(spec, known), late))
            if options.method == "exhaustive":
                from fadiff_mapper.search.exhaustive import refuse_large  # most searches go without it
                refuse_large(tasks[-1].space, options.exhaustive_limit, late)
    except OutOfTime:
        raise OutOfTime(f"out of time: {len(tasks)} of {len(specs)} problems were prepared for their search; accepted: "
                        "a longer time limit") from None
    if options.imperfect and any(is_sparse(spec) for spec in specs):
        raise FadiffError("imperfect: found with densities or sparse optimizations; accepted: dense designs")
    if options.prove:
        from fadiff_mapper.search.lower_bound.proof import unprovable  # most searches go without it
        for task in tasks:
            if reason := "densities or sparse optimizations" if task.sparse else unprovable(task.layer):
                raise FadiffError(f"{task.space.problem.name}: a proof is asked for, found with {reason}; accepted: "
                                  "dense designs with full reuse, and outputs with one dimension in every rank")
    if options.calibration is not None:
        from fadiff_mapper.search.calibrated_choice import check_calibrated  # most searches go without it
        check_calibrated(tasks, options.calibration)
    tasks = [task if mapping is None else replace(task, given=_start_nest(spec, task.space, mapping))
             for spec, task, mapping in zip_longest(specs, tasks, warm_starts)]
    stream = ResultStream(specs, tasks, options, on_progress, on_better, on_end, deadline, late, start)
    for index, task in enumerate(tasks if on_better else ()):  # a first mapping before the search, if one is known
        nest = first_of(task.family, 0, task.sparse)
        if nest is not None:
            stream.send(index, nest)
    reports = sum(stream.handings) / max(len(stream.handings), 1) * len(specs)  # expected seconds of the last reports
    last = max(deadline - reports, time.monotonic() + least)
    begun: Sequence[SearchOutcome] = ()
    if before is not None:
        begun = search_all(tasks, replace(options, effort=before), stopped=stopped, deadline=last, in_turn=True)
        tasks = [replace(task, given=outcome.nest) if outcome.legal else task
                 for task, outcome in zip(tasks, begun, strict=True)]
    if options.prove:
        return stream.send_last(*_proved(tasks, options, stream.watch, stopped, last))
    exact = all(spec.problem.bounds == task.space.problem.bounds for spec, task in zip(specs, tasks, strict=True))
    with bounds_of(tasks if bounds and exact else (), options.workers, options.imperfect, late) as bound_of:
        outcomes = search_all(tasks, options, watcher=stream.watch, stopped=stopped, deadline=last,
                              in_turn=before is not None, begun=begun)
        if options.imperfect:
            outcomes = _with_residuals(specs, tasks, outcomes, options, stopped, last)
        return stream.send_last(outcomes, bound_of)


def _proved(tasks: Sequence[MappingTask], options: SearchOptions, watcher: Watcher, stopped: Over,
            deadline: float) -> tuple[list[SearchOutcome], Callable[[int], LowerBound | None]]:
    """Searches every task until its mapping is proved best in the first metric, up to the options' gap.

    All tasks must be provable (`proof.unprovable`); until the deadline, seconds of `time.monotonic`, they share the
    time evenly. Returns the outcomes in order, and a function that gives the lower bound of a task by number.
    """
    from fadiff_mapper.search.lower_bound.assemble import LowerBound, lower_bound
    from fadiff_mapper.search.lower_bound.proof import prove
    begun, metric = time.monotonic(), options.priorities[0]
    quick = replace(options, effort="quick") if options.effort == "full" else options
    outcomes = search_all(tasks, quick, watcher=watcher, stopped=stopped, deadline=deadline)
    done: dict[int, tuple[SearchOutcome, LowerBound | None]] = {}  # by outcome, which equal problems share
    for index, (task, first) in enumerate(zip(tasks, outcomes, strict=True)):
        if id(first) in done or not first.legal:
            continue
        now = time.monotonic()
        until = now + (deadline - now) / (len(tasks) - index)
        over = at_latest(until, stopped)

        def watch(_: int, nest: Nest, step: Progress, index: int = index) -> None:
            watcher(index, nest, step)

        outcome = first
        proof = prove(task.layer, task.space, metric, first.nest, gap=options.gap, over=over, budget=AT_ONCE)
        if proof.gap > options.gap and not over():
            if quick is not options:
                (outcome,) = search_all(
                    [replace(task, given=proof.nest)], replace(options, effort=replace(options.schedule, proof=0)),
                    watcher=watch, stopped=stopped, deadline=now + (until - now) / 2)
            proof = prove(task.layer, task.space, metric, outcome.nest, gap=options.gap, over=over)
        evaluations, history = outcome.evaluations + proof.mappings, outcome.history
        if proof.nest is not outcome.nest:
            history = (*history, Progress(time.monotonic() - begun, evaluations, outcome.legal_evaluations,
                                          math.log(proof.value), "proof"))
        status = "interrupted: " if stopped() else f"out of time after {options.time_limit:g} s: " if over() else ""
        status += proof.sentence + (f" (in {metric}, the first metric)" if len(options.priorities) > 1 else "")
        done[id(first)] = (
            replace(outcome, nest=proof.nest, status=status, history=history, evaluations=evaluations),
            (lower_bound(task.layer, task.space) or LowerBound(0, 0, 0, 0, ())).raised(metric, proof.least))
    found = [done.get(id(outcome), (outcome, None)) for outcome in outcomes]
    return [outcome for outcome, _ in found], lambda index: found[index][1]


def _start_nest(spec: Spec, space: MapSpace, mapping: Mapping) -> Nest:
    """A warm start as a nest of one row. Raises FadiffError if it breaks a constraint or is illegal."""
    if space.problem.bounds != spec.problem.bounds:
        raise FadiffError("warm start: found with constraints whose factors do not divide a dimension; accepted: one "
                          "of them")
    nest = pack([mapping], spec.problem)
    reasons = check_mapping(space, mapping)
    if reasons:
        raise FadiffError("\n".join(f"the mapping to start from breaks a constraint: {reason}" for reason in reasons))
    evaluate_mapping(spec, mapping)
    return nest


def _with_residuals(specs: Sequence[Spec], tasks: Sequence[MappingTask], outcomes: Sequence[SearchOutcome],
                    options: SearchOptions, stopped: Over, deadline: float) -> list[SearchOutcome]:
    """The outcomes after a search through residual factors from all legal mappings; equal problems once.

    Mappings of problems with rounded-up bounds are cut off at the original bounds.
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


def with_lower_bounds(results: Sequence[Result], metric: str, stopped: Over = never) -> list[Result]:
    """Adds the lower bound over all mappings of its problem to each result without one, until `stopped`; a short proof
    raises the bound on one metric."""
    bounded, known = list(results), KnownLayers()
    with suppress(OutOfTime):
        for index, result in enumerate(in_time(results, stopped)):
            if result.bound:
                continue
            task = mapping_task(result.spec, layer=shared_layer(result.spec, known))
            nest = pack([result.mapping], result.spec.problem)
            bounded[index] = _with_bound(result, nest, partial(least_of, task, over=stopped), task, metric,
                                          stopped)
    return bounded


def _with_bound(result: Result, nest: Nest, bound: Callable[[], LowerBound | None], task: MappingTask | None,
                metric: str, over: Over, proved: float | None = None) -> Result:
    """The result with its lower bound; if that fails, its status says so.

    On a dense design a proof raises the bound on a metric. `proved`: the least value by the proof during the search;
    None: a short proof starts here, from the mapping, a nest of one row. `task`: the problem as searched; None: no
    proof. `over` ends the proof.
    """
    found, lost = attempted("lower bound", bound)
    if found is not None and task is not None and proved is not None:
        found = found.raised(metric, proved)
    elif found is not None and task is not None and task.sparse is None:
        from fadiff_mapper.search.lower_bound.proof import prove, unprovable  # after the first mapping
        if not unprovable(task.layer):
            proof, lost = attempted("short proof", partial(prove, task.layer, task.space, metric, nest, over=over,
                                                           budget=AT_ONCE))
            found = found.raised(metric, proof.least) if proof else found
    return replace(result, bound=found, status=f"{result.status}; {lost}" if lost else result.status)


@dataclass(frozen=True)
class ResultStream:
    """Passes mappings to the caller of a search, problem by problem; arguments as for `map_layers`.

    With residual factors, problems with rounded-up bounds are searched, so their mappings are cut off at the bounds.
    """

    specs: Sequence[Spec]
    tasks: Sequence[MappingTask]
    options: SearchOptions
    on_progress: Callable[[int, Progress], None] | None
    on_better: Callable[[int, Result], None] | None
    on_end: Callable[[int, Result], None] | None
    deadline: float  # Infinite without a limit
    late: Over       # Ends work that the last results do not need
    start: float     # Seconds of `time.monotonic` when the search began
    handed_at: dict[int, float] = field(default_factory=dict)  # Time of each problem's last report
    handings: list[float] = field(default_factory=list)        # Seconds of each report

    def watch(self, index: int, nest: Nest, step: Progress) -> None:
        """The watcher of the search (see `best_so_far.Watcher`): reports some of the improvements."""
        if self.on_progress:
            self.on_progress(index, step)
        if step.legal and time.monotonic() - self.handed_at.get(index, -inf) > WRITE_EVERY:
            self.send(index, nest)

    def send_last(self, outcomes: Sequence[SearchOutcome],
                  bound_of: Callable[[int], LowerBound | None]) -> list[Result]:
        """Reports the final results, with history, options and lower bound (`bound_of` a problem, by its number).

        Raises FadiffError, after all reports, with the reasons of problems without a legal mapping.
        """
        results, failures, evaluated, calibration = [], [], dict[int, Result](), self.options.calibration
        if calibration is None:
            whole = {index: outcome.nest for index, outcome in enumerate(outcomes) if outcome.legal}
            evaluated = dict(zip(whole, self._evaluated(whole), strict=True))
        for index, (task, outcome) in enumerate(zip(self.tasks, outcomes, strict=True)):
            if not outcome.legal:
                reason: str | None
                if task.sparse:
                    reason = "the formats and memories of the sparse design suit none of the mappings tried"
                else:
                    from fadiff_mapper.search.diagnosis import diagnosis, shortcoming  # rarely needed
                    reason, lost = attempted("diagnosis", partial(diagnosis, task.layer, task.space, self.late))
                    if lost:
                        nearest, lost_too = attempted("nearest mapping", partial(shortcoming, task.layer, task.space,
                                                                                 outcome.nest))
                        reason = f"{lost}; {lost_too or f'the nearest mapping fails: {nearest}'}"
                failures.append(f"{task.space.problem.name}: no legal mapping was found in {outcome.evaluations} "
                                f"evaluations: {reason}")
                continue
            nest, corrected = outcome.nest, None
            if calibration is not None:
                from fadiff_mapper.search.calibrated_choice import calibrated_choice  # most searches go without it
                nest, corrected = calibrated_choice(task, nest, calibration, self.options, self.late)
            history = tuple({"time_s": step.time_s, "evaluations": step.evaluations, "value": step.metric_value,
                             "stage": step.stage} for step in outcome.history)
            found = evaluated.get(index) or self._evaluated({index: nest})[0]
            results.append(_with_bound(replace(
                found, status=outcome.status, options=self.options.as_dict(), evaluations=outcome.evaluations,
                corrected=corrected, history=history, time_s=time.monotonic() - self.start), nest,
                partial(bound_of, index), None if self.options.imperfect or self.options.prove else task,
                found.metric, self.late, outcome.least))
            for hand_on in (self.on_better, self.on_end):
                if hand_on:
                    hand_on(index, results[-1])
        if failures:
            raise FadiffError("\n".join(failures))
        return results

    def send(self, index: int, nest: Nest) -> None:
        """Reports an interim mapping if there is time."""
        begun = time.monotonic()
        if self.on_better and (self.deadline == inf or sum(self.handings) <= HANDING * (begun - self.start)):
            if self.options.imperfect:
                nest = without_lasts(cut_off(nest, list(self.specs[index].problem.bounds.values())))
            self.on_better(index, self._evaluated({index: nest})[0])
            self.handed_at[index] = time.monotonic()
            self.handings.append(self.handed_at[index] - begun)

    def _evaluated(self, nests: AnyMapping[int, Nest]) -> list[Result]:
        """Results of interim mappings, of problems by their numbers."""
        specs = [self.specs[index] for index in nests]
        layers = [self.tasks[index].layer.resized(spec.problem) for index, spec in zip(nests, specs, strict=True)]
        every = zip(specs, nests.values(), evaluate_nests(specs, layers, list(nests.values())), strict=True)
        return [Result(spec, found_mapping(spec, nest), stats, SEARCHING, (), {"metrics": self.options.priorities}, 0,
                       time.monotonic() - self.start) for spec, nest, stats in every]


@contextmanager
def bounds_of(tasks: Sequence[MappingTask], threads: int, imperfect: bool,
              over: Over = never) -> Iterator[Callable[[int], LowerBound | None]]:
    """Lower bounds of problems by number, computed during a search if a thread is free, else on demand; see `least_of`.

    A search rarely holds the interpreter, and bounds are a large part of the CPU time of small layers.
    """
    if not tasks:
        yield lambda index: None
        return
    if threads == 1:
        yield lambda index: least_of(tasks[index], imperfect, over)
        return
    from concurrent.futures import ThreadPoolExecutor  # a first mapping is reported without it
    pool, left = ThreadPoolExecutor(1), threading.Event()
    try:
        begun = [pool.submit(least_of, task, imperfect, lambda: left.is_set() or over()) for task in tasks]
        yield lambda index: begun[index].result()
    finally:
        left.set()
        pool.shutdown(wait=False, cancel_futures=True)


def least_of(task: MappingTask, imperfect: bool = False, over: Over = never) -> LowerBound | None:
    """The lower bound over all mappings of a problem, with `imperfect` also residual ones; None if unknown.

    Raises OutOfTime.
    """
    # after the first mapping
    from fadiff_mapper.search.lower_bound.assemble import lower_bound, residual_lower_bound
    if task.sparse is not None:
        from fadiff_mapper.search.lower_bound.least_shares import sparse_lower_bound
        return sparse_lower_bound(task.sparse, task.space, over)
    return (residual_lower_bound if imperfect else lower_bound)(task.layer, task.space, over=over)
