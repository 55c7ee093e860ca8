"""The tree under `architecture: nodes:` as native levels; defaults and rules follow Timeloop's Python front end."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fadiff_mapper.base.errors import SpecError, listed, nearest, noted
from fadiff_mapper.inputs.native.arch import ROLES, role_of
from fadiff_mapper.inputs.spec.keys import BRANCH, CONTAINER, ENTRY, SPATIAL, V04, V04_ARCHITECTURE
from fadiff_mapper.inputs.yaml.expressions import resolve
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, kind_of, mapping, text
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

Names = Mapping[str, object]  # what an expression may name: variables, attributes around and before it, nodes
Steps: TypeAlias = tuple[str | int, ...]  # keys and indices down to an entry of a document
MOST_ENTRIES = 1000  # variables, or attributes of one node; a plain safety limit, as each may be an expression
COMMON_DEFAULTS: dict[str, Any] = {"has_power_gating": False}  # what the front end writes where a node is silent
STORAGE_DEFAULTS: dict[str, Any] = {
    **COMMON_DEFAULTS, "n_banks": 2, "cluster_size": 1, "reduction_supported": True, "multiple_buffering": 1,
    "min_utilization": 0, "allow_overbooking": False}
"""Attributes that the front end writes where a memory says nothing."""
DECLARED = (*STORAGE_DEFAULTS, "datawidth", "technology", "block_size", "width", "depth", "entries", "sizeKB",
            "shared_bandwidth", "read_bandwidth", "write_bandwidth", "network_fill_latency", "network_drain_latency",
            "per_dataspace_bandwidth_consumption_scale")
"""Attributes of a memory that the front end knows, and thus refuses in a hyphenated spelling."""
DUMMY_ATTRIBUTES: dict[str, Any] = {"width": 1, "depth": 1, "datawidth": 1, "technology": -1, **STORAGE_DEFAULTS}
"""Attributes of a level that only adds a fan-out: a memory of one word of one bit."""
FAN_OUT = "fan-out"  # role of such a level; no node has it
BRANCHES = ("!Hierarchical", "!Parallel", "!Pipelined")
LEAVES = ("!Component", "!Container", "!Nothing")
LEAF_ROLES = {**ROLES, "compute": ("mac", "intmac", "fpmac", "compute"), "nothing": ("nothing",)}
"""The front end's words of the roles of components."""
ACTIONS = {"storage": ("read", "write", "update", "leak"), "compute": ("compute",)}
"""Actions that the front end asks Accelergy to price, besides those that a component requires itself."""
NATIVE_WIDTHS = ("memory_width", "data_storage_width")  # other names of the attribute "width" in the native dialect


def resolve_map(node: Map, names: Names) -> Map:
    """A map with all values worked out in order: each may use those before it, besides `names`."""
    if len(node) > MOST_ENTRIES:
        raise node.where.error(f"found {len(node)} entries", f"at most {MOST_ENTRIES}")
    resolved = node.having(())
    known = ChainMap(resolved, names)  # type: ignore[arg-type]  # is only read
    for key, value in node.items():
        resolved[key] = resolve(value, node.at(key), known)
    return resolved


def inherit(outer: Map, inner: Map) -> Map:
    """The entries of both maps. Where both have a key, the value of `inner` counts."""
    items = {**{key: value for key, value in outer.items() if key not in inner}, **inner}
    return Map(items, where=inner.where, places={key: (inner if key in inner else outer).at(key) for key in items})


def without_empty(node: Map) -> Map:
    """The map without empty entries: null, "", [] and {}."""
    return node.having({key: value for key, value in node.items() if value not in (None, "", [], {})})


def without_ignored(node: Map) -> Map:
    """The map without keys that contain "ignore": the front end leaves them to the user, for anchors."""
    return node.having({key: value for key, value in node.items() if "ignore" not in str(key)})


@dataclass(frozen=True)
class LeafNode:
    """A container or component."""

    role: str  # "container", "storage", "compute", "network" or "nothing"
    name: str
    where: Where
    attributes: Map  # its own attributes; containers around it add theirs when levels are placed
    mesh_x: int  # fan-out along X
    mesh_y: int  # fan-out along Y
    constraints: Map  # as written, under `constraints:`
    component: Map  # its other keys in the native dialect: class, subclass, required_actions, scales, enabled
    sparse: Map  # its treatment of zeros, as written under `sparse_optimizations:`

    @property
    def fanout(self) -> int:
        """Instances of the node within one instance of the node around it."""
        return self.mesh_x * self.mesh_y


