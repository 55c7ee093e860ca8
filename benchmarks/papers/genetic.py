"""Genetic search with GAMMA's operators, by pymoo.

GAMMA (Kao and Krishna, ICCAD 2020) describes a crossover that exchanges the tiling of whole dimensions between parents,
a mutation that redraws a factor or a parallel dimension, and a reordering of loops. Its growth and ageing add and
remove levels of parallelism; the levels are the design's here, so that these two have no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pymoo.algorithms.soo.nonconvex.ga import GA
from pymoo.core.crossover import Crossover
from pymoo.core.mutation import Mutation
from pymoo.core.problem import Problem
from pymoo.core.termination import NoTermination

from .encoded_search import LayerObjective

POPULATION = 20
"""Mappings of a generation. Nothing was measured; small, because budgets of evaluations are."""

EXCHANGED = 0.5
"""Probability with which a dimension's tiling comes from the other parent: either is as likely."""

REDRAWN = 2.0
"""Factors that a mutation redraws on average besides the one that it always does. With none, three populations of five
end at a local optimum of a space of 216 mappings."""

REORDERED = 0.3
"""Probability with which a child's loop orders, placements or bypasses are redrawn, one of them. Nothing was
measured."""


class _Exchange(Crossover):
    """GAMMA's crossover: each dimension's factors, and each other choice, from either parent."""

    def __init__(self, groups: np.ndarray) -> None:
        super().__init__(2, 2)
        self.groups = groups

    def _do(self, problem: Any, X: np.ndarray, *args: Any, random_state: Any = None, **kwargs: Any) -> np.ndarray:
        swapped = random_state.random((X.shape[1], self.groups.max(initial=0) + 1)) < EXCHANGED
        taken = swapped[:, self.groups]
        return np.where(taken, X[::-1], X)


class _Redraw(Mutation):
    """GAMMA's mutation and reordering: some factors anew, and now and then one other choice."""

    def __init__(self, factors: int) -> None:
        super().__init__()
        self.factors = factors

    def _do(self, problem: Any, X: np.ndarray, *args: Any, random_state: Any = None, **kwargs: Any) -> np.ndarray:
        children, (batch, size) = X.copy(), X.shape
        if self.factors:
            redrawn = random_state.random((batch, self.factors)) < REDRAWN / self.factors
            redrawn[np.arange(batch), random_state.integers(0, self.factors, batch)] = True
            children[:, :self.factors][redrawn] = random_state.random(np.count_nonzero(redrawn))
        if size > self.factors:
            rows = np.flatnonzero(random_state.random(batch) < REORDERED)
            children[rows, random_state.integers(self.factors, size, len(rows))] = random_state.random(len(rows))
        return children


def search(objective: LayerObjective, seed: int) -> None:
    """Searches a layer until the budget is used up."""
    encoding = objective.encoding
    dimensions = [d for _, d in encoding.factors]
    evolve(objective, objective.spent, dimensions, len(encoding.choices), seed)


def evolve(values: Callable[[np.ndarray], np.ndarray], spent: Callable[[], bool], dimensions: Sequence[int],
           others: int, seed: int) -> None:
    """Evolves vectors.

    Args:
        values: Values of vectors [B, genes] to minimise.
        spent: Asked between generations; once true, the search ends.
        dimensions: The dimension of each gene of a factor; these genes come first.
        others: Number of genes that follow.
        seed: Seed of every random number.
    """
    names = {d: number for number, d in enumerate(dict.fromkeys(dimensions))}
    groups = np.array([*(names[d] for d in dimensions), *range(len(names), len(names) + others)], dtype=np.int64)
    if not len(groups):         # a single mapping
        while not spent():
            values(np.zeros((POPULATION, 0)))
        return
    problem = Problem(n_var=len(groups), n_obj=1, xl=0.0, xu=1 - 1e-9)
    algorithm = GA(POPULATION, crossover=_Exchange(groups), mutation=_Redraw(len(dimensions)))
    algorithm.setup(problem, termination=NoTermination(), seed=seed)
    while not spent():
        children = algorithm.ask()
        if children is None or not len(children):     # every child is there already
            values(np.random.default_rng(seed).random((POPULATION, len(groups))))
            continue
        children.set("F", values(children.get("X"))[:, None])
        children.set("G", np.zeros((len(children), 0)), "H", np.zeros((len(children), 0)))
        algorithm.tell(infills=children)
