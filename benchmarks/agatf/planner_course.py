"""Our planner's way to its plan, counted in exact evaluations of groups."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from unittest.mock import patch

from benchmarks.agatf.exact_groups import space_task
from fadiff_mapper.fusion import FusedGroup
from fadiff_mapper.network import planning
from fadiff_mapper.network.checkpoint import Checkpoint
from fadiff_mapper.workload import Workload


@dataclass
class EvaluationCount(Checkpoint):
    """A checkpoint without a file that counts the groups whose tiles were searched.

    Attributes:
        searches: Groups so far; one that is searched again with all strategies counts again.
    """

    searches: int = 0

    def keep_mapped(self, batch: str, groups: Sequence[FusedGroup | None], strategies: dict[str, str]) -> None:
        """Takes notice of a batch of groups after their search."""
        self.searches += len(groups)


@dataclass(frozen=True)
class PlannerCourse:
    """A run of the planner.

    Attributes:
        course: (exact evaluations, logarithm of the EDP), each plan better than those before.
        searches: Exact evaluations in all.
        layers_s: Seconds of processor time of the layers by themselves.
        groups_s: And of everything after that.
    """

    course: list[tuple[int, float]]
    searches: int
    layers_s: float
    groups_s: float


def planner_course(workload: Workload, design: str, seed: int) -> PlannerCourse:
    """Plans a network and notes after how many evaluations each better plan was known.

    Args:
        workload: The network.
        design: Name of a bundled design.
        seed: Seed of the searches.
    """
    start, counted = time.process_time(), EvaluationCount(None, {}, ())
    run = space_task(workload, design, seed, counted).run
    course: list[tuple[int, float]] = []
    run.on_progress = lambda _, value: course.append((counted.searches, log(value)))
    run.note("layers")
    mapped = time.process_time()
    planning.planned_groups(run)
    return PlannerCourse(course, counted.searches, mapped - start, time.process_time() - mapped)


@contextmanager
def without_second_reads() -> Iterator[None]:
    """While it is open, no group of the planner keeps a residual operand on the chip for its second reader.

    The spaces have no such groups, so that the planner picks from the same ones.
    """
    with patch.object(planning, "with_second_reads", lambda *_: []):
        yield
