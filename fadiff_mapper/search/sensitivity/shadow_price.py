"""Shadow prices of capacity and fan-out, from the continuous optimum next to a mapping.

Neither enters the cost of a fixed mapping, so the worth of more of it is defined by the optimum f* of the continuous
problem (`continuous_problem.py`):

    minimise  log f(x)   subject to   log a_i(x) <= log(limit_i),   sum of x over the loops of d = log(bound_d)

with x the logarithms of the factors and a_i the words or units asked of a limit. By the envelope theorem
d log f* / d log(limit_i) is minus the Lagrange multiplier of that limit at the optimum, zero where the optimum leaves
the limit slack. Delay is the largest of several cycle counts, which has no derivative where two are equal; so its
logarithm is a variable of its own, bounded from below by each of them. SLSQP (scipy) finds the optimum; the
multipliers come from the conditions of Karush, Kuhn and Tucker by least squares without negative parts (Lawson and
Hanson 1974; scipy's `nnls`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize, nnls

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.evaluate import NestEvaluation
from fadiff_mapper.model.loop_nest import Nest, active_parts
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth import evaluate_smooth

# Only the loops that the mapping has are variables (a loop of factor 1 stays away), in its order and with what it
# keeps. In logarithms of the factors the tiles, the units in use and, without windows, the traffic are sums of
# exponentials of linear functions, so the problem is close to a convex one and has one optimum.

LEAST = 1e-9
"""Least logarithm of a factor: a loop that shrinks to 1 is still there, as another order would be without it. Nothing
was measured."""


STEP = 1e-6
"""Rise of the logarithm of a factor over which differences are taken: their error is about as large, and that of
float64's rounding 1e-9 (at 1e-9 of functions near 1e2). By arithmetic; nothing was measured."""


@dataclass(frozen=True)
class MappingLoops:
    """The V loops of a mapping whose factor is above 1: the temporal ones, then the spatial ones.

    Attributes:
        level: The storage level of each, [V].
        dim: The index of its dimension, [V].
        spatial: Whether it is spatial, [V].
        start: The natural logarithm of its factor, [V].
    """

    level: np.ndarray
    dim: np.ndarray
    spatial: np.ndarray
    start: np.ndarray


def loops_of(nest: Nest) -> MappingLoops:
    """The loops of a mapping, a nest of one row."""
    parts = [np.argwhere(table[..., 0] > 1) for table in (nest.temporal, nest.spatial)]
    both = np.concatenate(parts)
    spatial = np.repeat([False, True], [len(part) for part in parts])
    factors = np.where(spatial, nest.spatial[both[:, 0], both[:, 1], 0], nest.temporal[both[:, 0], both[:, 1], 0])
    return MappingLoops(both[:, 0], both[:, 1], spatial, np.log(factors))


@dataclass(frozen=True)
class MachineLimit:
    """One limit of the machine.

    Attributes:
        resource: "capacity", "fan-out X" or "fan-out Y".
        unit: For a capacity the storage level; for a fan-out the unit whose instances it limits, an index of
            `Usage.expansion_x` (0 is the arithmetic, l + 1 is level l).
        log_available: Natural logarithm of the words or units that there are.
    """

    resource: str
    unit: int
    log_available: float


def limits_of(layer: PreparedLayer, nest: Nest) -> list[MachineLimit]:
    """The limits that a mapping's loops could meet.

    Args:
        layer: The problem on its architecture.
        nest: The mapping, a nest of one row: a capacity counts where its level keeps anything.
    """
    arch = layer.arch
    limits = [MachineLimit("capacity", index, float(np.log(level.usable))) for index, level in enumerate(arch.levels)
              if level.usable and nest.keep[index].any()]
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    for index, unit in enumerate(units):
        limits += [MachineLimit(f"fan-out {axis}", index, float(np.log(mesh)))
                   for axis, mesh in (("X", unit.mesh_x), ("Y", unit.mesh_y))]
    return limits


@dataclass(frozen=True)
class ContinuousCost:
    """The F functions of the continuous problem and their derivatives at one point.

    In this order: the logarithm of the metric's own part (energy; 0 for delay; accesses of the outermost level), of
    the cycles of the arithmetic, of those of each of L levels, and of the words or units asked of each limit. So
    F = 2 + L + limits.

    Attributes:
        value: The functions, [F].
        jacobian: Their derivatives by the logarithms of the factors, [F, V].
    """

    value: np.ndarray
    jacobian: np.ndarray


