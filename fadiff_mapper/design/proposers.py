"""Proposers that only use the figures of designs: random, exhaustive, or by a sampler of optuna."""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.shared_study import open_study
from fadiff_mapper.design.space import DesignSpace, Point

IDLE_ROUNDS = 200.0  # idle rounds allowed for a proposer that judges no design before it proposes it


class Proposer(Protocol):
    """Proposes designs, round by round, from the archive of outcomes.

    Attributes:
        idle_rounds: Successive rounds without a design to map (all proposals refused or pruned) after which a search
            ends; infinite for a proposer that goes through all designs.
    """

    idle_rounds: float

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """Up to `count` new designs for the next round; fewer or none if no more are known.

        `archive`: the distinct outcomes of all earlier rounds in order, including infeasible and pruned designs.
        """


MOST_DESIGNS = 1_000_000  # designs of a space that is enumerated: a safety limit
DRAWS = 64  # draws for each wanted design before the rest of a small space is enumerated


def all_points(space: DesignSpace) -> Iterator[Point]:
    """Every point of a space, the last parameter fastest."""
    return itertools.product(*(range(len(parameter.values)) for parameter in space.parameters))


class ExhaustiveDesigns:
    """Proposes every design of a small space in random order: good designs come early, so that others are pruned.

    Raises FadiffError for a larger space.
    """

    idle_rounds = math.inf

    def __init__(self, space: DesignSpace, seed: int) -> None:
        if space.size > MOST_DESIGNS:
            raise FadiffError(f"method: exhaustive would evaluate {space.size:,} designs; accepted: spaces of at most "
                              f"{MOST_DESIGNS:,}, or another method")
        self.sizes = [len(parameter.values) for parameter in space.parameters]
        self.order, self.proposed = np.random.default_rng(seed).permutation(space.size), 0

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        numbers = self.order[self.proposed:self.proposed + count]
        self.proposed += len(numbers)
        return [(*map(int, point),) for point in zip(*np.unravel_index(numbers, self.sizes), strict=True)]