@dataclass(frozen=True)
class BranchNode:
    """A list of nodes."""

    parallel: bool  # whether each data space passes only one of the nodes
    where: Where
    nodes: tuple[LeafNode | BranchNode, ...]  # the nodes, from the outside in unless they are parallel


def read_tree(architecture: Map, names: Names) -> BranchNode:
    """Reads the tree of an architecture, a section with a list under `nodes`; expressions can use the names."""
    reader = Reader(without_ignored(architecture), V04_ARCHITECTURE)
    reader.read("version")
    written = reader.read("nodes")
    named = {name: node for name, _, node in named_nodes(architecture)}
    nodes, _ = _read_nodes(written, {**names, **named}, "!Hierarchical")
    reader.finish(" in the architecture")
    tree = BranchNode(False, architecture.where, nodes)
    seen: dict[str, LeafNode] = {}
    for leaf in leaves(tree):
        if leaf.name in seen:
            raise leaf.where.error(f'the name "{leaf.name}" is already given at {seen[leaf.name].where}',
                                   "unique names")
        seen[leaf.name] = leaf
    return tree


def named_nodes(branch: Any, steps: Steps = ()) -> Iterator[tuple[str, Steps, dict[Any, Any]]]:
    """(name, keys and indices down to it, map as written) of every leaf of an architecture or a branch at `steps`."""
    nodes = branch.get("nodes") if isinstance(branch, dict) else None
    for i, node in enumerate(nodes if isinstance(nodes, list) else ()):
        here = (*steps, "nodes", i)
        if isinstance(node, dict):
            if "nodes" in node:
                yield from named_nodes(node, here)
            elif node.get("name"):
                yield str(node["name"]), here, node


def leaves(tree: BranchNode) -> Iterator[LeafNode]:
    """All leaves; leaves of a branch's own list precede leaves of the branches in it (the front end's order)."""
    yield from (node for node in tree.nodes if isinstance(node, LeafNode))
    for node in tree.nodes:
        if isinstance(node, BranchNode):
            yield from leaves(node)


def _read_nodes(nodes: Seq, names: Names, around: str) -> tuple[tuple[LeafNode | BranchNode, ...], Names]:
    """The nodes of a branch with the tag `around`, and `names` with the values that these nodes add.

    One SpecError lists all mistakes of the nodes.
    """
    read: list[LeafNode | BranchNode] = []
    mistakes: list[str] = []
    for value, where in nodes.placed():
        with noted(mistakes):
            tag = getattr(value, "tag", None)
            if tag not in BRANCHES + LEAVES:
                raise where.error(f"found the tag {tag}{nearest(tag, BRANCHES + LEAVES)}" if tag else
                                  f"found {kind_of(value)} without a tag", listed(BRANCHES + LEAVES))
            node = without_ignored(mapping(value, where))
            if tag in BRANCHES:
                reader = Reader(node, BRANCH)
                inner, within = _read_nodes(reader.read("nodes", Seq(where=where)), names, tag)
                reader.finish(f" of {tag}")
                branch = BranchNode(tag == "!Parallel", where, inner)
                # A container's attributes are known only in its own branch, nodes in all branches.
                names = {**names, **{leaf.name: within[leaf.name] for leaf in leaves(branch)}}
                read.append(branch)
                continue
            leaf = _leaf(tag, node, names)
            if around == "!Parallel" and leaf.role == "container":
                raise leaf.where.error(f'the container "{leaf.name}" stands directly under a !Parallel',
                                       "components, !Nothing and branches there")
            if around == "!Parallel" and leaf.fanout != 1:
                raise leaf.where.error(f'"{leaf.name}" has a fan-out of {leaf.fanout} directly under a !Parallel',
                                       "a fan-out before the !Parallel")
            summary = Map({"name": leaf.name, "attributes": leaf.attributes,
                           "spatial": {"meshX": leaf.mesh_x, "meshY": leaf.mesh_y}}, where=leaf.where)
            names = {**names, leaf.name: summary, **(leaf.attributes if leaf.role == "container" else {})}
            read.append(leaf)
    if mistakes:
        raise SpecError(*mistakes)
    return tuple(read), names


