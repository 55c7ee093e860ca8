"""Interconnects and their prices: wires by their length, networks by name, multicasts by their receivers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_specs import chip, matmul, storage

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.spec.arch import Interconnect, NamedInterconnect
from fadiff_mapper.inputs.spec.tables import ArguedEnergy, EnergyTable, Tables
from fadiff_mapper.model.interconnects import (
    ANY_NUMBER,
    BOTH_WAYS,
    INWARDS,
    OUTWARDS,
    PricedInterconnect,
    priced_interconnects,
)

ROW = chip(storage("Buffer"), storage("DRAM", size=None, kind="DRAM"), macs=(4, 1))
PROBLEM = matmul(4, 4, 4)


def below_buffer(*named: NamedInterconnect, wires: Interconnect = ROW.levels[0].interconnect,
                 table: tuple[ArguedEnergy, ...] = ()) -> list[PricedInterconnect]:
    """The interconnects between the buffer and four units; `table` has the energies of the named one."""
    tables = Tables(ert=(EnergyTable("chip.net", argued=table),))
    arch = replace(ROW, levels=(replace(ROW.levels[0], interconnect=wires), ROW.levels[1]),
                                 named_interconnects=named)
    return [one for one in priced_interconnects(arch, PROBLEM, tables) if one.level == 0]


def network(kind: str, inwards: int | None = 0, outwards: int | None = 0, **fields: object) -> NamedInterconnect:
    wires = Interconnect(8, energy_per_hop=1.0, router_energy=2.0, energy_per_ingress=3.0)
    return NamedInterconnect("net", kind, inwards, outwards, wires, **fields)  # type: ignore[arg-type]


def test_a_hop_costs_its_bits_times_its_length_unless_its_energy_is_stated() -> None:
    """16 bits over 0.2 mm at 0.5 pJ a bit and mm are 1.6 pJ."""
    wires = Interconnect(16, wire_energy=0.5, tile_width=200.0)
    (measured,), (stated,) = below_buffer(wires=wires), below_buffer(wires=replace(wires, energy_per_hop=7.0))
    assert (measured.name, measured.hop, stated.hop) == ("Buffer <==> MAC", pytest.approx(1.6), 7.0)
    assert measured.priced and not below_buffer()[0].priced


def test_a_network_for_one_direction_leaves_the_other_one_to_the_wires_of_the_level() -> None:
    assert [(one.name, one.ways) for one in below_buffer()] == [("Buffer <==> MAC", BOTH_WAYS)]
    both, = below_buffer(network("Legacy"))
    assert (both.name, both.ways) == ("net", BOTH_WAYS)
    sums = below_buffer(network("Legacy", inwards=None))
    assert [(one.name, one.ways) for one in sums] == [("net", OUTWARDS), ("Buffer <==> MAC", INWARDS)]


def test_a_tree_costs_hops_and_additions_and_a_multicast_its_transfers_alone() -> None:
    tree, = below_buffer(network("ReductionTree", adder_energy=5.0))
    assert (tree.hop, tree.router, tree.ingress, tree.adder) == (1.0, 0.0, 0.0, 5.0)
    multicast, = below_buffer(network("SimpleMulticast", action="send"))
    assert (multicast.hop, multicast.router, multicast.ingress, multicast.adder) == (0.0, 0.0, 0.0, 0.0)


def priced(*entries: ArguedEnergy, **fields: object) -> PricedInterconnect:
    """A multicast with some entries in the ERT."""
    one, = below_buffer(network("SimpleMulticast", action="send", **fields), table=entries)
    return one


def test_a_transfer_costs_what_the_table_says_for_its_receivers() -> None:
    any_number = priced(ArguedEnergy("send", 4.0))
    assert any_number.transfers == ({ANY_NUMBER: 4.0},) * 3
    by_number = priced(ArguedEnergy("send", 4.0, {"n": 1}), ArguedEnergy("send", 6.0, {"n": 2}), receivers="n")
    assert by_number.transfers == ({1: 4.0, 2: 6.0},) * 3
    by_space = priced(ArguedEnergy("send_A", 4.0), ArguedEnergy("send_Z", 1.0), per_dataspace=True)
    assert by_space.transfers == ({ANY_NUMBER: 4.0}, {}, {ANY_NUMBER: 1.0})


def test_several_prices_without_a_number_of_receivers_are_refused() -> None:
    with pytest.raises(SpecError, match='several entries for the action "send" of the network "net"'):
        priced(ArguedEnergy("send", 4.0, {"n": 1}), ArguedEnergy("send", 6.0), receivers="n")
