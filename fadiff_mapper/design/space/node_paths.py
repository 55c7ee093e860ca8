"""Paths such as "Scratchpad.attributes.depth" into the tree of an architecture, and entries put in at such a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.spec.native.attributes import LEVEL_ATTRIBUTES
from fadiff_mapper.spec.v04.attributes import DECLARED
from fadiff_mapper.yaml.located import Map, Seq
from fadiff_mapper.yaml.place import Where

Steps: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the document's root to an entry."""

NODE_KEYS = ("class", "subclass", "enabled", "area_scale", "energy_scale")
"""Entries of a node besides its attributes and its mesh that a path may name."""
MESH = ("meshX", "meshY")
VARIABLES = "variables"
"""The section whose entries the expressions of an architecture read; a path may begin with it."""

UNWRITTEN = tuple(sorted({*LEVEL_ATTRIBUTES, *DECLARED} - {"instances", *MESH}))
"""Attributes that a path may name where the architecture does not write them: Timeloop knows these."""


def find_entry(document: Map, path: str, where: Where) -> Steps:
    """Finds the entry of an architecture that a path names.

    Args:
        document: A v0.4 document.
        path: NODE.attributes.NAME, NODE.spatial.meshX (or meshY), NODE.KEY with a key of `NODE_KEYS`, or
            variables.NAME. Nodes are found by name, at any depth of the tree.
        where: Place of the path, for messages.

    Returns:
        Keys and indices down to the entry; its last maps need not be written yet.

    Raises:
        SpecError: There is no such node or entry.
    """
    nodes = dict(_named_nodes(document["architecture"], ("architecture",)))
    owners = [name for name in nodes if path.startswith(f"{name}.")]
    if owners:
        name = max(owners, key=len)
        return nodes[name] + _below_node(_at(document, nodes[name]), name, path[len(name) + 1:], where)
    first, _, rest = path.partition(".")
    if first == VARIABLES and rest:
        return (VARIABLES, _known_key(rest, [str(key) for key in document.get(VARIABLES) or {}], "variable", where))
    known = [*nodes, *([VARIABLES] if document.get(VARIABLES) else [])]
    raise where.error(f'the architecture has no node "{first}"{nearest(first, known)}', listed(known))


def put(document: Map, steps: Steps, value: Any, where: Where) -> Map:
    """The document with one entry replaced; the given document stays as it is.

    Args:
        document: The document.
        steps: The entry, as from `find_entry`.
        value: Its new value.
        where: Place of the value, which later messages name.
    """
    result = _with_entry(document, steps, value, where)
    assert isinstance(result, Map)
    return result


def _with_entry(owner: Any, steps: Steps, value: Any, where: Where) -> Any:
    """A copy of a map or list with the entry below it replaced; maps that are not there are made."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(owner, list):
        items = Seq(owner, where=_where(owner, where), tag=getattr(owner, "tag", None),
                    places=getattr(owner, "places", ()))
        items[int(step)] = _with_entry(owner[int(step)], rest, value, where)
        return items
    written = owner if isinstance(owner, dict) else {}
    result = Map(written, where=_where(owner, where), tag=getattr(owner, "tag", None),
                 places=dict(getattr(owner, "places", {})))
    result[step] = _with_entry(written.get(step), rest, value, where)
    if not rest:
        result.places[step] = where
    return result


def _where(owner: Any, where: Where) -> Where:
    """The place of a map or list; that of the new value where it is not there."""
    return owner.where if isinstance(owner, Map | Seq) else where


def _named_nodes(branch: Any, steps: Steps) -> Iterator[tuple[str, Steps]]:
    """Name and steps of every node below an architecture or a branch, nested branches included."""
    nodes = branch.get("nodes") if isinstance(branch, dict) else None
    for i, node in enumerate(nodes if isinstance(nodes, list) else ()):
        here = (*steps, "nodes", i)
        if isinstance(node, dict):
            if "nodes" in node:
                yield from _named_nodes(node, here)
            elif node.get("name"):
                yield str(node["name"]), here


def _at(document: Any, steps: Steps) -> Any:
    """The entry at the end of the steps."""
    for step in steps:
        document = document[step]
    return document


def _below_node(node: Map, name: str, rest: str, where: Where) -> Steps:
    """The steps from a node to the entry that the rest of a path names."""
    section, _, key = rest.partition(".")
    if section == "spatial" and key:
        return ("spatial", _known_key(key, MESH, f'entry of the spatial part of "{name}"', where))
    if section == "attributes" and key:
        return ("attributes", *_attribute(node.get("attributes") or {}, key, name, where))
    if section in NODE_KEYS and not key:
        return (section,)
    accepted = ["attributes.NAME", *(f"spatial.{axis}" for axis in MESH), *NODE_KEYS]
    raise where.error(f'"{name}" has no entry "{rest}"{nearest(rest, accepted)}', listed(accepted))


def _attribute(attributes: dict[Any, Any], key: str, name: str, where: Where) -> Steps:
    """The steps to an attribute, or to an entry of an attribute that is a mapping."""
    outer, _, inner = key.partition(".")
    if key not in attributes and inner and isinstance(attributes.get(outer), dict):
        entries = [str(entry) for entry in attributes[outer]]
        return (outer, _known_key(inner, entries, f'entry of the attribute "{outer}" of "{name}"', where))
    written = [str(entry) for entry in attributes]
    return (_known_key(key, [*written, *(entry for entry in UNWRITTEN if entry not in written)],
                       f'attribute of "{name}"', where),)


def _known_key(key: str, known: Sequence[str], what: str, where: Where) -> str:
    """The key, if it is known. Raises SpecError with the nearest one."""
    if key not in known:
        raise where.error(f'there is no {what} named "{key}"{nearest(key, known)}', listed(known))
    return key
