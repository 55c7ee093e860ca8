"""The sensitivity of a metric to each constant of the machine.

- Energies per access and bandwidths: derivatives of the exact cost at the fixed mapping. A bandwidth's is one-sided:
  the gain of more of it, which is nothing where another level is as slow.
- Capacities and fan-outs: the mapping must change to use them, so these are elasticities of the continuous optimum
  next to the mapping (see `shadow_price.py`), with the loops that it has, by the envelope theorem. They say nothing of
  mappings with other loops.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fadiff_mapper.analysis.sensitivity.constants import BANDWIDTHS, slopes
from fadiff_mapper.analysis.sensitivity.shadow_price import ShadowPrices, shadow_prices
from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.exact.evaluate import Evaluation, evaluate_one
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec

UNITS = {"leak": "pJ/cycle"} | dict.fromkeys(("read", "fill", "update", "compute_energy"), "pJ") | dict.fromkeys(
    BANDWIDTHS, "words/cycle") | {"capacity": "words", "fan-out X": "units", "fan-out Y": "units"}


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of a metric to one constant of the machine.

    Attributes:
        level: Name of the level (or the arithmetic) that has the constant.
        constant: Name of the constant.
        value: Its value.
        unit: Its unit.
        derivative: d metric / d constant, in the metric's unit per `unit`.
        elasticity: d log metric / d log constant.
        basis: "fixed mapping" or "continuous optimum".
        certain: False where the continuous optimum could not be confirmed.
    """

    level: str
    constant: str
    value: float
    unit: str
    derivative: float
    elasticity: float
    basis: str
    certain: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The sensitivity as plain values, for JSON."""
        return asdict(self)


def sensitivities(layer: PreparedLayer, evaluation: Evaluation, row: int = 0, metric: str = "edp",
                  over: Over = never) -> tuple[Sensitivity, ...]:
    """All sensitivities of one mapping.

    Args:
        layer: The problem on its architecture.
        evaluation: The exact evaluation of a batch.
        row: The mapping, a legal row of the batch.
        metric: The metric.
        over: Tells whether time is over.

    Returns:
        Sensitivities to prices, bandwidths, capacities and fan-outs, the largest elasticity first, zeros last.

    Raises:
        OutOfTime: Time was over before all were known.
    """
    value = _metric(metric, float(evaluation.cycles[row]), float(evaluation.energy[row]))
    every = _of_constants(layer, evaluation, row, metric)
    nest = evaluation.nest.take([row])
    shadow = shadow_prices(layer, nest, metric, over)
    every += _of_limits(layer, shadow, value)
    return tuple(sorted(every, key=lambda sensitivity: -abs(sensitivity.elasticity)))


def mapping_sensitivities(spec: Spec, mapping: Mapping, metric: str, over: Over = never) -> tuple[Sensitivity, ...]:
    """All sensitivities of a legal mapping of a spec's problem, as `sensitivities` gives them.

    Raises:
        FadiffError: The design is sparse: the differentiable model is dense.
        OutOfTime: Time was over before all were known.
    """
    refuse_sparse(spec)
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, details=True)
    return sensitivities(layer, evaluation, metric=metric, over=over)


def refuse_sparse(spec: Spec) -> None:
    """Raises FadiffError for a sparse design, of which no sensitivities are known."""
    if spec.sparse is not None and spec.sparse.applied:
        raise FadiffError("sensitivities are those of the dense model and not known for sparse designs; accepted: an "
                          "input without sparse_optimizations")


def _metric(metric: str, cycles: float, energy: float) -> float:
    """The metric's value; 0 for accesses of the outermost level, which no constant changes at a fixed mapping."""
    return {"edp": cycles * energy, "energy": energy, "delay": cycles}.get(metric, 0.0)


def _of_constants(layer: PreparedLayer, evaluation: Evaluation, row: int, metric: str) -> list[Sensitivity]:
    """Sensitivities to prices and bandwidths at the fixed mapping."""
    if metric == "last_level_accesses":
        return []
    cycles, energy = float(evaluation.cycles[row]), float(evaluation.energy[row])
    value = _metric(metric, cycles, energy)
    result = []
    for one in slopes(layer, evaluation, row):
        slope = {"edp": one.cycles * energy + cycles * one.energy, "energy": one.energy}.get(metric, one.cycles)
        level = layer.arch.arithmetic if one.name == "compute_energy" else layer.arch.levels[one.level]
        result.append(Sensitivity(level.name, one.name, one.constant, UNITS[one.name], slope,
                                  slope * one.constant / value if value else 0.0, "fixed mapping"))
    return result


def _of_limits(layer: PreparedLayer, shadow: ShadowPrices, value: float) -> list[Sensitivity]:
    """Sensitivities to capacities, level by level, and to fan-outs, by the level above them.

    A wider fan-out makes room for all units inside, so the elasticities of their limits add up.
    """
    arch, result = layer.arch, []
    for index, level in enumerate(arch.levels):
        held = [(limit, e) for limit, e in zip(shadow.limits, shadow.elasticity, strict=True)
                if limit.resource == "capacity" and limit.unit == index]
        for _, elasticity in held:
            result.append(_limit(level.name, "capacity", float(level.usable or 0), elasticity, value, shadow))
        for axis, width in zip("XY", arch.fanout(index), strict=True):
            inside = [e for limit, e in zip(shadow.limits, shadow.elasticity, strict=True)
                      if limit.resource == f"fan-out {axis}" and limit.unit <= index]
            if width > 1:
                result.append(_limit(level.name, f"fan-out {axis}", float(width), np.sum(inside), value, shadow))
    return result


def _limit(level: str, constant: str, available: float, elasticity: float, value: float,
           shadow: ShadowPrices) -> Sensitivity:
    """The sensitivity to one limit, from its elasticity; `value` is the metric's."""
    slope = elasticity * value / available if available else 0.0
    return Sensitivity(level, constant, available, UNITS[constant], float(slope), float(elasticity),
                       "continuous optimum", shadow.certain)
