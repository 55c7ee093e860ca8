"""Steps along one parameter: coordinates in octaves, and the value a given part of an octave away.

No list of all values is made: a lazy range may have a thousand million of them.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from fadiff_mapper.design.space.design_space import DesignSpace, Parameter, Point, nearest_value


def coordinate(parameter: Parameter, index: int) -> float:
    """A value of a parameter as a coordinate: log2 where all are positive numbers, else the index."""
    return float(np.log2(float(parameter.values[index]))) if _in_octaves(parameter) else float(index)


def nearest_index(parameter: Parameter, place: float) -> int:
    """The index of the value nearest to a coordinate; of two as near, the lower one."""
    if _in_octaves(parameter):
        return nearest_value(parameter.values, 2.0 ** place)
    return min(max(ceil(place - 0.5), 0), len(parameter.values) - 1)


def _in_octaves(parameter: Parameter) -> bool:
    """Whether all values are positive numbers, so that their coordinates are logarithms."""
    lowest = parameter.values[0]
    return not isinstance(lowest, str) and lowest > 0


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
