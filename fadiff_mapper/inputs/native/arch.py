"""Reads a native architecture (a `subtree` / `local` tree, or the old list format) into an `Architecture`.

Timeloop walks the tree from the outside in: components listed later lie further in, and a component has as many
instances as the ranges on the way to it multiply to. The model takes a component's own attributes; attributes of the
nodes around it are left to the energy tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.spec.arch import (
    Architecture,
    Arithmetic,
    Interconnect,
    MetadataStorage,
    NamedInterconnect,
    StorageLevel,
)
from fadiff_mapper.inputs.spec.tables import BITS_PER_KIB
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, Table, integer, mapping, number, plain, readers, text
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

INTERCONNECT_CLASSES = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")
"""The classes of components that are interconnects; the first two are the same."""
ROLES: AnyMapping[str, tuple[str, ...]] = {
    "storage": ("DRAM", "SRAM", "regfile", "smartbuffer", "storage"), "compute": ("mac", "compute"),
    "network": INTERCONNECT_CLASSES}
"""A component whose class contains one of these words has that role; the first match counts (Timeloop's rule)."""
UNNAMED = "__ARITH__"  # Timeloop's name for an arithmetic without one, as old list formats write it
MOST_LEVELS = 64  # storage levels, fan-outs of the v0.4 dialect included; machines have fewer than 10
RANGE = re.compile(r"\[\s*(\d+)\s*\.\.\s*(\d+)\s*\]")
LEVEL_ATTRIBUTES = tuple(spelling for key in keys.LEVEL.values() for spelling in key.spellings)
"""The attributes of a component that change a result. Others go to Accelergy and are kept as they are."""


class Component(NamedTuple):
    """One component of the architecture."""

    name: str  # name without its range
    kind: str
    attributes: Map  # as written, hyphenated words rewritten
    instances: int  # instances by the ranges of names
    where: Where

    def reader(self, table: Table, leniency: Leniency) -> Reader:
        """A reader of the attributes; `leniency` decides about misspellings of `LEVEL_ATTRIBUTES`."""
        for key in self.attributes:
            if isinstance(key, str) and key not in LEVEL_ATTRIBUTES:
                meant = _meant(key)
                if meant:
                    leniency.meet([Oddity(
                        self.attributes.at(key), f"attribute {key}",
                        f'Timeloop ignores the attribute "{key}" of "{self.name}" (did you mean "{meant}"?)',
                        f'"{meant}"', "")])
        return Reader(self.attributes, table, leniency)


def role_of(kind: str, roles: AnyMapping[str, tuple[str, ...]] = ROLES) -> str:
    """The role of a component by its class; "" of a class that plays none, which the model leaves out."""
    return next((role for role, words in roles.items() if any(word in kind for word in words)), "")


@cache
def _meant(key: str) -> str:
    """The attribute that `key` misspells by case, hyphens, underscores, one letter, or two letters swapped; else "".

    Variants of short attributes (width, depth, meshX, ...) are accepted: they may be attributes for Accelergy.
    """
    squashed = re.sub("[-_]", "", key).lower()
    for name in LEVEL_ATTRIBUTES:
        if len(name) > 5 and re.sub("[-_]", "", name).lower() == squashed:
            return name
    guess = nearest(key, LEVEL_ATTRIBUTES) if len(key) >= 8 else ""
    if not guess:
        return ""
    meant = guess.split('"')[1]  # from ` (did you mean "x"?)`
    if len(key) == len(meant):
        near = len(set(enumerate(key)) ^ set(enumerate(meant))) <= 4
    else:
        short, long = sorted((key, meant), key=len)
        near = any(long[:i] + long[i + 1:] == short for i in range(len(long)))
    return meant if near else ""


def read_architecture(node: Any, where: Where, key: str = "architecture", leniency: Leniency = STRICT,
                      dataspaces: Sequence[str] | None = None) -> Architecture:
    """Reads an architecture, a tree under `subtree` or lists, and flattens it as Timeloop's model does.

    Args:
        key: "architecture" or "arch", the top-level key under which it is written out again.
        dataspaces: Names of the data spaces, the only names that bandwidth scales accept; None: any name.
    """
    components, name = _components(underscored(mapping(node, where)), leniency)
    memories = [component for component in components if role_of(component.kind) == "storage"]
    units = [component for component in components if role_of(component.kind) == "compute"]
    levels = tuple(reversed([_storage(component, leniency, dataspaces) for component in memories]))
    arithmetic = []
    for unit in units:
        reader = unit.reader(keys.ARITHMETIC, leniency)
        arithmetic.append(Arithmetic(unit.name, unit.kind, **_mesh(reader, unit.instances),
                                     word_bits=reader.read("word_bits"), energy=reader.read("energy"),
                                     area=reader.read("area")))
    if len(arithmetic) != 1:
        raise where.error(f"{len(arithmetic)} arithmetic components", "one, with a class that contains mac or compute")
    if not levels:
        raise where.error("no storage component", f"a class that contains {listed(ROLES['storage'])}")
    if len(levels) > MOST_LEVELS:
        raise where.error(f"{len(levels)} storage levels", f"at most {MOST_LEVELS}")
    names = [level.name for level in levels] + [arithmetic[0].name]
    for level_name in names:
        if names.count(level_name) > 1:
            raise where.error(f'the name "{level_name}" is given to {names.count(level_name)} components',
                              "unique names")
    for level in levels:
        if level.power_gated_at not in (None, *names[:-1]):
            raise where.error(f'"{level.name}" is power gated at the unknown level "{level.power_gated_at}"',
                              listed(names[:-1]))
    named = named_interconnects([component for component in components if component.kind in INTERCONNECT_CLASSES],
                                [(part.name, part.attributes) for part in (*units, *reversed(memories))], leniency)
    meshes: list[StorageLevel | Arithmetic] = [*reversed(levels), arithmetic[0]]
    for outer, inner in pairwise(meshes):
        for axis, many, few in (("X", inner.mesh_x, outer.mesh_x), ("Y", inner.mesh_y, outer.mesh_y)):
            if many % few:
                raise where.error(f'mesh{axis} of "{inner.name}" ({many}) is no multiple of that of "{outer.name}" '
                                  f"({few})")
    return Architecture(name, levels, arithmetic[0], named, {key: plain(node)})


# From the tree or the lists to components.

def _components(root: Map, leniency: Leniency) -> tuple[list[Component], str]:
    """The components from the outside in, and the name of the outermost node."""
    if "storage" in root:  # the old format: `arithmetic` and a list, innermost first, with attributes inline
        reader = Reader(root, keys.ARCHITECTURE_LISTS, leniency)
        arithmetic, storage = reader.read("arithmetic"), reader.read("storage")
        reader.finish(" in the architecture")
        nodes = [mapping(value, where) for value, where in storage.placed()]
        leniency.meet(Oddity(node.where, "instances", "timeloop-model ends on a component of a list without instances",
                             "instances: 1", "there is one")
                      for node in (arithmetic, *nodes) if "instances" not in node)
        named = [(node, f"storage{i}", "DRAM" if node.get("technology") == "DRAM" else "storage")
                 for i, node in reversed(list(enumerate(nodes)))]
        return [Component(text(node.get("name", default), node.at("name")).split("[")[0], kind, node, 1, node.where)
                for node, default, kind in (*named, (arithmetic, UNNAMED, "mac"))], ""
    reader = Reader(root, keys.ARCHITECTURE, leniency)
    subtree = reader.read("subtree")
    reader.finish(" in the architecture")
    components: list[Component] = []
    name, instances = "", 1
    while subtree:
        if len(subtree) != 1:
            raise subtree.where.error(f"{len(subtree)} subtrees side by side", "one subtree per node")
        node = next(readers(subtree, keys.NODE, leniency))
        node_name, empty = node.read("name"), Seq(where=node.node.where)
        name = name or node_name.split("[")[0]
        instances *= span(node_name, node.at("name"))
        node.read("attributes")
        local, subtree = node.read("local", empty), node.read("subtree", empty)
        node.finish(f' of the node "{node_name}"')
        for reader in readers(local, keys.COMPONENT, leniency):
            own_name, kind = reader.read("name"), reader.read("class")
            attributes = reader.read("attributes", Map(where=reader.node.where))
            reader.refuse("sparse_optimizations", "in this dialect they stand in a section of their own")
            reader.finish(f' of the component "{own_name}"')
            if role_of(kind) == "network" and kind not in INTERCONNECT_CLASSES:
                raise reader.at("class").error(
                    f'the network "{own_name}" has the class "{kind}", which Timeloop refuses',
                    listed(INTERCONNECT_CLASSES))
            components.append(Component(own_name.split("[")[0], kind, attributes,
                                        instances * span(own_name, reader.at("name")), reader.node.where))
    return components, name


def span(name: str, where: Where) -> int:
    """Number of elements in "name[a..b]", both ends counted; 1 without a range."""
    ends = RANGE.search(name)
    return integer(ends[2], where) - integer(ends[1], where) + 1 if ends else 1


# From components to levels.

def _mesh(reader: Reader, instances: int) -> dict[str, int]:
    """Instances and meshes. A missing mesh is the rest of the instances; without both, all of them lie along X."""
    instances = reader.read("instances", instances)
    x, y = reader.read("meshX"), reader.read("meshY")
    if x is None:
        x = instances // y if y else instances
    if y is None:
        y = instances // x
    if x * y != instances:
        raise reader.node.where.error(f"meshX * meshY = {x} * {y} does not equal the {instances} instances")
    return {"instances": instances, "mesh_x": x, "mesh_y": y}


def _storage(component: Component, leniency: Leniency, dataspaces: Sequence[str] | None) -> StorageLevel:
    name, kind, _, instances, where = component
    reader = component.reader(keys.MEMORY, leniency)
    mesh = _mesh(reader, instances)
    # The `width` in bits is block_size * cluster_size * word_bits, from which a missing block_size or cluster_size
    # follows. If both are missing, the cluster has 1 instance; without a width a missing one is 1.
    word_bits, block, cluster, width = map(reader.read, ("word_bits", "block_size", "cluster_size", "width"))
    if width is not None:
        if width % (word_bits * (block or 1)):
            raise reader.at("width").error(
                f"a width of {width} bits holds no whole number of {word_bits}-bit words"
                + (f" in blocks of {block}" if block else ""), "a multiple of the word width")
        if block and cluster and block * cluster * word_bits != width:
            raise reader.at("width").error(
                f"block_size * cluster_size * word bits = {block} * {cluster} * {word_bits} is not the width {width}")
        if cluster and width // cluster < word_bits:
            raise reader.at("width").error(f"a width of {width} bits is too narrow for a cluster of {cluster}")
        block = block or width // (cluster or 1) // word_bits
        cluster = cluster or width // (word_bits * block)
    block, cluster = block or 1, cluster or 1
    if mesh["instances"] % cluster:
        raise where.error(f'"{name}" has {mesh["instances"]} instances in clusters of {cluster}',
                          "a number of instances that is a multiple of cluster_size")
    if reader.read("technology") == "DRAM" and "DRAM" not in kind:
        kind = f"DRAM {kind}"
    # Words per instance: `entries`, else `depth` blocks, else `sizeKB`; only a DRAM may have none. Specs write 0 for a
    # level that is bypassed, only adds a fan-out, or says its size in another key.
    given = {key: reader.read(key) for key in ("entries", "depth", "memory_depth", "data_storage_depth", "sizeKB")}
    written = {key: value for key, value in given.items() if value is not None}
    if len(written) > 1 and "sizeKB" in written:
        raise reader.at("sizeKB").error(f'"{name}" has its size twice: {listed(written)}', "one of them")
    if not written and "DRAM" not in kind:
        raise reader.node.where.error(f'"{name}" has no size', "depth (with width), entries or sizeKB")
    size = next((int(value * BITS_PER_KIB // word_bits if key == "sizeKB" else value if key == "entries"
                     else value * block) for key, value in written.items()), None)
    least = reader.read("min_utilization")
    if least and size is None:
        leniency.meet([Oddity(reader.at("min_utilization"), "min_utilization",
                              f'timeloop-model refuses the min_utilization of "{name}", which has no size',
                              "depth, entries or sizeKB, or no min_utilization", "it bears on nothing here")])
    if cluster > 1 and "DRAM" in kind:
        leniency.meet([Oddity(reader.node.where, f"clusters of {name}",
                              f'timeloop-model refuses "{name}", a DRAM in clusters of {cluster}', "cluster_size: 1",
                              "its clusters are those of any level")])
    ports = "num_ports" if reader.node.get("num_ports") is not None else "n_ports"
    if str(reader.read(ports)) not in ("1", "2"):
        leniency.meet([Oddity(reader.at(ports), ports, f'timeloop-model refuses the {ports} of "{name}"', "1 or 2",
                              "it bears on nothing here")])
    reader.refuse("allow_overbooking", "overbooked tiles are not modelled")
    half = reader.read("bandwidth")
    both = None if half is None else half / 2
    scale = reader.read("per_dataspace_bandwidth_consumption_scale", Map(where=reader.node.where))
    if dataspaces is not None:
        leniency.meet(Oddity(scale.at(key), f"scale of {key}",
                             f'timeloop-model refuses a bandwidth scale of "{key}", which is no data space'
                             f"{nearest(key, dataspaces)}", listed(dataspaces), "it scales nothing")
                      for key in map(str, scale) if key not in dataspaces)
    reader.refuse("tile_partition_supported", "Timeloop itself refuses it")
    units, unit_bits, bits, depth = map(reader.read, (
        "metadata_block_size", "metadata_datawidth", "metadata_storage_width", "metadata_storage_depth"))
    if unit_bits and bits % (unit_bits * units):
        raise reader.at("metadata_storage_width").error(
            f"a width of {bits} bits holds no whole number of {unit_bits}-bit units in blocks of {units}",
            "a multiple of metadata_datawidth * metadata_block_size")
    return StorageLevel(
        name, kind, **mesh, word_bits=word_bits, block_size=block, cluster_size=cluster, size=size,
        multiple_buffering=reader.read("multiple_buffering"), min_utilization=least,
        read_bandwidth=reader.read("read_bandwidth", both), write_bandwidth=reader.read("write_bandwidth", both),
        shared_bandwidth=reader.read("shared_bandwidth"),
        bandwidth_scale={str(key): keys.RATIO.read(value, scale.at(key), leniency) for key, value in scale.items()},
        vector_access_energy=reader.read("vector_access_energy"),
        addr_gen_energy=max(reader.read("addr_gen_energy"), 0.0), power_gated_at=reader.read("power_gated_at"),
        interconnect=_wires(reader, kind, word_bits), metadata=MetadataStorage(bits, depth, unit_bits),
        decompresses=reader.read("decompression_supported"), compresses=reader.read("compression_supported"),
        area=reader.read("cluster_area") / cluster)


# A level that names a network uses it in place of its own wires, and so must the next level inwards: `network_read` and
# `network_update` outside are `network_fill` and `network_drain` inside (arithmetic: `network_operand`,
# `network_result`).

def _wires(reader: Reader, kind: str, word_bits: int) -> Interconnect:
    """The wires of a level of this class inwards, or the wires of a network. Refuses distributed multicast."""
    if reader.read("network_type") == "M:N":
        raise reader.at("network_type").error('network_type "M:N" (distributed multicast) is not supported', "1:1, 1:N")
    given = {key.removeprefix("network_").replace("-", "_"): reader.read(key) for key in (
        "network_word_bits", *(key for key in keys.WIRES if not key.startswith("network")),
        "network_fill_latency", "network_drain_latency")}
    return Interconnect(**given | {"word_bits": given["word_bits"] or word_bits},
                        reduction_supported=reader.read("reduction_supported", "DRAM" not in kind))


def named_interconnects(components: Sequence[Component], units: Sequence[tuple[str, Map]],
                        leniency: Leniency) -> tuple[NamedInterconnect, ...]:
    """The interconnects (of a class of `INTERCONNECT_CLASSES`) that levels refer to by name.

    `units`: name and attributes of the arithmetic and of the storage levels, innermost first.
    """
    by_name = {component.name: component for component in components}
    if len(by_name) < len(components):
        raise components[-1].where.error("two networks have the same name", "unique names")

    def below_two_levels(name: str, where: Where) -> SpecError:
        return where.error(f'the network "{name}" stands below two levels, and Timeloop counts the traffic of the '
                           "inner one alone", "a network for each")

    # Network -> the level below which it carries words inwards (`down`) and outwards (`up`). Keys of the outer level,
    # of the inner level and of the arithmetic must agree on it.
    down, up = dict[str, int](), dict[str, int]()
    for places, key, inner_key, unit_key in ((down, "network_read", "network_fill", "network_operand"),
                                             (up, "network_update", "network_drain", "network_result")):
        for level, ((inner, inside), (outer, outside)) in enumerate(pairwise(units)):
            mine = inner_key if level else unit_key
            name, at = outside.get(key), outside.at(key)
            if name != inside.get(mine):
                raise (at if key in outside else inside.at(mine)).error(
                    f'"{outer}" has {key}: {name or "none"}, and "{inner}" inside it has {mine}: '
                    f'{inside.get(mine) or "none"}', "the same network at both, or none")
            if name is None:
                continue
            if text(name, at) not in by_name:
                raise at.error(f'there is no network "{name}"', listed(by_name) or "a component of a network's class")
            if name in places:
                raise below_two_levels(name, at)
            places[name] = level
    found = []
    for name, component in sorted(by_name.items()):
        if name not in down and name not in up:
            continue
        inwards, outwards, where, kind = down.get(name), up.get(name), component.where, component.kind
        reader = component.reader(keys.NETWORK, leniency)
        if None not in (inwards, outwards) and inwards != outwards:
            raise below_two_levels(name, where)
        if kind == "ReductionTree" and inwards is not None:
            raise where.error(f'the reduction tree "{name}" is to carry words inwards, which Timeloop refuses',
                              "a reduction tree as network_update and network_drain alone")
        bits = reader.read("word_bits")
        wires = _wires(Reader(Map({**reader.node, "network_fill_latency": reader.read("fill_latency")}, where=where,
                                  places=reader.node.places), keys.NETWORK, leniency), kind, bits)
        network = NamedInterconnect(name, "Legacy" if kind == "XY_NoC" else kind, inwards, outwards, wires)
        if kind == "SimpleMulticast":
            action = reader.read("action_name")
            if action is None:
                raise reader.node.where.error(f'the network "{name}" has no action_name',
                                              "action_name, the action of its entry in the ERT")
            found.append(replace(network, action=action, receivers=reader.read("multicast_factor_argument"),
                                 per_dataspace=reader.read("per_datatype_ERT") is not None))
        else:
            found.append(replace(network, adder_energy=reader.read("adder_energy")))
    return tuple(found)


# Areas, technology, cycle time and other attributes change no count of the model; estimates and reports use them.

@dataclass(frozen=True)
class WrittenComponent:
    """One component as written."""

    name: str  # name without its range
    own: dict[str, Any]  # its own attributes, old hyphenated words rewritten
    inherited: dict[str, Any]  # attributes of the nodes around it, in the same way
    component: dict[str, Any]  # all its keys, as they are

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes that hold for the component: its own ones win."""
        return self.inherited | self.own


def written_components(native: AnyMapping[str, Any]) -> dict[str, WrittenComponent]:
    """Every component of an architecture (`Architecture.native`) by its name without range, from the outside in.

    As in Timeloop, components beside the first subtree are ignored.
    """
    def entries(value: object) -> list[dict[str, Any]]:  # as in Timeloop, entries that are no mappings are ignored
        return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []

    def attributes(value: object) -> dict[str, Any]:
        return {underscored(str(key)): item for key, item in value.items()} if isinstance(value, dict) else {}

    def inside(tree: dict[str, Any], around: dict[str, Any]) -> Iterator[WrittenComponent]:
        """The components of a node and of those inside it; `around` are the attributes of the nodes outside."""
        inherited = around | attributes(tree.get("attributes"))
        of_lists = ((entry, entry, around) for entry in (*entries(tree.get("storage")),
                                                         *entries([tree.get("arithmetic")])))
        of_nodes = ((entry, entry.get("attributes"), inherited) for entry in entries(tree.get("local")))
        for entry, own, outer in (*of_lists, *of_nodes):
            name: str = underscored(str(entry.get("name", "")))
            yield WrittenComponent(name.split("[")[0], attributes(own), outer, entry)
        for node in entries(tree.get("subtree")):
            yield from inside(node, inherited)

    return {component.name: component for tree in native.values()
            for component in inside({key: tree[key] for key in tree if key != "local"}, {})}


def written_number(attributes: dict[str, Any], key: str) -> float | None:
    """An attribute as a number; None where it is not written. Raises SpecError where it is no number."""
    value = attributes.get(key)
    return None if value is None else number(value, Where("architecture", path=key))


CYCLE_KEYS = ("GLOBAL_CYCLE_SECONDS", "global_cycle_seconds")  # variable or attribute with the seconds of a cycle


def cycle_seconds(arch: Architecture, literal: AnyMapping[str, Any]) -> float | None:
    """Seconds of a cycle, from the variables of an input or the attributes of its components; None where neither says.
    """
    given = (literal.get("variables") or {}, *(part.attributes for part in written_components(arch.native).values()))
    numbers = (written_number(attributes, key) for attributes in given for key in CYCLE_KEYS)
    return next((value for value in numbers if value), None)
