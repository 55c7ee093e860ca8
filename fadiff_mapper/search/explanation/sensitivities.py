"""The sensitivity of a metric to each constant of the machine.

- Energies per access and bandwidths: derivatives of the exact cost at the fixed mapping. Derivatives by bandwidths are
  one-sided: the gain of more bandwidth, which is 0 if another level is as slow.
- Capacities and fan-outs: neither enters the cost of a fixed mapping, which must change to use more of them. Their
  worth, a shadow price, is an elasticity of the optimum f* of the continuous problem

      minimise  log f(x)   subject to   log a_i(x) <= log(limit_i),   sum of x over the loops of d = log(bound_d)

  near the mapping, with x the logarithms of the factors and a_i the words or units that limit i must hold. By the
  envelope theorem d log f* / d log(limit_i) is minus the Lagrange multiplier of that limit at the optimum, zero if the
  optimum leaves the limit slack. Delay is the largest of several cycle counts, which has no derivative where two are
  equal; so its logarithm is a variable of its own, bounded from below by each of them. SLSQP (scipy) finds the optimum;
  the multipliers come from the conditions of Karush, Kuhn and Tucker by least squares without negative parts (Lawson
  and Hanson 1974; scipy's `nnls`).

Only the loops of the mapping are variables (no loop of factor 1 is added), in their order and with the kept data
spaces: the elasticities do not cover mappings with other loops. In logarithms of the factors the tiles, the units in
use and, without windows, the traffic are sums of exponentials of linear functions, so the problem is close to a convex
problem with one optimum.

Axes: V loops, the temporal ones first; C limits; a point is [V + 1], its last entry the logarithm of the cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize, nnls

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS, Spec, metric_of
from fadiff_mapper.model.access_counts import Rounding
from fadiff_mapper.model.energy_latency import Cost, cost, outermost_accesses
from fadiff_mapper.model.evaluate import EXACT, Evaluation, evaluate_one
from fadiff_mapper.model.loop_nest import Nest, active_parts
from fadiff_mapper.model.prepared_layer import UNLIMITED, PreparedLayer
from fadiff_mapper.model.smooth import SMOOTH, evaluate_smooth
from fadiff_mapper.model.stats import Stats

PRICES = ("read", "fill", "update", "leak", "compute_energy")
BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
"""Fields of `Machine` to differentiate by."""

UNITS = {"leak": "pJ/cycle"} | dict.fromkeys(("read", "fill", "update", "compute_energy"), "pJ") | dict.fromkeys(
    BANDWIDTHS, "words/cycle") | {"capacity": "words", "fan-out X": "units", "fan-out Y": "units"}

HAIR = 1e-9
"""Relative rise of a bandwidth before its derivative is taken, so that of several equally slow levels another is the
slowest: far above the rounding of float64, and too small to change the slowest level otherwise."""

RISE = 1e-7
"""Relative rise of a bandwidth for a difference: cycles fall with 1 / bandwidth, so the error of the derivative is of
the same size; the rounding of float64 adds 1e-9."""

LEAST = 1e-9
"""Least logarithm of a factor: a loop at 1 keeps its place in the nest, as removing it would change the order."""

STEP = 1e-6
"""Rise of the logarithm of a factor for differences: their error is of that size, and the rounding of float64 adds 1e-9
(1e-9 of functions near 1e2)."""

ACTIVE = 1e-5
"""Logarithmic distance within which a limit counts as met: above the solver's tolerance."""

UNCERTAIN = 0.02
"""Unexplained share of the derivative beyond which a point is no optimum."""


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity of a metric to one constant of the machine.

    Attributes:
        level: Name of the level (or the arithmetic) with the constant.
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


