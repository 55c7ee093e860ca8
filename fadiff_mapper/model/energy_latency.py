"""From access counts to cycles and energy: the equations that the exact and the smooth evaluation share.

Energies in pJ, bandwidths in words per cycle and instance, cycles whole in the exact evaluation. Axes as in
`access_counts.py`: L, D, T and B (batch, last). The equations are those of FADiff (arXiv 2511.22348): the roofline of
eq. (16) for the latency and eqs. (17)-(19) for the energy, extended to vector accesses, clusters, address generation
and leakage as `timeloop-model` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.loop_nest import Active, Array, Nest, all_active, array_namespace
from fadiff_mapper.model.tile_boxes import product, total
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import ComponentEnergy

UNLIMITED = 1e30
"""Bandwidth of a level without a limit, in words per cycle: not infinite, so that gradients stay finite. Any number
far above every demand does; nothing was measured."""


@dataclass(frozen=True)
class Machine:
    """An architecture as constants for array work.

    Where every column of a batch has a machine of its own, as in `design.descent`, the constants are torch tensors, and
    their axis of length 1 is the batch.

    Attributes:
        clusters: [L, 1]. Clusters of each level; one access of a cluster serves all its members.
        block: [L, 1]. Words per vector access.
        read: [L, 1]. pJ per vector read.
        fill: [L, 1]. pJ per vector write of words from outside.
        update: [L, 1]. pJ per vector write of outputs from below.
        leak: [L, 1]. pJ of leakage per cycle and instance.
        addr_gen: [L, 1]. pJ per generated address.
        read_bandwidth: [L, 1]. Words per cycle and instance; `UNLIMITED` where there is no limit.
        write_bandwidth: [L, 1]. The same for fills and updates together.
        shared_bandwidth: [L, 1]. The same for reads, fills and updates together.
        bandwidth_scale: [L, T, 1]. Factor on the bandwidth that a data space asks for.
        compute_energy: pJ per multiply-accumulate.
        network_latency: Cycles to fill and drain all interconnects.
        gate: For each level the index of the level whose instances are its power gates.
        gated: [L, 1]. Instances of each level behind one power gate.
    """

    clusters: Array
    block: Array
    read: Array
    fill: Array
    update: Array
    leak: Array
    addr_gen: Array
    read_bandwidth: Array
    write_bandwidth: Array
    shared_bandwidth: Array
    bandwidth_scale: np.ndarray
    compute_energy: Array | float
    network_latency: float
    gate: tuple[int, ...]
    gated: Array


def machine(arch: Architecture, problem: Problem, energies: tuple[ComponentEnergy, ...],
            compute_energy: float) -> Machine:
    """The constants of one architecture.

    Args:
        arch: The architecture.
        problem: Gives the order of data spaces for `bandwidth_scale`.
        energies: pJ per vector access of every level, innermost first.
        compute_energy: pJ per multiply-accumulate.

    Returns:
        NumPy arrays in float64.
    """
    def column(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=np.float64)[:, None]

    def unlimited(value: float | None) -> float:
        return UNLIMITED if value is None else value

    levels = arch.levels
    scale = [[level.bandwidth_scale.get(name, 1.0) for name in problem.dataspace_names()] for level in levels]
    names = [level.name for level in levels]
    gate = tuple(names.index(level.power_gated_at or level.name) for level in levels)
    return Machine(
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


@dataclass(frozen=True)
class WordEnergy:
    """pJ per word where vector accesses use all words of their blocks and clusters share nothing.

    Attributes:
        read: [L, 1]. pJ to read a word.
        fill: [L, 1]. pJ to write a word that arrives from outside.
        update: [L, 1]. pJ to write a word of an output that arrives from below.
    """

    read: Array
    fill: Array
    update: Array


def word_energy(machine: Machine) -> WordEnergy:
    """The energy of moving one word in and out of each level: energy per vector access over words per block."""
    return WordEnergy(machine.read / machine.block, machine.fill / machine.block, machine.update / machine.block)


def vector_accesses(counts: Counts, machine: Machine, rounding: Rounding) -> tuple[Array, Array, Array]:
    """Accesses per instance in blocks of words, rounded up over the whole run.

    Args:
        counts: Accesses in words.
        machine: Block sizes.
        rounding: Rounds up, or not.

    Returns:
        (reads, fills, updates), [L, T, B] each, in vector accesses.
    """
    xp = array_namespace(counts.reads)
    block = _given(xp, machine.block)[:, None]
    return (rounding.up(counts.reads / block), rounding.up(counts.fills / block), rounding.up(counts.updates / block))


def used_clusters(use: Usage, machine: Machine) -> Array:
    """Clusters of each level that work, [L, B]: as many as there are used instances, at most all clusters."""
    xp = array_namespace(use.compute_cycles)
    return xp.minimum(use.instances, _given(xp, machine.clusters) * xp.ones_like(use.compute_cycles))


def leaking_instances(use: Usage, machine: Machine) -> Array:
    """Instances of each level that leak, [L, B]: instances in use, and their neighbours behind the same power gate."""
    xp = array_namespace(use.compute_cycles)
    if not (machine.gated > 1).any():
        return use.instances
    behind_gates = _given(xp, machine.gated) * xp.stack([use.instances[g] for g in machine.gate])
    return xp.where(_given(xp, machine.gated) > 1, behind_gates, use.instances)


def access_energy(counts: Counts, use: Usage, machine: Machine, clusters: Array, rounding: Rounding) -> Array:
    """Energy of the accesses per used instance (FADiff eq. (19), per vector access instead of per word).

    Args:
        counts: Accesses in words.
        use: Instances in use.
        machine: pJ per vector access.
        clusters: [L, B]. Clusters in use; the energy of an access is shared by the used members of a cluster.
        rounding: Rounds vector accesses up, or not.

    Returns:
        [L, T, B]. pJ.
    """
    xp = array_namespace(counts.reads)
    reads, fills, updates = vector_accesses(counts, machine, rounding)
    price = [_given(xp, value)[:, None] for value in (machine.read, machine.fill, machine.update)]
    members = use.instances / clusters
    return (reads * price[0] + fills * price[1] + updates * price[2]) / members[:, None]


def address_energy(counts: Counts, machine: Machine, clusters: Array) -> Array:
    """Energy of address generation in pJ, all clusters [L, B] together, [L, T, B]."""
    xp = array_namespace(counts.reads)
    if not machine.addr_gen.any():
        return xp.zeros_like(counts.reads)
    return _given(xp, machine.addr_gen)[:, None] * counts.address_generations * clusters[:, None]


def outermost_accesses(counts: Counts, use: Usage) -> Array:
    """Accesses of the outermost level in words, reads, fills and updates of all its instances together, [B]."""
    accessed = counts.reads[-1] + counts.fills[-1] + counts.updates[-1]
    return total([accessed[t] for t in range(accessed.shape[0])]) * use.instances[-1]


@dataclass(frozen=True)
class Bandwidth:
    """Bandwidth that each level is asked for.

    Attributes:
        read: [L, T, B]. Words per cycle and instance to read, before throttling.
        write: [L, T, B]. Words per cycle and instance to fill and update, before throttling.
        slowdown: [L, B]. Share of the asked bandwidth that the level can give, at most 1.
    """

    read: Array
    write: Array
    slowdown: Array


def bandwidth(counts: Counts, use: Usage, machine: Machine) -> Bandwidth:
    """A level that is asked for more than it can give slows the machine down in proportion (FADiff eq. (16)).

    Args:
        counts: Accesses in words.
        use: Compute cycles over which the accesses spread evenly.
        machine: Limits; block sizes play no role, as in Timeloop.

    Returns:
        Demand and slowdown; the slowdown is that of the tightest limit: read, write, or both together.
    """
    xp = array_namespace(counts.reads)
    read, write = counts.reads / use.compute_cycles, (counts.updates + counts.fills) / use.compute_cycles
    if (machine.bandwidth_scale != 1).any():
        read, write = read * xp.asarray(machine.bandwidth_scale), write * xp.asarray(machine.bandwidth_scale)
    asked = _over_dataspaces(read), _over_dataspaces(write)
    slowdown = []
    for level in range(read.shape[0]):
        slowest = xp.ones_like(use.compute_cycles)
        for wanted, limit in ((asked[0][level], machine.read_bandwidth[level]),
                              (asked[1][level], machine.write_bandwidth[level]),
                              (asked[0][level] + asked[1][level], machine.shared_bandwidth[level])):
            if (limit < UNLIMITED).any():
                # divided by at least `allowed`, so that an idle level divides nothing by 0
                allowed = _given(xp, limit) * xp.ones_like(wanted)
                slowest = xp.minimum(slowest, allowed / xp.maximum(wanted, allowed))
        slowdown.append(slowest)
    return Bandwidth(read, write, xp.stack(slowdown))


def level_cycles(use: Usage, slowdown: Array, rounding: Rounding) -> Array:
    """Cycles of every storage level, [L, B]: compute cycles over slowdown [L, B], rounded up."""
    return rounding.up(use.compute_cycles / slowdown)


def _given(xp: Any, constant: Any) -> Array:
    """A constant of the machine in an array namespace.

    Torch tensors are returned unchanged: `design.descent` differentiates with respect to them.
    """
    return constant if is_torch_array(constant) else xp.asarray(constant)


def _over_dataspaces(values: Array) -> Array:
    """[L, B] from [L, T, B], added in the order of the data spaces."""
    return total([values[:, t] for t in range(values.shape[1])])


@dataclass(frozen=True)
class Cost:
    """Cycles and energy of a batch, in pJ and without interconnects.

    Attributes:
        cycles: [B]. Cycles of the whole run.
        energy: [B]. Energy of all levels and the arithmetic.
        level_cycles: [L, B]. Cycles that each storage level needs.
        level_energy: [L, B]. All used instances of a level together, with address generation and leakage.
        access_energy: [L, T, B]. Vector accesses of one used instance.
        address_energy: [L, T, B]. Address generation, all clusters together.
        leakage: [L, B]. All leaking instances together.
        compute_energy: [B]. The arithmetic.
        bandwidth: Bandwidth that the levels are asked for.
        clusters: [L, B]. Clusters in use.
    """

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
    """Cycles and energy of a batch.

    The slowest level sets the time (FADiff eq. (16)); leakage counts used instances over that time. The
    interconnects' fill and drain latencies come on top, without leakage. Energy is eq. (17) with leakage.

    Args:
        counts: Accesses in words.
        use: Instances in use and compute cycles.
        machine: Constants of the architecture.
        computes: Multiply-accumulates of the problem, a number or [B].
        rounding: How vector accesses and cycles become whole numbers.

    Returns:
        Cycles, energy and its parts.
    """
    return cost_of(counts, use, use, machine, bandwidth(counts, use, machine), computes, rounding)


def cost_of(counts: Counts, use: Usage, laid_out: Usage, machine: Machine, asked: Bandwidth, computes: Array | float,
            rounding: Rounding) -> Cost:
    """The same from the bandwidth asked for, where the mapping lays out more instances than it uses on average.

    Args:
        counts: Accesses in words.
        use: Instances in use and compute cycles.
        laid_out: Instances that share clusters.
        machine: Constants of the architecture.
        asked: Bandwidth that the levels are asked for.
        computes: Multiply-accumulates of the problem, a number or [B].
        rounding: How vector accesses and cycles become whole numbers.
    """
    xp = array_namespace(counts.reads)
    per_level = level_cycles(use, asked.slowdown, rounding)
    slowest = xp.max(per_level, axis=0)
    busy = xp.maximum(slowest, use.compute_cycles)
    clusters = used_clusters(laid_out, machine)
    access = access_energy(counts, laid_out, machine, clusters, rounding)
    address = address_energy(counts, machine, clusters)
    leakage = _given(xp, machine.leak) * busy * leaking_instances(use, machine)
    arithmetic = computes * machine.compute_energy * xp.ones_like(busy)
    levels = _over_dataspaces(access * use.instances[:, None] + address) + leakage
    return Cost(busy + machine.network_latency, xp.sum(levels, axis=0) + arithmetic, per_level, levels, access,
                address, leakage, arithmetic, asked, clusters)
