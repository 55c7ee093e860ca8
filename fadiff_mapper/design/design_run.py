"""The books of a search of designs: every outcome, the front, every improvement, and who is told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fadiff_mapper.design.evaluation.design_result import DesignOutcome, OutcomeTable
from fadiff_mapper.design.pareto_front import front_of, hypervolume


@dataclass(frozen=True)
class DesignProgress:
    """How far a search of designs is.

    Attributes:
        evaluations: Designs mapped.
        wanted: Designs that will be mapped at most; infinite where the space or time is the limit.
        pruned: Designs that their lower bound left out.
        refused: Designs that break a limit or cannot be read.
        best: The best design in the first metric; None before a feasible one.
        time_s: Seconds since the start.
    """

    evaluations: int
    wanted: float
    pruned: int
    refused: int
    best: DesignOutcome | None
    time_s: float

    @property
    def rate(self) -> float:
        """Designs mapped in a second."""
        return self.evaluations / self.time_s if self.time_s else 0.0

    @property
    def left_s(self) -> float:
        """Seconds that are left at this rate; infinite where that is not known."""
        return (self.wanted - self.evaluations) / self.rate if self.rate else math.inf


OnDesign = Callable[[DesignProgress], None]
"""Told after every design."""


@dataclass
class DesignRun:
    """A search at work.

    Attributes:
        metrics: Metrics that are minimised.
        wanted: Designs to map at most.
        on_progress: Told after every design.
        archive: Every outcome so far, in the order of proposal.
        front: Outcomes that no other outcome beats, the best in the first metric first.
        history: Every change of the front: see `DesignResult.history`; `front` has the metrics of its designs.
        mapped: Designs mapped.
        pruned: Designs left out.
        start: When the search began, seconds of `time.monotonic`.
    """

    metrics: tuple[str, ...]
    wanted: float
    on_progress: OnDesign
    archive: OutcomeTable
    front: list[DesignOutcome] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    mapped: int = 0
    pruned: int = 0
    start: float = field(default_factory=time.monotonic)

    @property
    def time_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def values(self) -> list[tuple[float, ...]]:
        """The metrics of the front's designs."""
        return [tuple(outcome.of(metric) for metric in self.metrics) for outcome in self.front]

    def add(self, outcome: DesignOutcome) -> None:
        """Takes an outcome into the books and tells of it."""
        self.archive.append(outcome)
        self.mapped += outcome.mapped
        self.pruned += outcome.pruned
        front = front_of([*self.front, outcome], self.metrics)
        if any(each is outcome for each in front):
            self.front = front
            self.history.append({"time_s": self.time_s, "evaluations": self.mapped,
                                 "value": front[0].of(self.metrics[0]), "front": self.values()})
        self.on_progress(DesignProgress(self.mapped, self.wanted, self.pruned,
                                        len(self.archive) - self.mapped - self.pruned,
                                        self.front[0] if self.front else None, self.time_s))

    def reference(self) -> tuple[float, ...]:
        """The worst value of each metric among all feasible designs; empty for one metric."""
        feasible = [outcome for outcome in self.archive if outcome.feasible]
        return tuple(max(outcome.of(metric) for outcome in feasible)
                     for metric in self.metrics) if len(self.metrics) > 1 and feasible else ()

    def improvements(self) -> tuple[dict[str, Any], ...]:
        """The history with the hypervolume of every front up to the reference, for several metrics."""
        reference = self.reference()
        volumes = [{"hypervolume": hypervolume(step["front"], reference)} if reference else {} for step in self.history]
        return tuple({key: value for key, value in step.items() if key != "front"} | volume
                     for step, volume in zip(self.history, volumes, strict=True))
