"""The interconnects below every level, their traffic and its energy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, Interconnect, NamedInterconnect, StorageLevel
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import Tables, component_name
from fadiff_mapper.model.access_counts import Counts, Delivery
from fadiff_mapper.model.loop_nest import Projection

if TYPE_CHECKING:
    from fadiff_mapper.model.prepared_layer import PreparedLayer

INWARDS, OUTWARDS, BOTH_WAYS = 1, 2, 3
"""Directions of an interconnect, by Timeloop's codes: words inwards, partial sums outwards, both."""
ANY_NUMBER = 0
"""Key of `PricedInterconnect.transfers` for all numbers of receivers without an entry."""


@dataclass(frozen=True)
class PricedInterconnect:
    """One interconnect below one level. Energies in pJ."""

    name: str                                   # Its own name, or "OUTER <==> INNER" of the levels that it connects
    kind: str                                   # "Legacy" (wires), "ReductionTree" or "SimpleMulticast"
    level: int                                  # The level outside it
    ways: int                                   # Its directions, one of the codes above; Timeloop counts the words
                                                # of both directions even on an interconnect with one
    reduces: bool                               # Whether partial sums are added on the way and cross it once; else they
                                                # travel inwards once more to be added there
    hop: float                                  # Per word and hop
    router: float                               # Per word and router
    ingress: float                              # Per word that enters
    adder: float                                # Per addition of two partial sums in a reduction tree
    transfers: tuple[Mapping[int, float], ...]  # For each data space the energy of a word by its number of receivers,
                                                # `ANY_NUMBER` for all others

    @property
    def priced(self) -> bool:
        """Whether any traffic costs energy."""
        return bool(self.hop or self.router or self.ingress or self.adder
                    or any(energy for of in self.transfers for energy in of.values()))


