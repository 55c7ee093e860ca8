"""The input of Accelergy: the architecture as literal values, and the compound components of the user's input.

Accelergy renders its input as a template and evaluates unquoted text in it as Python. So the architecture is not
handed over as the user wrote it, but reduced to names, numbers, and words in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from fadiff_mapper.energy.arithmetic_text import PLAIN
from fadiff_mapper.energy.compound_components import definitions, refusal
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.tables import RANGE
from fadiff_mapper.yaml.expressions import Literal

COMPONENT_KEYS = ("class", "subclass", "required_actions", "enabled", "area_scale", "energy_scale", "area_share",
                  "energy_share")
"""The keys of a component that Accelergy reads, besides its name and attributes."""

NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
"""Names of components and attributes."""
NUMBERED = re.compile(r"\[\s*\d+\s*\.\.\s*\d+\s*\]", re.ASCII)
"""A range of numbered instances, such as "[0..3]"."""
ACCEPTED = "numbers and text of letters, digits and _ . , : / + -"


def why_not(arch: Architecture) -> str | None:
    """The reason why Accelergy cannot be asked about an architecture; None where it can, as Timeloop would ask it."""
    if any("subtree" in tree or "local" in tree for tree in arch.native.values()):
        return None
    return "it does not read the old list format"


def request(arch: Architecture, literal: Mapping[str, Any]) -> str:
    """Writes the input of Accelergy.

    Args:
        arch: The architecture, written as a tree.
        literal: Sections of the user's input, of which the definitions are handed over (`compound_components`).

    Returns:
        The text of a YAML file.

    Raises:
        SpecError: A text of the architecture is more than a literal, or a definition more than arithmetic.
    """
    root = next(iter(arch.native.values()))
    tree = {"version": _literal(root.get("version", "0.4"), "version")} | _node(root, "")
    sections = definitions(literal, frozenset(_attribute_names(tree)))
    return yaml.dump({"architecture": tree} | sections, Dumper=_Unquoted, sort_keys=False, width=10 ** 6)


class _Unquoted(yaml.SafeDumper):
    """Puts in quotes only text that was quoted before: to Accelergy, text in quotes is never an expression."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Unquoted.add_representer(Literal, lambda dumper, text: dumper.represent_scalar(
    "tag:yaml.org,2002:str", str(text), style='"'))


def _node(node: dict[str, Any], path: str) -> dict[str, Any]:
    """One node of the tree, without the keys that do not describe hardware; `path` leads to it, for messages."""
    hardware: dict[str, Any] = {}
    if "name" in node:
        hardware["name"] = _name(node["name"])
        path = f"{path}.{node['name']}".lstrip(".")
    if node.get("attributes"):
        hardware["attributes"] = _attributes(node["attributes"], path)
    if node.get("local"):
        hardware["local"] = [_component(component, path) for component in node["local"]]
    if node.get("subtree"):
        hardware["subtree"] = [_node(inner, path) for inner in node["subtree"]]
    return hardware


def _component(component: dict[str, Any], path: str) -> dict[str, Any]:
    """One component with the keys that Accelergy reads."""
    place = f"{path}.{component['name']}"
    literal = {"name": _name(component["name"])}
    literal |= {key: _literal(component[key], f"{place}: {key}") for key in COMPONENT_KEYS if key in component}
    return literal | {"attributes": _attributes(component.get("attributes") or {}, place)}


def _attributes(attributes: object, place: str) -> dict[str, Any]:
    """Scalars only: Accelergy knows no others, and Timeloop keeps some of its own there."""
    if not isinstance(attributes, dict):  # of a node whose attributes Timeloop does not read
        return {}
    return {_key(key, place): _literal(value, f"{place}: attributes.{key}") for key, value in attributes.items()
            if value is None or isinstance(value, bool | int | float | str)}


def _attribute_names(node: dict[str, Any]) -> Iterator[str]:
    """Names of all attributes in a tree."""
    yield from node.get("attributes") or {}
    for inner in (*node.get("local", ()), *node.get("subtree", ())):
        yield from _attribute_names(inner)


def _literal(value: Any, place: str) -> Any:
    """The same value, refused where Accelergy might run it. Raises SpecError."""
    if isinstance(value, list):
        return [_literal(item, place) for item in value]
    if isinstance(value, str):
        if not PLAIN.fullmatch(value) or "__" in value:
            raise refusal(place, value, ACCEPTED)
        return value if value.isidentifier() else Literal(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise refusal(place, value, ACCEPTED)


def _key(key: Any, place: str) -> str:
    """The name of an attribute. Raises SpecError."""
    if not isinstance(key, str) or not NAME.fullmatch(key):
        raise refusal(f"{place}: attributes", key, ACCEPTED)
    return str(key)


def _name(name: Any) -> str:
    """The name of a component, with a range of numbers or without. Raises SpecError."""
    text = str(name)
    if not NAME.fullmatch(RANGE.sub("", text)) or not all(map(NUMBERED.fullmatch, RANGE.findall(text))):
        raise refusal("a name in the architecture", name, ACCEPTED)
    return text