def evaluate(layer: PreparedLayer, nest: Nest, loops: MappingLoops, limits: list[MachineLimit], metric: str,
             point: np.ndarray) -> ContinuousCost:
    """Evaluates the continuous problem at one point on the differentiable model.

    The derivatives are differences between two neighbours, all of which are evaluated in one batch: as fast as to
    differentiate the model, and without torch. A kink between them counts half. A loop of factor 1 has a neighbour on
    one side only, since shorter loops do not exist.

    Args:
        layer: The problem on its architecture.
        nest: The mapping, a nest of one row; its loop order and the data spaces kept stay.
        loops: Its V loops.
        limits: The limits of the machine.
        metric: The metric.
        point: Natural logarithms of the loops' factors, [V].
    """
    count, down = len(point), np.where(point - STEP > LEAST, STEP, 0.0)
    moves = np.column_stack([np.zeros(count), STEP * np.eye(count), -np.diag(down)])
    near = _nest_at(nest, loops, point[:, None] + moves)
    smooth = evaluate_smooth(layer, near, active_parts(nest))
    functions = np.log(np.stack([_own_metric(smooth, metric), smooth.use.compute_cycles, *smooth.cost.level_cycles,
                                 *(_asked(near, smooth, limit) for limit in limits)]))
    above, below = functions[:, 1:1 + count], functions[:, 1 + count:]
    return ContinuousCost(functions[:, 0], (above - below) / (STEP + down))


def _own_metric(smooth: NestEvaluation, metric: str) -> np.ndarray:
    """The factor of a metric that is not cycles, [B]; 1 for the delay."""
    if metric == "last_level_accesses":
        accesses: np.ndarray = outermost_accesses(smooth.counts, smooth.use)
        return accesses
    energy: np.ndarray = smooth.cost.energy
    return np.ones_like(energy) if metric == "delay" else energy


def _asked(nest: Nest, smooth: NestEvaluation, limit: MachineLimit) -> np.ndarray:
    """The words of a capacity, or the units of a fan-out, that each row asks for, [B]."""
    if limit.resource == "capacity":
        words: np.ndarray = (smooth.tile.size[limit.unit] * nest.keep[limit.unit]).sum(axis=0)
        return words
    expansion = smooth.use.expansion_x if limit.resource == "fan-out X" else smooth.use.expansion_y
    result: np.ndarray = expansion[limit.unit]
    return result


def _nest_at(nest: Nest, loops: MappingLoops, logs: np.ndarray) -> Nest:
    """The mapping in B rows with the factors exp(logs), [V, B], in its loops."""
    rows = logs.shape[1]

    def filled(chosen: np.ndarray) -> np.ndarray:
        table = np.ones((*nest.temporal.shape[:2], rows))
        table[loops.level[chosen], loops.dim[chosen]] = np.exp(logs[chosen])
        return table

    def copied(array: np.ndarray) -> np.ndarray:
        return np.repeat(array, rows, axis=-1)
    return Nest(filled(~loops.spatial), filled(loops.spatial), copied(nest.order), copied(nest.keep),
                copied(nest.on_y), copied(nest.spatial_order))


ACTIVE = 1e-5
"""Logarithmic distance within which a limit counts as met: above the solver's tolerance. Nothing was measured."""

UNCERTAIN = 0.02
"""Share of the derivative that the multipliers leave unexplained, beyond which a point is no optimum. Nothing was
measured."""


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


