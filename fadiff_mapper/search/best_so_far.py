"""The running state of a search: every mapping that is evaluated passes through here, and the best one is kept.

Each stage (descent, annealing, steepest descent, enumeration) asks `SearchState.value` for the exact values of a batch.
So all stages agree on what is minimised, no improvement is lost, and the evaluations are counted once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace
from fadiff_mapper.search.layer_family import LayerFamily
from fadiff_mapper.search.mapspace import available
from fadiff_mapper.search.options import ILLEGAL, Progress, SearchOptions

if TYPE_CHECKING:
    from fadiff_mapper.model.sparse_design import SparseDesign

PRIORITY = 1e-6
"""Weight of each metric relative to the one before: a later metric decides between mappings whose earlier one differs
by less than about this fraction. Small enough to be a tie-break, large enough to survive in float64; not measured."""

SHARE_WEIGHT = 2.0
"""Weight of the logarithm of a share in a network: at equal shares in energy and cycles, values then change with both
together as the logarithm of EDP does, for which the temperatures of the refinement were chosen."""

TINY = _kernel.TINY
"""Keeps the logarithm of a metric finite where it is 0 (a design whose energies are all 0)."""


def exact_value(scores: Scores, metrics: tuple[str, ...], weights: np.ndarray | None = None,
                sums: np.ndarray | None = None) -> np.ndarray:
    """One number per mapping to minimise: logarithms of the metrics, weighted by priority.

    Args:
        scores: Exact scores of a batch.
        metrics: Metrics in order of priority.
        weights: [2, B]. Weights of the logarithms of energy and of cycles, in place of the metrics.
        sums: [2, B]. Energy and cycles of a network, in place of the metrics: the share of the mapping in both counts.

    Returns:
        [B]. Values; from `ILLEGAL` upwards by excess for illegal mappings.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if sums is not None:
            value = SHARE_WEIGHT * np.log(scores.energy / sums[0] + scores.cycles / sums[1] + TINY)
        elif weights is not None:
            value = weights[0] * np.log(scores.energy + TINY) + weights[1] * np.log(scores.cycles)
        else:
            value = weighted(scores.cycles, scores.energy, scores.last_level_accesses, metrics)
    values: np.ndarray = np.where(scores.legal, np.nan_to_num(value, nan=ILLEGAL), ILLEGAL + scores.excess)
    return values


def weighted(cycles: Array, energy: Array, outermost: Array, metrics: tuple[str, ...]) -> Array:
    """Sum of log(metric) with weights 1, PRIORITY, PRIORITY^2, ... in order, [B]."""
    xp = array_namespace(cycles)
    quantities = {"edp": cycles * energy, "energy": energy, "delay": cycles, "last_level_accesses": outermost}
    return sum(PRIORITY ** i * xp.log(quantities[name] + TINY) for i, name in enumerate(metrics))


Watcher = Callable[[int, Nest, Progress], None]
"""Called with a member of the family, its best nest so far (one row) and its value, whenever that is better."""


def unwatched(member: int, nest: Nest, progress: Progress) -> None:
    """The watcher of a search that nobody watches, which searches know by identity: they report nothing on the way."""


@dataclass(frozen=True)
class MetricTerms:
    """Terms that the exact evaluation holds each of the W members of a family to.

    Attributes:
        room: Words that may be filled where something else is resident already, one column for each member: arrays
            [L, W] and [L, T, W]. None: the whole capacities.
        weights: Exponents of energy (row 0) and of delay (row 1) in the product that is minimised, [2, W], in place
            of the options' metrics. None: the metrics.
        sums: Energy (row 0) and cycles (row 1) of the network in which a member's share is minimised, [2, W], in place
            of the metrics; infinite where they do not count. None: the metrics.
        sparse: The layer on its sparse design, for a family of one, evaluated in place of the dense one; with the
            whole capacities. None: the dense layer.
    """

    room: Room | None = None
    weights: np.ndarray | None = None
    sums: np.ndarray | None = None
    sparse: SparseDesign | None = None

    def score(self, family: LayerFamily, nest: Nest, member: np.ndarray, threads: int) -> Scores:
        """Scores of a batch under these terms.

        Args:
            family: The layers.
            nest: B mappings.
            member: Whose mapping each column is, [B].
            threads: Threads that share the batch.
        """
        if self.sparse is not None:
            from fadiff_mapper.model.sparse_design import score_sparse
            return score_sparse(self.sparse, nest)
        return score(family.layer, nest, threads=threads, room=self.room and self.room.take(member))


