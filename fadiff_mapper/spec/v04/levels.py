"""The tree as the native dialect's flat list: one `local` component per level, fan-outs as dummy levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fadiff_mapper.spec.v04.attributes import DUMMY_ATTRIBUTES, VERSION, inherit
from fadiff_mapper.spec.v04.nodes import BranchNode, LeafNode
from fadiff_mapper.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.yaml.located import Map, Seq

NATIVE_WIDTHS = ("memory_width", "data_storage_width")
"""Other names of the attribute "width" in the native dialect."""


@dataclass(frozen=True)
class NativeLevel:
    """One native level.

    Attributes:
        name: Name of the level.
        leaf: The node that it comes from; that of an interconnect of its own stands among the levels, but is none.
        dummy: Whether it stands only for the fan-out of `leaf`, which lies between it and the next level inwards.
        mesh_x: Instances along X on the whole chip.
        mesh_y: Instances along Y on the whole chip.
        inherited: Attributes of all containers outside.
        power_gated_at: The level whose instances are the units of power gating: the first one after the last node
            with `has_power_gating` outside it, else the level itself.
    """

    name: str
    leaf: LeafNode
    dummy: bool
    mesh_x: int
    mesh_y: int
    inherited: Map
    power_gated_at: str

    @property
    def is_network(self) -> bool:
        """Whether it is an interconnect of its own."""
        return self.leaf.role == "network" and not self.dummy


def fanout_level(leaf: LeafNode) -> str:
    """Name of the dummy level that the front end puts before the fan-out of a node."""
    return f"inter_{leaf.name}_spatial"


def place_levels(tree: BranchNode) -> tuple[NativeLevel, ...]:
    """Lays the tree out as levels, from the outside in; disabled components and !Nothing are left out.

    Interconnects of their own stand where they are written, see `NativeLevel.is_network`.

    A fan-out of any node becomes a dummy level before it. Dummy levels have the mesh of the level around them: the
    fan-out lies between them and the next level in.

    Raises:
        SpecError: The innermost level is not a compute component.
    """
    levels: list[NativeLevel] = []
    mesh_x = mesh_y = 1
    inherited = Map(where=tree.where)
    gated_at, gate_next = "", False
    for leaf in _enabled(tree):
        if leaf.role == "container":
            inherited = inherit(inherited, Map({"power_gated_at": None, **leaf.attributes}, where=leaf.where,
                                               places=leaf.attributes.places))
        names = [(fanout_level(leaf), True)] * (leaf.fanout != 1) + [(leaf.name, False)] * (leaf.role != "container")
        for name, dummy in names:
            if not dummy:
                mesh_x, mesh_y = mesh_x * leaf.mesh_x, mesh_y * leaf.mesh_y
            if dummy or leaf.role != "network":
                gated_at = name if gate_next else gated_at
                gate_next = bool(leaf.attributes.get("has_power_gating"))
            levels.append(NativeLevel(name, leaf, dummy, mesh_x, mesh_y, inherited, gated_at or name))
        if leaf.role == "container":
            mesh_x, mesh_y = mesh_x * leaf.mesh_x, mesh_y * leaf.mesh_y
    if not levels or levels[-1].leaf.role != "compute":
        place = levels[-1].leaf.where if levels else tree.where
        raise place.error("the innermost node is not a compute component",
                          "a last !Component with a class that contains mac or compute")
    return tuple(levels)


def native_architecture(tree: BranchNode, levels: tuple[NativeLevel, ...], variables: Map,
                        leniency: Leniency = STRICT) -> Map:
    """The native architecture, equal to the one that the front end writes.

    Args:
        tree: The tree.
        levels: Its levels, see `place_levels`.
        variables: The variables, which become attributes of the one subtree. An outermost container lends it its
            name and adds its attributes.
        leniency: Decides about the width of a memory in the native dialect's words, which Timeloop understands, and
            about widths that a container alone gives.

    Returns:
        `{version, subtree: [{name, attributes, local}]}` with one component per level.

    Raises:
        SpecError: A memory has no width or datawidth.
    """
    first = next(_enabled(tree), None)
    outer = first if first is not None and first.role == "container" else None
    attributes = inherit(variables, outer.attributes) if outer else variables
    if outer:
        attributes.setdefault("power_gated_at", None)
    node = Map({"name": f"{outer.name}_top_level" if outer else "top_level", "attributes": attributes,
                "local": Seq([_component(level, leniency) for level in levels], where=tree.where)}, where=tree.where)
    return Map({"version": VERSION, "subtree": Seq([node], where=tree.where)}, where=tree.where)


def _component(level: NativeLevel, leniency: Leniency) -> Map:
    """The entry of a level in the list `local`."""
    leaf = level.leaf
    own = Map(DUMMY_ATTRIBUTES, where=leaf.where) if level.dummy else leaf.attributes
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
    mesh = {"meshX": level.mesh_x, "meshY": level.mesh_y}
    attributes = Map({**given, **mesh, "power_gated_at": given.get("power_gated_at", level.power_gated_at)},
                     where=own.where, places=given.places)
    rest = {"class": "dummy_storage", "enabled": True} if level.dummy else leaf.component
    name = level.name if level.is_network else f"{level.name}[1..{level.mesh_x * level.mesh_y}]"
    return Map({"name": name, **rest, "attributes": attributes}, where=leaf.where, places=leaf.component.places)


def _enabled(branch: BranchNode) -> Iterator[LeafNode]:
    """The leaves that become levels or fan-outs, in the order of the text (parallel ones one after the other)."""
    for node in branch.nodes:
        if isinstance(node, BranchNode):
            yield from _enabled(node)
        elif node.enabled and node.role != "nothing":
            yield node
