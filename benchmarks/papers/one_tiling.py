"""One tiling for all layers with independent factors: an encoding that public code of this kind uses, and a bad one.

Every place has one factor for each dimension, a power of two, whatever the other places and whichever the layer; where
it does not divide what a layer has left, the layer takes the next smaller divisor, and its outermost level the rest.
The network is illegal as long as one of its layers is. The optimiser is the genetic one, with the same operators.
"""

from __future__ import annotations

import math
import time

import numpy as np

from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.options import ILLEGAL

from .course import NetworkCourse
from .encoded_search import Budget
from .encoding import Encoding, nests_of
from .genetic import evolve
from .networks import NetworkQuestion


class OneTiling:
    """The objective: the network's EDP for vectors of common factors and choices.

    Attributes:
        cells: (place, dimension's name) of every gene of a factor.
        course: Improvements of the network.
        evaluations: Legal mappings of single layers evaluated.
    """

    def __init__(self, question: NetworkQuestion, budget: Budget) -> None:
        self.encodings = [Encoding(task) for task in question.tasks()]
        self.cells = list(dict.fromkeys((place, self._names(encoding)[d]) for encoding in self.encodings
                                        for place, d in encoding.factors))
        self.choices = max(len(encoding.choices) for encoding in self.encodings)
        bounds = [bound for spec in question.specs for bound in spec.problem.bounds.values()]
        self.powers = int(math.log2(max(bounds))) + 1
        self.times, self.budget = question.times, budget
        joined = question.joined
        self.course = NetworkCourse([], (joined.energy_pj, joined.cycles), len(question.specs),
                                    notes={"looked_at": 0})
        self.start, self.evaluations, self.best = time.process_time(), 0, math.inf

    @staticmethod
    def _names(encoding: Encoding) -> tuple[str, ...]:
        return encoding.family.spaces[0].problem.dimensions

    def __call__(self, genes: np.ndarray) -> np.ndarray:
        """Logarithms of the network's EDP, [B]; above `ILLEGAL` by the excess of all layers."""
        energy, cycles = (np.full(len(genes), start) for start in self.course.joined)
        excess = np.zeros(len(genes))
        for encoding, times in zip(self.encodings, self.times, strict=True):
            scores = score(encoding.task.layer, self._nests(encoding, genes))
            energy, cycles = energy + times * scores.energy, cycles + times * scores.cycles
            self.evaluations += int(np.count_nonzero(scores.legal))
            self.course.notes["looked_at"] += len(genes)
            excess += np.where(scores.legal, 0, np.maximum(scores.excess, 1e-3))
        values: np.ndarray = np.where(excess > 0, ILLEGAL + excess, np.log(np.maximum(energy * cycles, 1e-30)))
        if values.min() < min(self.best, ILLEGAL):
            self.best = float(values.min())
            self.course.whole.append((time.process_time() - self.start, self.evaluations, math.exp(self.best)))
        self.course.cpu_s, self.course.evaluations = time.process_time() - self.start, self.evaluations
        return values

    def spent(self) -> bool:
        """Whether the budget of all layers together is used up; illegal ones count, as there may be no others."""
        return (time.process_time() - self.start >= self.budget.cpu_s * len(self.encodings)
                and self.course.notes["looked_at"] >= self.budget.evaluations * len(self.encodings))

    def _nests(self, encoding: Encoding, genes: np.ndarray) -> Nest:
        """The mappings of one layer."""
        wanted = dict(zip(self.cells, 2.0 ** (genes[:, :len(self.cells)] * self.powers).astype(np.int64).T,
                          strict=True))
        tables, names = encoding.family.factors, self._names(encoding)
        shape = tables.allowed.shape[1:3]
        factors, rows = np.ones((*shape, len(genes))), np.arange(len(genes))
        for d in range(shape[1]):
            left = np.full(len(genes), tables.bound[0, d])
            for place in range(shape[0]):
                options = tables.completable[0, place, d, left]
                most = wanted.get((place, names[d]), np.full(len(genes), np.inf))
                fits = options & (tables.divisor[0, d] <= most[:, None])
                last = options.shape[1] - 1 - fits[:, ::-1].argmax(axis=1)
                pick = np.where(fits[rows, last], last, options.argmax(axis=1))
                factors[place, d] = tables.divisor[0, d, pick]
                left = tables.quotient[0, d, left, pick]
        picks = [np.minimum((gene * count).astype(np.int64), count - 1) for gene, count in zip(
            genes[:, len(self.cells):].T, encoding.choices, strict=False)]
        return nests_of(encoding.family, factors, encoding.orders, encoding.layouts, picks)


def search(question: NetworkQuestion, budget: Budget, seed: int) -> NetworkCourse:
    """Searches a network until the budgets of all its layers are used up."""
    objective = OneTiling(question, budget)
    generations = iter((False, False, True))
    evolve(lambda genes: genes.sum(axis=1), lambda: next(generations), [0, 1], 1, seed)    # loads all of the library
    objective.start = time.process_time()
    places = {name: number for number, name in enumerate(dict.fromkeys(name for _, name in objective.cells))}
    evolve(objective, objective.spent, [places[name] for _, name in objective.cells], objective.choices, seed)
    return objective.course
