"""Reads a native architecture (a `subtree` / `local` tree, or the old list format) into an `Architecture`.

Timeloop walks the tree from the outside in: components listed later lie further in, and a component has as many
instances as the ranges on the way to it multiply to. The model takes a component's own attributes, of several
spellings the first that is there; attributes of the nodes around it are left to the energy tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.arch import (
    Architecture,
    Arithmetic,
    Interconnect,
    MetadataStorage,
    NamedInterconnect,
    StorageLevel,
)
from fadiff_mapper.inputs.spec.tables import BITS_PER_KIB
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.inputs.yaml.located import (
    Check,
    Map,
    Reader,
    Seq,
    anything,
    boolean,
    integer,
    mapping,
    number,
    plain,
    sequence,
    text,
)
from fadiff_mapper.inputs.yaml.place import Where

LEVEL_ATTRIBUTES = (
    "instances", "meshX", "meshY", "word_bits", "word_width", "datawidth", "block_size", "n_words", "cluster_size",
    "width", "memory_width", "data_storage_width", "entries", "depth", "memory_depth", "data_storage_depth", "sizeKB",
    "multiple_buffering", "min_utilization", "bandwidth", "read_bandwidth", "write_bandwidth", "shared_bandwidth",
    "per_dataspace_bandwidth_consumption_scale", "vector_access_energy", "addr_gen_energy", "network_fill_latency",
    "network_drain_latency", "network_word_bits", "energy_per_hop", "wire_energy", "tile_width", "router_energy",
    "energy-per-ingress", "network_read", "network_fill", "network_update", "network_drain", "network_operand",
    "network_result", "reduction_supported", "network_type", "technology", "allow_overbooking")
"""The attributes of a component that change a result. Others go to Accelergy and are kept as they are."""

OTHER_BASES = re.compile(r"\+?0(?:[xX](?P<hexadecimal>[0-9a-fA-F]+)|(?P<octal>[0-7]+))")
"""Whole numbers that are not decimal, as C writes them."""


def read_attributes(name: str, attributes: Map, leniency: Leniency = STRICT) -> Reader:
    """Prepares the attributes of a component for reading.

    Args:
        name: Name of the component, for messages.
        attributes: As written, hyphenated words rewritten; unknown attributes may stay, as they are for Accelergy.
        leniency: Decides about attributes that look like misspelt ones of `LEVEL_ATTRIBUTES`, which Timeloop drops.

    Returns:
        A reader of the attributes.

    Raises:
        SpecError: There is such an attribute, and the reading is strict.
    """
    for key in attributes:
        dropped = (isinstance(key, str) and key not in LEVEL_ATTRIBUTES
                   and (_squash(key) in _SQUASHED or _one_edit(key)))
        if dropped:
            meant = _SQUASHED.get(_squash(key)) or _one_edit(key)
            leniency.meet([Oddity(
                attributes.at(key), f"attribute {key}",
                f'Timeloop ignores the attribute "{key}" of "{name}" (did you mean "{meant}"?)', f'"{meant}"', "")])
    return Reader(attributes, leniency)


def whole_number(minimum: int, leniency: Leniency) -> Check[int]:
    """A check for a whole number as Timeloop converts its text: 0x10 and 010 are C's, and 16.0 is none.

    Args:
        minimum: The least accepted value.
        leniency: Decides about numbers that Timeloop refuses although they are whole.
    """
    def check(value: Any, where: Where) -> int:
        other = OTHER_BASES.fullmatch(value) if isinstance(value, str) else None
        if other:
            value = int(other["hexadecimal"], 16) if other["hexadecimal"] else int(other["octal"], 8)
        found = integer(minimum)(value, where)
        if isinstance(value, float) or (isinstance(value, str) and not value.lstrip("+").rstrip().isdigit()):
            leniency.meet([Oddity(where, where.path, f"timeloop-model refuses {value} as a whole number", str(found),
                                  f"it is {found}")])
        return found
    return check


def word_width(leniency: Leniency) -> Check[int]:
    """A check for bits of a word; one width per data space, which users ask for, is refused in words of its own."""
    def check(value: Any, where: Where) -> int:
        if isinstance(value, dict):
            raise where.error("found a mapping: Timeloop gives all data spaces of a level the same word width",
                              "a whole number >= 1; a level of its own for a data space of another width")
        return whole_number(1, leniency)(value, where)
    return check


def _squash(key: str) -> str:
    """A spelling without case, hyphens and underscores, by which "read-bandwidth" is "read_bandwidth"."""
    return key.replace("-", "").replace("_", "").lower()


# Short names (width, depth, meshX, ...) are left out: other spellings of them may be attributes for Accelergy.
_SQUASHED = {_squash(name): name for name in LEVEL_ATTRIBUTES if len(name) > 5}


@cache
def _one_edit(key: str) -> str:
    """The attribute that differs from `key` by one letter added, dropped or changed, or two swapped; else "".

    Short keys are left alone: a single letter makes another word of them too easily. Nothing was measured.
    """
    if len(key) < 8:
        return ""
    guess = nearest(key, LEVEL_ATTRIBUTES)
    meant = guess.split('"')[1] if guess else ""  # from ` (did you mean "x"?)`
    changed = sorted(set(enumerate(key)) ^ set(enumerate(meant)))
    near = abs(len(key) - len(meant)) <= 1 and (
        len(changed) <= 4 if len(key) == len(meant) else _is_one_insertion(key, meant))
    return meant if near else ""


def _is_one_insertion(a: str, b: str) -> bool:
    """Whether the longer word is the shorter one with one letter more."""
    short, long = sorted((a, b), key=len)
    return any(long[:i] + long[i + 1:] == short for i in range(len(long)))


# A level that names a network uses it in place of its own wires, and so must the next level inwards: `network_read`
# and `network_update` outside are `network_fill` and `network_drain` inside, at the arithmetic `network_operand` and
# `network_result`.

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


# Areas, technology, cycle time and other attributes change no count of the model; they are estimated from or printed.

@dataclass(frozen=True)
class WrittenComponent:
    """One component as written.

    Attributes:
        name: Name without its range.
        own: Its own attributes, old hyphenated words rewritten.
        inherited: Attributes of the nodes around it, in the same way.
        component: All its keys, as they are.
    """

    name: str
    own: dict[str, Any]
    inherited: dict[str, Any]
    component: dict[str, Any]

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes that hold for the component: its own ones win."""
        return self.inherited | self.own


