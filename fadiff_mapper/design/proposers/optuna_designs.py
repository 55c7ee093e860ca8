"""Designs proposed by optuna: a tree of Parzen estimators, or NSGA-II, by its interface of asking and telling.

Optuna sees a value's index, so that neighbours in the space are neighbours there; words are categories. Optuna
is told the logarithm of every metric. A design that its lower bound left out is told with this bound, which is no
better than the best design; an infeasible one as worse than all others, and as breaking a constraint.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from fadiff_mapper.base.extras import require
from fadiff_mapper.design.evaluation.design_bounds import LeastFigures
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.design_result import DesignOutcome
from fadiff_mapper.design.proposers.proposer import IDLE_ROUNDS, RandomDesigns
from fadiff_mapper.design.space import Point

FEASIBLE = "feasible"
"""The constraint of a trial that says whether its design is feasible: broken above 0, as optuna has it."""

POPULATION = 20
"""Designs of a generation of NSGA-II, so that a hundred evaluations are five generations. Not measured."""

ASKED = 8
"""Designs asked for each one wanted, before what optuna repeats is filled up at random. Not measured."""

WORSE = 1.0
"""How much worse than the worst design an infeasible one is told to be, in natural logarithms. Not measured."""


class OptunaDesigns:
    """Proposes what a sampler of optuna asks for.

    Attributes:
        question: The question.
        study: optuna's study.
        distributions: For each parameter the indices of its values, as optuna describes them.
        open_trials: Trials whose designs are being evaluated, by point.
        known: The outcomes of the archive by point.
        worst: The largest value of each metric that optuna was told.
        fallback: Fills up a round in which optuna repeats itself.
        idle_rounds: See `Proposer`.
    """

    idle_rounds = IDLE_ROUNDS

    def __init__(self, question: DesignQuestion, sampler: Callable[[Any, int], Any]) -> None:
        """Takes what makes a sampler of optuna's module and a seed. Raises FadiffError without optuna."""
        optuna = _optuna()
        self.question, self.fallback = question, RandomDesigns(question.space, question.seed)
        self.study = optuna.create_study(directions=["minimize"] * len(question.metrics),
                                         sampler=sampler(optuna, question.seed))
        self.distributions = {parameter.name: optuna.distributions.IntDistribution(0, len(parameter.values) - 1)
                              if parameter.numeric
                              else optuna.distributions.CategoricalDistribution(range(len(parameter.values)))
                              for parameter in question.space.parameters}
        self.open_trials: dict[Point, Any] = {}
        self.known: dict[Point, DesignOutcome] = {}
        self.worst = [0.0] * len(question.metrics)

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
                self.study.tell(trial, state=_optuna().trial.TrialState.FAIL)
            else:
                self.open_trials[point] = trial
        self._fill_up(count, archive)
        return list(self.open_trials)

    def _fill_up(self, count: int, archive: Sequence[DesignOutcome]) -> None:
        """Adds new designs at random, which optuna takes for its own."""
        while len(self.open_trials) < count:
            drawn = self.fallback.propose(count - len(self.open_trials), archive)
            if not drawn:
                break
            for point in drawn:
                if point not in self.open_trials:
                    self.study.enqueue_trial(dict(zip(self.distributions, point, strict=True)))
                    self.open_trials[point] = self.study.ask(self.distributions)

    def _tell(self, trial: Any, outcome: DesignOutcome) -> None:
        """Ends a trial with the values of a design."""
        values = self._values(outcome)
        trial.set_constraint(FEASIBLE, 1.0 if values is None else -1.0)
        if values is None:
            values = [worst + WORSE for worst in self.worst]
        else:
            self.worst = [max(pair) for pair in zip(values, self.worst, strict=True)]
        self.study.tell(trial, values)

    def _values(self, outcome: DesignOutcome) -> list[float] | None:
        """The logarithm of every metric, for a pruned design of its bound; None for an infeasible one."""
        if outcome.feasible:
            values = [outcome.of(metric) for metric in self.question.metrics]
        elif outcome.bounds is not None:
            energy, cycles = outcome.bounds
            least = LeastFigures(energy, cycles, 0.0)
            values = [least.of(metric, outcome.area_mm2) for metric in self.question.metrics]
        else:
            return None
        return [math.log(max(value, 1e-300)) for value in values]


def parzen_estimators(question: DesignQuestion) -> OptunaDesigns:
    """Bayesian optimisation by a tree of Parzen estimators, all parameters modelled together.

    Args:
        question: The question.

    Raises:
        FadiffError: optuna is not installed.
    """
    return OptunaDesigns(question, lambda optuna, seed: optuna.samplers.TPESampler(
        seed=seed, multivariate=True, constant_liar=True))


def genetic_algorithm(question: DesignQuestion) -> OptunaDesigns:
    """The genetic algorithm NSGA-II.

    Args:
        question: The question.

    Raises:
        FadiffError: optuna is not installed.
    """
    return OptunaDesigns(question, lambda optuna, seed: optuna.samplers.NSGAIISampler(
        seed=seed, population_size=POPULATION))


def _optuna() -> Any:
    """optuna, quiet about every trial. Raises FadiffError."""
    require("optuna", "design", "the methods tpe and nsga2")
    optuna = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna
