"""Proposers that know of a design its figures alone: at random, all of them, or by a sampler of optuna."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.design.layer_entries import LeastFigures
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.space import DesignSpace, Point

IDLE_ROUNDS = 200
"""Idle rounds of a proposer that does not judge what it proposes. Set by hand."""


class Proposer(Protocol):
    """Proposes designs, round by round; knows of a design's worth from the archive alone.

    Attributes:
        idle_rounds: Rounds one after the other without a design to map, after which a search ends: all that is
            proposed was then refused or left out for its lower bound.
    """

    idle_rounds: int

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """The designs of the next round.

        Args:
            count: Designs wanted at most.
            archive: The outcomes of all earlier rounds in the order of their proposal, infeasible and pruned ones
                among them, each design once.

        Returns:
            Up to `count` points, none of them twice and none of the archive; fewer or none where no more are known.
        """


MOST_DESIGNS = 1_000_000
"""Designs of a space that is enumerated: a limit for safety; nothing was measured."""

DRAWS = 64
"""Draws for each design wanted, after which what is left of a small space is enumerated. Not measured."""


def all_points(space: DesignSpace) -> Iterator[Point]:
    """Every point of a space, the last parameter fastest."""
    return itertools.product(*(range(len(parameter.values)) for parameter in space.parameters))


class ExhaustiveDesigns:
    """Proposes every design of a small space, in order. Raises FadiffError for a space that is too large."""

    idle_rounds = IDLE_ROUNDS

    def __init__(self, space: DesignSpace) -> None:
        if space.size > MOST_DESIGNS:
            raise FadiffError(f"method: exhaustive would evaluate {space.size:,} designs; accepted: spaces of at most "
                              f"{MOST_DESIGNS:,}, or another method")
        self.left = all_points(space)

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`; the archive plays no role."""
        return list(itertools.islice(self.left, count))


class RandomDesigns:
    """Proposes designs drawn evenly, each once."""

    idle_rounds = IDLE_ROUNDS

    def __init__(self, space: DesignSpace, seed: int) -> None:
        self.space, self.rng = space, np.random.default_rng(seed)
        self.proposed: set[Point] = set()
        self.seen = 0  # outcomes of the archive whose points are among `proposed`

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`; of the archive only that its designs are not proposed again plays a role."""
        self.proposed.update(outcome.point for outcome in archive[self.seen:])
        self.seen = len(archive)
        sizes = [len(parameter.values) for parameter in self.space.parameters]
        points: list[Point] = []
        for _ in range(DRAWS * count):
            if len(points) == count:
                return points
            point = tuple(int(index) for index in self.rng.integers(0, sizes))
            if point not in self.proposed:
                self.proposed.add(point)
                points.append(point)
        if self.space.size <= MOST_DESIGNS:  # drawn nearly empty: some of what is left
            left = [point for point in all_points(self.space) if point not in self.proposed]
            points += [left[index] for index in self.rng.permutation(len(left))[:count - len(points)]]
            self.proposed.update(points)
        return points


FEASIBLE = "feasible"
"""The constraint of a trial that says whether its design is feasible: broken above 0, as optuna has it."""

POPULATION = 20
"""Designs of a generation of NSGA-II, so that a hundred evaluations are five generations. Not measured."""

ASKED = 8
"""Designs asked for each one wanted, before what optuna repeats is filled up at random. Not measured."""

WORSE = 1.0
"""How much worse than the worst design an infeasible one is told to be, in natural logarithms. Not measured."""


class OptunaDesigns:
    """Proposes what a sampler of optuna asks for, by its interface of asking and telling.

    Optuna sees a value's index, so that neighbours in the space are neighbours there; words are categories. Optuna
    is told the logarithm of every metric. A design that its lower bound left out is told with this bound, which is no
    better than the best design; an infeasible one as worse than all others, and as breaking a constraint.

    Args:
        question: The question.
        sampler: Makes the sampler, from optuna's samplers and a seed.

    Raises:
        FadiffError: optuna is not installed.
    """

    idle_rounds = IDLE_ROUNDS

    def __init__(self, question: DesignQuestion, sampler: Callable[[Any, int], Any]) -> None:
        require("optuna", "design", "the methods tpe and nsga2")
        self.optuna = optuna = import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self.question, self.fallback = question, RandomDesigns(question.space, question.seed)
        self.study = optuna.create_study(directions=["minimize"] * len(question.metrics),
                                         sampler=sampler(optuna.samplers, question.seed))
        self.distributions = {parameter.name: optuna.distributions.IntDistribution(0, len(parameter.values) - 1)
                              if parameter.numeric
                              else optuna.distributions.CategoricalDistribution(range(len(parameter.values)))
                              for parameter in question.space.parameters}
        self.open_trials: dict[Point, Any] = {}  # whose designs are being evaluated
        self.known: dict[Point, DesignOutcome] = {}
        self.worst = [0.0] * len(question.metrics)  # the largest value of each metric that optuna was told

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`."""
        for outcome in archive[len(self.known):]:
            self.known[outcome.point] = outcome
            if outcome.point in self.open_trials:
                self._tell(self.open_trials.pop(outcome.point), outcome)
        for _ in range(ASKED * count):
            if len(self.open_trials) == count:
                break
            trial = self.study.ask(self.distributions)
            point = tuple(int(trial.params[name]) for name in self.distributions)
            if point in self.known:
                self._tell(trial, self.known[point])
            elif point in self.open_trials:
                self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
            else:
                self.open_trials[point] = trial
        while len(self.open_trials) < count:  # filled up at random, which optuna takes for its own
            drawn = self.fallback.propose(count - len(self.open_trials), archive)
            if not drawn:
                break
            for point in drawn:
                if point not in self.open_trials:
                    self.study.enqueue_trial(dict(zip(self.distributions, point, strict=True)))
                    self.open_trials[point] = self.study.ask(self.distributions)
        return list(self.open_trials)

    def _tell(self, trial: Any, outcome: DesignOutcome) -> None:
        """Ends a trial with the logarithm of every metric of a design, for a pruned one of its bound."""
        known = outcome.feasible or outcome.pruned
        trial.set_constraint(FEASIBLE, -1.0 if known else 1.0)
        if not known:
            self.study.tell(trial, [worst + WORSE for worst in self.worst])
            return
        least = None if outcome.feasible or outcome.bounds is None else LeastFigures(*outcome.bounds, 0.0)
        values = [math.log(max(outcome.of(metric) if least is None else least.of(metric, outcome.area_mm2), 1e-300))
                  for metric in self.question.metrics]
        self.worst = [max(pair) for pair in zip(values, self.worst, strict=True)]
        self.study.tell(trial, values)


BLACK_BOX: dict[str, Callable[[DesignQuestion], Proposer]] = {
    "random": lambda question: RandomDesigns(question.space, question.seed),
    "exhaustive": lambda question: ExhaustiveDesigns(question.space),
    "tpe": lambda question: OptunaDesigns(question, lambda samplers, seed: samplers.TPESampler(
        seed=seed, multivariate=True, constant_liar=True)),
    "nsga2": lambda question: OptunaDesigns(question, lambda samplers, seed: samplers.NSGAIISampler(
        seed=seed, population_size=POPULATION)),
}
"""The proposers by the name of their method; "tpe" is Bayesian optimisation by a tree of Parzen estimators."""
