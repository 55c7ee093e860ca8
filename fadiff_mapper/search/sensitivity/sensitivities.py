"""The sensitivity of a metric to each constant of the machine.

- Energies per access and bandwidths: derivatives of the exact cost at the fixed mapping. A bandwidth's is one-sided:
  the gain of more of it, which is nothing where another level is as slow.
- Capacities and fan-outs: the mapping must change to use them, so these are elasticities of the continuous optimum
  next to the mapping (see `shadow_price.py`), with the loops that it has, by the envelope theorem. They say nothing of
  mappings with other loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.evaluate import EXACT, Evaluation, evaluate_one
from fadiff_mapper.model.prepared_layer import UNLIMITED, PreparedLayer
from fadiff_mapper.model.tiles import Usage
from fadiff_mapper.search.sensitivity.shadow_price import ShadowPrices, shadow_prices

# The counts are those of the exact evaluation, so that these derivatives are those of the exact model but for the
# rounding of cycles to whole numbers, which has none. The energy is linear in the prices: the derivative by one is
# the energy of a machine that has this price 1 and all others 0. Cycles and leakage are differentiated by bandwidths
# as a difference over a small rise.

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


def cost_at(layer: PreparedLayer, evaluation: Evaluation, row: int, constants: AnyMapping[str, Any],
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
