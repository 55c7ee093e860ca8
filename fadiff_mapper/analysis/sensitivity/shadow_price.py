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

from fadiff_mapper.analysis.sensitivity.continuous_problem import (
    LEAST,
    ContinuousCost,
    MachineLimit,
    MappingLoops,
    evaluate,
    limits_of,
    loops_of,
)
from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer

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
