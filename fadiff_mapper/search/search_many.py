"""The search of many problems: equal ones once, similar ones side by side, several such units at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.relaxation.layer_batch import family_of, kin
from fadiff_mapper.search.best_so_far import MetricTerms, Watcher
from fadiff_mapper.search.exhaustive import exhaust
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome, search

LARGEST = 16
"""Members of a family that are searched at once: more gain nothing, and wait for each other."""


def search_all(tasks: Sequence[MappingTask], options: SearchOptions, *, watcher: Watcher = lambda *_: None,
               stopped: Callable[[], bool] = lambda: False) -> list[SearchOutcome]:
    """The best mapping found for every task, in order.

    `watcher` is called with the number of a task; at most one call at a time. The answer does not depend on
    `options.workers`, which is shared among the units at work.
    """
    copies: dict[Hashable, list[int]] = {}
    for index, task in enumerate(tasks):
        copies.setdefault(_identity(task), []).append(index)
    families: dict[Hashable, list[list[int]]] = {}
    for same in copies.values():
        families.setdefault(_family_key(tasks[same[0]]), []).append(same)
    largest = 1 if options.exhaustive else LARGEST
    units = [members[start:start + largest] for members in families.values()
             for start in range(0, len(members), largest)]
    clock = _Clock(options.time_limit, sum(map(len, units)), min(options.workers, len(units)))
    watching = threading.Lock()

    def run(unit: list[list[int]]) -> list[tuple[int, SearchOutcome]]:
        def tell(member: int, nest: Nest, progress: Progress) -> None:
            with watching:
                for index in unit[member]:
                    watcher(index, nest, progress)

        first = [tasks[same[0]] for same in unit]
        given = [task.given for task in first if task.given is not None]
        mine = replace(options, time_limit=clock.share(len(unit)), threads=max(1, options.workers // clock.workers))
        family = family_of(first[0].layer, [task.space for task in first])
        found = (exhaust(family, mine, watcher=tell, stopped=stopped, given=given) if options.exhaustive
                 else search(family, mine, watcher=tell, stopped=stopped, given=given, terms=_terms(first)))
        return [(index, one) for same, one in zip(unit, found, strict=True) for index in same]

    if clock.workers == 1:
        done = [run(unit) for unit in units]
    else:
        with ThreadPoolExecutor(clock.workers) as pool:
            done = list(pool.map(run, sorted(units, key=len, reverse=True)))
    by_index = dict(pair for part in done for pair in part)
    return [by_index[index] for index in range(len(tasks))]


def _family_key(task: MappingTask) -> Hashable:
    return (kin(task.space), repr(task.layer.arch), repr(task.layer.energies), task.given is None, task.room is None,
            task.weights is None)


def _identity(task: MappingTask) -> Hashable:
    given = None if task.given is None else tuple(
        np.asarray(getattr(task.given, name)).tobytes() for name in Nest.__dataclass_fields__)
    return (_family_key(task), repr(task.space.levels), tuple(task.space.problem.bounds.items()), given,
            task.room and (task.room.words.tobytes(), task.room.counted.tobytes()),
            task.weights)


def _terms(tasks: Sequence[MappingTask]) -> MetricTerms:
    """Those of the members of one family; either all of them have room and weights of their own, or none."""
    rooms = [task.room for task in tasks if task.room is not None]
    weights = [task.weights for task in tasks if task.weights is not None]
    return MetricTerms(Room(np.stack([room.words for room in rooms], axis=-1),
                            np.stack([room.counted for room in rooms], axis=-1)) if rooms else None,
                       np.array(weights).T if weights else None)


class _Clock:
    """Hands out the time of the whole run: every unit may take as much as its share of what is left to do."""

    def __init__(self, limit: float | None, problems: int, workers: int) -> None:
        self.deadline = None if limit is None else time.monotonic() + limit
        self.left, self.workers, self.lock = problems, workers, threading.Lock()

    def share(self, problems: int) -> float | None:
        """Seconds for a unit that starts now."""
        if self.deadline is None:
            return None
        with self.lock:
            part = min(1.0, problems * self.workers / self.left)
            self.left -= problems
        return max(self.deadline - time.monotonic(), 0.0) * part
