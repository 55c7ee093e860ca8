"""Interconnects of a native architecture: the wires of every level, and components of their own ("networks").

A level that names a network uses it in place of its own wires, and so must the next level inwards: `network_read` and
`network_update` outside are `network_fill` and `network_drain` inside, at the arithmetic `network_operand` and
`network_result`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from fadiff_mapper.base.errors import listed
from fadiff_mapper.spec.arch import Interconnect, NamedInterconnect
from fadiff_mapper.spec.native.attributes import read_attributes, whole_number
from fadiff_mapper.yaml.leniency import Leniency
from fadiff_mapper.yaml.located import Map, Reader, boolean, number, text
from fadiff_mapper.yaml.place import Where

INTERCONNECT_CLASSES = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")
"""The classes of components that are interconnects; the first two are the same."""
DEFAULT_BITS = 16
"""Bits of a word on an interconnect of its own that states none."""
# Keys by which levels refer to the interconnect between them: at the outer level, at the inner one, at the arithmetic.
INWARDS = ("network_read", "network_fill", "network_operand")
OUTWARDS = ("network_update", "network_drain", "network_result")

Component = tuple[str, str, Map, int, Where]
"""Name without range, class, attributes, instances by ranges, place."""


def read_wires(reader: Reader, kind: str, word_bits: int) -> Interconnect:
    """The wires of a level inwards, or those of a component of its own.

    Args:
        reader: Its attributes.
        kind: The class of the level.
        word_bits: Bits of a word where the wires state none.

    Raises:
        SpecError: Wires of distributed multicast, which is not modelled, or a value that does not fit.
    """
    network_type = reader.take("network_type", text, "1:1")
    if network_type == "M:N":
        raise reader.at("network_type").error('network_type "M:N" (distributed multicast) is not supported', "1:1, 1:N")
    return Interconnect(
        word_bits=reader.take("network_word_bits", whole_number(1, reader.leniency), word_bits),
        energy_per_hop=reader.take("energy_per_hop", number(), None),
        wire_energy=reader.take("wire_energy", number(), 0.0),
        tile_width=reader.take("tile_width", number(), None),
        router_energy=reader.take("router_energy", number(), 0.0),
        energy_per_ingress=reader.take("energy-per-ingress", number(), 0.0),
        fill_latency=reader.take("network_fill_latency", whole_number(0, reader.leniency), 0),
        drain_latency=reader.take("network_drain_latency", whole_number(0, reader.leniency), 0),
        reduction_supported=reader.take("reduction_supported", boolean, "DRAM" not in kind))


def named_interconnects(components: Sequence[Component], units: Sequence[tuple[str, Map]],
                        leniency: Leniency) -> tuple[NamedInterconnect, ...]:
    """The interconnects that levels refer to by name.

    Args:
        components: Those with a class of `INTERCONNECT_CLASSES`.
        units: Name and attributes of the arithmetic and of the storage levels, innermost first.
        leniency: Decides about misspelt attributes.

    Raises:
        SpecError: A level names an interconnect that does not exist, neighbours name different ones, one stands in
            two places, or an interconnect cannot do what it is used for.
    """
    by_name = {component[0]: component for component in components}
    if len(by_name) < len(components):
        raise components[-1][4].error("two networks have the same name", "unique names")
    inwards, outwards = (_connected(keys, units, by_name) for keys in (INWARDS, OUTWARDS))
    return tuple(_interconnect(component, inwards.get(name), outwards.get(name), leniency)
                 for name, component in sorted(by_name.items()) if name in inwards or name in outwards)


def _connected(keys: tuple[str, str, str], units: Sequence[tuple[str, Map]],
               by_name: dict[str, Component]) -> dict[str, int]:
    """The level below which each interconnect stands, in one direction."""
    places: dict[str, int] = {}
    for level, ((inner, inside), (outer, outside)) in enumerate(pairwise(units)):
        key, inner_key = keys[0], keys[1] if level else keys[2]
        name, at = outside.get(key), outside.at(key)
        if name != inside.get(inner_key):
            raise (at if key in outside else inside.at(inner_key)).error(
                f'"{outer}" has {key}: {name or "none"}, and "{inner}" inside it has {inner_key}: '
                f'{inside.get(inner_key) or "none"}', "the same network at both, or none")
        if name is None:
            continue
        if text(name, at) not in by_name:
            raise at.error(f'there is no network "{name}"', listed(by_name) or "a component of a network's class")
        if name in places:
            raise at.error(f'the network "{name}" stands below two levels, and Timeloop counts the traffic of the '
                           "inner one alone", "a network for each")
        places[name] = level
    return places


def _interconnect(component: Component, inwards: int | None, outwards: int | None,
                  leniency: Leniency) -> NamedInterconnect:
    """One interconnect. SpecError where it cannot do what it is used for."""
    name, kind, attributes, _, where = component
    reader = read_attributes(name, attributes, leniency)
    if None not in (inwards, outwards) and inwards != outwards:
        raise where.error(f'the network "{name}" stands below two levels, and Timeloop counts the traffic of the inner '
                          "one alone", "a network for each")
    if kind == "ReductionTree" and inwards is not None:
        raise where.error(f'the reduction tree "{name}" is to carry words inwards, which Timeloop refuses',
                          "a reduction tree as network_update and network_drain alone")
    bits = reader.take(("word_bits", "word_width", "datawidth"), whole_number(1, reader.leniency), DEFAULT_BITS)
    wires = read_wires(Reader(Map({**reader.node, "network_fill_latency": reader.take("fill_latency", number(0), 0)},
                                  where=where, places=reader.node.places), leniency), kind, bits)
    if kind != "SimpleMulticast":
        return NamedInterconnect(name, "Legacy" if kind == "XY_NoC" else kind, inwards, outwards, wires,
                                 adder_energy=reader.take("adder_energy", number(), 0.0))
    action = reader.take("action_name", text, None)
    if action is None:
        raise attributes.where.error(f'the network "{name}" has no action_name',
                                     "action_name, the action of its entry in the ERT")
    return NamedInterconnect(name, kind, inwards, outwards, wires, action=action,
                             receivers=reader.take("multicast_factor_argument", text, "none"),
                             per_dataspace=reader.take("per_datatype_ERT", boolean, None) is not None)
