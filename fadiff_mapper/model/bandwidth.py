"""Bandwidth that a mapping asks of every level, and the slowdown where a level cannot give as much.

The roofline of FADiff (arXiv 2511.22348, eq. (16)). Axes as in `access_counts.py`: L, T and B (batch, last).
"""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.loop_nest import Array, array_namespace
from fadiff_mapper.model.machine import UNLIMITED, Machine, in_namespace
from fadiff_mapper.model.tile_boxes import total
from fadiff_mapper.model.usage import AverageUsage, Usage


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
    asked = over_dataspaces(read), over_dataspaces(write)
    slowdown = []
    for level in range(read.shape[0]):
        slowest = xp.ones_like(use.compute_cycles)
        for wanted, limit in ((asked[0][level], machine.read_bandwidth[level]),
                              (asked[1][level], machine.write_bandwidth[level]),
                              (asked[0][level] + asked[1][level], machine.shared_bandwidth[level])):
            if (limit < UNLIMITED).any():
                # divided by at least `allowed`, so that an idle level divides nothing by 0
                allowed = in_namespace(xp, limit) * xp.ones_like(wanted)
                slowest = xp.minimum(slowest, allowed / xp.maximum(wanted, allowed))
        slowdown.append(slowest)
    return Bandwidth(read, write, xp.stack(slowdown))


def level_cycles(use: Usage, slowdown: Array, rounding: Rounding) -> Array:
    """Cycles of every storage level, [L, B]: compute cycles over slowdown [L, B], rounded up."""
    return rounding.up(use.compute_cycles / slowdown)


def over_dataspaces(values: Array) -> Array:
    """[L, B] from [L, T, B], added in the order of the data spaces."""
    return total([values[:, t] for t in range(values.shape[1])])
