"""Components of a native architecture as they are written, for what `StorageLevel` and `Arithmetic` do not hold.

Areas, technology, cycle time and other attributes change no count of the model; they are estimated from or printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.arch import bare
from fadiff_mapper.spec.native.attributes import underscored
from fadiff_mapper.yaml.located import Where, number


@dataclass(frozen=True)
class WrittenComponent:
    """One component as written.

    Attributes:
        name: Name without its range.
        own: Its own attributes, old hyphenated spellings rewritten.
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
    for entry in (*(tree.get("storage") or ()), *([tree["arithmetic"]] if "arithmetic" in tree else [])):
        yield WrittenComponent(bare(str(entry.get("name", ""))), _spelt(entry), around, entry)
    around = around | _spelt(tree.get("attributes") or {})
    for entry in tree.get("local") or ():
        yield WrittenComponent(bare(str(entry["name"])), _spelt(entry.get("attributes") or {}), around, entry)
    for node in tree.get("subtree") or ():
        yield from _components(node, around)


def _spelt(attributes: dict[str, Any]) -> dict[str, Any]:
    return {underscored(key): value for key, value in attributes.items()}


Attributes = dict[str, Any]


def written_attributes(arch: Architecture) -> dict[str, Attributes]:
    """The own attributes of every component by its name without range, old hyphenated spellings rewritten."""
    return {name: component.own for name, component in written_components(arch).items()}


def written_number(attributes: Attributes, key: str) -> float | None:
    """An attribute as a number; None where it is not written. Raises SpecError where it is no number."""
    value = attributes.get(key)
    return None if value is None else number()(value, Where("architecture", path=key))