def _leaf(tag: str, node: Map, names: Names) -> LeafNode:
    reader = Reader(node, CONTAINER if tag == "!Container" else ENTRY)
    empty, component, role = Map(where=node.where), Map(where=node.where), "container"
    if tag == "!Container":
        name = reader.read("name")
        reader.refuse("networks", "Timeloop's front end drops it; a network is a !Component of its own")
    else:
        if tag == "!Nothing":
            role, name = "nothing", reader.read("name", "nothing")
            reader.read("class", "nothing")
        else:
            name, kind = reader.read("name"), reader.read("class")
            role = role_of(kind, LEAF_ROLES)
            if not role:
                accepted = [word for words in LEAF_ROLES.values() for word in words]
                raise reader.at("class").error(f'unknown class "{kind}"{nearest(kind, accepted)}',
                                               f"a class that contains {listed(accepted)}")
        own = reader.read("required_actions", Seq(where=node.where))
        actions = dict.fromkeys([*ACTIONS.get(role, ()), *(text(action, where) for action, where in own.placed())])
        items = {"class": node.get("class"), "subclass": reader.read("subclass"),
                 "required_actions": Seq(actions, where=own.where) if actions else None,
                 **{key: replace(reader, names=names).read(key) for key in ("area_scale", "energy_scale", "enabled")}}
        component = Map({key: value for key, value in items.items() if value is not None},
                        where=node.where, places=node.places)
    attributes = inherit(Map(STORAGE_DEFAULTS if role == "storage" else COMMON_DEFAULTS, where=reader.at("attributes")),
                         without_empty(resolve_map(reader.read("attributes", empty), names)))
    spatial = Reader(without_ignored(reader.read("spatial", empty)), SPATIAL,
                     names={**names, **attributes, "attributes": attributes})
    mesh_x, mesh_y = map(spatial.read, SPATIAL)
    spatial.finish(f' in the spatial part of "{name}"')
    constraints = reader.read("constraints", empty)
    sparse = without_empty(without_ignored(reader.read("sparse_optimizations", empty)))
    reader.finish(f' of "{name}"')
    return LeafNode(role, name, node.where, attributes, mesh_x, mesh_y, without_ignored(constraints), component, sparse)


@dataclass(frozen=True)
class NativeLevel:
    """One native level."""

    name: str  # name of the level
    leaf: LeafNode  # the node that it comes from
    # The role of the node; `FAN_OUT` for a level that only adds the node's fan-out, between this level and the next
    # level inwards. Interconnects are listed among the levels, too.
    role: str
    mesh_x: int  # instances along X on the whole chip
    mesh_y: int  # instances along Y on the whole chip
    inherited: Map  # attributes of all containers outside
    # The level whose instances are the units of power gating: the first one after the last node with `has_power_gating`
    # outside it, else the level itself.
    power_gated_at: str


def place_levels(tree: BranchNode) -> tuple[NativeLevel, ...]:
    """Lays the tree out as levels, from the outside in; disabled components and !Nothing are left out.

    Interconnects with a node of their own keep their place. A fan-out of any node becomes a level before it, with the
    mesh of the level around it: the fan-out lies between that level and the next one in.
    """
    levels: list[NativeLevel] = []
    mesh_x = mesh_y = 1
    inherited = Map(where=tree.where)
    gated_at, gate_next = "", False
    for leaf in _enabled(tree):
        if leaf.role == "container":
            inherited = inherit(inherited, leaf.attributes.having({"power_gated_at": None, **leaf.attributes}))
        for name, role, there in ((f"inter_{leaf.name}_spatial", FAN_OUT, leaf.fanout != 1),
                                  (leaf.name, leaf.role, leaf.role != "container")):
            if role != FAN_OUT:
                mesh_x, mesh_y = mesh_x * leaf.mesh_x, mesh_y * leaf.mesh_y
            if there:
                if role != "network":
                    gated_at = name if gate_next else gated_at
                    gate_next = bool(leaf.attributes.get("has_power_gating"))
                levels.append(NativeLevel(name, leaf, role, mesh_x, mesh_y, inherited, gated_at or name))
    if not levels or levels[-1].leaf.role != "compute":
        place = levels[-1].leaf.where if levels else tree.where
        raise place.error("the innermost node is not a compute component",
                          f"a last !Component with a class that contains {' or '.join(ROLES['compute'])}")
    return tuple(levels)


