"""Hardware as smooth functions of its parameters, drawn from designs of the space themselves.

Problem. The descent needs every constant of the machine (energies, bandwidths, capacities, meshes, area) as a function
of real-valued parameters; a space may put parameters anywhere, also through ties, templates and estimators of energy.

Method. Designs along every parameter's axis through a centre are read as any design is. In logarithms a constant is
its value at the centre plus one piecewise linear curve for each parameter. So it is exact at the sampled designs, a
product of powers of the parameters (capacities, meshes, ties) is exact everywhere, and other functions of several
parameters (an estimated energy by depth and width) are approximated around the centre; the next round takes another.

Axes: P (parameter), K (knot: a sampled value of a parameter), Q (number of a vector), R (restart).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.design.descent.hardware_figures import figures_of, structure
from fadiff_mapper.design.space import DesignSpace, Point, coordinate
from fadiff_mapper.spec.spec import Spec

KNOTS = 5
"""Values of a parameter that are sampled at most, the centre and both ends among them. With 9, reading them took a
third of a proposal's time (DOSA's space, BERT); capacities and meshes are exact with any number."""

SMALLEST = 1e-30
"""Stands in for a constant of 0, so that logarithms stay finite. A plain safety limit."""


@dataclass(frozen=True)
class HardwareCurves:
    """The vectors of designs around a centre.

    Attributes:
        centre: The design in the middle.
        at_centre: Natural logarithm of its vector, [Q].
        knots: For each parameter the sampled coordinates in ascending order, [K]; one where it cannot descend.
        curves: For each parameter the logarithm of the vector there less that at the centre, [K, Q].
        lower: Least coordinate of each parameter, [P].
        upper: Greatest coordinate, [P].
    """

    centre: Point
    at_centre: torch.Tensor
    knots: tuple[torch.Tensor, ...]
    curves: tuple[torch.Tensor, ...]
    lower: torch.Tensor
    upper: torch.Tensor

    def at(self, place: torch.Tensor) -> torch.Tensor:
        """The vectors at real-valued coordinates, [P, R]: [Q, R], differentiable."""
        logs = self.at_centre[:, None] + torch.zeros_like(place[:1])
        for along, knots, curve in zip(place, self.knots, self.curves, strict=True):
            if len(knots) > 1:
                logs = logs + _interpolated(along, knots, curve)
        return logs.exp()


def _interpolated(coordinate: torch.Tensor, knots: torch.Tensor, curve: torch.Tensor) -> torch.Tensor:
    """A piecewise linear curve [K, Q] at coordinates [R], the end pieces continued: [Q, R]."""
    piece = torch.searchsorted(knots[1:-1].contiguous(), coordinate.detach().contiguous())
    left, right = knots[piece], knots[piece + 1]
    part = (coordinate - left) / (right - left)
    return (curve[piece] + part[:, None] * (curve[piece + 1] - curve[piece])).T


def curves_around(space: DesignSpace, centre: Point, spec_at: Callable[[Point], Spec]) -> HardwareCurves:
    """Samples the designs along every axis through a centre.

    Args:
        space: The space.
        centre: A design that can be read.
        spec_at: Reads a design with any problem of the networks; raises FadiffError where it is none.

    Returns:
        The curves. A parameter of words, and one whose values change the levels of the architecture, has one knot.
    """
    middle = spec_at(centre)
    at_centre = _logs(figures_of(space, centre, middle))
    knots, curves, ends = [], [], []
    for axis, parameter in enumerate(space.parameters):
        sampled = {centre[axis]: np.zeros_like(at_centre)}
        for index in _sampled_indices(len(parameter.values), centre[axis]) if parameter.numeric else ():
            point = (*centre[:axis], index, *centre[axis + 1:])
            try:
                spec = spec_at(point)
            except OutOfTime:
                raise
            except FadiffError:     # no design: the curve goes on from the others
                continue
            if structure(spec) == structure(middle):
                sampled[index] = _logs(figures_of(space, point, spec)) - at_centre
        order = sorted(sampled)
        places = np.array([coordinate(parameter, index) for index in order])
        knots.append(torch.from_numpy(places))
        curves.append(torch.from_numpy(np.stack([sampled[index] for index in order])))
        ends.append((places[0], places[-1]))
    lower, upper = torch.tensor(ends, dtype=torch.float64).T
    return HardwareCurves(centre, torch.from_numpy(at_centre), tuple(knots), tuple(curves), lower, upper)


def _sampled_indices(count: int, centre: int) -> list[int]:
    """At most `KNOTS` indices of `count` values, evenly spread, the ends among them but not the centre."""
    spread = np.unique(np.rint(np.linspace(0, count - 1, min(count, KNOTS))).astype(int))
    return [int(index) for index in spread if index != centre]


def _logs(figures: np.ndarray) -> np.ndarray:
    """Natural logarithms of a vector."""
    logs: np.ndarray = np.log(np.maximum(figures, SMALLEST))
    return logs
