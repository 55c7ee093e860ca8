"""The running state of a search: it evaluates mappings, counts evaluations, and keeps the best mapping.

The stages in Python (descent, enumeration) ask `SearchState.value` for the exact values of a batch; the compiled chains
compute the same values. So all stages minimise the same value, no improvement is lost, and evaluations are counted
once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from fadiff_mapper.base.deadline import Over, at_latest, never
from fadiff_mapper.inputs.spec.spec import metric_of
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace
from fadiff_mapper.search.layer_family import family_of
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import ILLEGAL, Progress, SearchOptions

PRIORITY = 1e-6
"""Weight of each metric relative to the one before: small enough for a tie-break, large enough to survive in
float64."""

SHARE_WEIGHT = 2.0
"""Weight of the logarithm of a share in a network: values then change like the logarithm of EDP, for which the
temperatures of the refinement are tuned."""

TINY = _kernel.TINY
"""Smallest metric in a logarithm, which stays finite for a metric of 0 (a design whose energies are all 0)."""

Watcher = Callable[[int, Nest, Progress], None]
"""Called with the number of a task, its improved best nest (one row) and its progress."""


def exact_value(scores: Scores, metrics: tuple[str, ...], sums: np.ndarray | None = None) -> np.ndarray:
    """One number per mapping to minimise, [B]: for legal mappings the logarithms of the metrics, weighted by priority;
    for illegal ones `ILLEGAL` plus their excess.

    With `sums` [2, B], energy and cycles of a network, the mapping's share in them replaces the metrics.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if sums is not None:
            value = SHARE_WEIGHT * np.log(scores.energy / sums[0] + scores.cycles / sums[1] + TINY)
        else:
            value = weighted(scores.cycles, scores.energy, scores.last_level_accesses, metrics)
    values: np.ndarray = np.where(scores.legal, np.nan_to_num(value, nan=ILLEGAL), ILLEGAL + scores.excess)
    return values


def weighted(cycles: Array, energy: Array, outermost: Array, metrics: tuple[str, ...]) -> Array:
    """Sum of log(metric) with weights 1, PRIORITY, PRIORITY^2, ... in order, [B]."""
    xp = array_namespace(cycles)
    return sum(PRIORITY ** i * xp.log(metric_of(name, energy, cycles, outermost) + TINY)
               for i, name in enumerate(metrics))


@dataclass(frozen=True)
class SearchOutcome:
    """The end of the search of one problem."""

    nest: Nest                     # The best mapping, a nest of one row
    value: float                   # Its value (see `exact_value`): the logarithm of the metric if legal, else above
                                   # `ILLEGAL`
    status: str                    # How the search ended, in words
    history: tuple[Progress, ...]  # Every improvement, in order
    evaluations: int               # Mappings evaluated
    legal_evaluations: int         # Legal mappings among them
    least: float | None = None     # Lower bound on the first metric, or on the share in the network; 0: not
                                   # proved; None: not tried

    @property
    def legal(self) -> bool:
        """Whether the mapping runs on the design."""
        return self.value < ILLEGAL


class SearchState:
    """The best nest of every task of a family of W members, and its history."""

    def __init__(self, tasks: Sequence[MappingTask], options: SearchOptions, watcher: Watcher | None = None,
                 stopped: Over = never, deadline: float = inf) -> None:
        """Arguments as for `search_many.search`.

        Rooms and sums are given for all tasks or for none; a task on a sparse design is a family of one.
        """
        self.options, self.watcher, self.stopped = options, watcher, stopped
        self.out_of_time = at_latest(deadline, stopped)
        first, *others = tasks
        self.family = family_of(first.layer, [task.space for task in tasks]) if others else first.family
        self.start = time.monotonic()
        self.evaluations, self.legal_evaluations = np.zeros((2, len(tasks)), dtype=np.int64)  # of each member, [W]
        self.best = np.full(len(tasks), np.inf)                   # lowest value so far, see `exact_value`, [W]
        self.nests: dict[int, Nest] = {}                          # the nest (one row) of each member's best value
        self.history: list[list[Progress]] = [[] for _ in tasks]  # every improvement of each member, in order
        self._sparse = first.sparse
        rooms = [task.room for task in tasks if task.room is not None]
        self._room = Room(np.stack([room.words for room in rooms], axis=-1),
                          np.stack([room.counted for room in rooms], axis=-1)) if rooms else None
        sums = [task.sums for task in tasks]
        self._sums = None if None in sums else np.array(sums).T

    def value(self, nest: Nest, member: np.ndarray, stage: str) -> np.ndarray:
        """Evaluates a batch exactly and keeps improvements; returns the values to minimise, [B], see `exact_value`.

        The first batch of a search must hold a mapping of every member; `member` [B] is the member of each column,
        `stage` the stage's name for the history.
        """
        scores = self._sparse.score(nest) if self._sparse else score(
            self.family.layer, nest, threads=self.options.workers, room=self._room and self._room.take(member))
        values = exact_value(scores, self.options.priorities, None if self._sums is None else self._sums[:, member])
        space = self.family.spaces[0]
        least = space.constraints.min_parallelism
        if least > 0:  # the excess in octaves leads the search back
            share = nest.spatial.prod(axis=(0, 1)) / space.available
            values = np.maximum(values, np.where(share < least, ILLEGAL + np.log2(np.maximum(least, share) / share),
                                                 -np.inf))
        self.evaluations += np.bincount(member, minlength=len(self.best))
        self.legal_evaluations += np.bincount(member[values < ILLEGAL], minlength=len(self.best))
        better = np.flatnonzero(values < self.best[member])
        ranked = better[np.lexsort((values[better], member[better]))]
        for row in ranked[np.unique(member[ranked], return_index=True)[1]]:  # the best row of each member
            who = int(member[row])
            self.nests[who], self.best[who] = nest.take([row]), values[row]
            step = Progress(time.monotonic() - self.start, int(self.evaluations[who]), int(self.legal_evaluations[who]),
                            float(values[row]), stage)
            self.history[who].append(step)
            if self.watcher:
                self.watcher(who, self.nests[who], step)
        return values

    def outcome(self, member: int, status: str) -> SearchOutcome:
        """The end of a member's search."""
        return SearchOutcome(self.nests[member], float(self.best[member]), status, tuple(self.history[member]),
                             int(self.evaluations[member]), int(self.legal_evaluations[member]))