def without_units(branch: BranchNode, units: list[Map], memory: str = "", instances: int = 1) -> BranchNode:
    """The tree without compute units beside the multiply-accumulators, of which Timeloop has none; they join `units`.

    They are components of a compute class with the attribute `operations`, and become entries of the section `units`.
    Each takes its operands from the last memory before it, from the outside in; the first node of a branch, from the
    last memory before the branch. A !Parallel with one node left becomes a plain branch.
    """
    around, kept = (memory, instances), list[LeafNode | BranchNode]()
    for node in branch.nodes:
        if branch.parallel:
            memory, instances = around
        if isinstance(node, BranchNode):
            inner = without_units(node, units, memory, instances)
            kept += [inner] if inner.nodes or not node.nodes else []
            continue
        there, attributes = node.component.get("enabled", True) and node.role != "nothing", node.attributes
        if node.role != "compute" or "operations" not in attributes:
            kept.append(node)
            instances *= node.fanout if there else 1
            memory = node.name if there and node.role == "storage" else memory
        elif there:
            if not memory:
                raise node.where.error(f'the unit "{node.name}" stands outside all memories', "a memory before it")
            found = {key: attributes[key] for key in ("lanes", "operations", "skips_masked") if key in attributes}
            units.append(attributes.having({"name": node.name, "level": memory, "instances": instances * node.fanout,
                                            **found}))
    return BranchNode(branch.parallel and not len(kept) == 1 < len(branch.nodes), branch.where, tuple(kept))


def native_architecture(tree: BranchNode, levels: tuple[NativeLevel, ...], variables: Map,
                        leniency: Leniency = STRICT) -> Map:
    """The native architecture, equal to the one that the front end writes, with one component per level.

    The variables become attributes of the one subtree; an outermost container gives it its name and attributes.
    `leniency` decides about widths of memories under their native names, which Timeloop reads, and about widths that
    only a container states; a memory without a width is a SpecError.
    """
    first = next(_enabled(tree), None)
    name, attributes = "top_level", variables
    if first is not None and first.role == "container":
        name, attributes = f"{first.name}_top_level", inherit(variables, first.attributes)
        attributes.setdefault("power_gated_at", None)
    local = []
    for level in levels:
        leaf = level.leaf
        own = Map(DUMMY_ATTRIBUTES, where=leaf.where) if level.role == FAN_OUT else leaf.attributes
        given = inherit(level.inherited, own)
        for key in ("width", "datawidth") if leaf.role == "storage" else ():
            native = next((name for name in NATIVE_WIDTHS if name in given), None) if key == "width" else None
            if key in given and key not in own:
                leniency.meet([Oddity(own.where, f"inherited {key}",
                                      f'Timeloop\'s front end refuses "{level.name}", which has no {key} of its own',
                                      f"{key}: {given[key]} in its attributes too", "that of a container holds")])
            elif key not in given and native:
                leniency.meet([Oddity(given.at(native), native, f'"{level.name}" has {native} and no width', "width",
                                      "Timeloop's front end refuses it, and timeloop-model reads it as the width")])
            elif key not in given:
                raise own.where.error(f'the attribute "{key}" of the storage "{level.name}" is missing', f"{key}: BITS")
        found = given.having({**given, "meshX": level.mesh_x, "meshY": level.mesh_y,
                              "power_gated_at": given.get("power_gated_at", level.power_gated_at)})
        rest = {"class": "dummy_storage", "enabled": True} if level.role == FAN_OUT else leaf.component
        full_name = level.name if level.role == "network" else f"{level.name}[1..{level.mesh_x * level.mesh_y}]"
        local.append(leaf.component.having({"name": full_name, **rest, "attributes": found}))
    node = Map({"name": name, "attributes": attributes, "local": Seq(local, where=tree.where)}, where=tree.where)
    return Map({"version": V04, "subtree": Seq([node], where=tree.where)}, where=tree.where)


def _enabled(branch: BranchNode) -> Iterator[LeafNode]:
    """The leaves that become levels or fan-outs, in the order of the text (parallel ones one after the other)."""
    for node in branch.nodes:
        if isinstance(node, BranchNode):
            yield from _enabled(node)
        elif node.component.get("enabled", True) and node.role != "nothing":
            yield node
