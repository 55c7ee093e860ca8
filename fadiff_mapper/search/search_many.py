"""The search of many problems: equal problems once, similar ones side by side, several such jobs in parallel.

Networks repeat layers, and layers that differ only in their bounds can be evaluated in one batch (`layer_family`). So
equal tasks become one member of a family, and up to `LARGEST` members of a family become one job. Jobs run on a pool of
threads; NumPy and compiled code release the interpreter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays
from fadiff_mapper.search.best_so_far import SearchOutcome, SearchState, Watcher
from fadiff_mapper.search.layer_family import LayerFamily, batch_key
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.refinement import Refinement, early_end

LARGEST = 16
"""Most members of a family in one job: larger batches gain nothing, and members wait for each other."""


def search_all(tasks: Sequence[MappingTask], options: SearchOptions, *, watcher: Watcher | None = None,
               stopped: Over = never, deadline: float = inf, in_turn: bool = False,
               begun: Sequence[SearchOutcome] = ()) -> list[SearchOutcome]:
    """Searches every task; returns one outcome per task, in order, the same for equal tasks.

    Jobs share `options.workers` threads, on which the answer does not depend.

    Args:
        watcher: Called with the number of a task whenever its best mapping improves; one call at a time.
        stopped: Asked between steps; once true, every search ends with its best mapping so far.
        deadline: End of all searches, seconds of `time.monotonic`.
        in_turn: Whether each search may take all the remaining time, not only its share.
        begun: For each task the outcome of a shorter search, from which its search starts, and which is returned if no
            time is left; or empty.
    """
    if not tasks:
        return []
    jobs = _jobs_of(tasks, LARGEST if options.schedule.descent else 1)
    left, workers = sum(map(len, jobs)), min(options.workers, len(jobs))
    alike = replace(options, threads=max(1, options.workers // workers))
    watching, counting = threading.Lock(), threading.Lock()

    def run(job: Sequence[Sequence[int]]) -> list[tuple[int, SearchOutcome]]:
        def tell(member: int, nest: Nest, progress: Progress) -> None:
            with watching:
                for index in job[member]:
                    watcher(index, nest, progress)  # type: ignore[misc]  # only called where there is one

        nonlocal left
        with counting:
            part = 1.0 if in_turn else min(1.0, len(job) * workers / left)
            left -= len(job)
        now = time.monotonic()
        until = now + max(deadline - now, 0.0) * part
        if begun and time.monotonic() >= until:
            return [(index, replace(begun[index], status=early_end(options, stopped(), out_of_time=True)))
                    for copies in job for index in copies]
        outcomes = search([tasks[copies[0]] for copies in job], alike, watcher=tell if watcher else None,
                          stopped=stopped, deadline=until)
        return [(index, outcome) for copies, outcome in zip(job, outcomes, strict=True) for index in copies]

    if workers == 1:
        done = [run(job) for job in jobs]
    else:
        from concurrent.futures import ThreadPoolExecutor  # a first mapping is reported without it
        with ThreadPoolExecutor(workers) as pool:  # largest jobs first, so that none runs last on one thread
            done = list(pool.map(run, sorted(jobs, key=len, reverse=True)))
    by_index = dict(pair for part in done for pair in part)
    return [by_index[index] for index in range(len(tasks))]


def _jobs_of(tasks: Sequence[MappingTask], largest: int) -> list[Sequence[Sequence[int]]]:
    """The tasks as jobs; a job is the numbers of equal tasks, for at most `largest` different tasks of one family.

    A family has one design, one shape of problem and the same kinds of terms; a layer on a sparse design is a family of
    one, as its densities depend on its bounds. Jobs keep the order in which their tasks first occur.
    """
    designs: dict[tuple[int, int], str] = {}
    families: dict[Hashable, dict[Hashable, list[int]]] = {}
    for index, task in enumerate(tasks):
        layer, machine = task.layer, task.layer.machine
        parts = (id(layer.arch), id(machine))
        if parts not in designs:
            designs[parts] = repr((layer.arch, layer.energies, machine.compute_energy, layer.interconnects))
        same = (task.space.levels, tuple(task.space.problem.bounds.items()),
                task.given and tuple(array.tobytes() for array in nest_arrays(task.given)),
                task.room and (task.room.words.tobytes(), task.room.counted.tobytes()), task.sums)
        sparse = task.sparse and (repr(task.sparse.sparse), repr(task.sparse.models), task.sparse.energies.tobytes(),
                                  task.sparse.conversions.tobytes(), task.sparse.compute_energies, same)
        family = (batch_key(task.space, task.layer.projection), designs[parts], task.given is None, task.room is None,
                  task.sums is None, sparse)
        families.setdefault(family, {}).setdefault(same, []).append(index)
    return [members[start:start + largest] for members in (list(copies.values()) for copies in families.values())
            for start in range(0, len(members), largest)]


def search(tasks: Sequence[MappingTask], options: SearchOptions, *, watcher: Watcher | None = None,
           stopped: Over = never, deadline: float = inf) -> list[SearchOutcome]:
    """Searches every task of one family: all mappings, or chains on the exact model, perhaps from a descent.

    One outcome per task, in order; its mapping may be illegal if no legal one was found. Arguments as for `search_all`;
    the same seed gives the same answer, unless time runs out.
    """
    if options.method == "exhaustive":
        from fadiff_mapper.search.exhaustive import exhaust  # most searches go without it
        return [exhaust(tasks[0], options, watcher=watcher, stopped=stopped, deadline=deadline)]
    effort = options.schedule
    starts: list[Nest | None] = [task.given for task in tasks]
    descended: list[SearchOutcome | None] = [None] * len(tasks)
    family: LayerFamily | None = None
    if effort.descent:
        state = SearchState(tasks, options, watcher, stopped, deadline)
        family, given = state.family, [nest for nest in starts if nest is not None]
        if given:
            state.value(joined(given), np.arange(len(given)), "given")
        ends = effort.descent(state, np.random.default_rng(options.seed))
        restarts = ends.batch // len(tasks)
        status = early_end(options, state.stopped(), state.out_of_time()) or "descent ended"
        descended = [state.outcome(member, status) for member in range(len(tasks))]
        if not effort.searches:
            return [outcome for outcome in descended if outcome]
        # the refinement starts from the best mapping so far and the descents' results in turn
        starts = [joined([state.nests[member], ends.take(member * restarts + np.arange(1, effort.chains) % restarts)])
                  for member in range(len(tasks))]
    outcomes = []
    for member, task in enumerate(tasks):
        now = time.monotonic()
        refinement = Refinement(
            task, options, starts[member], descended=descended[member], watcher=watcher and partial(watcher, member),
            stopped=stopped, deadline=now + (deadline - now) / (len(tasks) - member),
            within=None if family is None else (family, member))
        outcomes.append(refinement.run())
    return outcomes
