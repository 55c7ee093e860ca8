"""The end of a search: from the best design to better ones beside it, by coarse steps, fine ones, and single values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from fadiff_mapper.design.design_run import DesignRun
from fadiff_mapper.design.evaluation.design_result import DesignOutcome
from fadiff_mapper.design.evaluation.work_force import InTime
from fadiff_mapper.design.space import DesignSpace, Point, points_beside

STRIDES = (1.0, 0.25)
"""Octaves at which designs beside the best one are looked at before those one value away: on a fine grid steps of one
value alone would creep (DOSA's memories have 128 values, 8 KB apart)."""


def settled(run: DesignRun, space: DesignSpace, evaluated: InTime, stopped: Callable[[], bool],
            prune: bool) -> tuple[DesignOutcome, ...]:
    """Moves to better designs beside the best one until there is none.

    At most as many designs are mapped on the way as the search was asked for, so that short searches stay short; the
    last look around the best design is mapped whole.

    Args:
        run: The books, with a feasible design.
        space: The space.
        evaluated: Evaluates designs.
        stopped: Asked after every look around the best design; once true, the best so far stays.
        prune: Whether designs an octave and a quarter away are left out where their lower bound is no better.

    Returns:
        The designs one value away from the best one in one parameter, all of them mapped, be they worse or not.
    """
    most = 2 * run.wanted
    for octaves in STRIDES:
        moved = True
        while moved and run.mapped < most and not stopped():
            beside = _new(run, points_beside(space, run.front[0].point, octaves))
            moved = _moved(run, evaluated(beside, run.values() if prune else []), most)
    while True:
        around = [outcome for outcome in evaluated(points_beside(space, run.front[0].point, 0.0), [])
                  if outcome is not None]
        if not _moved(run, around) or run.mapped >= most or stopped():
            return tuple(around)


def _new(run: DesignRun, points: Sequence[Point]) -> list[Point]:
    """The points that have not been evaluated."""
    known = {outcome.point for outcome in run.archive}
    return [point for point in points if point not in known]


def _moved(run: DesignRun, outcomes: Iterable[DesignOutcome | None], most: float = inf) -> bool:
    """Takes new outcomes into the books until `most` designs are mapped; returns whether one of them is the best."""
    best, known = run.front[0], {outcome.point for outcome in run.archive}
    for outcome in outcomes:
        if outcome is not None and outcome.point not in known:
            run.add(outcome)
        if run.mapped >= most:
            break
    return run.front[0] is not best
