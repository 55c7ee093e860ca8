"""Words, hops and energy on the interconnects between neighbouring levels (exact evaluation only).

Energies come from the attributes of the level outside, or from a component of its own
(`model/priced_interconnects.py`). Without them an interconnect costs nothing, as with the public tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.model.access_counts import Delivery
from fadiff_mapper.model.loop_nest import Projection
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.priced_interconnects import ANY_NUMBER, BOTH_WAYS, INWARDS, PricedInterconnect
from fadiff_mapper.model.tile_boxes import total as sum_of

WRAP = 2.0 ** 64
"""Timeloop adds reductions up in whole numbers of 64 bits without sign."""


@dataclass(frozen=True)
class InterconnectUse:
    """Traffic and energy of each interconnect; N interconnects, in the order of `PreparedLayer.interconnects`.

    Attributes:
        words: [K, N, T, B]. Ingresses per kind of transfer, a multicast word counted once, per instance of the level.
        sent: [K, N, T, B]. Whether there is such a kind; a level that cannot reduce may leave no words of it.
        hops: [N, T, B]. Average hops of an ingress.
        reductions: [N, T, B]. Additions of partial sums on the way, per instance of the level; 0 for operands.
        energy: [N, T, B]. pJ of wires, routers, ingresses and transfers, per instance of the level.
        link_energy: [N, T, B]. pJ of transfers between neighbouring receivers, per instance of the level.
        adder_energy: [N, T, B]. pJ of additions in a reduction tree, per instance of the level.
        spent: [N, T, B]. pJ that Timeloop counts: those of all instances, but of a reduction tree those of one.
        total: [B]. pJ of all interconnects, the sum of `spent`.
    """

    words: np.ndarray
    sent: np.ndarray
    hops: np.ndarray
    reductions: np.ndarray
    energy: np.ndarray
    link_energy: np.ndarray
    adder_energy: np.ndarray
    spent: np.ndarray
    total: np.ndarray


def interconnect_use(interconnects: Sequence[PricedInterconnect], projection: Projection, keep: np.ndarray,
                     tally: Delivery, partition: np.ndarray, instances: np.ndarray) -> InterconnectUse:
    """Traffic and energy of the interconnects from the tally after bypassing.

    Where a level cannot reduce, its partial sums travel back as well, all but the first of each word of its
    partition: 2 * words - partition. Hops were counted before bypassing, which changes the words, not the sum of
    words times hops. Outside the outermost level that keeps a data space nothing travels.

    Args:
        interconnects: Their energies.
        projection: Marks the data spaces that are outputs.
        keep: [L, T, B]. Whether the level keeps the data space.
        tally: Traffic after bypassing, with hops.
        partition: [L, T, B]. Words that one instance is responsible for.
        instances: [L, B]. Instances in use.

    Returns:
        Traffic and energy of every interconnect.
    """
    assert tally.hop_words is not None
    levels = [noc.level for noc in interconnects]
    written = np.array(projection.read_write)
    trees = _rows(interconnects, "ReductionTree")
    carried = ~trees[:, None] | written  # a reduction tree carries partial sums alone
    reaches = np.logical_or.accumulate(keep[::-1], axis=0)[::-1][levels] & carried[..., None]
    words, hop_words = tally.words[:, levels] * reaches, tally.hop_words[:, levels] * reaches
    multicast = np.broadcast_to(tally.multicast[:, levels], words.shape)
    sent = words != 0
    for n, noc in enumerate(interconnects):
        for t in np.flatnonzero(written) if not noc.reduces else ():
            sums, first = words[:, n, t], partition[noc.level, t] * keep[noc.level, t]
            words[:, n, t] = np.where(sums > 0, 2 * sums - first, sums)
    total, present = words.sum(axis=0), words > 0
    hop_words[:, trees] = (np.floor(np.log2(multicast)) * 0.5 * words)[:, trees]
    travelled = (hop_words * present).sum(axis=0)  # a kind of which 2 * words - partition leaves nothing has no hops
    summed = written & np.array([noc.ways != INWARDS for noc in interconnects])[:, None]
    reductions, routers = np.zeros_like(total), np.zeros_like(total)
    for kind in range(len(words)):  # Timeloop adds these up in integers, so every partial sum is truncated
        added = np.trunc(reductions + (multicast[kind] - 1) * words[kind] * summed[..., None])
        # Without sign: less than nothing wraps, and the processor makes 0 of the sum that follows, beyond 64 bits.
        reductions = np.where(added < 0, added + WRAP, np.where(added >= WRAP, 0, added))
        each = np.where(present[kind], 1 + np.floor(hop_words[kind] / np.where(present[kind], words[kind], 1)), 0)
        routers = np.floor(routers + each * words[kind])

    def price(name: str) -> np.ndarray:
        return np.array([getattr(noc, name) for noc in interconnects], dtype=np.float64)[:, None, None]

    energy = travelled * price("hop") + routers * price("router") + total * price("ingress")
    multicasts = _rows(interconnects, "SimpleMulticast")
    for i, noc in enumerate(interconnects):
        if multicasts[i]:
            energy[i] = _multicast_energy(noc, words[:, i], multicast[:, i])
    wires = ~(trees | multicasts)[:, None, None]
    links = tally.links[levels] * (price("hop") + 2 * price("router")) * wires
    adders = reductions * price("adder")
    spent = (energy + links + adders) * np.where(trees[:, None], 1.0, instances[levels])[:, None]
    # one by one: the order in which `sum` adds depends on how many mappings there are, and so would the last bit
    everything = sum_of([spent[n, t] for n in range(len(spent)) for t in range(spent.shape[1])])
    hops = np.where(total > 0, travelled / np.where(total > 0, total, 1), 0)
    return InterconnectUse(words, sent, hops, reductions, energy, links, adders, spent, everything)


def _rows(interconnects: Sequence[PricedInterconnect], kind: str) -> np.ndarray:
    """Marks the interconnects of a kind, [N]."""
    return np.array([noc.kind == kind for noc in interconnects])


def _multicast_energy(noc: PricedInterconnect, words: np.ndarray, multicast: np.ndarray) -> np.ndarray:
    """pJ of a multicast, [T, B]: of the words with the most receivers, the last ones; Timeloop loses the others.

    Args:
        noc: The multicast.
        words: [K, T, B]. Words per kind of transfer, kinds in ascending order of receivers.
        multicast: [K, T, B]. Receivers of each word.
    """
    energy = np.zeros(words.shape[1:])
    for kind in range(len(words)):
        for t, of in enumerate(noc.transfers):
            each = np.full(words.shape[-1], of.get(ANY_NUMBER, 0.0))
            for receivers, price in of.items():
                each = np.where(multicast[kind, t] == receivers, price, each)
            energy[t] = np.where(words[kind, t] > 0, each * words[kind, t], energy[t])
    return energy


def interconnect_faults(layer: PreparedLayer, use: InterconnectUse, instances: list[int], row: int) -> Iterator[str]:
    """Sentences on faults in Timeloop's count of user-defined networks that change the energy of one mapping.

    Args:
        layer: The prepared layer.
        use: Traffic of its interconnects.
        instances: Instances of every level in use.
        row: Column of the mapping in the batch.
    """
    named = {noc.name for noc in layer.arch.named_interconnects}
    for number, noc in enumerate(layer.interconnects):
        if noc.name not in named or not noc.priced:
            continue
        tree, outside = noc.kind == "ReductionTree", instances[noc.level]
        if noc.ways != BOTH_WAYS and not tree:
            yield f'the network "{noc.name}" carries words one way alone, and Timeloop counts those of both ways on it'
        if tree and outside > 1 and use.spent[number, :, row].any():
            yield (f'of the reduction tree "{noc.name}" Timeloop counts the energy of one instance, and {outside} '
                   "instances of the level outside it are in use")
        if noc.kind == "SimpleMulticast" and (use.words[:, number, :, row] > 0).sum(axis=0).max() > 1:
            yield (f'of the words on the network "{noc.name}" that go to different numbers of receivers Timeloop '
                   "counts the energy of those with the most receivers alone")