def sensitivities(layer: PreparedLayer, evaluation: Evaluation, metric: str = "edp",
                  over: Over = never) -> tuple[Sensitivity, ...]:
    """Sensitivities of a legal mapping, evaluated as a batch of one, to energies, bandwidths, capacities and fan-outs.

    The largest elasticity comes first, zeros last. At the fixed mapping counts are exact, so derivatives are those of
    the exact model without its rounding of cycles. Energy is linear in the energies per action: the derivative by one
    of them is the energy of a machine on which it is 1 and all others are 0. Cycles and leakage are differentiated by
    bandwidths as a difference over a small rise. A wider fan-out makes room for all units inside, so the elasticities
    of their limits add up. Raises OutOfTime.
    """
    def cost_with(rounding: Rounding, **constants: Any) -> Cost:
        """The cost on a machine with other prices or bandwidths, without the energy of interconnects."""
        return cost(evaluation.counts, evaluation.tile, replace(layer.machine, **constants), rounding)

    def changed(values: Any, level: int, value: float) -> np.ndarray:
        """A copy of a constant, [L, 1] or one number, with another value at one level."""
        result = np.array(values, dtype=np.float64)
        result.flat[level] = value
        return result

    free = {name: np.zeros_like(getattr(layer.machine, name)) for name in PRICES}
    found = []      # constant, level, value, and the derivatives of cycles and of energy
    for name in PRICES:
        for level, constant in enumerate(np.ravel(getattr(layer.machine, name))):
            alone = cost_with(EXACT, **free | {name: changed(free[name], level, 1.0)})
            found.append((name, level, float(constant), 0.0, float(alone.energy[0])))
    for name in BANDWIDTHS:
        present = getattr(layer.machine, name)
        for level, constant in enumerate(present[:, 0]):
            if constant < UNLIMITED:
                first, last = constant * (1 + HAIR), constant * (1 + HAIR + RISE)
                before, after = (cost_with(SMOOTH, **{name: changed(present, level, bandwidth)})
                                 for bandwidth in (first, last))
                found.append((name, level, float(constant), float(after.cycles[0] - before.cycles[0]) / (last - first),
                              float((after.leakage - before.leakage).sum()) / (last - first)))
    cycles, energy = float(evaluation.cycles[0]), float(evaluation.energy[0])
    # no constant changes the accesses of the outermost level at a fixed mapping
    value, every = metric_of(metric, energy, cycles, 0.0), []
    for name, level, constant, cycles_slope, energy_slope in found if metric in METRIC_EXPONENTS else ():
        energy_power, cycles_power = METRIC_EXPONENTS[metric]   # 0 or 1: the derivative of their product
        slope = (cycles_power * cycles_slope * energy ** energy_power
                 + energy_power * energy_slope * cycles ** cycles_power)
        owner = layer.arch.arithmetic if name == "compute_energy" else layer.arch.levels[level]
        every.append(Sensitivity(owner.name, name, constant, UNITS[name], slope,
                                 slope * constant / value if value else 0.0, "fixed mapping"))
    shadow = shadow_prices(layer, evaluation.nest, metric, over)
    limits, worth = list(zip(shadow.limits, shadow.elasticity, strict=True)), []
    for index, storage in enumerate(layer.arch.levels):
        worth += [(storage.name, "capacity", float(storage.usable or 0), elasticity) for limit, elasticity in limits
                  if limit.resource == "capacity" and limit.unit == index]
        worth += [(storage.name, f"fan-out {axis}", float(width),
                   np.sum([elasticity for limit, elasticity in limits
                           if limit.resource == f"fan-out {axis}" and limit.unit <= index]))
                  for axis, width in zip("XY", layer.arch.fanout(index), strict=True) if width > 1]
    every += [Sensitivity(owner, constant, available, UNITS[constant],
                          float(elasticity * value / available if available else 0.0), float(elasticity),
                          "continuous optimum", shadow.certain)
              for owner, constant, available, elasticity in worth]
    return tuple(sorted(every, key=lambda sensitivity: -abs(sensitivity.elasticity)))


def mapping_sensitivities(spec: Spec, mapping: Mapping, metric: str, over: Over = never) -> tuple[Sensitivity, ...]:
    """The `sensitivities` of a legal mapping; raises FadiffError for a sparse design, OutOfTime."""
    refuse_sparse(spec)
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, details=True)
    return sensitivities(layer, evaluation, metric=metric, over=over)


def refuse_sparse(spec: Spec) -> None:
    """Raises FadiffError for a sparse design, whose sensitivities are unknown."""
    if spec.sparse is not None and spec.sparse.applied:
        raise FadiffError("sensitivities are those of the dense model and not known for sparse designs; accepted: an "
                          "input without sparse_optimizations")


@dataclass(frozen=True)
class MachineLimit:
    """One limit of the machine that a mapping's loops could meet."""

    resource: str         # "capacity", "fan-out X" or "fan-out Y"
    unit: int             # For a capacity the storage level; for a fan-out the unit whose instances it limits, an index
                          # of `Tiles.expansion_x` (0 is the arithmetic, l + 1 is level l)
    log_available: float  # Natural logarithm of the available words or units


