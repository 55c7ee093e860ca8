"""The loss of a descent on layers (FADiff, eq. 20): the metric's logarithm, the rules of `legality.py` as penalties.

The paper squares absolute excess. Here the excess is measured in octaves, log2(asked / available), so that one
weight suits a register and a scratchpad alike; like eqs. (21)-(25) each term is zero where the rule holds. Eq. (26),
the alignment of fused layers, belongs to `network_cost.py`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch

from fadiff_mapper.gradient.gumbel_softmax import FactorPlaces
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.evaluate import NestEvaluation
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.best_so_far import weighted

Available: TypeAlias = "torch.Tensor | float"
"""Words or units available: one number for all columns of a batch, or one for each, [B]."""


class MachineLimits(NamedTuple):
    """The capacities and meshes that mappings may use."""

    usable: tuple[Available | None, ...]  # Words of every level that the tiles may fill, innermost first; None is
                                          # unlimited
    mesh_x: tuple[Available, ...]         # Units along X of the arithmetic, then of every level from the innermost
    mesh_y: tuple[Available, ...]         # The same along Y


def machine_limits(arch: Architecture) -> MachineLimits:
    units: list[Arithmetic | StorageLevel] = [arch.arithmetic, *arch.levels]
    return MachineLimits(tuple(level.usable for level in arch.levels), tuple(unit.mesh_x for unit in units),
                         tuple(unit.mesh_y for unit in units))


def penalty(layer: PreparedLayer, places: FactorPlaces, theta: torch.Tensor, nest: Nest, evaluation: NestEvaluation,
            min_parallelism: float = 0.0, limits: MachineLimits | None = None) -> torch.Tensor:
    """P_map + P_mem of eq. (20) in squared octaves, [B]; 0 where every rule holds.

    `nest` is drawn from theta [P, D, B], log2 of the continuous factors; `min_parallelism` is the least share of the
    arithmetic's instances in use. The `limits` of a machine under design replace the architecture's.
    """
    limits = limits or machine_limits(layer.arch)
    return (validity(places, theta) + spatial(limits, evaluation) + capacity(layer, limits, nest, evaluation)
            + parallelism(layer, nest, min_parallelism))


def smooth_value(evaluation: NestEvaluation, metrics: tuple[str, ...]) -> torch.Tensor:
    """The logarithms of the metrics, weighted by priority, [B], also for illegal mappings."""
    value: torch.Tensor = weighted(evaluation.cost.cycles, evaluation.cost.energy,
                                   outermost_accesses(evaluation.counts, evaluation.tile), metrics)
    return value


def excess(asked: torch.Tensor, available: Available) -> torch.Tensor:
    """Squared octaves by which `asked` [B] is above `available`, [B]; 0 where it is not."""
    return torch.log2(asked / available).clamp(min=0) ** 2


def validity(places: FactorPlaces, theta: torch.Tensor) -> torch.Tensor:
    """Eq. (21): squared octaves, [B], by which continuous factors, exp2 of theta [P, D, B], are below 1.

    The residual place counts, too.
    """
    member = places.member_of(theta.shape[-1])
    leftover = places.residual[member].permute(1, 2, 0) > 0
    taken = torch.where(leftover, torch.zeros_like(theta), theta).sum(dim=0)
    below = (-theta).clamp(min=0) ** 2
    beyond = (taken - torch.log2(places.bound[member].T)).clamp(min=0) ** 2
    return below.sum(dim=(0, 1)) + beyond.sum(dim=0)


def spatial(limits: MachineLimits, evaluation: NestEvaluation) -> torch.Tensor:
    """Eq. (22): instances in use beyond the mesh, for each axis and level and the arithmetic, [B]."""
    total = torch.zeros_like(evaluation.cost.cycles)
    for index, (mesh_x, mesh_y) in enumerate(zip(limits.mesh_x, limits.mesh_y, strict=True)):
        total = total + excess(evaluation.tile.expansion_x[index], mesh_x)
        total = total + excess(evaluation.tile.expansion_y[index], mesh_y)
    return total


def capacity(layer: PreparedLayer, limits: MachineLimits, nest: Nest, evaluation: NestEvaluation) -> torch.Tensor:
    """Eq. (25): kept tiles of a level beyond its usable words, or below its least utilization, [B]."""
    total = torch.zeros_like(evaluation.cost.cycles)
    for index, (level, usable) in enumerate(zip(layer.arch.levels, limits.usable, strict=True)):
        if usable is None or not torch.as_tensor(usable).any():
            continue
        # 1e-3 words keep the logarithm finite where a level keeps nothing
        words = (layer.machine.needed(evaluation.tile.size)[index] * nest.keep[index]).sum(dim=0).clamp(min=1e-3)
        total = total + excess(words, usable)
        if level.min_utilization:
            total = total + excess(usable * level.min_utilization / words, 1.0)
    return total


def parallelism(layer: PreparedLayer, nest: Nest, least: float) -> torch.Tensor:
    """A share of the arithmetic's instances in use below `least` (the constraint "utilization"), [B]."""
    used = nest.spatial.prod(dim=0).prod(dim=0) / layer.arch.arithmetic.instances
    return excess(least / used, 1.0) if least > 0 else torch.zeros_like(used)
