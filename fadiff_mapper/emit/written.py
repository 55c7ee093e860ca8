"""The attributes of components as the native architecture writes them, for what is only printed, never computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.arch import bare
from fadiff_mapper.spec.native.attributes import REWRITTEN_HYPHENS
from fadiff_mapper.tree import Where, number

Attributes = dict[str, Any]


def written_attributes(arch: Architecture) -> dict[str, Attributes]:
    """Attributes of every component by its name, old hyphenated spellings rewritten."""
    return {name: {_spelling(key): value for key, value in attributes.items()}
            for tree in arch.native.values() for name, attributes in _components(tree)}


def written_number(attributes: Attributes, key: str) -> float | None:
    """The attribute as a number, None where it is not written."""
    value = attributes.get(key)
    return None if value is None else number()(value, Where("architecture", path=key))


def _components(tree: dict[str, Any]) -> Iterator[tuple[str, Attributes]]:
    for entry in (*tree.get("storage", ()), *([tree["arithmetic"]] if "arithmetic" in tree else [])):
        yield bare(str(entry.get("name", ""))), entry
    for entry in tree.get("local", ()):
        yield bare(str(entry["name"])), entry.get("attributes") or {}
    for node in tree.get("subtree", ()):
        yield from _components(node)


def _spelling(key: str) -> str:
    return key.replace("-", "_") if key in REWRITTEN_HYPHENS else key
