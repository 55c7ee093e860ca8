"""Components of a native architecture as they are written, for what `StorageLevel` and `Arithmetic` do not hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.arch import bare
from fadiff_mapper.spec.native.attributes import REWRITTEN_HYPHENS
from fadiff_mapper.yaml.located import Where, number


@dataclass(frozen=True)
class WrittenComponent:
    """One component: its own attributes, those of the nodes around it, and all its keys."""

    name: str
    own: dict[str, Any]
    inherited: dict[str, Any]
    component: dict[str, Any]

    @property
    def attributes(self) -> dict[str, Any]:
        """What holds for the component: its own attributes before those around it."""
        return self.inherited | self.own


def written_components(arch: Architecture) -> dict[str, WrittenComponent]:
    """Every component by its name without range, old hyphenated spellings of attributes rewritten."""
    return {found.name: found for tree in arch.native.values() for found in _components(tree, {})}


def _components(tree: dict[str, Any], around: dict[str, Any]) -> Iterator[WrittenComponent]:
    for entry in (*tree.get("storage", ()), *([tree["arithmetic"]] if "arithmetic" in tree else [])):
        yield WrittenComponent(bare(str(entry.get("name", ""))), _spelt(entry), around, entry)
    around = around | _spelt(tree.get("attributes") or {})
    for entry in tree.get("local", ()):
        yield WrittenComponent(bare(str(entry["name"])), _spelt(entry.get("attributes") or {}), around, entry)
    for node in tree.get("subtree", ()):
        yield from _components(node, around)


def _spelt(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_") if key in REWRITTEN_HYPHENS else key: value for key, value in attributes.items()}


Attributes = dict[str, Any]


def written_attributes(arch: Architecture) -> dict[str, Attributes]:
    """The own attributes of every component by its name, old hyphenated spellings rewritten."""
    return {name: found.own for name, found in written_components(arch).items()}


def written_number(attributes: Attributes, key: str) -> float | None:
    """The attribute as a number, None where it is not written."""
    value = attributes.get(key)
    return None if value is None else number()(value, Where("architecture", path=key))
