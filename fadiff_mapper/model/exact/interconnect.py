"""Words, hops and energy on the interconnects between neighbouring levels (exact evaluation only).

Each level owns the interconnect below it. Energies come from the attributes of that level: pJ per word and hop, per
router on the way, and per ingress. Without these attributes an interconnect costs nothing, as with the public tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.model.access_counts import Delivery
from fadiff_mapper.model.loop_nest import Projection
from fadiff_mapper.model.tile_boxes import total as sum_of
from fadiff_mapper.spec.arch import Architecture

WRAP = 2.0 ** 64
"""Timeloop adds reductions up in whole numbers of 64 bits without sign."""


@dataclass(frozen=True)
class InterconnectUse:
    """Traffic and energy of the interconnect below each level.

    Attributes:
        words: [K, L, T, B]. Ingresses per kind of transfer, a multicast word counted once, per instance of the level.
        sent: [K, L, T, B]. Whether there is such a kind; a level that cannot reduce may leave no words of it.
        hops: [L, T, B]. Average hops of an ingress.
        reductions: [L, T, B]. Additions of partial sums on the way, per instance of the level; 0 for operands.
        energy: [L, T, B]. pJ of wires, routers and ingresses, per instance of the level.
        link_energy: [L, T, B]. pJ of transfers between neighbouring receivers, per instance of the level.
        total: [B]. pJ of all interconnects, all instances together.
    """

    words: np.ndarray
    sent: np.ndarray
    hops: np.ndarray
    reductions: np.ndarray
    energy: np.ndarray
    link_energy: np.ndarray
    total: np.ndarray


def interconnect_use(arch: Architecture, projection: Projection, keep: np.ndarray, tally: Delivery,
                     partition: np.ndarray, instances: np.ndarray) -> InterconnectUse:
    """Traffic and energy of the interconnects from the tally after bypassing.

    Where a level cannot reduce, its partial sums travel back as well, all but the first of each word of its
    partition: 2 * words - partition. Hops were counted before bypassing, which changes the words, not the sum of
    words times hops. Outside the outermost level that keeps a data space nothing travels.

    Args:
        arch: Energies of the interconnects, and which levels can reduce.
        projection: Marks the data spaces that are outputs.
        keep: [L, T, B]. Whether the level keeps the data space.
        tally: Traffic after bypassing, with hops.
        partition: [L, T, B]. Words that one instance is responsible for.
        instances: [L, B]. Instances in use.

    Returns:
        Traffic and energy of every interconnect.
    """
    assert tally.hop_words is not None
    reaches = np.logical_or.accumulate(keep[::-1], axis=0)[::-1]
    words, hop_words = tally.words * reaches, tally.hop_words * reaches
    sent = words != 0
    for level, unit in enumerate(arch.levels):
        for t, read_write in enumerate(projection.read_write):
            if read_write and not unit.interconnect.reduction_supported:
                sums, first = words[:, level, t], partition[level, t] * keep[level, t]
                words[:, level, t] = np.where(sums > 0, 2 * sums - first, sums)
    total, present = words.sum(axis=0), words > 0
    travelled = (hop_words * present).sum(axis=0)  # a kind of which 2 * words - partition leaves nothing has no hops
    written = np.array(projection.read_write)[:, None]

    def wire(name: str) -> np.ndarray:
        return np.array([getattr(unit.interconnect, name) for unit in arch.levels], dtype=np.float64)[:, None, None]

    hop, router, ingress = wire("energy_per_hop"), wire("router_energy"), wire("energy_per_ingress")
    reductions, routers = np.zeros_like(total), np.zeros_like(total)
    for kind in range(len(words)):  # Timeloop adds these up in integers, so every partial sum is truncated
        added = np.trunc(reductions + (tally.multicast[kind] - 1) * words[kind] * written)
        # Without sign: less than nothing wraps, and the processor makes 0 of the sum that follows, beyond 64 bits.
        reductions = np.where(added < 0, added + WRAP, np.where(added >= WRAP, 0, added))
        each = np.where(present[kind], 1 + np.floor(hop_words[kind] / np.where(present[kind], words[kind], 1)), 0)
        routers = np.floor(routers + each * words[kind])
    energy = travelled * hop + routers * router + total * ingress
    links = tally.links * (hop + 2 * router)
    spent = (energy + links) * instances[:, None]
    # one by one: the order in which `sum` adds depends on how many mappings there are, and so would the last bit
    everything = sum_of([spent[level, t] for level in range(len(spent)) for t in range(spent.shape[1])])
    hops = np.where(total > 0, travelled / np.where(total > 0, total, 1), 0)
    return InterconnectUse(words, sent, hops, reductions, energy, links, everything)
