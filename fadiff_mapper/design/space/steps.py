"""Steps along one parameter: coordinates in octaves, and the value a given part of an octave away.

No list of all values is made: a lazy range may have a thousand million of them.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from fadiff_mapper.design.space.design_space import DesignSpace, Parameter, Point


def coordinate(parameter: Parameter, index: int) -> float:
    """A value of a parameter as a coordinate: log2 where all are positive numbers, else the index."""
    lowest, value = parameter.values[0], parameter.values[index]
    if isinstance(value, str) or isinstance(lowest, str) or lowest <= 0:
        return float(index)
    return float(np.log2(float(value)))


def nearest_index(parameter: Parameter, place: float) -> int:
    """The index of the value nearest to a coordinate; of two as near, the lower one."""
    indices = range(len(parameter.values))
    above = bisect_left(indices, place, key=lambda index: coordinate(parameter, index))
    around = [index for index in (above - 1, above) if index in indices]
    return min(around, key=lambda index: abs(coordinate(parameter, index) - place))


def points_beside(space: DesignSpace, point: Point, octaves: float) -> list[Point]:
    """The designs beside one along every parameter, at about a given distance.

    Args:
        space: The space.
        point: The design.
        octaves: The distance in octaves, where a parameter has one; 0 takes the next value.

    Returns:
        At most two designs for each parameter, at least one value away, the lower one first.
    """
    found = []
    for axis, parameter in enumerate(space.parameters):
        here, place = point[axis], coordinate(parameter, point[axis])
        lower = min(nearest_index(parameter, place - octaves), here - 1)
        higher = max(nearest_index(parameter, place + octaves), here + 1)
        found += [(*point[:axis], index, *point[axis + 1:]) for index in (lower, higher)
                  if 0 <= index < len(parameter.values)]
    return found
