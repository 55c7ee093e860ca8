"""From access counts to cycles and energy: the equations that the exact evaluation and the relaxed model share.

Energies in pJ, bandwidths in words per cycle and instance. Axes as in `access_counts.py`: L, D, T and B (batch, last).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from fadiff_mapper.model.access_counts import Counts, Rounding, product, total
from fadiff_mapper.model.loop_nest import Active, Array, Nest, all_active, array_namespace
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import ComponentEnergy

UNLIMITED = 1e30
"""Bandwidth of a level without a limit: not infinite, so that gradients stay finite."""


@dataclass(frozen=True)
class Machine:
    """An architecture as constants for array work; [L, 1] or [L, T, 1] unless stated otherwise.

    `read`, `fill`, `update`, `leak`: pJ per vector access (per cycle for leak). Bandwidths: `UNLIMITED` where there is
    no limit. Prices and bandwidths may be torch tensors, to differentiate by them.
    """

    instances: np.ndarray
    clusters: np.ndarray
    block: np.ndarray
    read: Array
    fill: Array
    update: Array
    leak: Array
    addr_gen: np.ndarray
    read_bandwidth: Array
    write_bandwidth: Array
    shared_bandwidth: Array
    bandwidth_scale: np.ndarray
    compute_energy: Array | float
    network_latency: float
    gate: tuple[int, ...]
    gated: np.ndarray
    """For each level the level at which it is power gated, and how many of its instances one gate serves, [L, 1]."""


def machine(arch: Architecture, problem: Problem, energies: tuple[ComponentEnergy, ...],
            compute_energy: float) -> Machine:
    """The constants of one architecture; `energies` are those of its levels, `compute_energy` is pJ per MAC."""
    def column(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=np.float64)[:, None]

    def unlimited(value: float | None) -> float:
        return UNLIMITED if value is None else value

    levels = arch.levels
    scale = [[level.bandwidth_scale.get(name, 1.0) for name in problem.dataspace_names()] for level in levels]
    names = [level.name for level in levels]
    gate = tuple(names.index(level.power_gated_at or level.name) for level in levels)
    return Machine(
        instances=column([level.instances for level in levels]),
        clusters=column([level.instances // level.cluster_size for level in levels]),
        block=column([level.block_size for level in levels]),
        read=column([energy.read for energy in energies]), fill=column([energy.fill for energy in energies]),
        update=column([energy.update for energy in energies]), leak=column([energy.leak for energy in energies]),
        addr_gen=column([level.addr_gen_energy for level in levels]),
        read_bandwidth=column([unlimited(level.read_bandwidth) for level in levels]),
        write_bandwidth=column([unlimited(level.write_bandwidth) for level in levels]),
        shared_bandwidth=column([unlimited(level.shared_bandwidth) for level in levels]),
        bandwidth_scale=np.array(scale, dtype=np.float64)[..., None],
        compute_energy=compute_energy,
        network_latency=sum(level.interconnect.fill_latency + level.interconnect.drain_latency for level in levels),
        gate=gate, gated=column([level.instances / levels[g].instances for level, g in zip(levels, gate, strict=True)]))


@dataclass(frozen=True)
class Usage:
    """How much of the machine a nest uses.

    expansion_x, expansion_y [L + 1, B]   instances in use per axis; entry 0 is the arithmetic, l + 1 is level l
    compute_cycles [B]                    product of all temporal loops
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
    """Expansions are the products of all spatial loops further out than a level (all of them for the arithmetic)."""
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


def vector_accesses(counts: Counts, machine: Machine, rounding: Rounding) -> tuple[Array, Array, Array]:
    """(reads, fills, updates) per instance in blocks rather than words, [L, T, B]."""
    xp = array_namespace(counts.reads)
    block = xp.asarray(machine.block)[:, None]
    return (rounding.up(counts.reads / block), rounding.up(counts.fills / block), rounding.up(counts.updates / block))


def used_clusters(use: Usage, machine: Machine) -> Array:
    """Clusters of each level that work, [L, B]; one access of a cluster serves all its members."""
    xp = array_namespace(use.compute_cycles)
    return xp.minimum(use.instances, xp.asarray(machine.clusters) * xp.ones_like(use.compute_cycles))


def leaking_instances(use: Usage, machine: Machine) -> Array:
    """Instances of each level that leak, [L, B]: those in use, and those that share a power gate with one."""
    xp = array_namespace(use.compute_cycles)
    if not (machine.gated > 1).any():
        return use.instances
    behind_gates = xp.asarray(machine.gated) * xp.stack([use.instances[g] for g in machine.gate])
    return xp.where(xp.asarray(machine.gated) > 1, behind_gates, use.instances)


