"""The running state of a search: everything that was evaluated passes through here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from fadiff_mapper.mapspace import available
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.relaxation.layer_batch import LayerFamily
from fadiff_mapper.relaxation.objective import ILLEGAL, exact_value
from fadiff_mapper.search.options import Progress, SearchOptions

Watcher = Callable[[int, Nest, Progress], None]
"""Called with a member of the family, its best nest so far (one row) and its value, whenever that is better."""


@dataclass(frozen=True)
class MetricTerms:
    """What the W members of a family are held to, each its own way, in the exact evaluation.

    room: what may be filled where something else lies already, one column for each member.
    weights [2, W]: exponents of energy and of delay in what is minimised, in place of the options' metrics.
    """

    room: Room | None = None
    weights: np.ndarray | None = None


NO_TERMS = MetricTerms()


@dataclass
class SearchState:
    """The best nest of every member of a family, and how it was reached. `terms` are those of the members."""

    family: LayerFamily
    options: SearchOptions
    watcher: Watcher
    stopped: Callable[[], bool]
    terms: MetricTerms = NO_TERMS
    start: float = field(default_factory=time.monotonic)
    evaluations: np.ndarray = field(init=False)
    best: np.ndarray = field(init=False)
    nests: list[Nest] = field(init=False)
    history: list[list[Progress]] = field(init=False)

    def __post_init__(self) -> None:
        members = len(self.family.spaces)
        self.evaluations = np.zeros(members, dtype=np.int64)
        self.best = np.full(members, np.inf)
        self.nests = []
        self.history = [[] for _ in range(members)]

    def value(self, nest: Nest, member: np.ndarray, stage: str) -> np.ndarray:
        """Exact values of a batch, [B], to be minimised; `member` [B] says whose mappings they are."""
        room = self.terms.room and self.terms.room.take(member)
        weights = None if self.terms.weights is None else self.terms.weights[:, member]
        scores = score(self.family.layer, nest, threads=self.options.workers, room=room)
        found = exact_value(scores, self.options.priorities, weights)
        if self.family.spaces[0].constraints.min_parallelism > 0:
            found = np.maximum(found, self._short(nest))
        self.evaluations += np.bincount(member, minlength=len(self.best))
        better = np.flatnonzero(found < self.best[member])
        for row in better[best_rows(found[better], member[better])]:
            self._improve(int(member[row]), nest.take([row]), float(found[row]), stage)
        return found

    def _short(self, nest: Nest) -> np.ndarray:
        """What the constraint on parallelism adds to illegal mappings, [B]; -inf where it is met."""
        space = self.family.spaces[0]
        share = nest.spatial.prod(axis=(0, 1)) / available(space)
        least = space.constraints.min_parallelism
        short: np.ndarray = np.where(share < least, ILLEGAL + np.log2(np.maximum(least, share) / share), -np.inf)
        return short

    def _improve(self, member: int, nest: Nest, value: float, stage: str) -> None:
        if not self.history[member]:  # the first batch holds mappings of every member, in order
            self.nests.append(nest)
        self.nests[member], self.best[member] = nest, value
        self.history[member].append(
            Progress(time.monotonic() - self.start, int(self.evaluations[member]), value, stage))
        self.watcher(member, nest, self.history[member][-1])

    def out_of_time(self) -> bool:
        limit = self.options.time_limit
        return self.stopped() or (limit is not None and time.monotonic() - self.start > limit)


def best_rows(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The row of the lowest value in each group that occurs, by ascending group; the first one among equals."""
    ranked = np.lexsort((values, group))
    rows: np.ndarray = ranked[np.unique(group[ranked], return_index=True)[1]]
    return rows
