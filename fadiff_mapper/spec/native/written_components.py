"""Components of a native architecture as they are written, for what `StorageLevel` and `Arithmetic` do not hold.

Areas, technology, cycle time and other attributes change no count of the model; they are estimated from or printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.arch import bare
from fadiff_mapper.spec.native.hyphens import underscored
from fadiff_mapper.yaml.located import number
from fadiff_mapper.yaml.place import Where


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
