"""What Accelergy is asked: the architecture as literal values.

Accelergy renders its input as a template and evaluates unquoted text in it as Python. So the architecture is not
handed over as the user wrote it but as JSON (which is YAML): every text stands in quotes, which Accelergy takes
literally, and holds only characters that could do no harm if they were evaluated after all.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fadiff_mapper.errors import SpecError
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.tables import RANGE

COMPONENT_KEYS = ("class", "subclass", "required_actions", "enabled", "area_scale", "energy_scale", "area_share",
                  "energy_share")
"""What Accelergy reads of a component besides its name and attributes."""

NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
NUMBERED = re.compile(r"\[\s*\d+\s*\.\.\s*\d+\s*\]", re.ASCII)
TEXT = re.compile(r"[\w .,:/+-]*", re.ASCII)


def why_not(arch: Architecture) -> str | None:
    """Why Accelergy cannot be asked about an architecture, or None."""
    if any("subtree" not in tree for tree in arch.native.values()):
        return "it does not read the old list format"
    return None


def request(arch: Architecture) -> str:
    """The architecture as Accelergy reads it. Raises SpecError where a text is more than a plain literal."""
    root = next(iter(arch.native.values()))
    tree = {"version": _literal(root.get("version", "0.4"), "version")}
    return json.dumps({"architecture": tree | _node(root, "")}, indent=1, allow_nan=False)


def _node(node: dict[str, Any], path: str) -> dict[str, Any]:
    """One node of the tree: what of it describes hardware."""
    found: dict[str, Any] = {}
    if "name" in node:
        found["name"] = _name(node["name"])
        path = f"{path}.{node['name']}".lstrip(".")
    if node.get("attributes"):
        found["attributes"] = _attributes(node["attributes"], path)
    if node.get("local"):
        found["local"] = [_component(component, path) for component in node["local"]]
    if node.get("subtree"):
        found["subtree"] = [_node(inner, path) for inner in node["subtree"]]
    return found


def _component(component: dict[str, Any], path: str) -> dict[str, Any]:
    place = f"{path}.{component['name']}"
    found = {"name": _name(component["name"])}
    found |= {key: _literal(component[key], f"{place}: {key}") for key in COMPONENT_KEYS if key in component}
    return found | {"attributes": _attributes(component.get("attributes") or {}, place)}


def _attributes(attributes: dict[str, Any], place: str) -> dict[str, Any]:
    """Scalars only: Accelergy knows no others, and Timeloop keeps some of its own there."""
    return {_key(key, place): _literal(value, f"{place}: attributes.{key}") for key, value in attributes.items()
            if value is None or isinstance(value, bool | int | float | str)}


def _literal(value: Any, place: str) -> Any:
    if isinstance(value, list):
        return [_literal(item, place) for item in value]
    if isinstance(value, str):
        if not TEXT.fullmatch(value):
            raise _refusal(place, value)
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise _refusal(place, value)


def _key(key: Any, place: str) -> str:
    if not isinstance(key, str) or not NAME.fullmatch(key):
        raise _refusal(f"{place}: attributes", key)
    return str(key)


def _name(name: Any) -> str:
    """A name, with a range of numbers or without."""
    text = str(name)
    if not NAME.fullmatch(RANGE.sub("", text)) or not all(map(NUMBERED.fullmatch, RANGE.findall(text))):
        raise _refusal("a name in the architecture", name)
    return text


def _refusal(place: str, value: Any) -> SpecError:
    return SpecError(f"{place}: found {str(value)[:60]!r}, which is not handed to Accelergy as it might run it; "
                     "accepted: numbers and text of letters, digits and _ . , : / + -, or "
                     "--energy with another source")
