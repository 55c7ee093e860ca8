"""From access counts to cycles and energy: the equations that the exact and the smooth evaluation share.

Energies in pJ, cycles whole in the exact evaluation. Axes as in `access_counts.py`: L, D, T and B (batch, last). The
equations follow FADiff (arXiv 2511.22348): the roofline of eq. (16) for the latency and eqs. (17)-(19) for the
energy, extended to vector accesses, clusters, address generation and leakage as `timeloop-model` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.loop_nest import Array, array_namespace
from fadiff_mapper.model.prepared_layer import UNLIMITED, Machine, in_namespace
from fadiff_mapper.model.tiles import Tiles


@dataclass(frozen=True)
class Cost:
    """Cycles and energy of a batch, in pJ and without interconnects."""

    cycles: Array          # [B]. Cycles of the whole run
    energy: Array          # [B]. Energy of all levels and the arithmetic
    read: Array            # [L, T, B]. Words per cycle and instance demanded by reads, before throttling
    write: Array           # [L, T, B]. Words per cycle and instance demanded by fills and updates
    slowdown: Array        # [L, B]. Share of the demanded bandwidth that the level provides, at most 1
    level_cycles: Array    # [L, B]. Cycles that each storage level needs
    level_energy: Array    # [L, B]. All used instances of a level together, with address generation and leakage
    access_energy: Array   # [L, T, B]. Vector accesses of one used instance
    address_energy: Array  # [L, T, B]. Address generation, all clusters together
    spent: Array           # [L, T, B]. Accesses and address generation of all used instances together
    leakage: Array         # [L, B]. All leaking instances together
    compute_energy: Array  # [B]. The arithmetic
    clusters: Array        # [L, 1 or T, B]. Clusters in use


def cost(counts: Counts, tile: Tiles, machine: Machine, rounding: Rounding) -> Cost:
    """Cycles and energy of a batch.

    Words of tensors with bits of their own are counted in words of the levels. Accesses spread evenly over the compute
    cycles; as in Timeloop, block sizes do not affect bandwidths. Energy is per vector access, rounded up over the whole
    run (FADiff eq. (19), per vector access instead of per word), and the used members of a cluster share the energy of
    an access.
    """
    xp = array_namespace(counts.reads)
    if counts.words is not None:
        counts = replace(counts, **{name: counts.words.of(getattr(counts, name)) for name in (
            "reads", "fills", "updates", "address_generations")})
    reads, writes = counts.reads, counts.updates + counts.fills
    if tile.average is not None:  # if some instances are idle, the average demand is lower
        busy = (tile.laid_out / tile.instances)[:, None]
        reads, writes = rounding.up(reads / busy), rounding.up(writes / busy)
    read, write = reads / tile.compute_cycles, writes / tile.compute_cycles
    if (machine.bandwidth_scale != 1).any():
        read, write = read * xp.asarray(machine.bandwidth_scale), write * xp.asarray(machine.bandwidth_scale)
    block, *prices, addr_gen = (in_namespace(xp, value)[:, None] for value in (
        machine.block, machine.read, machine.fill, machine.update, machine.addr_gen))
    clusters = used_clusters(tile.laid_out, machine)
    access = sum(rounding.up(accesses / block) * price for accesses, price in zip(
        (counts.reads, counts.fills, counts.updates), prices, strict=True)) / (tile.laid_out / clusters)[:, None]
    clusters = clusters[:, None]
    address = addr_gen * counts.address_generations * clusters if machine.addr_gen.any() else xp.zeros_like(access)
    arithmetic = tile.computes * machine.compute_energy
    return summed_cost(read, write, access, tile.instances[:, None], address, arithmetic, tile, machine, clusters,
                       rounding)


def summed_cost(read: Array, write: Array, access: Array, instances: Array, address: Array, arithmetic: Array,
                tile: Tiles, machine: Machine, clusters: Array, rounding: Rounding) -> Cost:
    """Cycles and energy from the bandwidth and the energy of the data spaces, of dense and sparse designs.

    A level whose demand exceeds its bandwidth slows the machine down in proportion, by the tightest limit: read, write,
    or both together. The slowest level sets the time (FADiff eq. (16)); used instances leak over this time. The fill
    and drain latencies of interconnects come on top, without leakage. Energy is eq. (17) with leakage. Shapes and units
    as in `Cost`; `access` [L, T, B]: pJ of one used instance; `instances` [L, 1 or T, B]: instances that spend it.
    """
    xp = array_namespace(read)
    slow = slowdown(sum(read.swapaxes(0, 1)), sum(write.swapaxes(0, 1)), machine)  # over the data spaces
    per_level = rounding.up(tile.compute_cycles / slow)
    busy = xp.maximum(xp.max(per_level, axis=0), tile.compute_cycles)
    leaking = tile.instances  # with their neighbours behind the same power gate
    if (machine.gated > 1).any():
        behind_gates = in_namespace(xp, machine.gated) * xp.stack([tile.instances[gate] for gate in machine.gate])
        leaking = xp.where(in_namespace(xp, machine.gated) > 1, behind_gates, tile.instances)
    leakage = in_namespace(xp, machine.leak) * busy * leaking
    spent = access * instances + address
    levels = sum(spent.swapaxes(0, 1)) + leakage
    # level by level: NumPy's own order of additions, and so the last bit, would depend on the shape
    energy = sum(levels) + arithmetic
    return Cost(busy + machine.network_latency, energy, read, write, slow, per_level, levels, access, address, spent,
                leakage, arithmetic, clusters)


def slowdown(read: Array, write: Array, machine: Machine) -> Array:
    """Share of the demanded bandwidth (words per cycle and instance, [L, B]) that each level provides, [L, B]."""
    xp = array_namespace(read)
    shares = [xp.ones_like(level) for level in read]
    for wanted, limit in through_ports(read, write, machine):
        for level, limited in enumerate((limit < UNLIMITED).any(axis=-1).tolist()):
            if limited:
                # the divisor is at least `allowed`, so that an idle level is not divided by 0
                allowed = in_namespace(xp, limit[level]) * xp.ones_like(wanted[level])
                shares[level] = xp.minimum(shares[level], allowed / xp.maximum(wanted[level], allowed))
    return xp.stack(shares)


def through_ports(reads: Any, writes: Any, memory: Machine | StorageLevel) -> tuple[tuple[Any, Any], ...]:
    """Words through the three ports of a memory, each beside its bandwidth: reads, writes (fills and updates), both."""
    return ((reads, memory.read_bandwidth), (writes, memory.write_bandwidth), (reads + writes, memory.shared_bandwidth))


def narrowest_port(writes: bool, machine: Machine) -> np.ndarray:
    """Words per cycle and instance through the narrowest port of reads or, if `writes`, of reads and writes, [L]."""
    limits: np.ndarray = np.min([limit for words, limit in through_ports(True, writes, machine) if words], axis=0)
    return limits[:, 0]


def used_clusters(laid_out: Array, machine: Machine) -> Array:
    """Clusters in use of each level: one per instance laid out, [L, ...], at most all clusters."""
    xp = array_namespace(laid_out)
    return xp.minimum(laid_out, in_namespace(xp, machine.clusters) * xp.ones_like(laid_out[0]))


def outermost_accesses(counts: Counts, tile: Tiles) -> Array:
    """Accesses of the outermost level in words, reads, fills and updates of all its instances together, [B]."""
    return sum(counts.reads[-1] + counts.fills[-1] + counts.updates[-1]) * tile.instances[-1]
