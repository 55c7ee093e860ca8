"""The numbers of a design that its cost depends on, as one vector, and back: the machine of the relaxed model.

A vector holds the constants of `model.machine.Machine` level by level, capacities, meshes, the area, and the
figures that limits bound. Axes: Q (number of a vector), L (level), R (restart).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.design.space import DesignSpace, Point, design_area_mm2, limit_values
from fadiff_mapper.model.exact.evaluate_spec import layer_of
from fadiff_mapper.model.machine import UNLIMITED
from fadiff_mapper.network.descent.relaxed_machine import RelaxedMachine
from fadiff_mapper.relaxation.penalty import MachineLimits, machine_limits
from fadiff_mapper.spec.spec import Spec

CONSTANTS = ("clusters", "block", "read", "fill", "update", "leak", "addr_gen", "read_bandwidth", "write_bandwidth",
             "shared_bandwidth", "gated")
"""Fields of `Machine` with one number for each level."""


def structure(spec: Spec) -> tuple[str, ...]:
    """The names of levels and arithmetic: designs of one space have vectors of one layout where these are the same."""
    return (spec.arch.arithmetic.name, *spec.arch.level_names())


def figures_of(space: DesignSpace, point: Point, spec: Spec) -> np.ndarray:
    """The vector of one design.

    Args:
        space: The space, whose limits count.
        point: The design.
        spec: The design with any problem.

    Returns:
        [Q]. In this order: `CONSTANTS` level by level, pJ of a multiply-accumulate, words of every level, meshes
        along X and along Y of the arithmetic and every level, mm2, and the figure of each limit.
    """
    machine, limits = layer_of(spec).machine, machine_limits(spec.arch)
    constants = [np.asarray(getattr(machine, name))[:, 0] for name in CONSTANTS]
    usable = [float(words or UNLIMITED) for words in limits.usable]
    bounded = [value for value, _ in limit_values(space, point, spec).values()]
    rest = [machine.compute_energy, *usable, *limits.mesh_x, *limits.mesh_y, design_area_mm2(spec), *bounded]
    return np.concatenate([*constants, np.array(rest, dtype=np.float64)])


@dataclass(frozen=True)
class RelaxedDesign:
    """The designs of all restarts, as the relaxed model and the loss see them.

    Attributes:
        machine: Their machines.
        area: mm2, [R].
        bounded: The figure that each limit of the space bounds, [R] each.
    """

    machine: RelaxedMachine
    area: torch.Tensor
    bounded: tuple[torch.Tensor, ...]


def relaxed_design(figures: torch.Tensor, levels: int) -> RelaxedDesign:
    """The designs that vectors stand for; see `figures_of` for their order.

    Args:
        figures: [Q, R].
        levels: Storage levels, L.
    """
    sizes = [*[levels] * len(CONSTANTS), 1, levels, levels + 1, levels + 1, 1]
    parts = torch.split(figures, [*sizes, len(figures) - sum(sizes)])
    constants = dict(zip(CONSTANTS, parts, strict=False))
    per_mac, usable, mesh_x, mesh_y, area, bounded = parts[len(CONSTANTS):]
    limits = MachineLimits(_rows(usable), _rows(mesh_x), _rows(mesh_y))
    return RelaxedDesign(RelaxedMachine(constants | {"compute_energy": per_mac[0]}, limits), area[0], _rows(bounded))


def _rows(values: Sequence[torch.Tensor] | torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The rows of a matrix one by one."""
    return tuple(values)