@dataclass(frozen=True)
class ShadowPrices:
    """The continuous optimum next to a mapping."""

    limits: tuple[MachineLimit, ...]  # The C limits of the machine
    elasticity: np.ndarray            # d log f* / d log(limit) of each, never positive, [C]
    log_value: float                  # log f*
    certain: bool                     # Whether the multipliers confirm that the point is an optimum


def shadow_prices(layer: PreparedLayer, nest: Nest, metric: str = "edp", over: Over = never) -> ShadowPrices:
    """The elasticities of a metric's continuous optimum next to a mapping, a legal nest of one row.

    The optimum is local. At a kink (where another limit or level becomes tight) the elasticity lies between its values
    for more and for less of the limit. A limit that no loop of the mapping can meet, such as that of a memory of one
    word, counts as slack. Raises OutOfTime.
    """
    arch = layer.arch
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    limits = (*(MachineLimit("capacity", index, float(np.log(level.usable))) for index, level in enumerate(arch.levels)
                if level.usable and nest.keep[index].any()),
              *(MachineLimit(f"fan-out {axis}", index, float(np.log(mesh)))
                for index, unit in enumerate(units)
                for axis, mesh in (("X", unit.mesh_x), ("Y", unit.mesh_y))))
    factors = np.stack([nest.temporal[..., 0], nest.spatial[..., 0]])                                       # [2, L, D]
    loops = np.nonzero(factors > 1)
    start, dim = np.log(factors[loops]), loops[2]
    if not len(start):
        return ShadowPrices(limits, np.zeros(len(limits)), 0.0, True)
    available = np.array([limit.log_available for limit in limits])
    # the exponents of the metric's own part and of the cycles in the metric
    own, cycles = METRIC_EXPONENTS.get(metric, (1, 0))
    paced = 1 + len(arch.levels)    # functions that bound the cycles from below: the arithmetic and every level
    # one row per dimension that has loops: their logarithms add up to that of the bound
    sums = np.array([np.append(dim == d, 0.0) for d in np.unique(dim)], dtype=np.float64)

    def evaluated(point: np.ndarray) -> np.ndarray:
        """The F functions of the problem and their derivatives by the logarithms of the factors, [F, 1 + V].

        Logarithms, in order, of: the metric's own part (energy; 1 for delay; accesses of the outermost level), the
        cycles of the arithmetic, the cycles of each level, the words or units for each limit. Derivatives are central
        differences, evaluated in one batch: as fast as automatic differentiation, without PyTorch. A kink counts half.
        A loop of factor 1 has one neighbour only, since shorter loops do not exist. If the solver steps to infinite
        numbers, the result is nan, and the optimum counts as uncertain.
        """
        logs, count = point[:-1], len(start)
        down = np.where(logs - STEP > LEAST, STEP, 0.0)
        moves = np.column_stack([np.zeros(count), STEP * np.eye(count), -np.diag(down)])
        with np.errstate(all="ignore"):
            table = np.ones((*factors.shape, moves.shape[1]))
            table[loops] = np.exp(logs[:, None] + moves)
            near = Nest(*table, *(np.repeat(array, moves.shape[1], axis=-1)
                                  for array in (nest.order, nest.keep, nest.on_y, nest.spatial_order)))
            smooth = evaluate_smooth(layer, near, active_parts(nest))
            part = (outermost_accesses(smooth.counts, smooth.tile) if metric == "last_level_accesses"
                    else np.ones_like(smooth.cost.energy) if metric == "delay" else smooth.cost.energy)
            asked = {"capacity": (layer.machine.needed(smooth.tile.size) * near.keep).sum(axis=1),
                     "fan-out X": smooth.tile.expansion_x, "fan-out Y": smooth.tile.expansion_y}
            functions = np.log(np.stack([part, smooth.tile.compute_cycles, *smooth.cost.level_cycles,
                                         *(asked[limit.resource][limit.unit] for limit in limits)]))
            above, below = functions[:, 1:1 + count], functions[:, 1 + count:]
            return np.column_stack([functions[:, 0], (above - below) / (STEP + down)])

    def objective(point: np.ndarray, functions: np.ndarray) -> np.ndarray:
        """The logarithm of the metric and its derivatives, [1 + V + 1]."""
        return np.array([own * functions[0, 0] + cycles * point[-1], *own * functions[0, 1:], cycles])

    def slack(point: np.ndarray, functions: np.ndarray) -> np.ndarray:
        """The slack of the cycle bounds, then of the limits, at least 0 where possible: [paced + C, 1 + V + 1]."""
        room = np.concatenate([np.full(paced, point[-1]), available]) - functions[1:, 0]
        return np.column_stack([room, -functions[1:, 1:], np.arange(len(room)) < paced])

    memory: dict[bytes, np.ndarray] = {}

    def at(point: np.ndarray) -> np.ndarray:  # the solver asks for value, slack and derivatives separately
        key = point[:-1].tobytes()
        if key not in memory:
            if over():
                raise OutOfTime
            memory.clear()
            memory[key] = evaluated(point)
        return memory[key]

    begin = np.append(start, evaluated(np.append(start, 0.0))[1:1 + paced, 0].max())
    totals = sums @ begin
    point: np.ndarray = minimize(
        lambda p: objective(p, at(p))[0], begin, jac=lambda p: objective(p, at(p))[1:], method="SLSQP",
        bounds=[*((LEAST, None) for _ in start), (None, None)], options={"maxiter": 60, "ftol": 1e-9},
        constraints=[{"type": "eq", "fun": lambda p: sums @ p - totals, "jac": lambda p: sums},
                     {"type": "ineq", "fun": lambda p: slack(p, at(p))[:, 0],
                      "jac": lambda p: slack(p, at(p))[:, 1:]}]).x
    # At an optimum the objective's derivative is a sum of those of the active constraints with weights of at least 0,
    # the multipliers: fitted by least squares over the directions that keep the products of the factors.
    functions = evaluated(point)
    value, *slopes = objective(point, functions)
    room, rows = np.split(slack(point, functions), [1], axis=1)
    at_one = np.flatnonzero(point[:-1] <= LEAST + ACTIVE)
    directions = np.linalg.svd(sums)[2][len(sums):].T    # the rows of `sums` are independent
    candidates = np.concatenate([rows, np.eye(len(point))[at_one]])
    active = np.concatenate([np.flatnonzero(room[:, 0] < ACTIVE), len(rows) + np.arange(len(at_one))])
    projected = candidates[active] @ directions
    constraining = np.linalg.norm(projected, axis=1) > 1e-9
    active, projected = active[constraining], projected[constraining]
    wanted = slopes @ directions
    weights, rest = nnls(projected.T, wanted) if len(active) else (np.zeros(0), float(np.linalg.norm(wanted)))
    multipliers = np.zeros(len(candidates))
    multipliers[active] = weights
    unexplained = rest / max(float(np.linalg.norm(slopes)), 1e-12)
    return ShadowPrices(limits, -multipliers[paced:len(rows)], float(value), unexplained < UNCERTAIN)


