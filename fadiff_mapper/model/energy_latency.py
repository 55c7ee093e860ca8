"""From access counts to cycles and energy: the equations that the exact and the smooth evaluation share.

Energies in pJ, cycles whole in the exact evaluation. Axes as in `access_counts.py`: L, D, T and B (batch, last). The
equations are those of FADiff (arXiv 2511.22348): the roofline of eq. (16) for the latency and eqs. (17)-(19) for the
energy, extended to vector accesses, clusters, address generation and leakage as `timeloop-model` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.loop_nest import Array, array_namespace
from fadiff_mapper.model.prepared_layer import UNLIMITED, Machine, in_namespace
from fadiff_mapper.model.tiles import AverageUsage, Usage, total


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


def bandwidth(counts: Counts, use: Usage, machine: Machine, rounding: Rounding) -> Bandwidth:
    """A level that is asked for more than it can give slows the machine down in proportion (FADiff eq. (16)).

    Args:
        counts: Accesses in words.
        use: Compute cycles over which the accesses spread evenly.
        machine: Limits; block sizes play no role, as in Timeloop.
        rounding: Rounds the words of an average instance up, where some are idle.

    Returns:
        Demand and slowdown; the slowdown is that of the tightest limit: read, write, or both together.
    """
    xp = array_namespace(counts.reads)
    reads, writes = counts.reads, counts.updates + counts.fills
    if isinstance(use, AverageUsage):
        busy = (use.laid_out / use.instances)[:, None]
        reads, writes = rounding.up(reads / busy), rounding.up(writes / busy)
    read, write = reads / use.compute_cycles, writes / use.compute_cycles
    if (machine.bandwidth_scale != 1).any():
        read, write = read * xp.asarray(machine.bandwidth_scale), write * xp.asarray(machine.bandwidth_scale)
    return Bandwidth(read, write, slowdown(over_dataspaces(read), over_dataspaces(write), machine))


def slowdown(read: Array, write: Array, machine: Machine) -> Array:
    """Share of the asked bandwidth that each level can give, at most 1, [L, B].

    Args:
        read: [L, B]. Words per cycle and instance to read.
        write: [L, B]. Words per cycle and instance to fill and update.
        machine: Limits.
    """
    xp = array_namespace(read)
    shares = []
    for level in range(read.shape[0]):
        slowest = xp.ones_like(read[level])
        for wanted, limit in ((read[level], machine.read_bandwidth[level]),
                              (write[level], machine.write_bandwidth[level]),
                              (read[level] + write[level], machine.shared_bandwidth[level])):
            if (limit < UNLIMITED).any():
                # divided by at least `allowed`, so that an idle level divides nothing by 0
                allowed = in_namespace(xp, limit) * xp.ones_like(wanted)
                slowest = xp.minimum(slowest, allowed / xp.maximum(wanted, allowed))
        shares.append(slowest)
    return xp.stack(shares)


def level_cycles(use: Usage, slowdown: Array, rounding: Rounding) -> Array:
    """Cycles of every storage level, [L, B]: compute cycles over slowdown [L, B], rounded up."""
    return rounding.up(use.compute_cycles / slowdown)


def over_dataspaces(values: Array) -> Array:
    """[L, B] from [L, T, B], added in the order of the data spaces."""
    return total([values[:, t] for t in range(values.shape[1])])


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
    block = in_namespace(xp, machine.block)[:, None]
    return (rounding.up(counts.reads / block), rounding.up(counts.fills / block), rounding.up(counts.updates / block))


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
    price = [in_namespace(xp, value)[:, None] for value in (machine.read, machine.fill, machine.update)]
    members = use.laid_out / clusters
    return (reads * price[0] + fills * price[1] + updates * price[2]) / members[:, None]


def address_energy(counts: Counts, machine: Machine, clusters: Array) -> Array:
    """Energy of address generation in pJ, all clusters [L, B] together, [L, T, B]."""
    xp = array_namespace(counts.reads)
    if not machine.addr_gen.any():
        return xp.zeros_like(counts.reads)
    return in_namespace(xp, machine.addr_gen)[:, None] * counts.address_generations * clusters[:, None]


def outermost_accesses(counts: Counts, use: Usage) -> Array:
    """Accesses of the outermost level in words, reads, fills and updates of all its instances together, [B]."""
    accessed = counts.reads[-1] + counts.fills[-1] + counts.updates[-1]
    return total([accessed[t] for t in range(accessed.shape[0])]) * use.instances[-1]


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
    asked = bandwidth(counts, use, machine, rounding)
    xp = array_namespace(counts.reads)
    per_level = level_cycles(use, asked.slowdown, rounding)
    slowest = xp.max(per_level, axis=0)
    busy = xp.maximum(slowest, use.compute_cycles)
    clusters = used_clusters(use, machine)
    access = access_energy(counts, use, machine, clusters, rounding)
    address = address_energy(counts, machine, clusters)
    leakage = in_namespace(xp, machine.leak) * busy * leaking_instances(use, machine)
    arithmetic = computes * machine.compute_energy * xp.ones_like(busy)
    levels = over_dataspaces(access * use.instances[:, None] + address) + leakage
    # level by level: the order in which `sum` adds depends on how many mappings there are, and so would the last bit
    energy = total([levels[level] for level in range(levels.shape[0])]) + arithmetic
    return Cost(busy + machine.network_latency, energy, per_level, levels, access, address, leakage, arithmetic, asked,
                clusters)
