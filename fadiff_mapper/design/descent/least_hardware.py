"""The least hardware that given mappings need: DOSA's way from mappings to hardware, on the values of a space."""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.design.space import DesignSpace, Point

NO_WORSE = 1e-9
"""Rise of the logarithm of a metric that counts as none: above rounding. Nothing was measured."""


def least_hardware(space: DesignSpace, point: Point, value_at: Callable[[Point], float]) -> Point:
    """Lowers one parameter after the other as far as the mappings still run, and no worse than before.

    Args:
        space: The space.
        point: A design that the mappings run on.
        value_at: Logarithm of the metric of these mappings on a design; infinite where they do not run.

    Returns:
        A design of values that are at most those of the first; found by bisection, so that a parameter whose worth
        rises and falls again may stop early.
    """
    value = value_at(point)
    for axis, parameter in enumerate(space.parameters):
        if not parameter.numeric:
            continue
        too_low, fits = -1, point[axis]
        while fits - too_low > 1:
            middle = (too_low + fits) // 2
            lowered = value_at((*point[:axis], middle, *point[axis + 1:]))
            if lowered <= value + NO_WORSE:
                fits, value = middle, lowered
            else:
                too_low = middle
        point = (*point[:axis], fits, *point[axis + 1:])
    return point
