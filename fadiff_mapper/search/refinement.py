"""Refinement on the exact model: chains of random moves that cool down, then descent to a local optimum.

Gradient descent on the relaxed model ends near good mappings, not at the best (`benchmarks/layer_quality.py
--ablations` measures how near), so the search continues with exact values. Chains run in compiled code
(`kernel/chains.hpp`), a few rounds at a time; the clock and the watcher are called in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from math import inf, log
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff_mapper.base.deadline import Over, at_latest, never
from fadiff_mapper.kernel._kernel import Chains, Correction, Decision, Metric, SpaceTables
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.search.best_so_far import PRIORITY, SHARE_WEIGHT, SearchOutcome
from fadiff_mapper.search.layer_family import LayerFamily, first_of, temporal_orders
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import factor_ranges
from fadiff_mapper.search.options import ILLEGAL, SAME, Progress, SearchOptions

if TYPE_CHECKING:
    from fadiff_mapper.search.lower_bound.proof import MappingProof

ORDER_DRAWS = 2
"""Weight of a level's order among the decisions that a move may change: a level has many more orders than layouts or
choices of kept data spaces."""

COOLING, EXTRA_COOLING = (0.3, 0.01), (0.03, 0.003)
"""Temperatures of the first and the last round, in natural logarithms of the metric: of the main rounds, hot enough to
leave a local optimum; of the extra rounds, only a shallow one."""

TIME_FOR_PROOF = 2.0
"""Seconds that must be left for a short proof: with many open spatial loops a proof starts slowly."""

LARGEST_GAP = 0.5
"""Gap of a short proof up to which a search is not repeated, as the proof has looked for better mappings, too."""

WIDE_GAP, LONGER = 0.15, 10
"""Gap at the end of a search above which a second proof begins, from the mapping found, and the factor on its budget:
few searches end so far above the bound."""

LOOK_EVERY = 0.03
"""Approximate seconds between two looks at the clock; each may wait for the interpreter."""

MOST_GROWTH = 4
"""Largest growth of the number of rounds until the next look at the clock; the first look comes after one round."""

POLISH_STEPS = 200
"""Most steps of the last descent: a safety limit."""


def compiled_space(family: LayerFamily, member: int, *, residuals: bool = False) -> SpaceTables:
    """The map space of one member of a family as tables for the compiled search (`kernel/map_space.hpp`).

    With `residuals`, for a family of one, factors may be any whole numbers.
    """
    space, factors = family.spaces[member], family.factors
    if residuals:
        least, most = factor_ranges(space)
        family = replace(family, orders=tuple(
            temporal_orders(space.problem.dimensions, level.temporal.inner, level.temporal.between,
                            level.temporal.outer, tuple((factors > 1).tolist()), family.layer.projection.ranks)[None]
            for level, factors in zip(space.levels, most[1::2], strict=True)))
        movable = most > least
        movable[-1] = False  # the outermost loops get the remaining factors
        tables: dict[str, Any] = {"least": least, "most": most,
                                  "points": np.array(list(space.problem.bounds.values()), dtype=np.float64)}
    else:
        movable = factors.allowed[member].sum(axis=-1) > 1
        tables = {name: getattr(factors, name)[member]
                  for name in ("divisor", "quotient", "product", "allowed", "completable")}
        tables["bound"] = factors.bound[member].astype(np.int64)
    return SpaceTables(
        family.layer.compiled, **tables,
        movable=[(int(place), int(d)) for place, d in zip(*np.nonzero(movable), strict=True)],
        orders=[level[member].tolist() for level in family.orders],
        layouts=[list(zip(level.order[member].tolist(), level.on_y[member].tolist(), strict=True))
                 for level in family.layouts],
        keep=space.keep, open=list(family.keeps),
        decisions=[
            *[(Decision.ORDER, level, 0) for level, own in enumerate(family.orders) if own.shape[1] > 1
              for _ in range(ORDER_DRAWS)],
            *[(Decision.LAYOUT, level, 0) for level, own in enumerate(family.layouts) if own.order.shape[1] > 1],
            *[(Decision.KEEP, level, t) for level, t in family.keeps]],
        available=float(space.available), min_parallelism=float(space.constraints.min_parallelism))


def chains_of(task: MappingTask, options: SearchOptions, space: SpaceTables, deadline: float = inf,
              correction: Correction | None = None) -> Chains:
    """Compiled chains without mappings on a task's layer, in a `compiled_space` (`kernel/chains.hpp`).

    They minimise the weighted logarithms of the metrics in order of priority, or the logarithm of the share in `sums`,
    energy and cycles of a network; with a correction, at the cycles of measured hardware. They end in the middle of a
    round at the deadline, seconds of `time.monotonic`.
    """
    terms = ([("share", SHARE_WEIGHT)] if task.sums is not None
             else [(name, PRIORITY ** i) for i, name in enumerate(options.priorities)])
    words, counted = (task.room.words[:, None], task.room.counted[..., None]) if task.room else (None, None)
    return Chains(task.layer.compiled, space, [(float(weight), Metric.__members__[name]) for name, weight in terms],
                  words, counted, options.seed, sums=task.sums or (1.0, 1.0),
                  sparse=None if task.sparse is None else task.sparse.compiled, correction=correction,
                  seconds=deadline - time.monotonic())


def cool(chains: Chains, out_of_time: Over, report: Callable[[], None] = lambda: None) -> None:
    """Anneals by the chains' schedule until it ends, the chains agree, or time runs out.

    `report` is called after a few rounds, and `out_of_time` before.
    """
    rounds, over = 1, False
    while not over and not out_of_time():
        begun = time.perf_counter()
        over = chains.anneal(rounds)
        report()
        rounds = max(1, int(rounds * min(LOOK_EVERY / (time.perf_counter() - begun), MOST_GROWTH)))


class Refinement:
    """The refinement of one problem while it runs."""

    def __init__(self, task: MappingTask, options: SearchOptions, starts: Nest | None = None, *,
                 descended: SearchOutcome | None = None, watcher: Callable[[Nest, Progress], None] | None = None,
                 stopped: Over = never, deadline: float = inf, within: tuple[LayerFamily, int] | None = None,
                 correction: Correction | None = None) -> None:
        """Sets up the chains at their first mappings, before their first round.

        Random mappings fill `starts` up to `Effort.chains`; without a proof the mapping of `start_legal` is added.

        Args:
            descended: The end of a descent, whose history goes on.
            watcher: Called with the improved best nest (one row) and its progress.
            stopped: Asked between a few rounds; once true, the refinement ends.
            deadline, correction: As for `chains_of`.
            within: The family with the candidates, and the task's number in it.
        """
        family, member = within or (task.family, 0)
        self.task, self.options, self.effort, self.watcher = task, options, options.schedule, watcher
        self.deadline, self.stopped, self.out_of_time = deadline, stopped, at_latest(deadline, stopped)
        self.history = list(descended.history) if descended else []  # every improvement, in order
        self.elapsed, self.evaluations, self.legal_evaluations, self.reached = (  # of the descent
            descended.history[-1].time_s, descended.evaluations, descended.legal_evaluations, descended.value
        ) if descended else (0.0, 0, 0, inf)
        self.reported = 0  # improvements of the chains that were reported
        self.proof: MappingProof | None = None  # proof after the first rounds
        # a calibration, or residual factors, may choose another mapping in the end, which the proof would not cover
        self.provable = bool(self.effort.proof) and not (
            task.sparse or correction or options.calibration or options.imperfect)
        self.proved = False  # whether the mapping is proved best, in a search with a single metric
        self.chains = chains_of(task, options, compiled_space(family, member), deadline, correction)
        if starts is not None:
            self.chains.start_at(nest_arrays(starts))
        self.chains.start_random(max(0, self.effort.chains - (starts.batch if starts is not None else 0)))
        self.first = cache(partial(first_of, family, member, task.sparse))
        if not self.provable:
            self.start_legal()
        self.report()

    def start_legal(self) -> None:
        """Adds the mapping of `first_of` if no chain has found a legal one."""
        if self.chains.best_value >= ILLEGAL and (first := self.first()) is not None:
            self.chains.start_at(nest_arrays(first))

    def report(self, stage: str | None = None) -> None:
        """Adds the improvements since the last report to the history, and tells the watcher of the newest.

        `stage`: the source of the improvements, if not the chains.
        """
        news = self.chains.history(self.reported)
        self.reported += len(news)
        better = [Progress(seconds + self.elapsed, evaluations + self.evaluations,
                           legal + self.legal_evaluations, value, stage or own.name)
                  for seconds, evaluations, legal, value, own in news if value < self.reached]
        self.history += better
        if better and self.watcher:
            self.watcher(self.best(), better[-1])

    def best(self) -> Nest:
        """The best mapping so far, a nest of one row."""
        return Nest(*self.chains.best())

    def anneal(self, extra: bool = False) -> None:
        """Runs the rounds of all problems, with the short proof, or the extra rounds for chains that do not agree.

        In the extra rounds, which are cooler, chains take good neighbours instead of the best, and factors from each
        other.
        """
        effort = self.effort
        rounds, (start, end) = (effort.extra_rounds, EXTRA_COOLING) if extra else (effort.rounds, COOLING)
        self.chains.begin(rounds, start, end, effort.rounds_least, effort.chains_agreeing, effort.neighbours, not extra,
                          effort.resplit_rate, effort.crossover_rate if extra else 0.0)
        if self.provable and self.proof is None:
            self.chains.anneal(effort.rounds_before_proof)
            self.report()
            self.prove(effort.proof)
            if self.proved or (self.proof and self.proof.gap <= effort.proof_enough):
                return
        cool(self.chains, self.out_of_time, self.report)

    def prove(self, budget: int) -> None:
        """Tries to prove, within a budget of parts and mappings, that the best mapping so far is the best. A better
        mapping that the proof finds joins the chains, and so does the mapping of `start_legal`."""
        from fadiff_mapper.search.lower_bound.proof import prove, unprovable  # after the first mapping
        task, sums = self.task, self.task.sums
        self.start_legal()
        self.report()
        if self.chains.best_value >= ILLEGAL or self.deadline - time.monotonic() < TIME_FOR_PROOF or unprovable(
                task.layer):
            self.provable = False
            return
        nest, earlier = self.best(), self.proof
        self.proof = prove(task.layer, task.space, "share" if sums else self.options.priorities[0], nest,
                           over=self.out_of_time, budget=budget, sums=sums or (1.0, 1.0), room=task.room)
        if earlier:     # out of time, the earlier proof may have a better bound
            self.proof = replace(self.proof, least=max(self.proof.least, earlier.least))
        self.evaluations += self.proof.mappings
        if self.proof.nest is not nest:
            self.chains.start_at(nest_arrays(self.proof.nest))
            self.report("proof")
        self.proved = not self.proof.gap and (sums is not None or len(self.options.priorities) == 1)

    def run(self) -> SearchOutcome:
        """Anneals until enough chains have found the best mapping, then descends from it to a local optimum.

        A short proof after the first rounds may end the search. If the chains do not agree, the best ones continue. If
        too few, including those of earlier searches, have then found the best mapping, the search starts again from new
        random mappings. If the end is far above the proved bound, a longer proof follows.
        """
        effort, chains, met = self.effort, self.chains, 0
        enough = min(effort.min_agreeing_chains, effort.chains, effort.extra_chains)
        for search in range(effort.searches):
            if self.out_of_time():
                break
            if search:
                chains.start_again(effort.chains)
            before = chains.best_value
            self.anneal()
            if self.proved or chains.agreed or not effort.extra_rounds or self.out_of_time():
                break
            chains.keep_strongest(effort.extra_chains)
            self.anneal(extra=True)
            met = chains.met + (met if chains.best_value >= before - SAME else 0)
            if chains.agreed or met >= enough or (self.proof and self.proof.gap <= LARGEST_GAP):
                break
        self.start_legal()  # so that a stopped search has a mapping to return
        single = not self.task.sums and len(self.options.priorities) == 1
        if self.proof and self.proof.least and single and not (self.proved or self.out_of_time()) and (
                chains.best_value > log(self.proof.least * (1 + WIDE_GAP))):
            self.prove(LONGER * effort.proof)
        if self.proof and self.proved:
            status = self.proof.claim
        else:
            converged = effort.searches > 0 and not self.out_of_time() and chains.polish(POLISH_STEPS)
            status = early_end(self.options, self.stopped(), self.out_of_time()) or (
                "converged: no neighbour of the best mapping is better" if converged else "search ended")
        self.report()
        return SearchOutcome(self.best(), chains.best_value, status, tuple(self.history),
                             self.evaluations + chains.evaluations, self.legal_evaluations + chains.legal_evaluations,
                             self.proof.least if self.proof else None)


def early_end(options: SearchOptions, stopped: bool, out_of_time: bool) -> str:
    """The status of a search that was stopped or ran out of time; else empty."""
    if stopped:
        return "interrupted: the best mapping so far"
    return f"out of time after {options.time_limit:g} s: the best mapping so far" if out_of_time else ""
