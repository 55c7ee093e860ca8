"""Steps along one parameter: coordinates in octaves, and the value a given part of an octave away."""

from __future__ import annotations

import numpy as np

from fadiff_mapper.design.space.design_space import DesignSpace, Parameter, Point


def coordinates(parameter: Parameter) -> np.ndarray:
    """Every value of a parameter as a coordinate: log2 where all are positive, else the index."""
    values = parameter.values
    if parameter.numeric and float(min(values)) > 0:
        logs: np.ndarray = np.log2(np.array(values, dtype=np.float64))
        return logs
    return np.arange(len(values), dtype=np.float64)


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
        places, here = coordinates(parameter), point[axis]
        lower = min(int(np.abs(places - (places[here] - octaves)).argmin()), here - 1)
        higher = max(int(np.abs(places - (places[here] + octaves)).argmin()), here + 1)
        found += [(*point[:axis], index, *point[axis + 1:]) for index in (lower, higher)
                  if 0 <= index < len(places)]
    return found