@dataclass(frozen=True)
class _ContinuousProblem:
    """The problem in the form that the solver takes: V loops and, as the last variable, the logarithm of the cycles.

    Attributes:
        layer: The problem on its architecture.
        nest: The mapping, a nest of one row.
        loops: Its V loops.
        limits: The C limits of the machine.
        metric: The metric.
    """

    layer: PreparedLayer
    nest: Nest
    loops: MappingLoops
    limits: tuple[MachineLimit, ...]
    metric: str

    @property
    def weight(self) -> np.ndarray:
        """The exponents of the metric's own part and of the cycles in the metric, [2]."""
        return np.array({"edp": (1.0, 1.0), "delay": (0.0, 1.0)}.get(self.metric, (1.0, 0.0)))

    @property
    def paced(self) -> int:
        """The number of functions that bound the cycles from below: the arithmetic and every level."""
        return 1 + len(self.layer.arch.levels)

    def at(self, point: np.ndarray) -> ContinuousCost:
        """All functions at a point [V + 1], whose last variable they do not depend on.

        A solver that takes a step beyond all numbers gets ones that are none, and its end then counts as uncertain.
        """
        with np.errstate(all="ignore"):
            return evaluate(self.layer, self.nest, self.loops, list(self.limits), self.metric, point[:-1])

    def objective(self, point: np.ndarray, functions: ContinuousCost) -> tuple[float, np.ndarray]:
        """The logarithm of the metric and its derivatives, [V + 1]."""
        own, cycles = self.weight
        return own * functions.value[0] + cycles * point[-1], np.append(own * functions.jacobian[0], cycles)

    def slack(self, point: np.ndarray, functions: ContinuousCost) -> tuple[np.ndarray, np.ndarray]:
        """The slack of the cycle bounds, then of the limits; at least 0 where the point is possible.

        Returns the slacks, [paced + C], and their derivatives, [paced + C, V + 1].
        """
        cycles, asked = functions.value[1:1 + self.paced], functions.value[1 + self.paced:]
        available = np.array([limit.log_available for limit in self.limits])
        rows = -functions.jacobian[1:]
        last = np.concatenate([np.ones(self.paced), np.zeros(len(asked))])
        return np.concatenate([point[-1] - cycles, available - asked]), np.column_stack([rows, last])

    def sums(self) -> np.ndarray:
        """One row per dimension that has loops, [N, V + 1]: their logarithms add up to that of the bound."""
        return np.array([np.append(self.loops.dim == d, 0.0) for d in np.unique(self.loops.dim)], dtype=np.float64)


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
    limits = tuple(limits_of(layer, nest))
    loops = loops_of(nest)
    problem = _ContinuousProblem(layer, nest, loops, limits, metric)
    if not len(loops.start):
        return ShadowPrices(limits, np.zeros(len(limits)), 0.0, True)
    point = _solve(problem, over)
    functions = problem.at(point)
    multipliers, unexplained = _multipliers(problem, point, functions)
    return ShadowPrices(limits, -multipliers, problem.objective(point, functions)[0], unexplained < UNCERTAIN)


def _solve(problem: _ContinuousProblem, over: Over) -> np.ndarray:
    """The optimum that SLSQP reaches from the mapping, [V + 1]."""
    memory: dict[bytes, ContinuousCost] = {}

    def at(point: np.ndarray) -> ContinuousCost:  # the solver asks for value, slack and derivatives one by one
        key = point[:-1].tobytes()
        if key not in memory:
            if over():
                raise OutOfTime
            memory.clear()
            memory[key] = problem.at(point)
        return memory[key]
    sums, start = problem.sums(), problem.loops.start
    first = problem.at(np.append(start, 0.0))
    begin = np.append(start, first.value[1:1 + problem.paced].max())
    totals = sums @ begin
    solution = minimize(
        lambda p: problem.objective(p, at(p))[0], begin, jac=lambda p: problem.objective(p, at(p))[1], method="SLSQP",
        bounds=[*((LEAST, None) for _ in start), (None, None)], options={"maxiter": 60, "ftol": 1e-9},
        constraints=[{"type": "eq", "fun": lambda p: sums @ p - totals, "jac": lambda p: sums},
                     {"type": "ineq", "fun": lambda p: problem.slack(p, at(p))[0],
                      "jac": lambda p: problem.slack(p, at(p))[1]}])
    result: np.ndarray = solution.x
    return result


def _multipliers(problem: _ContinuousProblem, point: np.ndarray, functions: ContinuousCost) -> tuple[np.ndarray, float]:
    """The Lagrange multipliers of the machine's limits at a point.

    At an optimum the objective's derivative is a sum of those of the active constraints with weights of at least 0.
    The weights are fitted by least squares over the directions that keep the products of the factors.

    Args:
        problem: The problem.
        point: Its optimum, as far as the solver came, [V + 1].
        functions: All functions there.

    Returns:
        The multipliers, [C], and the share of the objective's derivative that they leave unexplained.
    """
    _, gradient = problem.objective(point, functions)
    slack, rows = problem.slack(point, functions)
    at_one = np.flatnonzero(point[:-1] <= LEAST + ACTIVE)
    directions = _null_space(problem.sums())
    candidates = np.concatenate([rows, np.eye(len(point))[at_one]])
    active = np.concatenate([np.flatnonzero(slack < ACTIVE), len(rows) + np.arange(len(at_one))])
    projected = candidates[active] @ directions
    constraining = np.linalg.norm(projected, axis=1) > 1e-9
    active, projected = active[constraining], projected[constraining]
    wanted = gradient @ directions
    weights, rest = nnls(projected.T, wanted) if len(active) else (np.zeros(0), float(np.linalg.norm(wanted)))
    multipliers = np.zeros(len(candidates))
    multipliers[active] = weights
    return multipliers[problem.paced:len(rows)], rest / max(float(np.linalg.norm(gradient)), 1e-12)


def _null_space(rows: np.ndarray) -> np.ndarray:
    """Orthonormal directions along which no row changes, [V, N]."""
    _, sizes, vectors = np.linalg.svd(rows)
    result: np.ndarray = vectors[int((sizes > 1e-9).sum()):].T
    return result
