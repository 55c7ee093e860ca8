"""The search of one layer by an optimiser that proposes vectors: its objective, its budget and its course."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from fadiff_mapper.search.best_so_far import exact_value

from .course import LayerCourse
from .encoding import Encoding


@dataclass(frozen=True)
class Budget:
    """The length of a search of a layer, which lasts until both are reached.

    Attributes:
        cpu_s: Seconds of processor time.
        evaluations: Legal mappings evaluated.
    """

    cpu_s: float
    evaluations: int


@dataclass
class LayerObjective:
    """The exact EDP of vectors as the optimisers see it.

    Legal mappings alone count as evaluations; bringing one into the memories (`Encoding.fitted`) costs processor time.

    Attributes:
        encoding: The layer's genes.
        budget: When the search ends.
        course: Improvements so far.
        start: Processor time at the beginning.
        evaluations: Legal mappings evaluated.
    """

    encoding: Encoding
    budget: Budget
    course: LayerCourse
    start: float = field(default_factory=time.process_time)
    evaluations: int = 0

    def __call__(self, genes: np.ndarray) -> np.ndarray:
        """Logarithms of the EDP of some vectors [B, genes], above `ILLEGAL` for those without a legal mapping."""
        _, scores = self.encoding.fitted(genes)
        values = exact_value(scores, ("edp",))
        before, best = self.evaluations, int(values.argmin())
        self.evaluations += int(np.count_nonzero(scores.legal))
        if scores.legal[best]:
            self.course.note(time.process_time() - self.start, before + int(np.count_nonzero(scores.legal[:best + 1])),
                             float(scores.energy[best]), float(scores.cycles[best]))
        self.course.end(time.process_time() - self.start, self.evaluations)
        return values

    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.evaluations >= self.budget.evaluations and self.course.cpu_s >= self.budget.cpu_s
