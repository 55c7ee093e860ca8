"""The continuous problem around a mapping: its loops with real factors, under the limits of the machine.

Only the loops that the mapping has are variables (a loop of factor 1 stays away), in its order and with what it keeps.
In logarithms of the factors the tiles, the units in use and, without windows, the traffic are sums of exponentials of
linear functions, so the problem is close to a convex one and has one optimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.loop_nest import Nest, active_parts
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth.evaluate import SmoothEvaluation, evaluate_smooth
from fadiff_mapper.spec.arch import Arithmetic, StorageLevel

LEAST = 1e-9
"""Least logarithm of a factor: a loop that shrinks to 1 is still there, as another order would be without it."""


@dataclass(frozen=True)
class MappingLoops:
    """The V loops of a mapping: where each stands in the arrays of the nest, and whether it is spatial, [V] each."""

    level: np.ndarray
    dim: np.ndarray
    spatial: np.ndarray
    start: np.ndarray
    """Natural logarithms of the mapping's factors, [V]."""


def loops_of(nest: Nest) -> MappingLoops:
    """The loops of a nest of one row."""
    places = [np.argwhere(table[..., 0] > 1) for table in (nest.temporal, nest.spatial)]
    both = np.concatenate(places)
    spatial = np.repeat([False, True], [len(place) for place in places])
    factors = np.where(spatial, nest.spatial[both[:, 0], both[:, 1], 0], nest.temporal[both[:, 0], both[:, 1], 0])
    return MappingLoops(both[:, 0], both[:, 1], spatial, np.log(factors))


@dataclass(frozen=True)
class MachineLimit:
    """One limit of the machine: its kind ("capacity", "fan-out X", "fan-out Y"), the unit whose it is (an index of
    `Usage.expansion_x` for fan-outs, a level for capacities) and the logarithm of what there is."""

    kind: str
    unit: int
    log_available: float


def limits_of(layer: PreparedLayer, nest: Nest) -> list[MachineLimit]:
    """The limits that a mapping's loops could meet."""
    arch = layer.arch
    found = [MachineLimit("capacity", index, float(np.log(level.usable))) for index, level in enumerate(arch.levels)
             if level.usable and nest.keep[index].any()]
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    for index, unit in enumerate(units):
        found += [MachineLimit(f"fan-out {axis}", index, float(np.log(mesh)))
                  for axis, mesh in (("X", unit.mesh_x), ("Y", unit.mesh_y))]
    return found


@dataclass(frozen=True)
class ContinuousCost:
    """Values and their derivatives at one point: the logarithm of the energy (or of the metric, where cycles have no
    part in it), of the cycles of the arithmetic and of every level, and of what each limit is asked for."""

    value: np.ndarray
    jacobian: np.ndarray


def evaluate(layer: PreparedLayer, nest: Nest, loops: MappingLoops, limits: list[MachineLimit], metric: str,
             point: np.ndarray) -> ContinuousCost:
    """All functions of the problem at a point [V] and their derivatives, [F] and [F, V].

    One row of the batch per function, so that one pass backward gives all derivatives.
    """
    levels = len(layer.arch.levels)
    rows = 2 + levels + len(limits)
    logs = torch.from_numpy(point)[:, None].repeat(1, rows).requires_grad_(True)
    copies = _nest_at(nest, loops, logs)
    found = evaluate_smooth(layer, copies, active_parts(nest))
    functions = torch.stack([_own_metric(found, metric), found.use.compute_cycles, *found.cost.level_cycles,
                             *(_asked(copies, found, limit) for limit in limits)]).log()
    values = functions.diagonal()
    (gradient,) = torch.autograd.grad(values.sum(), logs)
    return ContinuousCost(values.detach().numpy(), gradient.T.numpy().copy())


def _own_metric(found: SmoothEvaluation, metric: str) -> torch.Tensor:
    """What a metric has besides the cycles."""
    if metric == "last_level_accesses":
        accesses: torch.Tensor = outermost_accesses(found.counts, found.use)
        return accesses
    energy: torch.Tensor = found.cost.energy
    return torch.ones_like(energy) + 0 * energy if metric == "delay" else energy


def _asked(nest: Nest, found: SmoothEvaluation, limit: MachineLimit) -> torch.Tensor:
    if limit.kind == "capacity":
        words: torch.Tensor = (found.tile.size[limit.unit] * nest.keep[limit.unit]).sum(dim=0)
        return words
    expansion = found.use.expansion_x if limit.kind == "fan-out X" else found.use.expansion_y
    result: torch.Tensor = expansion[limit.unit]
    return result


def _nest_at(nest: Nest, loops: MappingLoops, logs: torch.Tensor) -> Nest:
    """The nest with the factors exp(logs) [V, B] in its loops."""
    rows = logs.shape[1]

    def filled(chosen: np.ndarray) -> torch.Tensor:
        table = torch.ones((*nest.temporal.shape[:2], rows), dtype=torch.float64)
        return table.index_put((torch.from_numpy(loops.level[chosen]), torch.from_numpy(loops.dim[chosen])),
                               logs[torch.from_numpy(chosen)].exp())

    def copied(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.repeat(array, rows, axis=-1))
    return Nest(filled(~loops.spatial), filled(loops.spatial), copied(nest.order), copied(nest.keep),
                copied(nest.on_y), copied(nest.spatial_order))
