"""The time limit of a network's run: when its search has to end, so that the run as a whole ends within the limit.

The search ends early by the time that its last steps will take: evaluating every mapping of the plan exactly and, in
the command, writing the report. The time of these steps is known only roughly; a command has two seconds beyond its
limit for the error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from fadiff_mapper.base.deadline import Over, with_grace
from fadiff_mapper.workload import Workload

GRACE_S = 1.0
"""Seconds beyond the limit that layers by themselves may take until their searches end: a plan of layers that are cut
short is worth less than a second."""

LATE_S = 0.4
"""Seconds beyond its limit at which a command aims, of the two that it has: so small networks with a
short limit have groups, too."""

START_S, START_PER_NODE_S, START_PER_LAYER_S = 0.56, 1.7e-4, 5e-4
"""Seconds until a network has been read: for loading the program, by node, and by distinct layer, on a processor of
2.1 GHz, as all that follow."""

REPORT_S, REPORT_PER_NODE_S, REPORT_PER_MAPPING_S = 0.1, 1.8e-4, 0.011
"""Seconds for the files of a plan: the page, by node, and by mapping of a layer or tile, which has a folder."""

TILE_S = 3.5e-3
"""Seconds for the exact evaluation of a mapping of a tile."""

FILES = 0.25
"""The part of a limit that is kept back at most for the files of layers by themselves: what there is no time for then
is not written. Set by hand."""


@dataclass(frozen=True)
class PlanningClock:
    """Tells when to come to an end, with seconds kept back for what follows the search."""

    limit: float | None  # seconds after the start, None without a limit
    stopped: Callable[[], bool]  # asked again and again; true ends the run
    start: float = field(default_factory=time.monotonic)  # start of the run, by the monotonic clock
    plan: float = 0.0  # kept back for the files of the plan as a whole
    layers: float = 0.0  # for the folders of layers by themselves
    per_tile: float = TILE_S  # for every mapping of a tile in its groups

    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def left(self, tiles: int = 0) -> float:
        """Seconds that are left to the search; infinite without a limit, below 0 where they are over.

        `tiles`: mappings of tiles in the groups of the plan that are to be written.
        """
        if self.limit is None:
            return inf
        return self.limit - self.plan - self.layers - tiles * self.per_tile - self.spent()

    def over(self, tiles: int = 0) -> bool:
        """Whether the search has to come to an end; `tiles` as for `left`."""
        return self.stopped() or self.left(tiles) < 0

    def over_for_files(self) -> bool:
        """Whether the files of mappings that are not written yet have to be left out, as those of the plan follow."""
        return self.limit is not None and self.spent() > self.limit + GRACE_S - self.plan

    def late(self) -> Over:
        """Tells when work must be given up without which there is no plan at all: `deadline.GRACE` after the limit."""
        return with_grace(inf if self.limit is None else self.start + self.limit, self.stopped)


def command_clock(limit: float | None, stopped: Callable[[], bool], start: float, workload: Workload) -> PlanningClock:
    """The clock of a command that began at `start`, by the monotonic clock, and has just read its network.

    How long its last steps will take is judged by how long the first ones took, so that slow and busy machines end in
    time as well. `limit`: seconds for the whole command; `stopped` is asked again and again: true ends the run.
    """
    nodes, layers = len(workload.nodes), len(workload.distinct())
    pace = (time.monotonic() - start) / (START_S + nodes * START_PER_NODE_S + layers * START_PER_LAYER_S)
    return PlanningClock(
        None if limit is None else limit + LATE_S, stopped, start, pace * (REPORT_S + nodes * REPORT_PER_NODE_S),
        min(pace * layers * REPORT_PER_MAPPING_S, inf if limit is None else FILES * limit),
        pace * (TILE_S + REPORT_PER_MAPPING_S))