def combined_sensitivities(layers: Sequence[tuple[float, Spec, Mapping, Stats]],
                           stopped: Over = never) -> tuple[Sensitivity, ...]:
    """The nonzero sensitivities of the EDP of layers that run one after the other on one machine, largest elasticity
    first.

    `layers`: for each the number of runs, weights included, its spec, the mapping of one run and its statistics. With E
    the sum of energies and T the sum of cycles, d(E T) = T dE + E dT for every constant. A sensitivity is certain if it
    is certain in every layer. Raises FadiffError for a sparse design, OutOfTime.
    """
    energy = sum(runs * stats.energy_pj for runs, *_, stats in layers)
    cycles = sum(runs * stats.cycles for runs, *_, stats in layers)
    total: dict[tuple[str, str], Sensitivity] = {}
    for runs, spec, mapping, _ in layers:
        for metric, factor in (("energy", cycles), ("delay", energy)):
            if stopped():
                raise OutOfTime
            for found in mapping_sensitivities(spec, mapping, metric):
                slope = runs * factor * found.derivative
                key = found.level, found.constant
                before = total.get(key) or replace(found, derivative=0.0)
                total[key] = replace(before, derivative=before.derivative + slope,
                                     certain=before.certain and found.certain)
    edp = energy * cycles
    every = (replace(found, elasticity=found.derivative * found.value / edp) for found in total.values())
    return tuple(sorted((found for found in every if found.elasticity), key=lambda found: -abs(found.elasticity)))