def access_energy(counts: Counts, use: Usage, machine: Machine, clusters: Array, rounding: Rounding) -> Array:
    """Energy of the accesses per used instance, [L, T, B] (eq. 19 of the paper, per vector access)."""
    xp = array_namespace(counts.reads)
    reads, fills, updates = vector_accesses(counts, machine, rounding)
    price = [_given(xp, value)[:, None] for value in (machine.read, machine.fill, machine.update)]
    members = use.instances / clusters
    return (reads * price[0] + fills * price[1] + updates * price[2]) / members[:, None]


def address_energy(counts: Counts, machine: Machine, clusters: Array) -> Array:
    """Energy of address generation, all clusters together, [L, T, B]."""
    xp = array_namespace(counts.reads)
    if not machine.addr_gen.any():
        return xp.zeros_like(counts.reads)
    return xp.asarray(machine.addr_gen)[:, None] * counts.address_generations * clusters[:, None]


def outermost_accesses(counts: Counts, use: Usage) -> Array:
    """Accesses of the outermost level in words, all its instances together, [B]."""
    accessed = counts.reads[-1] + counts.fills[-1] + counts.updates[-1]
    return total([accessed[tensor] for tensor in range(accessed.shape[0])]) * use.instances[-1]


@dataclass(frozen=True)
class Bandwidth:
    """Words per cycle that each level is asked for before throttling, [L, T, B], and the slowdown, [L, B]."""

    read: Array
    write: Array
    slowdown: Array


def bandwidth(counts: Counts, use: Usage, machine: Machine) -> Bandwidth:
    """A level that is asked for more than it can give slows the machine down in proportion (eq. 16)."""
    xp = array_namespace(counts.reads)
    read, write = counts.reads / use.compute_cycles, (counts.updates + counts.fills) / use.compute_cycles
    if (machine.bandwidth_scale != 1).any():
        read, write = read * xp.asarray(machine.bandwidth_scale), write * xp.asarray(machine.bandwidth_scale)
    asked = _over_tensors(read), _over_tensors(write)
    slowdown = []
    for level in range(read.shape[0]):
        slowest = xp.ones_like(use.compute_cycles)
        for wanted, limit in ((asked[0][level], machine.read_bandwidth[level, 0]),
                              (asked[1][level], machine.write_bandwidth[level, 0]),
                              (asked[0][level] + asked[1][level], machine.shared_bandwidth[level, 0])):
            if limit < UNLIMITED:
                allowed = _given(xp, limit) * xp.ones_like(wanted)
                slowest = xp.minimum(slowest, allowed / xp.maximum(wanted, allowed))
        slowdown.append(slowest)
    return Bandwidth(read, write, xp.stack(slowdown))


def level_cycles(use: Usage, slowdown: Array, rounding: Rounding) -> Array:
    """Cycles of every storage level, [L, B]."""
    return rounding.up(use.compute_cycles / slowdown)


def _given(xp: Any, constant: Any) -> Array:
    """A constant of the machine in an array namespace; one that is there to differentiate by stays what it is."""
    return constant if is_torch_array(constant) else xp.asarray(constant)


def _over_tensors(values: Array) -> Array:
    return total([values[:, tensor] for tensor in range(values.shape[1])])


@dataclass(frozen=True)
class Cost:
    """Cycles [B], energy in pJ [B] without networks, and its parts; `level_energy` [L, B] has leakage in it."""

    cycles: Array
    energy: Array
    level_cycles: Array
    level_energy: Array
    access_energy: Array
    address_energy: Array
    leakage: Array
    compute_energy: Array
    bandwidth: Bandwidth
    clusters: Array


def cost(counts: Counts, use: Usage, machine: Machine, computes: Array | float, rounding: Rounding) -> Cost:
    """Cycles and energy of a batch. `computes`: MACs of the problem, one number or [B].

    The slowest level sets the time (eq. 16); leakage counts used instances over that time, the networks' fill and
    drain latencies come on top. Energy is eq. (17) with leakage.
    """
    xp = array_namespace(counts.reads)
    asked = bandwidth(counts, use, machine)
    per_level = level_cycles(use, asked.slowdown, rounding)
    slowest = xp.max(per_level, axis=0)
    busy = xp.maximum(slowest, use.compute_cycles)
    clusters = used_clusters(use, machine)
    access = access_energy(counts, use, machine, clusters, rounding)
    address = address_energy(counts, machine, clusters)
    leakage = _given(xp, machine.leak) * busy * leaking_instances(use, machine)
    arithmetic = computes * machine.compute_energy * xp.ones_like(busy)
    levels = _over_tensors(access * use.instances[:, None] + address) + leakage
    return Cost(busy + machine.network_latency, xp.sum(levels, axis=0) + arithmetic, per_level, levels, access,
                address, leakage, arithmetic, asked, clusters)
