"""One descent of hardware parameters, tiling factors of all layers and fusion variables of all links.

The loss is the logarithm of the metric on the relaxed network, the designs' area included where the metric has it,
with the penalties of FADiff's eqs. (21) to (26) and those of the space's limits. A larger memory holds larger tiles
and costs more per access, leakage and area; a wider array runs more at once: the hardware settles where tiles and
meshes that the layers want are worth it (DOSA's one loop, here with fusion inside). It starts at a design that has
been mapped exactly, with its mappings.

Axes: P (parameter), R (restart).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.design.descent.hardware_curves import HardwareCurves
from fadiff_mapper.design.descent.hardware_figures import relaxed_design
from fadiff_mapper.design.space import DesignSpace, Point, coordinate, nearest_index
from fadiff_mapper.network.descent.descend import DescentOptions, descend, restarts_of
from fadiff_mapper.network.descent.relaxed_machine import DescendedHardware, RelaxedMachine
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork
from fadiff_mapper.relaxation.penalty import excess

EFFORT = DescentOptions(steps=30, restarts=8)
"""Effort of one descent. Set by hand: more steps cost as much as mapping further designs."""

RATE = 0.15
"""Octaves by which a parameter moves in a first step: over `EFFORT.steps` it can cross two to three octaves. Set by
hand, not measured."""

SPREAD = 0.7
"""Standard deviation, in octaves, of the restarts' hardware around the first one's. Set by hand, not measured."""

OUTSIDE = 4.0
"""Weight of squared octaves beyond the ends of a parameter's range or a limit, on top of the penalties' own weight. Set
by hand: limits are judged exactly after decoding."""


@dataclass(frozen=True)
class ProposedDesign:
    """The end of a restart as a design of the space.

    Attributes:
        point: The nearest design.
        loss: Logarithm of the metric with penalties where the restart ended.
    """

    point: Point
    loss: float


def proposed_designs(space: DesignSpace, curves: HardwareCurves, network: RelaxedNetwork, metric: str,
                     area_exponents: np.ndarray, seed: int, options: DescentOptions = EFFORT,
                     stopped: Callable[[], bool] = lambda: False) -> list[ProposedDesign]:
    """Descends around the centre of the curves and decodes the ends.

    Args:
        space: The space.
        curves: Its constants around the design from which the descent starts.
        network: The relaxed network with that design's mappings.
        metric: "edp", "energy" or "delay".
        area_exponents: Exponents of the area in the loss, drawn from for each restart.
        seed: The same seed gives the same designs.
        options: Effort.
        stopped: Asked before every step; once true, the descent ends where it is.

    Returns:
        The designs, the lowest loss first, each once.
    """
    rng, restarts = np.random.default_rng(seed), restarts_of(network, options)
    centre = torch.tensor([coordinate(parameter, index) for parameter, index in
                           zip(space.parameters, curves.centre, strict=True)], dtype=torch.float64)
    free = torch.tensor([len(knots) > 1 for knots in curves.knots])
    noise = torch.from_numpy(rng.normal(0.0, SPREAD, (len(centre), restarts)))
    noise[:, 0] = 0.0
    place = (centre[:, None] + noise * free[:, None]).clamp(curves.lower[:, None], curves.upper[:, None])
    exponents = torch.from_numpy(rng.choice(area_exponents, restarts))
    levels = len(network.sites[0].result.spec.arch.levels)
    most = [limit.most for limit in space.limits]

    def design_at(moved: torch.Tensor) -> tuple[RelaxedMachine, torch.Tensor, torch.Tensor]:
        inside = moved.clamp(curves.lower[:, None], curves.upper[:, None])
        design = relaxed_design(curves.at(inside), levels)
        beyond = ((moved - inside.detach()) ** 2).sum(dim=0)
        for figure, limit in zip(design.bounded, most, strict=True):
            beyond = beyond + excess(figure, limit)
        return design.machine, exponents * design.area.log(), OUTSIDE * beyond

    end = descend(network, metric, "refined", seed, options, stopped, DescendedHardware(place, RATE, design_at))
    assert end.place is not None
    found: dict[Point, float] = {}
    for column, loss in zip(end.place.T, end.loss, strict=True):
        found.setdefault(_nearest(space, curves, column), float(loss))
    return [ProposedDesign(point, loss) for point, loss in found.items()]


def _nearest(space: DesignSpace, curves: HardwareCurves, place: Sequence[float] | np.ndarray) -> Point:
    """The design nearest to real-valued coordinates; parameters that cannot descend stay as at the centre."""
    return tuple(nearest_index(parameter, float(at)) if len(knots) > 1 else index
                 for parameter, at, index, knots in
                 zip(space.parameters, place, curves.centre, curves.knots, strict=True))