def written_components(arch: Architecture) -> dict[str, WrittenComponent]:
    """Every component of an architecture by its name without range; Timeloop reads none beside the first subtree."""
    return {component.name: component for tree in arch.native.values()
            for component in _components({key: tree[key] for key in tree if key != "local"}, {})}


def _components(tree: dict[str, Any], around: dict[str, Any]) -> Iterator[WrittenComponent]:
    """The components of a node and of those inside it; `around` are the attributes of the nodes outside."""
    for entry in (*_entries(tree.get("storage")), *_entries([tree.get("arithmetic")])):
        yield WrittenComponent(_name(entry), _attributes(entry), around, entry)
    around = around | _attributes(tree.get("attributes"))
    for entry in _entries(tree.get("local")):
        yield WrittenComponent(_name(entry), _attributes(entry.get("attributes")), around, entry)
    for node in _entries(tree.get("subtree")):
        yield from _components(node, around)


def _entries(value: object) -> list[dict[str, Any]]:
    """The mappings of a list: Timeloop reads no others, so anything may stand beside them."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _name(entry: dict[str, Any]) -> str:
    """The name of a component as the levels have it."""
    return bare(underscored(str(entry.get("name", ""))))


def _attributes(attributes: object) -> dict[str, Any]:
    """Attributes by rewritten text; those of a node that Timeloop does not read may be no mapping."""
    return {underscored(str(key)): value for key, value in attributes.items()} if isinstance(attributes, dict) else {}


Attributes = dict[str, Any]


def written_attributes(arch: Architecture) -> dict[str, Attributes]:
    """The own attributes of every component by its name without range."""
    return {name: component.own for name, component in written_components(arch).items()}


def written_number(attributes: Attributes, key: str) -> float | None:
    """An attribute as a number; None where it is not written. Raises SpecError where it is no number."""
    value = attributes.get(key)
    return None if value is None else number()(value, Where("architecture", path=key))


STORAGE_CLASSES = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage")
COMPUTE_CLASSES = ("mac", "compute")
"""A class whose name contains one of these words is of that sort (Timeloop's rule); other classes are left out."""

UNNAMED = "__ARITH__"
"""Timeloop's name for an arithmetic without one, as old list formats write it."""

BANDWIDTH_SCALE = "per_dataspace_bandwidth_consumption_scale"
"""The attribute with a factor on the bandwidth demand of each data space that it names."""

MOST_LEVELS = 64
"""Storage levels, fan-outs of the v0.4 dialect included. Machines have fewer than 10; nothing was measured."""

RANGE = re.compile(r"\[\s*(\d+)\s*\.\.\s*(\d+)\s*\]")


def read_architecture(node: Any, where: Where, key: str = "architecture", leniency: Leniency = STRICT) -> Architecture:
    """Reads an architecture and flattens it as Timeloop's model does.

    Args:
        node: The section: a tree under `subtree`, or the old format with the lists `storage` and `arithmetic`.
        where: Its place.
        key: Its top-level key, "architecture" or "arch", under which it is written out again.
        leniency: Decides about keys and attributes that Timeloop ignores.

    Raises:
        SpecError: An unknown key (where strict), a size or word width that does not fit, a memory without a size, two
            components of one name, or meshes that do not divide.
    """
    root = underscored(mapping(node, where))
    components, name = (_from_lists(root, leniency), "") if "storage" in root else _from_tree(root, leniency)
    storage = [_storage(*c, leniency) for c in components if _matches(c[1], STORAGE_CLASSES)]
    arithmetic = [_arithmetic(*c, leniency) for c in components
                  if _matches(c[1], COMPUTE_CLASSES) and not _matches(c[1], STORAGE_CLASSES)]
    if len(arithmetic) != 1:
        raise where.error(f"{len(arithmetic)} arithmetic components", "one, with a class that contains mac or compute")
    if not storage:
        raise where.error("no storage component", f"a class that contains {listed(STORAGE_CLASSES)}")
    if len(storage) > MOST_LEVELS:
        raise where.error(f"{len(storage)} storage levels", f"at most {MOST_LEVELS}")
    levels = tuple(reversed(storage))
    names = [level.name for level in levels] + [arithmetic[0].name]
    for level_name in names:
        if names.count(level_name) > 1:
            raise where.error(f'the name "{level_name}" is given to {names.count(level_name)} components',
                              "unique names")
    for level in levels:
        if level.power_gated_at not in (None, *names[:-1]):
            raise where.error(f'"{level.name}" is power gated at the unknown level "{level.power_gated_at}"',
                              listed(names[:-1]))
    networks = [c for c in components if c[1] in INTERCONNECT_CLASSES]
    memories = [c for c in reversed(components) if _matches(c[1], STORAGE_CLASSES)]
    units = [c for c in components if _matches(c[1], COMPUTE_CLASSES) and c not in memories]
    named = named_interconnects(networks, [(c[0], c[2]) for c in (*units, *memories)], leniency)
    arch = Architecture(name, levels, arithmetic[0], named, {key: plain(node)})
    _check_fanouts(arch, where)
    return arch


def check_bandwidth_scales(node: Any, arch: Architecture, dataspaces: Sequence[str],
                           leniency: Leniency = STRICT) -> None:
    """Meets the bandwidth scales of data spaces that the problem does not have; `timeloop-model` ends on them.

    Args:
        node: The section that `arch` is read from.
        arch: The architecture.
        dataspaces: Names of the problem's data spaces.
        leniency: Decides about such scales.

    Raises:
        SpecError: There are some, and the reading is strict.
    """
    unknown = [(level.name, key) for level in arch.levels for key in level.bandwidth_scale if key not in dataspaces]
    if unknown:
        lenient = Leniency(strict=False)  # the same tree has been read before
        root = underscored(node)
        components = _from_lists(root, lenient) if "storage" in root else _from_tree(root, lenient)[0]
        scales = {component[0]: component[2][BANDWIDTH_SCALE] for component in components
                  if BANDWIDTH_SCALE in component[2]}
        leniency.meet(Oddity(scales[name].at(key), f"scale of {key}",
                             f'timeloop-model refuses a bandwidth scale of "{key}", which is no data space'
                             f"{nearest(key, dataspaces)}", listed(dataspaces), "it scales nothing")
                      for name, key in unknown)


def span(name: str, where: Where) -> int:
    """Number of elements in "name[a..b]", both ends counted; 1 without a range. Raises SpecError for an end > 2^53."""
    ends = RANGE.search(name)
    return integer()(ends[2], where) - integer()(ends[1], where) + 1 if ends else 1


def bare(name: str) -> str:
    """The name without its range."""
    return name.split("[")[0]


def _from_tree(root: Map, leniency: Leniency) -> tuple[list[Component], str]:
    """Components of the tree format from the outside in, and the name of the outermost node."""
    reader = Reader(root, leniency)
    reader.take("version", anything, None)
    for key in ("constraints", "name", "attributes", "local"):
        reader.take(key, anything, None)
    subtree = reader.take("subtree", sequence)
    reader.finish(" in the architecture")
    components: list[Component] = []
    name, instances = "", 1
    while subtree:
        if len(subtree) != 1:
            raise subtree.where.error(f"{len(subtree)} subtrees side by side", "one subtree per node")
        node = Reader(mapping(subtree[0], subtree.at(0)), leniency)
        node_name = node.take("name", text, "")
        name = name or bare(node_name)
        instances *= span(node_name, node.at("name"))
        node.take("attributes", mapping, None)  # left to the energy tables
        local = node.take("local", sequence, Seq(where=node.node.where))
        subtree = node.take("subtree", sequence, Seq(where=node.node.where))
        node.finish(f' of the node "{node_name}"')
        components += [_component(item, local.at(i), instances, leniency) for i, item in enumerate(local)]
    return components, name


def _component(node: Any, where: Where, instances: int, leniency: Leniency) -> Component:
    """One entry of a `local` list; keys that only Accelergy reads are accepted. `instances`: the instances of its
    node."""
    reader = Reader(mapping(node, where), leniency)
    name = reader.take("name", text)
    kind = reader.take("class", text)
    attributes = reader.take("attributes", mapping, Map(where=reader.node.where))
    for key in ("subclass", "component_class", "required_actions", "actions", "enabled", "area_scale", "energy_scale",
                "area_share", "energy_share", "action_latency_cycles", "constraints", "spatial"):
        reader.take(key, anything, None)
    reader.refuse("sparse_optimizations", "in this dialect they stand in a section of their own")
    reader.finish(f' of the component "{name}"')
    if (_matches(kind, INTERCONNECT_CLASSES) and kind not in INTERCONNECT_CLASSES
            and not _matches(kind, STORAGE_CLASSES + COMPUTE_CLASSES)):
        raise reader.at("class").error(f'the network "{name}" has the class "{kind}", which Timeloop refuses',
                                       listed(INTERCONNECT_CLASSES))
    return bare(name), kind, attributes, instances * span(name, reader.at("name")), reader.node.where


def _from_lists(root: Map, leniency: Leniency) -> list[Component]:
    """Components of the old format from the outside in.

    The format has `arithmetic` and a list `storage` from the innermost outwards, with attributes inline.
    """
    reader = Reader(root, leniency)
    reader.take("version", anything, None)
    reader.take("constraints", anything, None)
    arithmetic = reader.take("arithmetic", mapping)
    storage = reader.take("storage", sequence)
    reader.finish(" in the architecture")
    components = []
    nodes = [mapping(value, storage.at(i)) for i, value in enumerate(storage)]
    leniency.meet(Oddity(node.where, "instances", "timeloop-model ends on a component of a list without instances",
                         "instances: 1", "there is one") for node in (arithmetic, *nodes) if "instances" not in node)
    for i, node in reversed(list(enumerate(nodes))):
        kind = "DRAM" if node.get("technology") == "DRAM" else "storage"
        components.append((bare(text(node.get("name", f"storage{i}"), node.at("name"))), kind, node, 1, node.where))
    name = bare(text(arithmetic.get("name", UNNAMED), arithmetic.at("name")))
    return [*components, (name, "mac", arithmetic, 1, arithmetic.where)]


def _matches(kind: str, words: tuple[str, ...]) -> bool:
    return any(word in kind for word in words)


def _mesh(reader: Reader, instances: int) -> tuple[int, int]:
    """meshX and meshY. A missing one is the rest of the instances; without both, all instances lie along X."""
    x = reader.take("meshX", whole_number(1, reader.leniency), None)
    y = reader.take("meshY", whole_number(1, reader.leniency), None)
    if x is None:
        x = instances // y if y else instances
    if y is None:
        y = instances // x
    if x * y != instances:
        raise reader.node.where.error(f"meshX * meshY = {x} * {y} does not equal the {instances} instances")
    return x, y


def _arithmetic(name: str, kind: str, attributes: Map, instances: int, where: Where,
                leniency: Leniency) -> Arithmetic:
    reader = read_attributes(name, attributes, leniency)
    instances = reader.take("instances", whole_number(1, reader.leniency), instances)
    mesh_x, mesh_y = _mesh(reader, instances)
    word_bits = reader.take(("word_bits", "datawidth"), word_width(reader.leniency), 16)
    energy = reader.take("energy", whole_number(0, reader.leniency), None)  # Timeloop reads no fractions here
    return Arithmetic(name, kind, instances, mesh_x, mesh_y, word_bits, energy)


def _storage(name: str, kind: str, attributes: Map, instances: int, where: Where,
             leniency: Leniency) -> StorageLevel:
    reader = read_attributes(name, attributes, leniency)
    instances = reader.take("instances", whole_number(1, reader.leniency), instances)
    mesh_x, mesh_y = _mesh(reader, instances)
    word_bits = reader.take(("word_bits", "word_width", "datawidth"), word_width(reader.leniency), 16)
    block, cluster = _block_and_cluster(reader, word_bits)
    if instances % cluster:
        raise where.error(f'"{name}" has {instances} instances in clusters of {cluster}',
                          "a number of instances that is a multiple of cluster_size")
    if reader.take("technology", anything, None) == "DRAM" and "DRAM" not in kind:
        kind = f"DRAM {kind}"
    size = _size(reader, name, kind, word_bits, block)
    least = reader.take("min_utilization", number(0), 0.0)
    if least and size is None:
        leniency.meet([Oddity(reader.at("min_utilization"), "min_utilization",
                              f'timeloop-model refuses the min_utilization of "{name}", which has no size',
                              "depth, entries or sizeKB, or no min_utilization", "it bears on nothing here")])
    if cluster > 1 and "DRAM" in kind:
        leniency.meet([Oddity(reader.node.where, f"clusters of {name}",
                              f'timeloop-model refuses "{name}", a DRAM in clusters of {cluster}', "cluster_size: 1",
                              "its clusters are those of any level")])
    ports = "num_ports" if reader.node.get("num_ports") is not None else "n_ports"
    if str(reader.take(ports, anything, 2)) not in ("1", "2"):
        leniency.meet([Oddity(reader.at(ports), ports, f'timeloop-model refuses the {ports} of "{name}"', "1 or 2",
                              "it bears on nothing here")])
    if reader.take("allow_overbooking", boolean, False):
        raise reader.at("allow_overbooking").error(
            '"allow_overbooking" is not supported: overbooked tiles are not modelled')
    half = reader.take("bandwidth", _bandwidth, None)
    both = None if half is None else half / 2
    scale = reader.take(BANDWIDTH_SCALE, mapping, Map(where=reader.node.where))
    return StorageLevel(
        name=name, kind=kind, instances=instances, mesh_x=mesh_x, mesh_y=mesh_y, word_bits=word_bits,
        block_size=block, cluster_size=cluster, size=size,
        multiple_buffering=reader.take("multiple_buffering", number(above=0), 1.0),
        min_utilization=least,
        read_bandwidth=reader.take("read_bandwidth", _bandwidth, both),
        write_bandwidth=reader.take("write_bandwidth", _bandwidth, both),
        shared_bandwidth=reader.take("shared_bandwidth", _bandwidth, None),
        bandwidth_scale={str(key): _share_of_bandwidth(value, scale.at(key), leniency)
                         for key, value in scale.items()},
        vector_access_energy=reader.take("vector_access_energy", number(0), None),
        addr_gen_energy=max(reader.take("addr_gen_energy", number(), 0.0), 0.0),
        power_gated_at=reader.take("power_gated_at", text, None),
        interconnect=read_wires(reader, kind, word_bits), metadata=_metadata_storage(reader),
        decompresses=reader.take("decompression_supported", boolean, False),
        compresses=reader.take("compression_supported", boolean, False))


def _bandwidth(value: Any, where: Where) -> float | None:
    """A check for words per cycle; an infinite bandwidth is none, as it never slows anything down."""
    if isinstance(value, str | float) and str(value).lower() in ("inf", ".inf", "+.inf"):
        return None
    return number(above=0)(value, where)


def _share_of_bandwidth(value: Any, where: Where, leniency: Leniency) -> float:
    """The bandwidth that a word of a data space takes. Text that is no number, such as "1 / X", is 0 for Timeloop."""
    try:
        return number(0)(value, where)
    except SpecError:
        if not isinstance(value, str) or _is_number(value):
            raise
    leniency.meet([Oddity(where, f"bandwidth scale {value}", f'found the text "{value}"', "a number >= 0",
                          "Timeloop reads 0")])
    return 0.0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _metadata_storage(reader: Reader) -> MetadataStorage:
    """The memory for metadata; its width must hold whole blocks of units."""
    if reader.take("tile_partition_supported", boolean, False):
        raise reader.at("tile_partition_supported").error(
            '"tile_partition_supported" is not supported: Timeloop itself refuses it')
    block = reader.take("metadata_block_size", whole_number(1, reader.leniency), 1)
    bits = reader.take(("metadata_datawidth", "metadata_word_bits"), whole_number(0, reader.leniency), 0)
    width = reader.take(("metadata_storage_width", "metadata_width"), whole_number(0, reader.leniency), 0)
    depth = reader.take(("metadata_storage_depth", "metadata_depth"), whole_number(0, reader.leniency), 0)
    if bits and width % (bits * block):
        raise reader.at("metadata_storage_width").error(
            f"a width of {width} bits holds no whole number of {bits}-bit units in blocks of {block}",
            "a multiple of metadata_datawidth * metadata_block_size")
    return MetadataStorage(width, depth, bits)


def _block_and_cluster(reader: Reader, word_bits: int) -> tuple[int, int]:
    """Words per access and instances per cluster.

    A `width` in bits, block_size * cluster_size * word bits, fills in the one that is not given. Without both the
    block takes it all; without a width, a missing one is 1.
    """
    block = reader.take(("block_size", "n_words"), whole_number(1, reader.leniency), None)
    cluster = reader.take("cluster_size", whole_number(1, reader.leniency), None)
    width = reader.take(("width", "memory_width", "data_storage_width"), whole_number(1, reader.leniency), None)
    if width is None:
        return block or 1, cluster or 1
    if width % (word_bits * (block or 1)):
        raise reader.at("width").error(f"a width of {width} bits holds no whole number of {word_bits}-bit words"
                                       + (f" in blocks of {block}" if block else ""), "a multiple of the word width")
    if block and cluster:
        if block * cluster * word_bits != width:
            raise reader.at("width").error(
                f"block_size * cluster_size * word bits = {block} * {cluster} * {word_bits} is not the width {width}")
        return block, cluster
    if cluster:
        if width // cluster // word_bits < 1:
            raise reader.at("width").error(f"a width of {width} bits is too narrow for a cluster of {cluster}")
        return width // cluster // word_bits, cluster
    return (block, width // (word_bits * block)) if block else (width // word_bits, 1)


def _size(reader: Reader, name: str, kind: str, word_bits: int, block: int) -> int | None:
    """Words per instance: `entries`, else `depth` blocks, else `sizeKB`; None where there is none, as only DRAM may.

    Specs write 0 for a level that is bypassed, only stands for a fan-out, or says its size in another key.
    """
    given = {key: reader.take(key, whole_number(0, reader.leniency), None)
             for key in ("entries", "depth", "memory_depth", "data_storage_depth", "sizeKB")}
    written = [key for key, value in given.items() if value is not None]
    if len(written) > 1 and "sizeKB" in written:
        raise reader.at("sizeKB").error(f'"{name}" has its size twice: {listed(written)}', "one of them")
    if not written:
        if "DRAM" not in kind:
            raise reader.node.where.error(f'"{name}" has no size', "depth (with width), entries or sizeKB")
        return None
    value = given[written[0]]
    assert value is not None
    if written[0] == "sizeKB":
        return value * BITS_PER_KIB // word_bits
    return value if written[0] == "entries" else value * block


def _check_fanouts(arch: Architecture, where: Where) -> None:
    """Raises SpecError where the mesh of a level is no multiple of that of the next level outwards."""
    units: list[StorageLevel | Arithmetic] = [*reversed(arch.levels), arch.arithmetic]
    for outer, inner in pairwise(units):
        for axis, big, small in (("X", inner.mesh_x, outer.mesh_x), ("Y", inner.mesh_y, outer.mesh_y)):
            if big % small:
                raise where.error(f'mesh{axis} of "{inner.name}" ({big}) is no multiple of that of "{outer.name}" '
                                  f"({small})")
