"""The state of planning: for every distinct segment its candidates that wait, were tried, or can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fadiff_mapper.fusion import FusedGroup
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.run_state import PlanningRun
from fadiff_mapper.network.tilings.estimate_sheet import Candidate

TRIED = 8
"""Candidates of a segment that are evaluated exactly: estimates rank them well. Set by hand."""


@dataclass
class PlanningFacts:
    """The state of one distinct segment.

    Attributes:
        segment: The segment.
        waiting: Candidates with an estimate only, the best first.
        tried: Groups that were evaluated.
        searched: Evaluated groups whose tiles were searched thoroughly.
        exact: The groups that can run, with their exact cost.
        narrowed: How many of the candidates were proposed again in smaller tiles.
        listed: Whether its candidates have been enumerated.
    """

    segment: Segment
    waiting: list[Candidate] = field(default_factory=list)
    tried: list[FusedGroup] = field(default_factory=list)
    searched: list[FusedGroup] = field(default_factory=list)
    exact: list[EvaluatedGroup] = field(default_factory=list)
    narrowed: int = 0
    listed: bool = False

    @property
    def left(self) -> int:
        """How many candidates may still be tried: one with halved tiles replaces one already paid for."""
        return max(TRIED + self.narrowed - len(self.tried), 0)


@dataclass(frozen=True)
class PlanningBoard:
    """All segments of a run.

    Attributes:
        run: The run.
        every: Every segment of the network with its state; equal segments share one.
        known: The state of every distinct segment, by its key.
    """

    run: PlanningRun
    every: Sequence[tuple[Segment, PlanningFacts]]
    known: Mapping[Any, PlanningFacts]

    @property
    def segments(self) -> list[Segment]:
        """All segments."""
        return [segment for segment, _ in self.every]
