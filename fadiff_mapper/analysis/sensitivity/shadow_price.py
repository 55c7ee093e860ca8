"""Shadow prices of capacity and fan-out, from the continuous optimum next to a mapping.

Neither enters the cost of a fixed mapping, so what more of it is worth is defined by the optimum f* of the
continuous problem (`continuous_problem.py`): by the envelope theorem d log f* / d log(limit) is minus the Lagrange
multiplier of the limit there, zero where the optimum leaves the limit slack.
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
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer

ACTIVE = 1e-5
"""Logarithmic distance within which a limit counts as met."""

UNCERTAIN = 0.02
"""Share of the derivative that the multipliers leave unexplained, beyond which a point is no optimum."""


@dataclass(frozen=True)
class ShadowPrices:
    """The continuous optimum: the limits with their elasticities d log f* / d log(limit), which are never positive;
    log f* itself; and whether it is known to be an optimum."""

    limits: tuple[MachineLimit, ...]
    elasticity: np.ndarray
    log_value: float
    certain: bool


@dataclass(frozen=True)
class _Problem:
    """The problem in the form that the solver takes: V loops and, as the last variable, the logarithm of the cycles."""

    layer: PreparedLayer
    nest: Nest
    loops: MappingLoops
    limits: tuple[MachineLimit, ...]
    metric: str

    @property
    def weight(self) -> np.ndarray:
        """How often the metric holds its own part, and the cycles."""
        return np.array({"edp": (1.0, 1.0), "delay": (0.0, 1.0)}.get(self.metric, (1.0, 0.0)))

    @property
    def paced(self) -> int:
        """Functions that bound the cycles from below: the arithmetic and every level."""
        return 1 + len(self.layer.arch.levels)

    def at(self, point: np.ndarray) -> ContinuousCost:
        return evaluate(self.layer, self.nest, self.loops, list(self.limits), self.metric, point[:-1])

    def objective(self, point: np.ndarray, found: ContinuousCost) -> tuple[float, np.ndarray]:
        own, cycles = self.weight
        return own * found.value[0] + cycles * point[-1], np.append(own * found.jacobian[0], cycles)

    def slack(self, point: np.ndarray, found: ContinuousCost) -> tuple[np.ndarray, np.ndarray]:
        """At least 0 where the point is possible, [C], and the derivatives, [C, V + 1]."""
        cycles, asked = found.value[1:1 + self.paced], found.value[1 + self.paced:]
        available = np.array([limit.log_available for limit in self.limits])
        rows = -found.jacobian[1:]
        last = np.concatenate([np.ones(self.paced), np.zeros(len(asked))])
        return np.concatenate([point[-1] - cycles, available - asked]), np.column_stack([rows, last])

    def sums(self) -> np.ndarray:
        """One row per dimension that has loops: their logarithms add up to that of the bound, [E, V + 1]."""
        return np.array([np.append(self.loops.dim == d, 0.0) for d in np.unique(self.loops.dim)], dtype=np.float64)


def shadow_prices(layer: PreparedLayer, nest: Nest, metric: str = "edp") -> ShadowPrices:
    """The elasticities of a metric's continuous optimum next to a mapping (a nest of one row, legal).

    The optimum is a local one. Where it has a kink (another limit or level binds just beyond it) the multipliers are
    those of one side: more and less of the limit are then worth different amounts, and the elasticity is one of
    them. A limit that no loop of the mapping can meet, such as that of a memory of one word, counts as slack.
    """
    limits = tuple(limits_of(layer, nest))
    loops = loops_of(nest)
    problem = _Problem(layer, nest, loops, limits, metric)
    if not len(loops.start):
        return ShadowPrices(limits, np.zeros(len(limits)), 0.0, True)
    point = _solve(problem)
    found = problem.at(point)
    elasticity, unexplained = _multipliers(problem, point, found)
    return ShadowPrices(limits, -elasticity, problem.objective(point, found)[0], unexplained < UNCERTAIN)


def _solve(problem: _Problem) -> np.ndarray:
    """The optimum, from the mapping on."""
    memory: dict[bytes, ContinuousCost] = {}

    def at(point: np.ndarray) -> ContinuousCost:
        key = point[:-1].tobytes()
        if key not in memory:
            memory.clear()
            memory[key] = problem.at(point)
        return memory[key]
    sums, start = problem.sums(), problem.loops.start
    first = problem.at(np.append(start, 0.0))
    begin = np.append(start, first.value[1:1 + problem.paced].max())
    totals = sums @ begin
    found = minimize(
        lambda p: problem.objective(p, at(p))[0], begin, jac=lambda p: problem.objective(p, at(p))[1], method="SLSQP",
        bounds=[*((LEAST, None) for _ in start), (None, None)], options={"maxiter": 60, "ftol": 1e-9},
        constraints=[{"type": "eq", "fun": lambda p: sums @ p - totals, "jac": lambda p: sums},
                     {"type": "ineq", "fun": lambda p: problem.slack(p, at(p))[0],
                      "jac": lambda p: problem.slack(p, at(p))[1]}])
    result: np.ndarray = found.x
    return result


def _multipliers(problem: _Problem, point: np.ndarray, found: ContinuousCost) -> tuple[np.ndarray, float]:
    """Multipliers of the machine's limits [C], and the share of the objective's derivative that none explain.

    Least squares over the directions that keep the products of the factors.
    """
    _, gradient = problem.objective(point, found)
    slack, rows = problem.slack(point, found)
    at_one = np.flatnonzero(point[:-1] <= LEAST + ACTIVE)
    directions = _null_space(problem.sums())
    candidates = np.concatenate([rows, np.eye(len(point))[at_one]])
    active = np.concatenate([np.flatnonzero(slack < ACTIVE), len(rows) + np.arange(len(at_one))])
    seen = candidates[active] @ directions
    moves = np.linalg.norm(seen, axis=1) > 1e-9
    active, seen = active[moves], seen[moves]
    wanted = gradient @ directions
    answer, rest = nnls(seen.T, wanted) if len(active) else (np.zeros(0), float(np.linalg.norm(wanted)))
    whole = np.zeros(len(candidates))
    whole[active] = answer
    return whole[problem.paced:len(rows)], rest / max(float(np.linalg.norm(gradient)), 1e-12)


def _null_space(rows: np.ndarray) -> np.ndarray:
    """Orthonormal directions along which no row changes, [V, N]."""
    _, sizes, vectors = np.linalg.svd(rows)
    result: np.ndarray = vectors[int((sizes > 1e-9).sum()):].T
    return result
