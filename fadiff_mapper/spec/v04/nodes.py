"""The tree under `architecture: nodes:`, read into frozen nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.spec.v04.attributes import (
    COMMON_DEFAULTS,
    DECLARED,
    STORAGE_DEFAULTS,
    Names,
    expression_of,
    read_attributes,
    version,
    without_empty,
    without_ignored,
)
from fadiff_mapper.yaml.located import Map, Reader, Seq, boolean, integer, kind_of, mapping, number, sequence, text
from fadiff_mapper.yaml.place import Where

BRANCHES = ("!Hierarchical", "!Parallel", "!Pipelined")
LEAVES = ("!Component", "!Container", "!Nothing")
ROLES = {
    "storage": ("DRAM", "SRAM", "regfile", "smartbuffer", "storage"),
    "compute": ("mac", "intmac", "fpmac", "compute"),
    "network": ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast"),
    "nothing": ("nothing",),
}
"""A class that contains one of these words has that role; the first match counts (the front end's rule)."""
# Actions that the front end asks Accelergy to price, besides those that a component requires itself.
STORAGE_ACTIONS = ("read", "write", "update", "leak")
COMPUTE_ACTIONS = ("compute",)


@dataclass(frozen=True)
class LeafNode:
    """A container or component.

    Attributes:
        role: "container", "storage", "compute", "network" or "nothing".
        name: Its name.
        where: Its place.
        attributes: Its own attributes; containers around it add theirs when levels are placed.
        mesh_x: Fan-out along X.
        mesh_y: Fan-out along Y.
        constraints: As written, under `constraints:`.
        component: Its other keys in the native dialect: class, subclass, required_actions, scales, enabled.
        sparse: Its treatment of zeros, as written under `sparse_optimizations:`.
    """

    role: str
    name: str
    where: Where
    attributes: Map
    mesh_x: int
    mesh_y: int
    constraints: Map
    component: Map
    sparse: Map

    @property
    def fanout(self) -> int:
        """Instances of the node within one instance of the node around it."""
        return self.mesh_x * self.mesh_y

    @property
    def enabled(self) -> bool:
        """Whether the node exists at all: users switch components off with `enabled: False`."""
        return bool(self.component.get("enabled", True))


@dataclass(frozen=True)
class BranchNode:
    """A list of nodes.

    Attributes:
        tag: One of `BRANCHES`.
        where: Its place.
        nodes: The nodes, from the outside in unless they are parallel.
    """

    tag: str
    where: Where
    nodes: tuple[LeafNode | BranchNode, ...]

    @property
    def parallel(self) -> bool:
        """Whether each data space passes one of the nodes alone."""
        return self.tag == "!Parallel"


def read_tree(architecture: Map, names: Names) -> BranchNode:
    """Reads the tree of an architecture.

    Args:
        architecture: The section, with a list under `nodes`.
        names: Values that expressions can use: variables, and the document.

    Raises:
        SpecError: Unknown tags, keys and classes, names given twice, missing attributes, and parts that are not
            modelled: containers or fan-outs directly under a !Parallel.
    """
    reader = Reader(without_ignored(architecture))
    reader.take("version", version, None)
    nodes, _ = _read_nodes(reader.take("nodes", sequence), names, "!Hierarchical")
    reader.finish(" in the architecture")
    tree = BranchNode("!Hierarchical", architecture.where, nodes)
    _check_names(tree)
    return tree


def leaves(tree: BranchNode) -> Iterator[LeafNode]:
    """All leaves, those of a branch's own list before those of the branches in it (the front end's order)."""
    for node in tree.nodes:
        if isinstance(node, LeafNode):
            yield node
    for node in tree.nodes:
        if isinstance(node, BranchNode):
            yield from leaves(node)


def refuse_hyphens(tree: BranchNode) -> None:
    """Raises SpecError for a hyphenated spelling of a memory's attribute in `DECLARED`, as the front end does."""
    for leaf in leaves(tree):
        for key in leaf.attributes if leaf.role == "storage" else ():
            spelling = str(key).replace("-", "_")
            if spelling != key and spelling in DECLARED:
                raise leaf.attributes.at(key).error(
                    f'the attribute "{key}" is refused by Timeloop (did you mean "{spelling}"?)', f'"{spelling}"')


def _read_nodes(nodes: Seq, names: Names, around: str) -> tuple[tuple[LeafNode | BranchNode, ...], Names]:
    """The nodes of one list, and the names with what the nodes met in it add. SpecError lists all their mistakes."""
    read: list[LeafNode | BranchNode] = []
    mistakes: list[str] = []
    for i, value in enumerate(nodes):
        try:
            node, names = _read_node(value, nodes.at(i), names, around)
            read.append(node)
        except SpecError as error:
            mistakes += error.problems
    if mistakes:
        raise SpecError(*mistakes)
    return tuple(read), names


def _read_node(value: Any, where: Where, names: Names, around: str) -> tuple[LeafNode | BranchNode, Names]:
    """One node, and the names with those that it adds; `around` is the tag of the branch that it stands in."""
    tag = getattr(value, "tag", None)
    if tag in BRANCHES:
        reader = Reader(without_ignored(mapping(value, where)))
        inner, names = _read_nodes(reader.take("nodes", sequence, Seq(where=where)), names, tag)
        reader.finish(f" of {tag}")
        return BranchNode(tag, where, inner), names
    if tag not in LEAVES:
        raise where.error(f"found the tag {tag}{nearest(tag, BRANCHES + LEAVES)}" if tag else
                          f"found {kind_of(value)} without a tag", listed(BRANCHES + LEAVES))
    leaf = _READERS[tag](without_ignored(mapping(value, where)), names)
    if around == "!Parallel":
        _refuse_in_parallel(leaf)
    handed_in = leaf.attributes if leaf.role == "container" else {}
    return leaf, {**names, leaf.name: _summary(leaf), **handed_in}


def _container(node: Map, names: Names) -> LeafNode:
    reader = Reader(node)
    name = reader.take("name", text)
    reader.refuse("networks", "Timeloop's front end drops it; a network is a !Component of its own")
    return _leaf(reader, "container", name, Map(where=node.where), names)


def _component(node: Map, names: Names) -> LeafNode:
    reader = Reader(node)
    name = reader.take("name", text)
    role = _role(reader.take("class", text), reader.at("class"))
    return _leaf(reader, role, name, _component_keys(reader, role, names), names)


def _nothing(node: Map, names: Names) -> LeafNode:
    reader = Reader(node)
    reader.take("class", text, "nothing")
    name = reader.take("name", text, "nothing")
    return _leaf(reader, "nothing", name, _component_keys(reader, "nothing", names), names)


_READERS: dict[str, Callable[[Map, Names], LeafNode]] = {
    "!Container": _container, "!Component": _component, "!Nothing": _nothing}


def _role(kind: str, where: Where) -> str:
    """The role of a class. Raises SpecError for unknown classes."""
    for role, words in ROLES.items():
        if any(word in kind for word in words):
            return role
    accepted = [word for words in ROLES.values() for word in words]
    raise where.error(f'unknown class "{kind}"{nearest(kind, accepted)}', f"a class that contains {listed(accepted)}")


def _component_keys(reader: Reader, role: str, names: Names) -> Map:
    """The keys that the native dialect takes over, with the actions that the front end wants priced."""
    node = reader.node
    wanted = {"storage": STORAGE_ACTIONS, "compute": COMPUTE_ACTIONS}.get(role, ())
    own = reader.take("required_actions", sequence, Seq(where=node.where))
    actions = dict.fromkeys([*wanted, *(text(action, own.at(i)) for i, action in enumerate(own))])
    items: dict[str, Any] = {
        "class": node.get("class"),
        "subclass": reader.take("subclass", text, None),
        "required_actions": Seq(actions, where=own.where) if actions else None,
        "area_scale": reader.take("area_scale", expression_of(number(0), names), None),
        "energy_scale": reader.take("energy_scale", expression_of(number(0), names), None),
        "enabled": reader.take("enabled", expression_of(boolean, names), True)}
    return Map({key: value for key, value in items.items() if value is not None}, where=node.where, places=node.places)


def _leaf(reader: Reader, role: str, name: str, component: Map, names: Names) -> LeafNode:
    """The part that containers and components share."""
    node = reader.node
    empty = Map(where=node.where)
    defaults = STORAGE_DEFAULTS if role == "storage" else COMMON_DEFAULTS
    attributes = read_attributes(reader.take("attributes", mapping, empty), reader.at("attributes"), names, defaults)
    spatial = Reader(without_ignored(reader.take("spatial", mapping, empty)))
    scope = {**names, **attributes}
    mesh_x, mesh_y = (spatial.take(axis, expression_of(integer(1), scope), 1) for axis in ("meshX", "meshY"))
    spatial.finish(f' in the spatial part of "{name}"')
    constraints = reader.take("constraints", mapping, empty)
    sparse = without_empty(without_ignored(reader.take("sparse_optimizations", mapping, empty)))
    reader.finish(f' of "{name}"')
    return LeafNode(role, name, node.where, attributes, mesh_x, mesh_y, without_ignored(constraints), component, sparse)


def _summary(leaf: LeafNode) -> Map:
    """The part of a node that later expressions can read, as in `Buffer.attributes["depth"]`."""
    return Map({"name": leaf.name, "attributes": leaf.attributes,
                "spatial": {"meshX": leaf.mesh_x, "meshY": leaf.mesh_y}}, where=leaf.where)


def _refuse_in_parallel(leaf: LeafNode) -> None:
    if leaf.role == "container":
        raise leaf.where.error(f'the container "{leaf.name}" stands directly under a !Parallel',
                               "components, !Nothing and branches there")
    if leaf.fanout != 1:
        raise leaf.where.error(f'"{leaf.name}" has a fan-out of {leaf.fanout} directly under a !Parallel',
                               "a fan-out before the !Parallel")


def _check_names(tree: BranchNode) -> None:
    """Raises SpecError where two leaves have the same name."""
    seen: dict[str, LeafNode] = {}
    for leaf in leaves(tree):
        if leaf.name in seen:
            raise leaf.where.error(f'the name "{leaf.name}" is already given at {seen[leaf.name].where}',
                                   "unique names")
        seen[leaf.name] = leaf
