"""What a search is told, and what it tells while it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.relaxation.objective import ILLEGAL


@dataclass(frozen=True)
class Annealing:
    """One cooling of the chains, as in `SearchOptions`. `greedy`: they take the best of the neighbours tried."""

    rounds: int
    lively: float
    calm: float
    least: int
    agreeing: int
    greedy: bool


@dataclass(frozen=True)
class SearchOptions:
    """How much is tried; every number is per problem.

    The descent: `restarts` side by side for `steps` of Adam; every `reorder_every` steps the decisions without a
    gradient (loop order, keep or bypass) are tried anew. The temperature of the draw falls from `hot` to `cold`, the
    weight of the penalties rises from `light` to `heavy`.

    The refinement: `chains` start from the results of the descent and move `rounds` times, each time to the best of
    `tries` random neighbours, or, with a temperature that falls from `lively` to `calm` (in logarithms of the
    metric), to one that is worse. After `least` rounds it ends early once `agreeing` chains have met the same best
    mapping. Where chains have not agreed by the end, the best `chains_further` go on for `further` rounds from
    `lively_further` to `calm_further`. They take a good neighbour instead of the best: many are equally good, and would
    hold a chain where it is.

    `gradient`, `refinement` and `orders` switch the descent, the refinement and the choice of loop orders off. `model`
    is what the descent descends on: "refined" (`smooth`) or "paper" (`paper_model`).

    `exhaustive` replaces the search by the evaluation of every mapping.
    """

    metrics: tuple[str, ...] = ("edp",)
    seed: int = 0
    time_limit: float | None = None
    restarts: int = 48
    steps: int = 12
    reorder_every: int = 4
    learning_rate: float = 0.3
    hot: float = 4.0
    cold: float = 0.05
    light: float = 1.0
    heavy: float = 8.0
    chains: int = 64
    rounds: int = 60
    further: int = 180
    chains_further: int = 32
    tries: int = 12
    lively: float = 0.3
    calm: float = 0.01
    least: int = 30
    agreeing: int = 12
    lively_further: float = 0.03
    calm_further: float = 0.003
    gradient: bool = True
    refinement: bool = True
    orders: bool = True
    model: str = "refined"
    exhaustive: bool = False
    threads: int = 2

    @property
    def annealing(self) -> Annealing:
        """The refinement of all problems."""
        return Annealing(self.rounds, self.lively, self.calm, self.least, self.agreeing, greedy=True)

    @property
    def further_annealing(self) -> Annealing:
        """That of problems whose chains have not agreed."""
        return Annealing(self.further, self.lively_further, self.calm_further, self.least, self.agreeing, greedy=False)

    def as_dict(self) -> dict[str, Any]:
        """All options that bear on the result, for the record."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "threads"}


@dataclass(frozen=True)
class Progress:
    """The best so far: its value (see `objective.exact_value`), found after how long and how many evaluations."""

    time_s: float
    evaluations: int
    value: float
    stage: str

    @property
    def legal(self) -> bool:
        return self.value < ILLEGAL

    @property
    def metric_value(self) -> float | None:
        """The first metric itself (up to a millionth, where several are given), None before a legal mapping."""
        return math.exp(self.value) if self.legal else None
