"""The continuous problem around a mapping: its loops with real factors, under the limits of the machine.

Only the loops that the mapping has are variables (a loop of factor 1 stays away), in its order and with what it keeps.
In logarithms of the factors the tiles, the units in use and, without windows, the traffic are sums of exponentials of
linear functions, so the problem is close to a convex one and has one optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.loop_nest import Nest, active_parts
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth import SmoothEvaluation, evaluate_smooth
from fadiff_mapper.spec.arch import Arithmetic, StorageLevel

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


def _own_metric(smooth: SmoothEvaluation, metric: str) -> np.ndarray:
    """The factor of a metric that is not cycles, [B]; 1 for the delay."""
    if metric == "last_level_accesses":
        accesses: np.ndarray = outermost_accesses(smooth.counts, smooth.use)
        return accesses
    energy: np.ndarray = smooth.cost.energy
    return np.ones_like(energy) if metric == "delay" else energy


def _asked(nest: Nest, smooth: SmoothEvaluation, limit: MachineLimit) -> np.ndarray:
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
