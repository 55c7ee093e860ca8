"""Bandwidth that a mapping asks of every level, and the slowdown where a level cannot give as much.

The roofline of FADiff (arXiv 2511.22348, eq. (16)). Axes as in `access_counts.py`: L, T and B (batch, last).
"""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.loop_nest import Array, array_namespace
from fadiff_mapper.model.machine import UNLIMITED, Machine, in_namespace
from fadiff_mapper.model.tile_boxes import total
from fadiff_mapper.model.usage import Usage


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
