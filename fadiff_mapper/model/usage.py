"""Instances that a mapping uses: along both axes of every mesh, by cluster, and behind power gates.

Axes as in `access_counts.py`: L and B (batch, last).
"""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.model.loop_nest import Active, Array, Nest, all_active, array_namespace
from fadiff_mapper.model.machine import Machine, in_namespace
from fadiff_mapper.model.tile_boxes import product


@dataclass(frozen=True)
class Usage:
    """How much of the machine a nest uses.

    Attributes:
        expansion_x: [L + 1, B]. Instances in use along X; entry 0 is the arithmetic, entry l + 1 is level l.
        expansion_y: [L + 1, B]. The same along Y.
        compute_cycles: [B]. Product of all temporal loops: cycles if nothing throttles.
    """

    expansion_x: Array
    expansion_y: Array
    compute_cycles: Array

    @property
    def instances(self) -> Array:
        """Used instances of every storage level, [L, B]."""
        return self.expansion_x[1:] * self.expansion_y[1:]

    @property
    def computes(self) -> Array:
        """Multiply-accumulates, [B]: the product of all factors, which divide the problem's bounds."""
        return self.compute_cycles * self.expansion_x[0] * self.expansion_y[0]


def usage(nest: Nest, active: Active | None = None) -> Usage:
    """Instances in use and compute cycles.

    The expansion of a level is the product of all spatial loops further out (of all of them for the arithmetic).

    Args:
        nest: The mappings.
        active: Loops that may differ from 1; None takes all.

    Returns:
        Expansions and compute cycles of all mappings.
    """
    xp = array_namespace(nest.temporal)
    active = active or all_active(nest)
    one = xp.ones_like(nest.spatial[:, 0])
    loops = active.spatial_dims()
    on_x = product([xp.where(nest.on_y[:, d], one, nest.spatial[:, d]) for d in loops] or [one])
    on_y = product([xp.where(nest.on_y[:, d], nest.spatial[:, d], one) for d in loops] or [one])
    cycles = product([xp.prod(nest.temporal[level], axis=0) for level in active.looping_levels()] or [one[0]])
    return Usage(_outer_products(on_x), _outer_products(on_y), cycles)


def _outer_products(factors: Array) -> Array:
    """[L + 1, B] from [L, B]: entry l is the product over levels >= l."""
    xp = array_namespace(factors)
    running = [xp.ones_like(factors[0])]
    for level in reversed(range(factors.shape[0])):
        running.append(running[-1] * factors[level])
    return xp.stack(running[::-1])


def used_clusters(use: Usage, machine: Machine) -> Array:
    """Clusters of each level that work, [L, B]: as many as there are used instances, at most all clusters."""
    xp = array_namespace(use.compute_cycles)
    return xp.minimum(use.instances, in_namespace(xp, machine.clusters) * xp.ones_like(use.compute_cycles))


def leaking_instances(use: Usage, machine: Machine) -> Array:
    """Instances of each level that leak, [L, B]: instances in use, and their neighbours behind the same power gate."""
    xp = array_namespace(use.compute_cycles)
    if not (machine.gated > 1).any():
        return use.instances
    behind_gates = in_namespace(xp, machine.gated) * xp.stack([use.instances[g] for g in machine.gate])
    return xp.where(in_namespace(xp, machine.gated) > 1, behind_gates, use.instances)
