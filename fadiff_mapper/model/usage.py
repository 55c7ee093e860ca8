"""Instances that a mapping uses: along both axes of every mesh, by cluster, and behind power gates.

Axes as in `access_counts.py`: L and B (batch, last).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    def laid_out(self) -> Array:
        """Instances of every storage level that the mapping lays out, [L, B]."""
        return self.expansion_x[1:] * self.expansion_y[1:]

    @property
    def instances(self) -> Array:
        """Used instances of every storage level, [L, B]: all that are laid out."""
        return self.laid_out

    @property
    def computes(self) -> Array:
        """Multiply-accumulates, [B]: the product of all factors, which divide the problem's bounds."""
        return self.compute_cycles * self.expansion_x[0] * self.expansion_y[0]


@dataclass(frozen=True)
class AverageUsage(Usage):
    """How much of the machine a nest with residuals uses; last runs of spatial loops leave some instances idle.

    Expansions, which limits hold for, and cycles are those of whole runs, as Timeloop counts them.

    Attributes:
        average: [L, B]. Instances in use on average.
        receivers: [L, B]. Receivers of one instance of each level on average.
        done: [B]. Multiply-accumulates.
        iterations: [B]. Computes of the first unit of the arithmetic.
        units: [B]. Units of the arithmetic in use on average, rounded down.
    """

    average: np.ndarray
    receivers: np.ndarray
    done: np.ndarray
    iterations: np.ndarray
    units: np.ndarray

    @property
    def instances(self) -> np.ndarray:
        """Used instances of every storage level on average, [L, B]."""
        return self.average

    @property
    def computes(self) -> np.ndarray:
        """Multiply-accumulates, [B]."""
        return self.done


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


def average_usage(nest: Nest, problem_computes: float | None = None) -> AverageUsage:
    """Instances in use on average, and computes, of a batch with residuals.

    A spatial loop with bound n and residual r that runs m times uses (r + n (m - 1)) / m receivers on average. Timeloop
    rounds the instances in use down in the end, and counts as multiply-accumulates those of the first unit times the
    units in use, both rounded down: too few where last runs have fewer of both.

    Args:
        nest: B mappings, NumPy arrays.
        problem_computes: Multiply-accumulates of the problem, for numbers without Timeloop's rounding; None: with it.
    """
    whole, rows = usage(nest), np.arange(nest.batch)
    runs = np.ones(nest.temporal.shape[1:])  # [D, B]; iterations of all loops so far, the last ones counted as they are
    used, average = np.ones(nest.batch), np.empty((len(nest.temporal), nest.batch))
    for level in reversed(range(len(nest.temporal))):
        average[level] = used
        runs = nest.temporal_last[level] + nest.temporal[level] * (runs - 1)
        for on_y in (True, False) if level else ():
            for position in reversed(range(nest.order.shape[1])):
                d = nest.spatial_order[level, position]
                here = nest.on_y[level, d, rows] == on_y
                bound = np.where(here, nest.spatial[level, d, rows], 1)
                last = np.where(here, nest.spatial_last[level, d, rows], 1)
                times = runs[d, rows]
                used = np.where(bound == last, used * bound, used * (last + bound * (times - 1)) / times)
        runs = nest.spatial_last[level] + nest.spatial[level] * (runs - 1)
    units = np.trunc(average[0] * nest.spatial[0].prod(axis=0))
    iterations = _first_unit(nest)
    receivers = np.concatenate([units[None], average[:-1]]) / average
    if problem_computes is None:
        average, done = np.trunc(average), np.trunc(iterations * units)
    else:
        done = np.full(nest.batch, problem_computes)
    return AverageUsage(whole.expansion_x, whole.expansion_y, whole.compute_cycles, average, receivers, done,
                        iterations, units)


def _first_unit(nest: Nest) -> np.ndarray:
    """[B]. Computes of the first unit of the arithmetic, on average over the units below one innermost level.

    By dimension, once where all loops further out are in their last iteration and once elsewhere. Of spatial loops
    further out the first receiver counts, which has a shorter run only where the residual is 1.
    """
    ends, others = nest.spatial_last[0], nest.spatial[0]
    for level in range(len(nest.temporal)):
        if level:
            ends = np.where(nest.spatial_last[level] == 1, ends, others)
        ends, others = ends + (nest.temporal_last[level] - 1) * others, others * nest.temporal[level]
    shorter = (nest.spatial_last[1:] == 1).all(axis=0) & (nest.temporal_last == 1).all(axis=0)
    return np.asarray(ends.prod(axis=0) / np.where(shorter, nest.spatial_last[0], nest.spatial[0]).prod(axis=0))


def _outer_products(factors: Array) -> Array:
    """[L + 1, B] from [L, B]: entry l is the product over levels >= l."""
    xp = array_namespace(factors)
    running = [xp.ones_like(factors[0])]
    for level in reversed(range(factors.shape[0])):
        running.append(running[-1] * factors[level])
    return xp.stack(running[::-1])


def used_clusters(use: Usage, machine: Machine) -> Array:
    """Clusters of each level that work, [L, B]: as many as there are instances laid out, at most all clusters."""
    xp = array_namespace(use.compute_cycles)
    return xp.minimum(use.laid_out, in_namespace(xp, machine.clusters) * xp.ones_like(use.compute_cycles))


def leaking_instances(use: Usage, machine: Machine) -> Array:
    """Instances of each level that leak, [L, B]: instances in use, and their neighbours behind the same power gate."""
    xp = array_namespace(use.compute_cycles)
    if not (machine.gated > 1).any():
        return use.instances
    behind_gates = in_namespace(xp, machine.gated) * xp.stack([use.instances[g] for g in machine.gate])
    return xp.where(in_namespace(xp, machine.gated) > 1, behind_gates, use.instances)
