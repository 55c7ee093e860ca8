"""The results of a search as its caller receives them: a first mapping, better ones while it runs, and the last.

A run that is killed should leave the best mapping so far, so callers write what they are handed at once. Results in
between carry no history and no lower bound: the last one has both.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, attempted
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, evaluate_nests
from fadiff_mapper.model.loop_nest import Nest, cut_off, unpack, without_lasts
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.search.first_mapping import first_of
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import Progress
from fadiff_mapper.search.result import Result

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration
    from fadiff_mapper.search.lower_bound import LowerBound
    from fadiff_mapper.search.search_family import SearchOutcome

WRITE_EVERY = 1.0
"""Seconds between two mappings of one problem that are handed on while the search runs: most callers write files, and
improvements come in bursts. Nothing was measured."""

HANDING = 0.1
"""Part of the time, where it is limited, for handing on mappings that are not the last. Nothing was measured."""

SEARCHING = "searching: the best mapping so far"


@dataclass
class ResultStream:
    """Hands mappings to the caller of a search, problem by problem.

    Attributes:
        specs: The problems.
        metrics: Metrics that the search minimises, in order of priority.
        on_progress: Called with the number of a problem whenever its best mapping improves; None: not at all.
        on_better: Called with the number of a problem and a result to keep; None: not at all.
        on_end: Called with the number of a problem and its last result; None: not at all.
        calibration: The correction by which the last mapping is chosen; None: the exact model alone.
        seed: Seed of the random mappings of that choice.
        imperfect: Whether problems may have been rounded up, so that their mappings are cut off at the bounds.
        deadline: When time is over, seconds of `time.monotonic`.
        late: Tells whether there is no time for anything but the last results either.
        start: When the search began, seconds of `time.monotonic`.
        handed_at: When each problem's last mapping was handed on, by its number.
        handings: Seconds that handing on a mapping took, each time.
    """

    specs: Sequence[Spec]
    metrics: tuple[str, ...]
    on_progress: Callable[[int, Progress], None] | None
    on_better: Callable[[int, Result], None] | None
    on_end: Callable[[int, Result], None] | None = None
    calibration: Calibration | None = None
    seed: int = 0
    imperfect: bool = False
    deadline: float = math.inf
    late: Over = never
    start: float = field(default_factory=time.monotonic)
    handed_at: dict[int, float] = field(default_factory=dict)
    handings: list[float] = field(default_factory=list)

    @property
    def last_s(self) -> float:
        """Seconds that handing on the last mappings will take, by those that were handed on before."""
        return sum(self.handings) / max(len(self.handings), 1) * len(self.specs)

    def send_first(self, tasks: Sequence[MappingTask]) -> None:
        """Hands on a legal mapping of each problem before the search begins, where one is at hand."""
        if any(task.sparse for task in tasks):
            from fadiff_mapper.model.sparse_design import score_sparse
        for index, task in enumerate(tasks if self.on_better else ()):
            if not self._may_send():
                return
            nest = first_of(task.family, 0)
            if nest is not None and (task.sparse is None or score_sparse(task.sparse, nest).legal[0]):
                self._send(index, nest)

    def watch(self, index: int, nest: Nest, step: Progress) -> None:
        """The watcher of the search (see `best_so_far.Watcher`): told of every improvement, hands on some."""
        if self.on_progress:
            self.on_progress(index, step)
        if step.legal and time.monotonic() - self.handed_at.get(index, -math.inf) > WRITE_EVERY and self._may_send():
            self._send(index, nest)

    def _may_send(self) -> bool:
        """Whether there is time to hand on a mapping that is not the last."""
        return self.deadline == math.inf or sum(self.handings) <= HANDING * (time.monotonic() - self.start)

    def send_last(self, tasks: Sequence[MappingTask], outcomes: Sequence[SearchOutcome], options: dict[str, Any],
                  bound_of: Callable[[int], LowerBound | None]) -> list[Result]:
        """Hands on the final results, with history, options and lower bound.

        Args:
            tasks: The problems as they were searched.
            outcomes: The end of each search.
            options: The options of the search, for the record.
            bound_of: The lower bound of a problem, by its number.

        Returns:
            One result per problem, in order.

        Raises:
            FadiffError: Some problems have no legal mapping, each with its reason; raised once all others have been
                handed on.
        """
        results, failures = [], []
        stats = self._stats(tasks, outcomes)
        for index, (task, outcome) in enumerate(zip(tasks, outcomes, strict=True)):
            if not outcome.legal:
                failures.append(_failure(task, outcome, self.late))
                continue
            nest, corrected = outcome.nest, None
            if self.calibration is not None:
                from fadiff_mapper.search.calibrated_choice import calibrated_choice  # most searches go without it
                nest, corrected = calibrated_choice(task, nest, self.calibration, self.metrics[0], self.seed, self.late)
            results.append(with_bound(replace(
                self._result(index, nest, outcome.status, stats.get(index)), options=options,
                evaluations=outcome.evaluations, corrected=corrected,
                history=tuple(map(_improvement, outcome.history))), partial(bound_of, index)))
            for hand_on in (self.on_better, self.on_end):
                if hand_on:
                    hand_on(index, results[-1])
        if failures:
            raise FadiffError("\n".join(failures))
        return results

    def _stats(self, tasks: Sequence[MappingTask], outcomes: Sequence[SearchOutcome]) -> dict[int, Stats]:
        """The statistics of all final mappings, by the number of the problem."""
        if self.calibration is not None:  # mappings are chosen anew
            return {}
        whole = [index for index, outcome in enumerate(outcomes) if outcome.legal]
        return dict(zip(whole, evaluate_nests(
            [self.specs[index] for index in whole],
            [tasks[index].layer.resized(self.specs[index].problem) for index in whole],
            [outcomes[index].nest for index in whole]), strict=True))

    def _send(self, index: int, nest: Nest) -> None:
        """Hands on a mapping that may not be the last."""
        if self.on_better:
            begun = time.monotonic()
            if self.imperfect:
                nest = without_lasts(cut_off(nest, list(self.specs[index].problem.bounds.values())))
            self.on_better(index, self._result(index, nest, SEARCHING))
            self.handed_at[index] = time.monotonic()
            self.handings.append(self.handed_at[index] - begun)

    def _result(self, index: int, nest: Nest, status: str, stats: Stats | None = None) -> Result:
        """All that is known of a mapping, with its statistics where these are known already."""
        spec = self.specs[index]
        mapping = with_reuse(unpack(nest, 0, spec.problem), spec.constraints)
        return Result(spec, mapping, stats or evaluate_mapping(spec, mapping), status, (),
                           {"metrics": self.metrics}, 0, time.monotonic() - self.start)


@contextmanager
def bounds_of(tasks: Sequence[MappingTask], threads: int, imperfect: bool,
              over: Over = never) -> Iterator[Callable[[int], LowerBound | None]]:
    """Lower bounds of problems, worked out while a search runs where there is a thread to spare.

    A search leaves the interpreter to others most of its time, and of a batch of small layers the bounds take a third
    of all CPU time.

    Args:
        tasks: The problems; none: nobody asks for bounds.
        threads: Threads at work; with one, a bound is worked out when it is asked for.
        imperfect: The search takes residual factors, too.
        over: Tells whether time is over.

    Yields:
        The lower bound of a problem, by its number; None where none is known. Raises OutOfTime where there was no time.
    """
    if not tasks:
        yield lambda index: None
        return
    if threads == 1:
        yield lambda index: least_of(tasks[index], imperfect, over)
        return
    from concurrent.futures import ThreadPoolExecutor  # a first mapping is handed on without it
    pool, left = ThreadPoolExecutor(1), threading.Event()
    try:
        begun = [pool.submit(least_of, task, imperfect, lambda: left.is_set() or over()) for task in tasks]
        yield lambda index: begun[index].result()
    finally:
        left.set()
        pool.shutdown(wait=False, cancel_futures=True)


def least_of(task: MappingTask, imperfect: bool = False, over: Over = never) -> LowerBound | None:
    """The lower bound over all mappings of a problem; None where none is known.

    Args:
        task: The problem.
        imperfect: Over those with residual factors as well.
        over: Tells whether time is over.

    Raises:
        OutOfTime: Time was over before the bound was known.
    """
    # after the first mapping
    from fadiff_mapper.search.lower_bound import lower_bound, residual_lower_bound, sparse_lower_bound
    if task.sparse is not None:
        return sparse_lower_bound(task.sparse, task.space, over)
    return (residual_lower_bound if imperfect else lower_bound)(task.layer, task.space, over=over)


def with_bound(result: Result, bound: Callable[[], LowerBound | None]) -> Result:
    """The result with its lower bound; where that fails, its status says so."""
    found, lost = attempted("lower bound", bound)
    return replace(result, bound=found, status=f"{result.status}; {lost}" if lost else result.status)


def _improvement(step: Progress) -> dict[str, Any]:
    """One entry of `Result.history`."""
    return {"time_s": step.time_s, "evaluations": step.evaluations, "value": step.metric_value, "stage": step.stage}


def _failure(task: MappingTask, outcome: SearchOutcome, late: Over) -> str:
    """Why a problem has no result, in a sentence."""
    if task.sparse:
        return (f"{task.space.problem.name}: no legal mapping was found in {outcome.evaluations} evaluations: the "
                "formats and memories of the sparse design suit none of the mappings tried")
    from fadiff_mapper.search.diagnosis import diagnosis, shortcoming  # rarely needed
    reason, lost = attempted("diagnosis", lambda: diagnosis(task.layer, task.space, late))
    if lost:
        nearest, lost_too = attempted("nearest mapping", lambda: shortcoming(task.layer, task.space, outcome.nest))
        reason = f"{lost}; {lost_too or f'the nearest mapping fails: {nearest}'}"
    return f"{task.space.problem.name}: no legal mapping was found in {outcome.evaluations} evaluations: {reason}"
