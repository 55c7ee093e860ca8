"""The smooth form of each rule that `legality.py` checks (FADiff, eqs. 20-25), one value per restart.

The paper squares absolute excess. Here the excess is measured in octaves, log2(asked / available), so that one
weight suits a register and a scratchpad alike; like eqs. (21)-(25) each term is zero where the rule holds.
"""

from __future__ import annotations

import torch

from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth.evaluate import SmoothEvaluation
from fadiff_mapper.relaxation.gumbel_softmax import FactorPlaces
from fadiff_mapper.spec.arch import Arithmetic, StorageLevel


def penalty(layer: PreparedLayer, slots: FactorPlaces, theta: torch.Tensor, nest: Nest, found: SmoothEvaluation,
            min_parallelism: float = 0.0) -> torch.Tensor:
    """P_map + P_mem of eq. (20), [B]."""
    return (validity(slots, theta) + spatial(layer, found) + capacity(layer, nest, found)
            + parallelism(layer, nest, min_parallelism))


def excess(asked: torch.Tensor, available: torch.Tensor | float) -> torch.Tensor:
    """Squared octaves by which `asked` is above `available`."""
    return torch.log2(asked / available).clamp(min=0) ** 2


def validity(slots: FactorPlaces, theta: torch.Tensor) -> torch.Tensor:
    """Eq. (21): a continuous tiling factor below 1, also that of the slot which takes what the others leave."""
    problem = slots.problem_of(theta.shape[-1])
    leftover = slots.residual[problem].permute(1, 2, 0) > 0
    taken = torch.where(leftover, torch.zeros_like(theta), theta).sum(dim=0)
    below = (-theta).clamp(min=0) ** 2
    beyond = (taken - torch.log2(slots.bound[problem].T)).clamp(min=0) ** 2
    return below.sum(dim=(0, 1)) + beyond.sum(dim=0)


def spatial(layer: PreparedLayer, found: SmoothEvaluation) -> torch.Tensor:
    """Eq. (22), per axis: more instances in use than there are, at any level."""
    units: list[Arithmetic | StorageLevel] = [layer.arch.arithmetic, *layer.arch.levels]
    total = torch.zeros_like(found.cost.cycles)
    for index, unit in enumerate(units):
        total = total + excess(found.use.expansion_x[index], unit.mesh_x)
        total = total + excess(found.use.expansion_y[index], unit.mesh_y)
    return total


def capacity(layer: PreparedLayer, nest: Nest, found: SmoothEvaluation) -> torch.Tensor:
    """Eq. (25): the kept tiles of a level beyond its usable words; also too few of them, where the spec says so."""
    total = torch.zeros_like(found.cost.cycles)
    for index, level in enumerate(layer.arch.levels):
        if level.usable is None:
            continue
        words = (found.tile.size[index] * nest.keep[index]).sum(dim=0).clamp(min=1e-3)
        if level.usable:
            total = total + excess(words, level.usable)
        if level.min_utilization and level.usable:
            total = total + excess(level.usable * level.min_utilization / words, 1.0)
    return total


def parallelism(layer: PreparedLayer, nest: Nest, least: float) -> torch.Tensor:
    """Less than the least share of the array in use (the constraint "utilization")."""
    used = nest.spatial.prod(dim=0).prod(dim=0) / layer.arch.arithmetic.instances
    return excess(least / used, 1.0) if least > 0 else torch.zeros_like(used)
