"""Interconnects with what their traffic costs, one entry for every interconnect below every level."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, Interconnect, NamedInterconnect, StorageLevel
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import Tables, argued_energies

INWARDS, OUTWARDS, BOTH_WAYS = 1, 2, 3
"""Directions of an interconnect, by Timeloop's codes: words inwards, partial sums outwards, both."""
ANY_NUMBER = 0
"""Stands for any number of receivers in `PricedInterconnect.transfers`."""


@dataclass(frozen=True)
class PricedInterconnect:
    """One interconnect below one level. Energies in pJ.

    Attributes:
        name: Its own name, or "OUTER <==> INNER" of the levels that it connects.
        kind: "Legacy" (wires), "ReductionTree" or "SimpleMulticast".
        level: The level outside it.
        ways: Its directions, one of the codes above. Timeloop counts the words of both on either one.
        reduces: Whether partial sums cross it once; else they travel inwards once more to be added there.
        hop: Per word and hop.
        router: Per word and router.
        ingress: Per word that enters.
        adder: Per addition of two partial sums in a reduction tree.
        transfers: For each data space the energy of a word by its number of receivers, `ANY_NUMBER` for all others.
    """

    name: str
    kind: str
    level: int
    ways: int
    reduces: bool
    hop: float
    router: float
    ingress: float
    adder: float
    transfers: tuple[Mapping[int, float], ...]

    @property
    def priced(self) -> bool:
        """Whether any traffic costs energy."""
        return bool(self.hop or self.router or self.ingress or self.adder
                    or any(energy for of in self.transfers for energy in of.values()))


def priced_interconnects(arch: Architecture, problem: Problem, tables: Tables) -> tuple[PricedInterconnect, ...]:
    """All interconnects, innermost first; two below a level with one for each direction.

    Args:
        arch: The architecture.
        problem: Gives the order of the data spaces.
        tables: Energies of multicasts, and areas, from which the length of a hop follows where none is stated.

    Raises:
        SpecError: The ERT prices a multicast in a way that Timeloop refuses.
    """
    widths = _tile_widths(arch, tables)
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    found = []
    for i, level in enumerate(arch.levels):
        named = [noc for noc in arch.named_interconnects if i in (noc.inwards, noc.outwards)]
        ways = INWARDS if any(noc.outwards == i for noc in named) else BOTH_WAYS  # one inwards serves both alone
        found += [_named(noc, i, ways if noc.inwards == i else OUTWARDS, level.interconnect.reduction_supported,
                         widths[i], problem, tables) for noc in named]
        if all(noc.inwards != i for noc in named):
            found.append(_wires(f"{level.name} <==> {units[i].name}", "Legacy", i, ways, level.interconnect,
                                level.interconnect.reduction_supported, widths[i]))
    return tuple(found)


def _named(noc: NamedInterconnect, level: int, ways: int, reduces: bool, width: float, problem: Problem,
           tables: Tables) -> PricedInterconnect:
    """An interconnect of its own."""
    ways = BOTH_WAYS if noc.inwards == noc.outwards else ways
    priced = _wires(noc.name, noc.kind, level, ways, noc.wires, reduces or noc.kind != "Legacy", width)
    if noc.kind == "ReductionTree":
        return PricedInterconnect(**{**vars(priced), "adder": noc.adder_energy, "router": 0.0, "ingress": 0.0})
    if noc.kind == "SimpleMulticast":
        transfers = tuple(_transfers(noc, name, tables) for name in problem.dataspace_names())
        return PricedInterconnect(**{**vars(priced), "hop": 0.0, "router": 0.0, "ingress": 0.0, "transfers": transfers})
    return priced


def _wires(name: str, kind: str, level: int, ways: int, wires: Interconnect, reduces: bool,
           width: float) -> PricedInterconnect:
    stated = width if wires.tile_width is None else wires.tile_width
    hop = wires.word_bits * stated / 1000 * wires.wire_energy if wires.energy_per_hop is None else wires.energy_per_hop
    return PricedInterconnect(name, kind, level, ways, reduces or ways == INWARDS, hop, wires.router_energy,
                              wires.energy_per_ingress, 0.0, ())


def _transfers(noc: NamedInterconnect, dataspace: str, tables: Tables) -> dict[int, float]:
    """pJ of a word of a data space by its number of receivers; those that no entry names cost nothing."""
    action = f"{noc.action}_{dataspace}" if noc.per_dataspace else noc.action
    entries = argued_energies(noc.name, action, tables)
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


def _tile_widths(arch: Architecture, tables: Tables) -> list[float]:
    """um of a hop below every level: the width of a square with the area of one unit below and all inside it."""
    wires = [level.interconnect for level in arch.levels] + [noc.wires for noc in arch.named_interconnects]
    if all(noc.wire_energy == 0 or noc.tile_width is not None for noc in wires):
        return [0.0] * len(arch.levels)
    per_instance = areas(arch, tables)
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    area, widths = 0.0, []
    for i, unit in enumerate(units[:-1]):
        inside = units[i - 1].instances // unit.instances if i else 0
        area = per_instance[unit.name] + area * inside
        widths.append(math.sqrt(area))
    return widths
