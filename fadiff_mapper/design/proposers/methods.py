"""The methods that know of a design its figures alone, by name."""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.proposers.optuna_designs import genetic_algorithm, parzen_estimators
from fadiff_mapper.design.proposers.proposer import ExhaustiveDesigns, Proposer, RandomDesigns

BLACK_BOX: dict[str, Callable[[DesignQuestion], Proposer]] = {
    "random": lambda question: RandomDesigns(question.space, question.seed),
    "exhaustive": lambda question: ExhaustiveDesigns(question.space),
    "tpe": parzen_estimators,
    "nsga2": genetic_algorithm,
}

UNTAUGHT = ("random", "exhaustive")
"""Methods whose designs do not depend on what earlier ones are worth, so that a run can be split into shards."""
