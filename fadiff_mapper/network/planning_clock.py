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
"""Seconds beyond the limit for the searches of layers by themselves: layers that are cut short make a plan worse than a
second more does."""

LATE_S = 0.4
"""Seconds beyond its limit at which a command aims, of the two that it may take: so small networks with a short limit
have groups, too."""

START_S, START_PER_NODE_S, START_PER_LAYER_S = 0.56, 1.7e-4, 5e-4
"""Seconds until a network has been read: loading the program, each node, each distinct layer. These and all that follow
are of a processor of 2.1 GHz."""

REPORT_S, REPORT_PER_NODE_S, REPORT_PER_MAPPING_S = 0.1, 1.8e-4, 0.011
"""Seconds for the files of a plan: the page, each node, and each mapping of a layer or tile, which has a folder."""

TILE_S = 3.5e-3
"""Seconds for the exact evaluation of a mapping of a tile."""

FILES = 0.25
"""Most of a limit that is reserved for the files of layers by themselves; files for which time then runs out
are not written. Set by hand."""


@dataclass(frozen=True)
class PlanningClock:
    """The clock of a run, which reserves time for the steps after the search."""

    limit: float | None  # seconds after the start, None without a limit
    stopped: Callable[[], bool]  # asked again and again; true ends the run
    start: float = field(default_factory=time.monotonic)  # start of the run, by the monotonic clock
    plan: float = 0.0  # seconds reserved for the files of the plan as a whole
    layers: float = 0.0  # seconds reserved for the folders of layers by themselves
    per_tile: float = TILE_S  # seconds reserved for each mapping of a tile in the groups

    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def left(self, tiles: int = 0) -> float:
        """Seconds that are left to the search; infinite without a limit, negative once they are used up.

        `tiles`: mappings of tiles in the groups of the plan that are to be written.
        """
        if self.limit is None:
            return inf
        return self.limit - self.plan - self.layers - tiles * self.per_tile - self.spent()

    def over(self, tiles: int = 0) -> bool:
        """Whether the search must end; `tiles` as for `left`."""
        return self.stopped() or self.left(tiles) < 0

    def over_for_files(self) -> bool:
        """Whether files of mappings not written yet must be left out, to leave time for the files of the plan."""
        return self.limit is not None and self.spent() > self.limit + GRACE_S - self.plan

    def late(self) -> Over:
        """The end of work without which there is no plan at all: true from `deadline.GRACE` after the limit."""
        return with_grace(inf if self.limit is None else self.start + self.limit, self.stopped)


def command_clock(limit: float | None, stopped: Callable[[], bool], start: float, workload: Workload) -> PlanningClock:
    """The clock of a command that began at `start`, by the monotonic clock, and has just read its network.

    The duration of the last steps is predicted from that of the first steps, so slow and busy machines end in time,
    too. `limit`: seconds for the whole command; `stopped`: asked again and again, true ends the run.
    """
    nodes, layers = len(workload.nodes), len(workload.distinct())
    pace = (time.monotonic() - start) / (START_S + nodes * START_PER_NODE_S + layers * START_PER_LAYER_S)
    return PlanningClock(
        None if limit is None else limit + LATE_S, stopped, start, pace * (REPORT_S + nodes * REPORT_PER_NODE_S),
        min(pace * layers * REPORT_PER_MAPPING_S, inf if limit is None else FILES * limit),
        pace * (TILE_S + REPORT_PER_MAPPING_S))
