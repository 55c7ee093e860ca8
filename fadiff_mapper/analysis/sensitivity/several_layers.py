"""The sensitivities of several layers together: of their energies' sum, their cycles' sum, and the product of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.analysis.sensitivity.sensitivities import Sensitivity, mapping_sensitivities
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec


@dataclass(frozen=True)
class RepeatedLayer:
    """A mapped layer and how often it runs.

    Attributes:
        runs: All its runs, weights included.
        spec: The layer on its design.
        mapping: The mapping of one run.
        energy_pj: Energy of one run in pJ.
        cycles: Cycles of one run.
    """

    runs: float
    spec: Spec
    mapping: Mapping
    energy_pj: float
    cycles: float


def combined_sensitivities(layers: Sequence[RepeatedLayer],
                           stopped: Callable[[], bool] = lambda: False) -> tuple[Sensitivity, ...]:
    """The sensitivities of the EDP of layers that run one after the other on one machine.

    With E the sum of energies and T the sum of cycles, d(E T) = T dE + E dT for every constant.

    Args:
        layers: The layers; all on the same design.
        stopped: Asked again and again.

    Returns:
        Sensitivities of the EDP, the largest elasticity first; only those that are not zero. One is certain where it
        is so in every layer.

    Raises:
        FadiffError: The design is sparse.
        OutOfTime: `stopped` was true before the last layer.
    """
    energy = sum(layer.runs * layer.energy_pj for layer in layers)
    cycles = sum(layer.runs * layer.cycles for layer in layers)
    total: dict[tuple[str, str], Sensitivity] = {}
    for layer in layers:
        for metric, factor in (("energy", cycles), ("delay", energy)):
            if stopped():
                raise OutOfTime
            for found in mapping_sensitivities(layer.spec, layer.mapping, metric):
                slope = layer.runs * factor * found.derivative
                key = found.level, found.constant
                before = total.get(key) or replace(found, derivative=0.0)
                total[key] = replace(before, derivative=before.derivative + slope,
                                     certain=before.certain and found.certain)
    edp = energy * cycles
    every = (replace(found, elasticity=found.derivative * found.value / edp) for found in total.values())
    return tuple(sorted((found for found in every if found.elasticity), key=lambda found: -abs(found.elasticity)))
