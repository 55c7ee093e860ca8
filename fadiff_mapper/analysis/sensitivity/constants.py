"""Derivatives by the constants that enter the cost of a fixed mapping: energies per access and bandwidths.

The counts are those of the exact evaluation, so that these derivatives are those of the exact model but for the
rounding of cycles to whole numbers: rounded values go forward, the derivative of the unrounded ones backward (a
straight-through estimator, as in `relaxation.straight_through`). torch differentiates (`model.energy_latency.cost`
takes prices and bandwidths as tensors).
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
"""Fields of `Machine` to differentiate by, besides `compute_energy`."""

HAIR = 1e-9
"""Relative rise of a bandwidth before its derivative is taken: far above the rounding of float64, and too small to
change which level is the slowest but among equally slow ones. Nothing was measured."""


@dataclass(frozen=True)
class ConstantSlope:
    """The derivative of a value by one constant.

    Attributes:
        name: The constant, a field of `Machine`.
        level: The storage level, counted from the innermost; 0 for `compute_energy`.
        constant: Its value.
        slope: d value / d constant.
    """

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
    """Every price and bandwidth of a machine as a tensor to differentiate by."""
    return {name: torch.as_tensor(getattr(machine, name), dtype=torch.float64).clone().requires_grad_(True)
            for name in (*PRICES, *BANDWIDTHS, "compute_energy")}


def cost_at(layer: PreparedLayer, evaluation: Evaluation, row: int, leaves: Leaves) -> Cost:
    """The cost of one mapping as a function of prices and bandwidths.

    Args:
        layer: The problem on its architecture.
        evaluation: The exact evaluation of a batch.
        row: The mapping, a row of the batch.
        leaves: Prices and bandwidths to compute with.

    Returns:
        Energy in pJ and cycles of a batch of one; without the energy of interconnects, which `Cost` never has.
    """
    constants: dict[str, Any] = leaves
    machine = replace(layer.machine, **constants)

    def of_row(array: object) -> torch.Tensor:
        return torch.as_tensor(array)[..., row:row + 1]
    counts = Counts(*(of_row(getattr(evaluation.counts, name)) for name in Counts.__dataclass_fields__))
    use = Usage(of_row(evaluation.use.expansion_x), of_row(evaluation.use.expansion_y),
                of_row(evaluation.use.compute_cycles))
    return cost(counts, use, machine, float(layer.problem.computes), ROUNDED)


def slopes(leaves: Leaves, value_of: Callable[[Leaves], torch.Tensor]) -> Iterator[ConstantSlope]:
    """The derivative of a value by every constant that the machine has.

    A bandwidth is first raised by `HAIR`: where several levels are equally slow, more of one alone brings nothing.

    Args:
        leaves: The constants.
        value_of: The value as a function of them.

    Returns:
        One slope for each price, for each bandwidth that is limited, and for the energy of a multiply-accumulate.
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
