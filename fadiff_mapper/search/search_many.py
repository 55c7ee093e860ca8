"""The search of many problems: equal ones once, similar ones side by side, several such jobs at a time.

Networks repeat layers, and layers that differ in their bounds alone can be evaluated in one batch (`layer_batch`). So
tasks that are equal in everything become one member of a family, members of one family one job of at most `LARGEST`,
and jobs run on a pool of threads; NumPy and compiled code release the interpreter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.search.best_so_far import MetricTerms, Watcher, unwatched
from fadiff_mapper.search.layer_family import LayerFamily, family_of, kin
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome, early_end, search

LARGEST = 16
"""Members of a family that descend side by side: more gain nothing, and wait for each other. The figures behind this
are not recorded; `benchmarks/layer_quality.py` prints the seconds of one batch for each design."""


@dataclass(frozen=True)
class SearchJob:
    """Members of one family that are searched together, on one thread of the pool.

    Attributes:
        members: For each member the numbers of the equal tasks that it stands for.
    """

    members: tuple[tuple[int, ...], ...]


def search_all(tasks: Sequence[MappingTask], options: SearchOptions, *, watcher: Watcher = unwatched,
               stopped: Callable[[], bool] = lambda: False, deadline: float = inf, in_turn: bool = False,
               begun: Sequence[SearchOutcome] = ()) -> list[SearchOutcome]:
    """Searches every task.

    Args:
        tasks: The problems, on any designs.
        options: Effort and parts of the search. `options.workers` threads are shared among the jobs at work; the
            answer does not depend on their number.
        watcher: Called with the number of a task whenever its best mapping improves; one call at a time.
        stopped: Asked between steps; once true, every search ends with its best so far.
        deadline: When all searches have to end, seconds of `time.monotonic`.
        in_turn: Whether every search may take all the time that is left, so that the first ones run to their end; else
            each has its share.
        begun: For each task the outcome of a shorter search that it starts from; tasks without time keep these. Empty:
            there was none.

    Returns:
        One outcome per task, in order; equal tasks share theirs.
    """
    if not tasks:
        return []
    jobs = _jobs_of(tasks, LARGEST if options.schedule.descent else 1)
    clock = _Clock(deadline, sum(len(job.members) for job in jobs), min(options.workers, len(jobs)), in_turn)
    watching = threading.Lock()
    alike = replace(options, threads=max(1, options.workers // clock.workers))

    def run(job: SearchJob) -> list[tuple[int, SearchOutcome]]:
        def tell_watcher(member: int, nest: Nest, progress: Progress) -> None:
            with watching:
                for index in job.members[member]:
                    watcher(index, nest, progress)

        tell = unwatched if watcher is unwatched else tell_watcher
        until = clock.share(len(job.members))
        if begun and time.monotonic() >= until:
            return [(index, replace(begun[index], status=early_end(options, stopped(), out_of_time=True)))
                    for copies in job.members for index in copies]
        distinct = [tasks[copies[0]] for copies in job.members]
        given = [task.given for task in distinct if task.given is not None]
        family = (distinct[0].family if len(distinct) == 1
                  else family_of(distinct[0].layer, [task.space for task in distinct]))
        outcomes = _searched(family, alike, tell, stopped, given, _terms(distinct), until)
        return [(index, outcome) for copies, outcome in zip(job.members, outcomes, strict=True) for index in copies]

    if clock.workers == 1:
        done = [run(job) for job in jobs]
    else:
        from concurrent.futures import ThreadPoolExecutor  # a first mapping is handed on without it
        with ThreadPoolExecutor(clock.workers) as pool:  # the largest jobs first, so that none is left alone at the end
            done = list(pool.map(run, sorted(jobs, key=lambda job: len(job.members), reverse=True)))
    by_index = dict(pair for part in done for pair in part)
    return [by_index[index] for index in range(len(tasks))]


def _searched(family: LayerFamily, options: SearchOptions, watcher: Watcher, stopped: Callable[[], bool],
              given: Sequence[Nest], terms: MetricTerms, deadline: float) -> list[SearchOutcome]:
    """The outcome of every member: of all mappings, or of a search; terms and the others as for `search`."""
    if options.method == "exhaustive":
        from fadiff_mapper.search.exhaustive import exhaust
        return exhaust(family, options, watcher=watcher, stopped=stopped, given=given, terms=terms, deadline=deadline)
    return search(family, options, watcher=watcher, stopped=stopped, given=given, terms=terms, deadline=deadline)


def _jobs_of(tasks: Sequence[MappingTask], largest: int) -> list[SearchJob]:
    """The tasks as jobs of at most `largest` distinct members each, in the order in which they first occur."""
    designs: dict[tuple[int, int], str] = {}
    keys = [_family_key(task, designs) for task in tasks]
    copies: dict[Hashable, list[int]] = {}
    for index, (task, family) in enumerate(zip(tasks, keys, strict=True)):
        copies.setdefault(_identity(task, family), []).append(index)
    families: dict[Hashable, list[tuple[int, ...]]] = {}
    for equal in copies.values():
        families.setdefault(keys[equal[0]], []).append(tuple(equal))
    return [SearchJob(tuple(members[start:start + largest])) for members in families.values()
            for start in range(0, len(members), largest)]


def _family_key(task: MappingTask, designs: dict[tuple[int, int], str]) -> Hashable:
    """Equal for tasks that can be members of one family: same design and shape of problem, same kinds of terms.

    A layer on a sparse design is a family by itself, as its densities depend on its bounds. `designs`: designs in
    words, by the identity of their parts; new ones are added.
    """
    parts = (id(task.layer.arch), id(task.layer.energies))
    if parts not in designs:
        designs[parts] = repr((task.layer.arch, task.layer.energies))
    sparse = task.sparse and (repr(task.sparse.sparse), repr(task.sparse.models), repr(task.sparse.energies),
                              tuple(task.space.problem.bounds.items()), _choices(task), _given(task))
    return (kin(task.space, task.layer.projection), designs[parts], task.given is None, task.room is None,
            task.weights is None, task.sums is None, sparse)


def _choices(task: MappingTask) -> Hashable:
    """The choices of a task's map space, level by level."""
    return tuple(level.key for level in task.space.levels)


