"""Words, hops and energy of the wires between neighbouring levels (exact evaluation only)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.model.access_counts import Delivery
from fadiff_mapper.model.loop_nest import Projection
from fadiff_mapper.spec.arch import Architecture


@dataclass(frozen=True)
class InterconnectUse:
    """One network below each level, owned by that level; energies in pJ, all instances of it together in `total`.

    words      [K, L, T, B]   ingresses per kind of transfer, multicast counted once
    hops       [L, T, B]      average hops per ingress
    reductions [L, T, B]      spatial reductions
    energy, link_energy [L, T, B]   per instance of the level
    total      [B]
    """

    words: np.ndarray
    hops: np.ndarray
    reductions: np.ndarray
    energy: np.ndarray
    link_energy: np.ndarray
    total: np.ndarray


def interconnect_use(arch: Architecture, projection: Projection, keep: np.ndarray, tally: Delivery,
                     hop_words: np.ndarray,
                     partition: np.ndarray, instances: np.ndarray) -> InterconnectUse:
    """Network traffic from the tally after bypassing.

    Where a level cannot reduce, its partial sums travel back as well, all but the first of each word it holds. The
    hops were counted before bypassing: bypassing changes the words, not this sum. Outside the outermost level that
    keeps a data space nothing travels. `keep` [L, T, B]; `instances` [L, B] are in use.
    """
    reaches = np.logical_or.accumulate(keep[::-1], axis=0)[::-1]
    words, hop_words = tally.words * reaches, hop_words * reaches
    for level, unit in enumerate(arch.levels):
        for tensor, read_write in enumerate(projection.read_write):
            if read_write and not unit.interconnect.reduction_supported:
                part, first = words[:, level, tensor], partition[level, tensor] * keep[level, tensor]
                words[:, level, tensor] = np.where(part > 0, 2 * part - first, part)
    total = words.sum(axis=0)
    some = np.where(total > 0, total, 1)
    written = np.array(projection.read_write)[:, None]
    reductions = np.where(written, (words * (tally.multicast - 1)).sum(axis=0), 0)

    def wire(name: str) -> np.ndarray:
        return np.array([getattr(unit.interconnect, name) for unit in arch.levels], dtype=np.float64)[:, None, None]

    hop, router, ingress = wire("energy_per_hop"), wire("router_energy"), wire("energy_per_ingress")
    routers = np.zeros_like(total)
    for kind in range(len(words)):  # an integer counter on the way, so each sum is cut off
        present = words[kind] > 0
        each = np.where(present, 1 + np.floor(hop_words[kind] / np.where(present, words[kind], 1)), 0)
        routers = np.floor(routers + each * words[kind])
    energy = hop_words.sum(axis=0) * hop + routers * router + total * ingress
    links = tally.links * (hop + 2 * router)
    everything = ((energy + links) * instances[:, None]).sum(axis=(0, 1))
    return InterconnectUse(words, hop_words.sum(axis=0) / some, reductions, energy, links, everything)
