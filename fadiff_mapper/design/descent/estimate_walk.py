"""A walk over designs from better to better estimates, in steps that begin at an octave and become finer."""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.design.space import DesignSpace, Point, points_beside

STRIDES = (3.0, 1.5, 0.75, 0.35, 0.15, 0.0)
"""Octaves of a step, the coarse ones first; the last one goes to the next value. Set by hand."""

LEAST_GAIN = 0.003
"""Part of a metric that a step must gain: bounds have wide plains whose slight slope leads to memories so small that
mappings lie far above them (accumulators of DOSA's space with BERT: 0.1 % of the bound, 14 % of the mapped metric)."""


def walk(space: DesignSpace, start: Point, value_at: Callable[[Point], float], enough: Callable[[], bool]) -> None:
    """Walks to lower values along one parameter at a time.

    Args:
        space: The space.
        start: Where the walk begins.
        value_at: The value of a design, which the caller keeps; infinite for designs that are none.
        enough: Asked before every value; once true, the walk ends.
    """
    here, value = start, value_at(start)
    for octaves in STRIDES:
        moved = True
        while moved:
            moved = False
            for point in points_beside(space, here, octaves):
                if enough():
                    return
                other = value_at(point)
                if other < value - LEAST_GAIN:
                    here, value, moved = point, other, True
                    break