NO_TERMS = MetricTerms()


@dataclass
class SearchState:
    """The best nest of every member of a family, and the way to it.

    Attributes:
        family: The W layers that are searched side by side.
        options: Effort and parts of the search.
        watcher: Told about every improvement.
        stopped: Asked between steps; once true, the search ends.
        terms: Terms of the members in the exact evaluation.
        deadline: When time is over, seconds of `time.monotonic`.
        start: When the search began, seconds of `time.monotonic`.
        evaluations: Mappings evaluated so far, [W].
        legal_evaluations: The legal ones of these, [W].
        best: Lowest value so far (see `best_so_far.exact_value`), [W]; infinite before the first batch.
        nests: The nest (one row) of each member's best value.
        history: Every improvement of each member, in order.
    """

    family: LayerFamily
    options: SearchOptions
    watcher: Watcher
    stopped: Callable[[], bool]
    terms: MetricTerms = NO_TERMS
    deadline: float = inf
    start: float = field(default_factory=time.monotonic)
    evaluations: np.ndarray = field(init=False)
    legal_evaluations: np.ndarray = field(init=False)
    best: np.ndarray = field(init=False)
    nests: list[Nest] = field(init=False)
    history: list[list[Progress]] = field(init=False)

    def __post_init__(self) -> None:
        members = len(self.family.spaces)
        self.evaluations = np.zeros(members, dtype=np.int64)
        self.legal_evaluations = np.zeros(members, dtype=np.int64)
        self.best = np.full(members, np.inf)
        self.nests = []
        self.history = [[] for _ in range(members)]

    def value(self, nest: Nest, member: np.ndarray, stage: str) -> np.ndarray:
        """Evaluates a batch exactly and keeps what is better than the best so far.

        Args:
            nest: B mappings. The first batch of a search holds at least one of every member.
            member: Whose mapping each column is, [B].
            stage: Name of the stage that asks, for the history.

        Returns:
            Values to minimise, [B]: logarithms of the metric for legal mappings, above `ILLEGAL` for the others.
        """
        weights, sums = (None if row is None else row[:, member] for row in (self.terms.weights, self.terms.sums))
        scores = self.terms.score(self.family, nest, member, self.options.workers)
        values = exact_value(scores, self.options.priorities, weights, sums)
        if self.family.spaces[0].constraints.min_parallelism > 0:
            values = np.maximum(values, self._parallelism_shortfall(nest))
        self.evaluations += np.bincount(member, minlength=len(self.best))
        self.legal_evaluations += np.bincount(member[values < ILLEGAL], minlength=len(self.best))
        better = np.flatnonzero(values < self.best[member])
        for row in better[best_rows(values[better], member[better])]:
            self._improve(int(member[row]), nest.take([row]), float(values[row]), stage)
        return values

    def _parallelism_shortfall(self, nest: Nest) -> np.ndarray:
        """Values of mappings that use less of the array than the constraints ask for, [B]; -inf for the others.

        As for every broken limit the value grows with the octaves that are missing, so that a search is led back.
        """
        space = self.family.spaces[0]
        share = nest.spatial.prod(axis=(0, 1)) / available(space)
        least = space.constraints.min_parallelism
        values: np.ndarray = np.where(share < least, ILLEGAL + np.log2(np.maximum(least, share) / share), -np.inf)
        return values

    def _improve(self, member: int, nest: Nest, value: float, stage: str) -> None:
        """Keeps a member's new best mapping and tells the watcher."""
        if not self.history[member]:  # the first batch holds mappings of every member, in order
            self.nests.append(nest)
        self.nests[member], self.best[member] = nest, value
        self.history[member].append(
            Progress(time.monotonic() - self.start, int(self.evaluations[member]),
                     int(self.legal_evaluations[member]), value, stage))
        self.watcher(member, nest, self.history[member][-1])

    def out_of_time(self) -> bool:
        """True once the search was stopped, or its time is over."""
        return self.stopped() or time.monotonic() > self.deadline


def best_rows(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The row of the lowest value in each group that occurs.

    Args:
        values: Values to minimise, [B].
        group: Number of the group that each row belongs to, [B].

    Returns:
        Row numbers by ascending group; the first row among equal values.
    """
    ranked = np.lexsort((values, group))
    rows: np.ndarray = ranked[np.unique(group[ranked], return_index=True)[1]]
    return rows