class RandomDesigns:
    """Proposes distinct designs drawn uniformly."""

    idle_rounds = IDLE_ROUNDS

    def __init__(self, space: DesignSpace, seed: int) -> None:
        self.space, self.rng = space, np.random.default_rng(seed)
        self.proposed: set[Point] = set()
        self.seen = 0  # outcomes of the archive already in `proposed`

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`; of the archive only the points are used, to exclude them."""
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
        if self.space.size <= MOST_DESIGNS:  # drawn nearly empty: enumerate the rest
            left = [point for point in all_points(self.space) if point not in self.proposed]
            points += [left[index] for index in self.rng.permutation(len(left))[:count - len(points)]]
            self.proposed.update(points)
        return points


FEASIBLE = "feasible"  # constraint of a trial: its design is feasible; above 0 it is broken, by optuna's convention
MAPPED = "mapped"  # attribute of a trial: whether its design was mapped
POPULATION = 20  # designs of a generation of NSGA-II: a hundred evaluations are five generations
ASKED = 8  # designs asked for each wanted one, before random designs replace optuna's repetitions
WORSE = 1.0  # an infeasible design is reported worse than the worst design by this, in natural logarithms


class OptunaDesigns:
    """Proposes the designs of an optuna sampler, by its ask-and-tell interface.

    Optuna gets the index of a value, so that neighbours in the space stay neighbours; words are categories. It is told
    the logarithm of every metric, for a pruned design of the metric's lower bound. An infeasible design is told as
    worse than all others, and as breaking a constraint. `sampler` makes the sampler from optuna's samplers and a seed.

    With a file, all processes that name it share one search (`shared_study`). The process that begins it draws with the
    question's seed, the others at random, as equal seeds would draw equal designs.

    Raises FadiffError if optuna is not installed, or the file holds another question's search.
    """

    idle_rounds = IDLE_ROUNDS

    def __init__(self, question: DesignQuestion, method: str, sampler: Callable[[Any, int], Any],
                 file: Path | None = None) -> None:
        require("optuna", "design", "the methods tpe and nsga2")
        self.optuna = optuna = import_module("optuna")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        self.question, self.shared, seed = question, file is not None, question.options.seed
        if file is None:
            self.study = optuna.create_study(directions=["minimize"] * len(question.options.metrics))
        else:
            self.study, begun = open_study(optuna, file, question, method)
            seed = seed if begun else int.from_bytes(os.urandom(4), "little")
        self.study.sampler = sampler(optuna.samplers, seed)
        self.fallback = RandomDesigns(question.space, seed)
        self.distributions = {parameter.name: optuna.distributions.IntDistribution(0, len(parameter.values) - 1)
                              if parameter.numeric
                              else optuna.distributions.CategoricalDistribution(range(len(parameter.values)))
                              for parameter in question.space.parameters}
        self.open_trials: dict[Point, Any] = {}  # designs under evaluation
        self.known: dict[Point, DesignOutcome] = {}
        self.worst = [0.0] * len(question.options.metrics)  # largest value of each metric told to optuna

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        for outcome in archive[len(self.known):]:
            self.known[outcome.point] = outcome
            self.learn(outcome)
        for _ in range(ASKED * count):
            if len(self.open_trials) == count:
                break
            self._ask()
        while len(self.open_trials) < count:  # random designs, which optuna counts as its own
            drawn = self.fallback.propose(count - len(self.open_trials), archive)
            if not drawn:
                break
            for point in drawn:
                if point not in self.open_trials:
                    self.study.enqueue_trial(dict(zip(self.distributions, point, strict=True)))
                    self._ask()
        return list(self.open_trials)

    def learn(self, outcome: DesignOutcome) -> None:
        """Tells optuna, and so the other processes, the outcome of a proposed design."""
        if outcome.point in self.open_trials:
            self._tell(self.open_trials.pop(outcome.point), outcome)

    def mapped_by_others(self, archive: Sequence[DesignOutcome]) -> list[Point]:
        """The designs that other processes have mapped and that are not in the archive; their mappings are stored."""
        if not self.shared:
            return []
        known = {outcome.point for outcome in archive}
        mapped = (self._point(trial) for trial in self._trials() if trial.user_attrs.get(MAPPED))
        return [point for point in dict.fromkeys(mapped) if point not in known]

    def leave(self) -> None:
        """Returns designs that were not evaluated to the other processes."""
        for trial in self.open_trials.values():
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        self.open_trials.clear()

    def _ask(self) -> None:
        """Asks for a design, and opens its trial if neither this process nor another one has it."""
        trial = self.study.ask(self.distributions)
        point = self._point(trial)
        if point in self.known:
            self._tell(trial, self.known[point])
        elif point in self.open_trials or (self.shared and any(
                other.number != trial.number and self._point(other) == point for other in self._trials())):
            self.study.tell(trial, state=self.optuna.trial.TrialState.FAIL)
        else:
            self.open_trials[point] = trial

    def _trials(self) -> list[Any]:
        """The trials of all processes that have a design and are under evaluation or evaluated."""
        state = self.optuna.trial.TrialState
        return [trial for trial in self.study.get_trials(deepcopy=False, states=(state.RUNNING, state.COMPLETE))
                if len(trial.params) == len(self.distributions)]

    def _point(self, trial: Any) -> Point:
        return tuple(int(trial.params[name]) for name in self.distributions)

    def _tell(self, trial: Any, outcome: DesignOutcome) -> None:
        """Ends a trial with the logarithm of every metric of a design, for a pruned design of its lower bound."""
        known = outcome.feasible or outcome.pruned
        if self.shared:
            trial.set_user_attr(MAPPED, outcome.mapped)
        trial.set_constraint(FEASIBLE, -1.0 if known else 1.0)
        if not known:
            self.study.tell(trial, [worst + WORSE for worst in self.worst])
            return
        least = None if outcome.feasible else outcome.bounds
        values = [math.log(max(outcome.of(metric) if least is None else least.of(metric, outcome.area_mm2), 1e-300))
                  for metric in self.question.options.metrics]
        self.worst = [max(pair) for pair in zip(values, self.worst, strict=True)]
        self.study.tell(trial, values)


BLACK_BOX: dict[str, Callable[..., Proposer]] = {
    "random": lambda question, file=None: RandomDesigns(question.space, question.options.seed),
    "exhaustive": lambda question, file=None: ExhaustiveDesigns(question.space, question.options.seed),
    "tpe": lambda question, file=None: OptunaDesigns(question, "tpe", lambda samplers, seed: samplers.TPESampler(
        seed=seed, multivariate=True, constant_liar=True), file),
    "nsga2": lambda question, file=None: OptunaDesigns(question, "nsga2", lambda samplers, seed: samplers.NSGAIISampler(
        seed=seed, population_size=POPULATION), file),
}
"""Proposers by the name of their method, from a question and, for methods `SHARING`, the file of a study; "tpe" is
Bayesian optimisation by a tree of Parzen estimators."""
