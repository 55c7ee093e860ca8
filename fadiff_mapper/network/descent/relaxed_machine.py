"""A machine of its own in every restart: the constants that descend while a machine is designed.

Axes: L (level), R (restart), W (member of a family), B = W * R (columns of one family's batch, member by member).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch

from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.relaxation.penalty import Available, MachineLimits


@dataclass(frozen=True)
class RelaxedMachine:
    """The machines of all restarts.

    Attributes:
        constants: Fields of `model.machine.Machine` by name, [L, R] each; `compute_energy` is [R].
        limits: Capacities and meshes, [R] each where they are not the same for all.
    """

    constants: Mapping[str, torch.Tensor]
    limits: MachineLimits

    def for_members(self, members: int) -> RelaxedMachine:
        """The same machines for every column of a family of W members."""
        def repeated(values: tuple[Available | None, ...]) -> tuple[Available | None, ...]:
            return tuple(value.repeat(members) if isinstance(value, torch.Tensor) else value for value in values)
        constants = {name: value.repeat(*[1] * (value.dim() - 1), members) for name, value in self.constants.items()}
        limits = {name: repeated(getattr(self.limits, name)) for name in MachineLimits.__dataclass_fields__}
        return RelaxedMachine(constants, MachineLimits(**limits))  # type: ignore[arg-type]

    def put_into(self, layer: PreparedLayer) -> PreparedLayer:
        """A layer on these machines, for the smooth model alone: architecture and compiled form stay as they were."""
        constants: dict[str, object] = dict(self.constants)
        return replace(layer, machine=replace(layer.machine, **constants))  # type: ignore[arg-type]


@dataclass(frozen=True)
class DescendedHardware:
    """Hardware parameters that descend together with tiling factors and fusion variables.

    Attributes:
        place: Coordinates of the parameters, moved in place, [P, R].
        rate: Learning rate of the first step, in coordinates.
        design_at: From coordinates to the machines, what the designs add to the loss, [R], and by how much they break
            limits of their own in squared octaves, [R].
    """

    place: torch.Tensor
    rate: float
    design_at: Callable[[torch.Tensor], tuple[RelaxedMachine, torch.Tensor, torch.Tensor]]
