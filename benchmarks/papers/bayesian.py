"""Bayesian search: optuna's tree-structured Parzen estimator over the genes.

Genes of factors are numbers, because neighbouring divisors act alike; other choices are categories.
"""

from __future__ import annotations

import numpy as np
import optuna

from .encoded_search import LayerObjective

CATEGORIES = 64
"""Candidates of a choice up to which it is a category; above, a number: there are up to 256
placements of loops on two axes."""


def search(objective: LayerObjective, seed: int) -> None:
    """Searches until the budget is used up."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    encoding = objective.encoding
    space: dict[str, optuna.distributions.BaseDistribution] = {
        f"factor {number}": optuna.distributions.FloatDistribution(0, 1) for number in range(len(encoding.factors))}
    space |= {f"choice {number}": optuna.distributions.CategoricalDistribution(range(count)) if count <= CATEGORIES
              else optuna.distributions.IntDistribution(0, count - 1) for number, count in enumerate(encoding.choices)}
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True))
    while not objective.spent():
        trial = study.ask(space)
        genes = [min(trial.params[f"factor {number}"], 1 - 1e-9) for number in range(len(encoding.factors))]
        genes += [(trial.params[f"choice {number}"] + 0.5) / count for number, count in enumerate(encoding.choices)]
        study.tell(trial, float(objective(np.array([genes]))[0]))
