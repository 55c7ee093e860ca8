"""The attributes of components as the native architecture writes them, for what is only printed, never computed."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.written_components import written_components
from fadiff_mapper.yaml.located import Where, number

Attributes = dict[str, Any]


def written_attributes(arch: Architecture) -> dict[str, Attributes]:
    """The own attributes of every component by its name, old hyphenated spellings rewritten."""
    return {name: found.own for name, found in written_components(arch).items()}


def written_number(attributes: Attributes, key: str) -> float | None:
    """The attribute as a number, None where it is not written."""
    value = attributes.get(key)
    return None if value is None else number()(value, Where("architecture", path=key))
