"""Refinement on the exact model: chains of random moves that cool down, then descent to a local optimum.

Gradient descent on the relaxed model ends near good mappings, not at the best (`benchmarks/layer_quality.py
--ablations` measures how near), so the search continues with exact values. The chains run in compiled code
(`kernel/chains.hpp`), a few rounds at a time; the clock and the watcher are called in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from fadiff_mapper.kernel._kernel import Chains, Decision, Quantity, SpaceTables
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.search.best_so_far import PRIORITY, SHARE_WEIGHT
from fadiff_mapper.search.layer_family import LayerFamily, first_of, temporal_orders
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import factor_ranges
from fadiff_mapper.search.options import ILLEGAL, SAME, Effort, Progress, SearchOptions

ORDER_DRAWS = 2
"""Weight of a level's order among the decisions that moves draw from: a level has many more orders than layouts or
choices to keep."""

COOLING, EXTRA_COOLING = (0.3, 0.01), (0.03, 0.003)
"""Temperatures of the first and the last round, in natural logarithms of the metric, of the rounds and of the extra
ones: hot enough to leave a local optimum, and to leave only a shallow one."""

LOOK_EVERY = 0.03
"""Seconds, about, between two looks at the clock; each may wait for the interpreter."""

MOST_GROWTH = 4
"""Growth of the number of rounds until the next look at most; the first look comes after one round."""

POLISH_STEPS = 200
"""Steps of the last descent at most: a safety limit."""


def compiled_space(family: LayerFamily, member: int, *, residuals: bool = False) -> SpaceTables:
    """The map space of one member of a family for the compiled search, see `space_table`."""
    return SpaceTables(family.layer.compiled, **space_table(family, member, residuals=residuals))


def space_table(family: LayerFamily, member: int, *, residuals: bool = False) -> dict[str, Any]:
    """The tables of one member of a family for the compiled search (`kernel/map_space.hpp`): arguments by name.

    With `residuals`, for a family of one, factors may be any whole numbers.
    """
    space, factors = family.spaces[member], family.factors
    if residuals:
        least, most = factor_ranges(space)
        projection = family.layer.projection
        family = replace(family, orders=tuple(
            temporal_orders(space.problem.dimensions, level.temporal.inner, level.temporal.between,
                            level.temporal.outer, tuple((factors > 1).tolist()), projection.relevance,
                            projection.shared)[None]
            for level, factors in zip(space.levels, most[1::2], strict=True)))
        movable = most > least
        movable[-1] = False  # the outermost loops take the rest
        tables: dict[str, Any] = {"least": least, "most": most,
                                  "points": np.array(list(space.problem.bounds.values()), dtype=np.float64)}
    else:
        movable = factors.movable[member]
        tables = {name: getattr(factors, name)[member]
                  for name in ("divisor", "quotient", "product", "allowed", "completable")}
        tables["bound"] = factors.bound[member].astype(np.int64)
    return tables | {
        "movable": [(int(place), int(d)) for place, d in zip(*np.nonzero(movable), strict=True)],
        "orders": [level[member].tolist() for level in family.orders],
        "layouts": [list(zip(level.order[member].tolist(), level.on_y[member].tolist(), strict=True))
                    for level in family.layouts],
        "keep": space.keep, "open": list(family.keeps),
        "decisions": [
            *[(Decision.ORDER, level, 0) for level, own in enumerate(family.orders) if own.shape[1] > 1
              for _ in range(ORDER_DRAWS)],
            *[(Decision.LAYOUT, level, 0) for level, own in enumerate(family.layouts) if own.order.shape[1] > 1],
            *[(Decision.KEEP, level, t) for level, t in family.keeps]],
        "available": float(space.available), "min_parallelism": float(space.constraints.min_parallelism),
    }


def compiled_objective(metrics: Sequence[str], weights: Sequence[float] | None = None,
                       sums: tuple[float, float] | None = None) -> dict[str, Any]:
    """The objective of the compiled search (`kernel/chains.hpp`): arguments by name.

    The terms (weight, quantity) of a sum of weighted logarithms of the metrics in order of priority; of `weights`,
    exponents of energy and delay, instead; or of the share in `sums`, energy and cycles of a network.
    """
    named = ([("share", SHARE_WEIGHT)] if sums is not None
             else list(zip(("energy", "delay"), weights, strict=True)) if weights is not None
             else [(name, PRIORITY ** i) for i, name in enumerate(metrics)])
    return {"terms": [(float(weight), Quantity.__members__[name]) for name, weight in named],
            "sums": sums or (1.0, 1.0)}


def chains_of(task: MappingTask, options: SearchOptions, deadline: float, space: SpaceTables) -> Chains:
    """Compiled chains without mappings on a task's layer and terms, in a `compiled_space`.

    They end in the middle of a round at the deadline, seconds of `time.monotonic`.
    """
    words, counted = (task.room.words, task.room.counted) if task.room else (None, None)
    return Chains(task.layer.compiled, space, room_words=words, room_counted=counted, seed=options.seed,
                  sparse=None if task.sparse is None else task.sparse.compiled, seconds=deadline - time.monotonic(),
                  **compiled_objective(options.priorities, task.weights, task.sums))


def cool(chains: Chains, out_of_time: Callable[[], bool], report: Callable[[], None] = lambda: None) -> None:
    """Anneals by the chains' schedule until it ends, the chains agree, or time runs out.

    `report` is called after a few rounds, and `out_of_time` before.
    """
    rounds, over = 1, False
    while not over and not out_of_time():
        begun = time.perf_counter()
        over = chains.anneal(rounds)
        report()
        rounds = max(1, int(rounds * min(LOOK_EVERY / (time.perf_counter() - begun), MOST_GROWTH)))


@dataclass
class Refinement:
    """The refinement of one problem while it runs."""

    effort: Effort                   # Its schedule
    chains: Chains                   # The compiled chains
    # Called with the improved best nest (one row) and its progress, or None
    watcher: Callable[[Nest, Progress], None] | None
    out_of_time: Callable[[], bool]  # Asked between a few rounds; once true, the refinement ends
    history: list[Progress] = field(default_factory=list)  # Every improvement, in order

    def report(self) -> None:
        """Adds the improvements since the last report to the history, and tells the watcher of the newest."""
        news = self.chains.history(len(self.history))
        self.history += [Progress(seconds, evaluations, legal, value, stage.name)
                         for seconds, evaluations, legal, value, stage in news]
        if news and self.watcher:
            self.watcher(self.best(), self.history[-1])

    def best(self) -> Nest:
        """The best mapping so far, a nest of one row."""
        return Nest(*self.chains.best())

    def anneal(self, extra: bool = False) -> None:
        """Runs the schedule of all problems, or the extra rounds for chains that do not agree.

        In the extra rounds, which are cooler, chains take good neighbours instead of the best, and factors from each
        other.
        """
        effort = self.effort
        rounds, (start, end) = (effort.extra_rounds, EXTRA_COOLING) if extra else (effort.rounds, COOLING)
        self.chains.begin(rounds, start, end, effort.rounds_least, effort.chains_agreeing, effort.neighbours, not extra,
                          effort.resplit_rate, effort.crossover_rate if extra else 0.0)
        cool(self.chains, self.out_of_time, self.report)

    def run(self) -> bool:
        """Anneals until enough chains have met the best mapping, and descends from there to a local optimum.

        If the chains do not agree, the best ones continue. If still too few, including earlier searches, have met the
        best mapping, the search starts again from new random mappings. Returns whether no neighbour of the best mapping
        is better.
        """
        effort, chains, met = self.effort, self.chains, 0
        enough = min(effort.min_agreeing_chains, effort.chains, effort.extra_chains)
        for search in range(effort.searches):
            if search:
                chains.start_again(effort.chains)
            before = chains.best_value
            self.anneal()
            if chains.agreed or not effort.extra_rounds or self.out_of_time():
                break
            chains.keep_strongest(effort.extra_chains)
            self.anneal(extra=True)
            met = chains.met + (met if chains.best_value >= before - SAME else 0)
            if chains.agreed or self.out_of_time() or met >= enough:
                break
        converged = not self.out_of_time() and chains.polish(POLISH_STEPS)
        self.report()
        return converged


def refinement_of(task: MappingTask, options: SearchOptions, starts: Nest | None = None, *,
                  watcher: Callable[[Nest, Progress], None] | None = None,
                  out_of_time: Callable[[], bool] = lambda: False, deadline: float = inf,
                  within: tuple[LayerFamily, int] | None = None) -> Refinement:
    """The chains of one problem at their first mappings, before their first round.

    To `starts` random mappings are added up to `Effort.chains`, and the one of `first_of` if all of these are illegal.
    `deadline`: as for `chains_of`; `within`: the family with the candidates, and the task's number in it.
    """
    family, member = within or (task.family, 0)
    chains = chains_of(task, options, deadline, compiled_space(family, member))
    if starts is not None:
        chains.start_at(nest_arrays(starts))
    chains.start_random(max(0, options.schedule.chains - (starts.batch if starts is not None else 0)))
    if chains.best_value >= ILLEGAL and (first := first_of(family, member)) is not None:
        chains.start_at(nest_arrays(first))  # so that a stopped search has a mapping to return
    refinement = Refinement(options.schedule, chains, watcher, out_of_time)
    refinement.report()
    return refinement
