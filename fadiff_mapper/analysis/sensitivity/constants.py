"""Derivatives by the constants that enter the cost of a fixed mapping: energies per access and bandwidths.

The counts are those of the exact evaluation, so that these derivatives are those of the exact model but for the
rounding of cycles to whole numbers, which has none. The energy is linear in the prices: the derivative by one is the
energy of a machine that has this price 1 and all others 0. Cycles and leakage are differentiated by bandwidths as a
difference over a small rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.exact.evaluate import EXACT, Evaluation
from fadiff_mapper.model.machine import UNLIMITED
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.usage import Usage

PRICES = ("read", "fill", "update", "leak", "compute_energy")
BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
"""Fields of `Machine` to differentiate by."""

HAIR = 1e-9
"""Relative rise of a bandwidth before its derivative is taken: far above the rounding of float64, and too small to
change which level is the slowest but among equally slow ones. Nothing was measured."""

RISE = 1e-7
"""Relative rise of a bandwidth over which the difference is taken: cycles fall with 1 / bandwidth, so that the
derivative is off by as much; the rounding of float64 adds 1e-9. By arithmetic; nothing was measured."""


def _same(values: Any) -> Any:
    return values


UNROUNDED = Rounding(nearest=_same, down=_same, up=_same)
"""Cycles before they become whole numbers."""


@dataclass(frozen=True)
class ConstantSlope:
    """The derivatives of cycles and energy by one constant.

    Attributes:
        name: The constant, a field of `Machine`.
        level: The storage level, counted from the innermost; 0 for `compute_energy`.
        constant: Its value.
        cycles: d cycles / d constant.
        energy: d energy / d constant, energy in pJ.
    """

    name: str
    level: int
    constant: float
    cycles: float
    energy: float


def cost_at(layer: PreparedLayer, evaluation: Evaluation, row: int, constants: Mapping[str, Any],
            rounding: Rounding) -> Cost:
    """The cost of one mapping on a machine with other prices or bandwidths.

    Args:
        layer: The problem on its architecture.
        evaluation: The exact evaluation of a batch.
        row: The mapping, a row of the batch.
        constants: Fields of `Machine` and their values, [L, 1] each; `compute_energy` is one number.
        rounding: How accesses and cycles become whole numbers.

    Returns:
        Energy in pJ and cycles of a batch of one; without the energy of interconnects, which `Cost` never has.
    """
    def of_row(array: np.ndarray) -> np.ndarray:
        return array[..., row:row + 1]
    counts = Counts(*(of_row(getattr(evaluation.counts, name)) for name in Counts.__dataclass_fields__))
    use = Usage(of_row(evaluation.use.expansion_x), of_row(evaluation.use.expansion_y),
                of_row(evaluation.use.compute_cycles))
    return cost(counts, use, replace(layer.machine, **constants), float(layer.problem.computes), rounding)


def slopes(layer: PreparedLayer, evaluation: Evaluation, row: int) -> Iterator[ConstantSlope]:
    """The derivatives of one mapping's cycles and energy by every constant that the machine has.

    A bandwidth is first raised by `HAIR`: where several levels are equally slow, more of one alone brings nothing.

    Args:
        layer: The problem on its architecture.
        evaluation: The exact evaluation of a batch.
        row: The mapping, a row of the batch.

    Returns:
        One slope for each price, for each bandwidth that is limited, and for the energy of a multiply-accumulate.
    """
    free = {name: np.zeros_like(getattr(layer.machine, name)) for name in PRICES}
    for name in PRICES:
        for level, constant in enumerate(np.ravel(getattr(layer.machine, name))):
            alone = free | {name: _changed(free[name], level, 1.0)}
            energy = float(cost_at(layer, evaluation, row, alone, EXACT).energy[0])
            yield ConstantSlope(name, level, float(constant), 0.0, energy)
    for name in BANDWIDTHS:
        present = getattr(layer.machine, name)
        for level, constant in enumerate(present[:, 0]):
            if constant < UNLIMITED:
                first, last = constant * (1 + HAIR), constant * (1 + HAIR + RISE)
                before, after = (cost_at(layer, evaluation, row, {name: _changed(present, level, value)}, UNROUNDED)
                                 for value in (first, last))
                yield ConstantSlope(name, level, float(constant),
                                    float(after.cycles[0] - before.cycles[0]) / (last - first),
                                    float((after.leakage - before.leakage).sum()) / (last - first))


def _changed(values: np.ndarray, level: int, value: float) -> np.ndarray:
    """A copy of a constant, [L, 1] or one number, with another value at one level."""
    result = np.array(values, dtype=np.float64)
    result.flat[level] = value
    return result