def priced_interconnects(arch: Architecture, problem: Problem, tables: Tables) -> tuple[PricedInterconnect, ...]:
    """All interconnects, innermost first; below a level with one interconnect for each direction there are two.

    `tables`: energies of multicasts, and areas, which give the length of a hop if none is stated.
    Raises SpecError if the ERT prices a multicast in a way that Timeloop refuses.
    """
    found = list[PricedInterconnect]()
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    # um of a hop below every level: the width of a square with the area of one unit below and all inside it
    area, widths = 0.0, [0.0] * len(arch.levels)
    wires = [level.interconnect for level in arch.levels] + [noc.wires for noc in arch.named_interconnects]
    if any(noc.wire_energy != 0 and noc.tile_width is None for noc in wires):
        found_areas = areas(arch, tables)
        for i, unit in enumerate(units[:-1]):
            area = found_areas[unit.name].each + area * (units[i - 1].instances // unit.instances if i else 0)
            widths[i] = math.sqrt(area)
    inner = [unit.name for unit in units]
    for i, level in enumerate(arch.levels):
        reduces = level.interconnect.reduction_supported
        named = [noc for noc in arch.named_interconnects if i in (noc.inwards, noc.outwards)]
        # an interconnect inwards serves both ways if there is no other
        ways = INWARDS if any(noc.outwards == i for noc in named) else BOTH_WAYS
        for noc in named:
            own = BOTH_WAYS if noc.inwards == noc.outwards else ways if noc.inwards == i else OUTWARDS
            priced = _wires(noc.name, noc.kind, i, own, reduces or noc.kind != "Legacy", noc.wires, widths[i])
            if noc.kind == "ReductionTree":
                priced = replace(priced, adder=noc.adder_energy, router=0.0, ingress=0.0)
            if noc.kind == "SimpleMulticast":
                priced = replace(priced, hop=0.0, router=0.0, ingress=0.0, transfers=tuple(
                    _transfers(noc, name, tables) for name in problem.dataspace_names()))
            found.append(priced)
        if all(noc.inwards != i for noc in named):
            found.append(_wires(f"{level.name} <==> {inner[i]}", "Legacy", i, ways, reduces, level.interconnect,
                                widths[i]))
    return tuple(found)


def _wires(name: str, kind: str, level: int, ways: int, reduces: bool, wires: Interconnect,
           width: float) -> PricedInterconnect:
    stated = width if wires.tile_width is None else wires.tile_width
    hop = wires.word_bits * stated / 1000 * wires.wire_energy if wires.energy_per_hop is None else wires.energy_per_hop
    return PricedInterconnect(name, kind, level, ways, reduces or ways == INWARDS, hop, wires.router_energy,
                              wires.energy_per_ingress, 0.0, ())


def _transfers(noc: NamedInterconnect, dataspace: str, tables: Tables) -> dict[int, float]:
    """pJ of a word of a data space by its number of receivers; numbers without an entry cost nothing."""
    action = f"{noc.action}_{dataspace}" if noc.per_dataspace else noc.action
    entries = [entry for table in tables.ert if component_name(table.component) == noc.name
               for entry in table.entries if entry.action == action]
    if len(entries) == 1:
        return {ANY_NUMBER: entries[0].energy}
    energies = {}
    for entry in entries:
        receivers = entry.arguments.get(noc.receivers)
        if not isinstance(receivers, int) or isinstance(receivers, bool):
            raise SpecError(f'ERT: several entries for the action "{action}" of the network "{noc.name}", one without '
                            f'the argument "{noc.receivers}" of its multicast_factor_argument; accepted: a whole '
                            "number of receivers in each, or one entry")
        energies[receivers] = entry.energy
    return energies


WRAP = 2.0 ** 64
"""Timeloop counts reductions in 64-bit unsigned integers, which wrap at this number."""


@dataclass(frozen=True)
class InterconnectUse:
    """Traffic and energy of each interconnect; N interconnects, in the order of `PreparedLayer.interconnects`."""

    words: np.ndarray         # [K, N, T, B]. Ingresses per kind of transfer, a multicast word counted once, per
                              # instance of the level
    sent: np.ndarray          # [K, N, T, B]. Whether the kind occurs, even if a level that cannot reduce leaves no
                              # words of it
    hops: np.ndarray          # [N, T, B]. Average hops of an ingress
    reductions: np.ndarray    # [N, T, B]. Additions of partial sums on the way, per instance of the level; 0 for
                              # operands
    energy: np.ndarray        # [N, T, B]. pJ of wires, routers, ingresses and transfers, per instance of the level
    link_energy: np.ndarray   # [N, T, B]. pJ of transfers between neighbouring receivers, per instance of the level
    adder_energy: np.ndarray  # [N, T, B]. pJ of additions in a reduction tree, per instance of the level
    spent: np.ndarray         # [N, T, B]. pJ as Timeloop counts it: of all instances, for a reduction tree only of
                              # one
    total: np.ndarray         # [B]. pJ of all interconnects, the sum of `spent`


def interconnect_use(interconnects: Sequence[PricedInterconnect], projection: Projection, keep: np.ndarray,
                     tally: Delivery, counts: Counts, instances: np.ndarray) -> InterconnectUse:
    """Traffic and energy of the interconnects from the tally after bypassing.

    If a level cannot reduce, its partial sums travel back, too, except the first of each word of its partition: 2 *
    words - partition. Hops are counted before bypassing, which changes words but not the sum of words times hops. No
    words travel outside the outermost level that keeps a data space. `tally`: the traffic after bypassing, with hops;
    `counts`: for the words that one instance is responsible for; `instances`: instances in use, [L, B]. If tensors have
    bits of their own, a word costs its share of a word of the level outside.
    """
    assert tally.hop_words is not None
    levels = [noc.level for noc in interconnects]
    written = np.array(projection.read_write)
    trees, multicasts = (np.array([noc.kind == kind for noc in interconnects])
                         for kind in ("ReductionTree", "SimpleMulticast"))
    carried = ~trees[:, None] | written  # a reduction tree carries only partial sums
    reaches = np.logical_or.accumulate(keep[::-1], axis=0)[::-1][levels] & carried[..., None]
    words, hop_words = tally.words[:, levels] * reaches, tally.hop_words[:, levels] * reaches
    multicast = np.broadcast_to(tally.multicast[:, levels], words.shape)
    sent = words != 0
    for n, noc in enumerate(interconnects):
        for t in np.flatnonzero(written) if not noc.reduces else ():
            sums, first = words[:, n, t], counts.partition[noc.level, t] * keep[noc.level, t]
            words[:, n, t] = np.where(sums > 0, 2 * sums - first, sums)
    total, present = words.sum(axis=0), words > 0
    hop_words[:, trees] = (np.floor(np.log2(multicast)) * 0.5 * words)[:, trees]
    travelled = (hop_words * present).sum(axis=0)  # a kind with 2 * words - partition = 0 has no hops
    summed = written & np.array([noc.ways != INWARDS for noc in interconnects])[:, None]
    reductions, routers = np.zeros_like(total), np.zeros_like(total)
    for kind in range(len(words)):  # Timeloop adds integers, so every intermediate sum is truncated
        added = np.trunc(reductions + (multicast[kind] - 1) * words[kind] * summed[..., None])
        # Unsigned 64-bit integers: negative sums wrap, and the processor makes 0 of sums beyond 64 bits.
        reductions = np.where(added < 0, added + WRAP, np.where(added >= WRAP, 0, added))
        each = np.where(present[kind], 1 + np.floor(hop_words[kind] / np.where(present[kind], words[kind], 1)), 0)
        routers = np.floor(routers + each * words[kind])
    hop, router, ingress, adder = np.array([(noc.hop, noc.router, noc.ingress, noc.adder) for noc in interconnects],
                                           dtype=np.float64).T[..., None, None]
    energy = travelled * hop + routers * router + total * ingress
    for n, noc in enumerate(interconnects):
        # the last words with the most receivers count: Timeloop loses the others; kinds ascend by receivers
        for space, of in enumerate(noc.transfers if multicasts[n] else ()):
            energy[n, space] = 0.0
            for sent_to, own in zip(multicast[:, n, space], words[:, n, space], strict=True):
                each = np.full_like(own, of.get(ANY_NUMBER, 0.0))
                for receivers, per_word in of.items():
                    each = np.where(sent_to == receivers, per_word, each)
                energy[n, space] = np.where(own > 0, each * own, energy[n, space])
    wires = ~(trees | multicasts)[:, None, None]
    links = tally.links[levels] * (hop + 2 * router) * wires
    adders = reductions * adder
    spent = (energy + links + adders) * np.where(trees[:, None], 1.0, instances[levels])[:, None]
    if counts.words is not None:
        share = (counts.words.transferred / counts.words.per)[levels]
        energy, links, adders, spent = energy * share, links * share, adders * share, spent * share
    # one by one: NumPy's own order of additions, and so the last bit, would depend on the shape
    everything = sum(spent.reshape(-1, spent.shape[-1]))
    hops = np.where(total > 0, travelled / np.where(total > 0, total, 1), 0)
    return InterconnectUse(words, sent, hops, reductions, energy, links, adders, spent, everything)


def interconnect_faults(layer: PreparedLayer, use: InterconnectUse, instances: list[int], row: int) -> Iterator[str]:
    """Sentences on Timeloop's faults in counting user-defined networks, if they change the energy of a mapping.

    `row`: the mapping; `instances`: instances in use of every level.
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
