"""A walk over designs from better to better estimates, in steps that begin at an octave and become finer."""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.design.space import DesignSpace, Point, points_beside

STRIDES = (1.0, 0.5, 0.25, 0.1, 0.0)
"""Octaves of a step, the coarse ones first; the last one goes to the next value."""


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
                if other < value:
                    here, value, moved = point, other, True
                    break
