"""Refinement on the exact model: chains of random moves that cool down, then descent to a local optimum.

Gradient descent on the relaxed model ends near good mappings, not at the best (`benchmarks/layer_quality.py
--ablations` measures how near), so the search goes on with exact values. The chains run in compiled code
(`kernel/chains.hpp`), a few rounds at a time; between them stand the clock and whoever watches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from fadiff_mapper.kernel._kernel import Chains, SparseTables
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.search.compiled_space import compiled_objective, compiled_space
from fadiff_mapper.search.first_mapping import first_of
from fadiff_mapper.search.layer_family import LayerFamily
from fadiff_mapper.search.options import ILLEGAL, SAME, Effort, Progress, SearchOptions

COOLING, EXTRA_COOLING = (0.3, 0.01), (0.03, 0.003)
"""Temperatures of the first and the last round, in natural logarithms of the metric, of the rounds and of the extra
ones: hot enough to leave a local optimum, and to leave only a shallow one."""

LOOK_EVERY = 0.03
"""Seconds between two looks at the clock, about. Each look asks for the interpreter, and waits for it up to 5 ms where
another thread runs Python."""

MOST_GROWTH = 4
"""Times as many rounds until the next look as until the last one, at most; the first look comes after one round."""

POLISH_STEPS = 200
"""Steps of the last descent at most; a limit for safety, nothing was measured."""


@dataclass
class Refinement:
    """The refinement of one problem while it runs.

    Attributes:
        family: The family that the problem is a member of.
        member: Its number there.
        effort: Its schedule.
        chains: The compiled chains.
        watcher: Called with the best nest (one row) and its value, whenever that is better; None: nobody watches.
        out_of_time: Asked between a few rounds; once true, the refinement ends.
        history: Every improvement, in order.
    """

    family: LayerFamily
    member: int
    effort: Effort
    chains: Chains
    watcher: Callable[[Nest, Progress], None] | None
    out_of_time: Callable[[], bool]
    history: list[Progress] = field(default_factory=list)

    def report(self) -> None:
        """Tells the watcher of the newest improvement since the last report."""
        if self.watcher and self.take_history():
            self.watcher(self.best(), self.history[-1])

    def take_history(self) -> bool:
        """Takes over the improvements since the last time; returns whether there are any."""
        news = self.chains.history(len(self.history))
        self.history += [Progress(seconds, evaluations, legal, value, stage.name)
                         for seconds, evaluations, legal, value, stage in news]
        return bool(news)

    def best(self) -> Nest:
        """The best mapping so far, a nest of one row."""
        return Nest(*self.chains.best())

    def anneal(self, extra: bool = False) -> None:
        """Runs the schedule that all problems go through, or that of the extra rounds for chains that do not agree.

        It ends when it is over, the chains agree, or time runs out. In the extra rounds, which are cooler, chains take
        good neighbours instead of the best, and factors from each other.
        """
        effort = self.effort
        rounds, (start, end) = (effort.extra_rounds, EXTRA_COOLING) if extra else (effort.rounds, COOLING)
        self.chains.begin(rounds, start, end, effort.rounds_least, effort.chains_agreeing, effort.neighbours, not extra,
                          effort.resplit_rate, effort.crossover_rate if extra else 0.0)
        rounds, over = 1, False
        while not over and not self.out_of_time():
            begun = time.perf_counter()
            over = self.chains.anneal(rounds)
            self.report()
            rounds = max(1, int(rounds * min(LOOK_EVERY / (time.perf_counter() - begun), MOST_GROWTH)))

    def search_once(self) -> bool:
        """Anneals, and goes on with the best chains where they do not agree.

        Returns:
            Whether the chains agree, no further rounds are wanted, or time has run out.
        """
        self.anneal()
        if self.chains.agreed or not self.effort.extra_rounds or self.out_of_time():
            return True
        self.chains.keep_strongest(self.effort.extra_chains)
        self.anneal(extra=True)
        return self.chains.agreed or self.out_of_time()

    def run(self) -> bool:
        """Anneals until enough chains have met the best mapping, and descends from there to a local optimum.

        Where chains do not agree and too few of them, those of earlier searches included, have met the best mapping,
        the search starts again from new random mappings.

        Returns:
            Whether no neighbour of the best mapping is better.
        """
        met, enough = 0, min(self.effort.min_agreeing_chains, self.effort.chains, self.effort.extra_chains)
        for search in range(self.effort.searches):
            if search:
                self.chains.start_again(self.effort.chains)
            before = self.chains.best_value
            if self.search_once():
                break
            met = self.chains.met + (met if self.chains.best_value >= before - SAME else 0)
            if met >= enough:
                break
        converged = not self.out_of_time() and self.chains.polish(POLISH_STEPS)
        self.report()
        return converged


def refinement_of(family: LayerFamily, member: int, options: SearchOptions, starts: Nest | None, *,
                  watcher: Callable[[Nest, Progress], None] | None, out_of_time: Callable[[], bool],
                  room: tuple[np.ndarray, np.ndarray] | None, weights: Sequence[float] | None,
                  sums: tuple[float, float] | None = None, deadline: float = inf,
                  sparse: SparseTables | None = None) -> Refinement:
    """The chains of one problem at their first mappings.

    Args:
        family: The family that the problem is a member of.
        member: Its number there.
        options: Metrics, seed and effort.
        starts: Mappings to start from; random ones are added until there are `Effort.chains`, and the first
            mapping of `first_mapping.py` where all of these are illegal.
        watcher: See `Refinement`.
        out_of_time: See `Refinement`.
        room: Words of every level that may be filled, [L], and whether each data space counts, [L, T]; None: all.
        weights: Exponents of energy and delay in place of the metrics.
        sums: Energy and cycles of a network in which the share counts, in place of the metrics.
        deadline: When the compiled chains end in the middle of a round, seconds of `time.monotonic`.
        sparse: The sparse design that is evaluated in place of the dense layer; None: the layer.

    Returns:
        The refinement, before its first round.
    """
    words, counted = room or (None, None)
    chains = Chains(family.layer.compiled, compiled_space(family, member), room_words=words,
                    room_counted=counted, seed=options.seed, sparse=sparse, seconds=deadline - time.monotonic(),
                    **compiled_objective(options.priorities, weights, sums))
    if starts is not None:
        chains.start_at(nest_arrays(starts))
    chains.start_random(max(0, options.schedule.chains - (starts.batch if starts is not None else 0)))
    if chains.best_value >= ILLEGAL and (first := first_of(family, member)) is not None:
        chains.start_at(nest_arrays(first))  # so that a search that is stopped has a mapping to return
    refinement = Refinement(family, member, options.schedule, chains, watcher, out_of_time)
    refinement.report()
    return refinement
