"""Derivatives by what enters the cost of a fixed mapping: energies per access and bandwidths.

The counts are those of the exact evaluation, so that these derivatives are those of the exact model but for the
rounding of cycles to whole numbers, through which no derivative goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.energy_latency import UNLIMITED, Cost, Machine, Usage, cost
from fadiff_mapper.model.exact.evaluate import Evaluation
from fadiff_mapper.model.prepared_layer import PreparedLayer

PRICES = ("read", "fill", "update", "leak")
BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")


HAIR = 1e-9


@dataclass(frozen=True)
class ConstantSlope:
    """d value / d constant; `level` is 0 for `compute_energy`."""

    name: str
    level: int
    constant: float
    slope: float


def _passed(rounded: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The rounded values forward, the derivative of the values backward."""
    return values + (rounded - values).detach()


ROUNDED = Rounding(nearest=lambda x: x, down=lambda x: x, up=lambda x: _passed(torch.ceil(x), x))
"""Whole vector accesses and cycles, with the derivatives of what was rounded."""


Leaves: TypeAlias = dict[str, torch.Tensor]
"""Prices and bandwidths by name, [L, 1] each as in `Machine`; `compute_energy` is one number."""


def leaves_of(machine: Machine) -> Leaves:
    """Every price and bandwidth as a tensor to differentiate by."""
    return {name: torch.as_tensor(getattr(machine, name), dtype=torch.float64).clone().requires_grad_(True)
            for name in (*PRICES, *BANDWIDTHS, "compute_energy")}


def cost_at(layer: PreparedLayer, found: Evaluation, row: int, leaves: Leaves) -> Cost:
    """The cost of one row of an exact evaluation as a function of `leaves`; without networks, as `Cost` is."""
    constants: dict[str, Any] = leaves
    machine = replace(layer.machine, **constants)

    def one(array: object) -> torch.Tensor:
        return torch.as_tensor(array)[..., row:row + 1]
    counts = Counts(*(one(getattr(found.counts, name)) for name in Counts.__dataclass_fields__))
    use = Usage(one(found.use.expansion_x), one(found.use.expansion_y), one(found.use.compute_cycles))
    return cost(counts, use, machine, float(layer.problem.computes), ROUNDED)


def slopes(leaves: Leaves, value_of: Callable[[Leaves], torch.Tensor]) -> Iterator[ConstantSlope]:
    """The derivative of a value by every constant that is there.

    A bandwidth is first raised by a hair: where several levels are equally slow, more of one alone brings nothing.
    """
    gradients = torch.autograd.grad(value_of(leaves), list(leaves.values()), allow_unused=True)
    for (name, leaf), gradient in zip(leaves.items(), gradients, strict=True):
        for index, constant in enumerate(leaf.detach().reshape(-1).tolist()):
            if name not in BANDWIDTHS:
                yield ConstantSlope(name, index, constant,
                                    0.0 if gradient is None else float(gradient.reshape(-1)[index]))
            elif constant < UNLIMITED:
                raised = leaf.detach().clone()
                raised[index] *= 1 + HAIR
                raised.requires_grad_(True)
                (slope,) = torch.autograd.grad(value_of(leaves | {name: raised}), raised)
                yield ConstantSlope(name, index, constant, float(slope[index, 0]))