def _given(task: MappingTask) -> Hashable:
    """The mapping that a task starts from."""
    return None if task.given is None else tuple(array.tobytes() for array in nest_arrays(task.given))


def _identity(task: MappingTask, family: Hashable) -> Hashable:
    """Equal for tasks of the same problem under the same terms, which one search answers; `family`: `_family_key`."""
    return (family, _choices(task), tuple(task.space.problem.bounds.items()), _given(task),
            task.room and (task.room.words.tobytes(), task.room.counted.tobytes()),
            task.weights, task.sums)


def _terms(tasks: Sequence[MappingTask]) -> MetricTerms:
    """The terms of the members of one family; either all of them have room, weights and sums of their own, or none.

    A layer on a sparse design is a family by itself.
    """
    rooms = [task.room for task in tasks if task.room is not None]
    weights = [task.weights for task in tasks if task.weights is not None]
    sums = [task.sums for task in tasks if task.sums is not None]
    return MetricTerms(Room(np.stack([room.words for room in rooms], axis=-1),
                            np.stack([room.counted for room in rooms], axis=-1)) if rooms else None,
                       np.array(weights).T if weights else None, np.array(sums).T if sums else None,
                       tasks[0].sparse)


class _Clock:
    """Hands out the time of the whole run: to every job all that is left, or its share of the problems that are left.

    Attributes:
        deadline: When the run has to end, seconds of `time.monotonic`.
        left: Distinct problems whose search has not begun.
        workers: Jobs that run at a time.
        in_turn: Whether every job may take all that is left.
        lock: Held while `left` changes.
    """

    def __init__(self, deadline: float, problems: int, workers: int, in_turn: bool) -> None:
        self.deadline, self.left, self.workers, self.in_turn = deadline, problems, workers, in_turn
        self.lock = threading.Lock()

    def share(self, problems: int) -> float:
        """When a job of so many problems that starts now has to end, seconds of `time.monotonic`."""
        with self.lock:
            part = 1.0 if self.in_turn else min(1.0, problems * self.workers / self.left)
            self.left -= problems
        now = time.monotonic()
        return now + max(self.deadline - now, 0.0) * part
