"""Shadow prices of capacity and fan-out, from the continuous optimum next to a mapping.

Neither enters the cost of a fixed mapping, so the worth of more of it is defined by the optimum f* of the continuous
problem:

    minimise  log f(x)   subject to   log a_i(x) <= log(limit_i),   sum of x over the loops of d = log(bound_d)

with x the logarithms of the factors and a_i the words or units asked of a limit. By the envelope theorem
d log f* / d log(limit_i) is minus the Lagrange multiplier of that limit at the optimum, zero where the optimum leaves
the limit slack. Delay is the largest of several cycle counts, which has no derivative where two are equal; so its
logarithm is a variable of its own, bounded from below by each of them. SLSQP (scipy) finds the optimum; the
multipliers come from the conditions of Karush, Kuhn and Tucker by least squares without negative parts (Lawson and
Hanson 1974; scipy's `nnls`).

Only the loops that the mapping has are variables (a loop of factor 1 stays away), in its order and with what it
keeps. In logarithms of the factors the tiles, the units in use and, without windows, the traffic are sums of
exponentials of linear functions, so the problem is close to a convex one and has one optimum.

Axes: V loops, the temporal ones first; C limits; a point is [V + 1], its last entry the logarithm of the cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.loop_nest import Nest, active_parts
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth import SmoothEvaluation, evaluate_smooth

LEAST = 1e-9
"""Least logarithm of a factor: a loop that shrinks to 1 is still there, as another order would be without it. Nothing
was measured."""

STEP = 1e-6
"""Rise of the logarithm of a factor over which differences are taken: their error is about as large, and that of
float64's rounding 1e-9 (at 1e-9 of functions near 1e2). By arithmetic; nothing was measured."""

ACTIVE = 1e-5
"""Logarithmic distance within which a limit counts as met: above the solver's tolerance. Nothing was measured."""

UNCERTAIN = 0.02
"""Share of the derivative that the multipliers leave unexplained, beyond which a point is no optimum. Nothing was
measured."""


@dataclass(frozen=True)
class MachineLimit:
    """One limit of the machine that a mapping's loops could meet.

    Attributes:
        resource: "capacity", "fan-out X" or "fan-out Y".
        unit: For a capacity the storage level; for a fan-out the unit whose instances it limits, an index of
            `Usage.expansion_x` (0 is the arithmetic, l + 1 is level l).
        log_available: Natural logarithm of the words or units that there are.
    """

    resource: str
    unit: int
    log_available: float

    def asked(self, nest: Nest, smooth: SmoothEvaluation) -> np.ndarray:
        """The words of a capacity, or the units of a fan-out, that each row asks for, [B]."""
        if self.resource == "capacity":
            words: np.ndarray = (smooth.tile.size[self.unit] * nest.keep[self.unit]).sum(axis=0)
            return words
        expansion = smooth.use.expansion_x if self.resource == "fan-out X" else smooth.use.expansion_y
        result: np.ndarray = expansion[self.unit]
        return result


@dataclass(frozen=True)
class ShadowPrices:
    """The continuous optimum next to a mapping.

    Attributes:
        limits: The C limits of the machine.
        elasticity: d log f* / d log(limit) of each, never positive, [C].
        log_value: log f*.
        certain: Whether the multipliers confirm that the point is an optimum.
    """

    limits: tuple[MachineLimit, ...]
    elasticity: np.ndarray
    log_value: float
    certain: bool


def shadow_prices(layer: PreparedLayer, nest: Nest, metric: str = "edp", over: Over = never) -> ShadowPrices:
    """The elasticities of a metric's continuous optimum next to a mapping.

    The optimum is a local one. Where it has a kink (another limit or level binds just beyond it) more and less of the
    limit are worth different amounts, and the elasticity lies between them. A limit that no loop of the mapping can
    meet, such as that of a memory of one word, counts as slack.

    Args:
        layer: The problem on its architecture.
        nest: The mapping, a legal nest of one row.
        metric: The metric.
        over: Tells whether time is over.

    Raises:
        OutOfTime: Time was over before the optimum was found.
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
    own, cycles = {"edp": (1.0, 1.0), "delay": (0.0, 1.0)}.get(metric, (1.0, 0.0))
    paced = 1 + len(arch.levels)    # functions that bound the cycles from below: the arithmetic and every level
    # one row per dimension that has loops: their logarithms add up to that of the bound
    sums = np.array([np.append(dim == d, 0.0) for d in np.unique(dim)], dtype=np.float64)

    def evaluated(point: np.ndarray) -> np.ndarray:
        """The F functions of the problem and their derivatives by the logarithms of the factors, [F, 1 + V].

        In order: the logarithm of the metric's own part (energy; 1 for delay; accesses of the outermost level), of the
        cycles of the arithmetic, of those of each level, of the words or units asked of each limit. The derivatives
        are differences between two neighbours, all of which are evaluated in one batch: as fast as to differentiate the
        model, and without torch. A kink between them counts half. A loop of factor 1 has a neighbour on one side only,
        since shorter loops do not exist. A solver that takes a step beyond all numbers gets ones that are none, and its
        end then counts as uncertain.
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
            part = (outermost_accesses(smooth.counts, smooth.use) if metric == "last_level_accesses"
                    else np.ones_like(smooth.cost.energy) if metric == "delay" else smooth.cost.energy)
            functions = np.log(np.stack([part, smooth.use.compute_cycles, *smooth.cost.level_cycles,
                                         *(limit.asked(near, smooth) for limit in limits)]))
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

    def at(point: np.ndarray) -> np.ndarray:  # the solver asks for value, slack and derivatives one by one
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
