"""The time limit of a search of designs: when rounds have to end, and when none is worth its while any more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from statistics import median

from fadiff_mapper.design.evaluation.work_force import TimeLeft

WRITING = 1.5
"""Seconds that the last steps take for each second that the command took until its search began: both grow with the
networks and on a slow machine. 0.5 to 1.5 for ResNet-18 and MobileNetV1, fused, on a machine with four times the work
that it has cores for (1.4 to 3 s)."""

JUDGING = 0.5
"""Part of the time that is left in which designs are judged, as long as none has been mapped. Set by hand."""


@dataclass
class DesignClock:
    """Tells what a search still has time for, by what it took so far.

    Attributes:
        limit: Seconds that the search has; None: no limit.
        designs_after: Says how many designs must be mapped after the search, as far as is known now.
        start: Its start, seconds of `time.time`, as workers on other machines share no other clock.
        proposals: Seconds that each round needed to propose its designs.
        mappings: Seconds until each round had its first mapped design.
        judging_end: When the designs of a round have to be proposed, seconds of `time.time`.
        missed: Whether a design was not begun in time, or given up, or no round was begun for want of time.
    """

    limit: float | None
    designs_after: Callable[[], int]
    start: float
    proposals: list[float] = field(default_factory=list)
    mappings: list[float] = field(default_factory=list)
    judging_end: float = inf
    missed: bool = False

    def over(self) -> bool:
        """Whether the time of the search and of its last steps is over."""
        return self.limit is not None and time.time() > self.start + self.limit

    def left(self) -> float:
        """Seconds that are left to the search of designs; infinite without a limit, below 0 where they are over."""
        end = self._end()
        return inf if end is None else end - time.time()

    def round(self, any_known: bool) -> TimeLeft:
        """The time of the next round.

        Args:
            any_known: Whether a feasible design is known, so that all others may be given up.
        """
        end = self._end()
        return TimeLeft() if end is None else TimeLeft(end, not any_known)

    def begin_proposals(self) -> None:
        """Notes that designs are judged from now on."""
        self.judging_end = time.time() + self.left() * (1.0 if self.mappings else JUDGING)

    def over_for_proposals(self) -> bool:
        """Whether no further design is to be judged, so that those that are proposed can be mapped."""
        return time.time() > self.judging_end

    def too_late(self) -> bool:
        """Whether a round that begins now is unlikely to map a design in time."""
        return self.left() < sum(median(seconds) for seconds in (self.proposals, self.mappings) if seconds)

    def _end(self) -> float | None:
        """When the search of designs has to end; None without a limit."""
        if self.limit is None:
            return None
        return self.start + self.limit - (self.designs_after() * median(self.mappings) if self.mappings else 0.0)


def kept_back(begun: float) -> float:
    """Seconds of a command's limit that a search which starts now has not: spent already, or needed for the files.

    Args:
        begun: When the command began, by the monotonic clock.
    """
    return (time.monotonic() - begun) * (1 + WRITING)
