"""The input of Accelergy: primitive components alone, described by numbers, truth values and plain words.

Accelergy renders its input as a template and evaluates text in it as Python, some of it twice and in quotes, too. What
is handed over could not be run if it were: everything else has been worked out before (`accelergy_components`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.energy.accelergy_components import REQUIRED, DescribedHardware, PartAction, PrimitiveComponent
from fadiff_mapper.spec.arch import Architecture

WORD = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
"""A name of a class, an action, an attribute or an argument."""
WORDS = re.compile(rf"(?:{WORD.pattern}(?: {WORD.pattern})*)?", re.ASCII)
"""A text: plain words with single spaces between them, or nothing."""
LONGEST = 100
"""Characters of a name or text, a plain safety limit."""
MOST_VALUES = 10_000
"""Values of a list, a plain safety limit."""
ACCEPTED = f"numbers, truth values, and plain words of letters, digits and _ . - ({LONGEST} characters at most)"
SYSTEM = "asked"
"""The name of the architecture in which Accelergy finds the components."""


def why_not(arch: Architecture) -> str | None:
    """The reason why Accelergy cannot be asked about an architecture; None where it can, as Timeloop would ask it."""
    if any("subtree" in tree or "local" in tree for tree in arch.native.values()):
        return None
    return "it does not read the old list format"


def request(hardware: DescribedHardware) -> str:
    """Writes the input of Accelergy.

    A component of the architecture that is primitive is asked about as it is, under its number. For a part of a
    compound component there is a component whose class has nothing else: only so can an action have arguments.

    Args:
        hardware: The components.

    Returns:
        The text of a YAML file. Energies and areas come back under `asked_name`, `part_name` and `action_name`.

    Raises:
        SpecError: A value is more than a number, a truth value or plain words; it is named.
    """
    version = plain_value(hardware.version, "version")
    local = [{"name": asked_name(number), "class": _name(one.kind, one.name),
              "area_scale": plain_value(one.area_scale, one.name),
              "energy_scale": plain_value(one.energy_scale, one.name),
              "required_actions": [_name(action, one.name) for action in one.actions],
              "attributes": _plain({key: value for key, value in one.attributes.items() if key not in _untold(one)},
                                  f'{one.name}: class "{one.kind}"')}
             for number, one in enumerate(hardware.primitives)]
    classes: dict[str, dict[str, Any]] = {}
    actions: dict[str, dict[str, dict[str, Any]]] = {}
    for compound in hardware.compounds:
        place = f'{compound.name}: class "{compound.kind}"'
        for part in compound.parts:
            name = part_name(part)
            if name not in classes:
                attributes = _plain(part.attributes, f'{place}: {part.name}: class "{part.kind}"')
                storage = {"name": "part", "class": _name(part.kind, place), "area_scale": 1, "energy_scale": 1,
                           "attributes": attributes}
                classes[name], actions[name] = {"name": name, "attributes": {}, "subcomponents": [storage]}, {}
                local.append({"name": name, "class": name, "attributes": attributes})
        for step in (step for action in compound.actions for step in action.steps):
            known, name, at = actions[part_name(step.part)], action_name(step), f"{place}: {step.name}: {step.action}"
            if name not in known:
                called = {"name": _name(step.action, at), "arguments": _plain(step.arguments, at)}
                known[name] = {"name": name, "subcomponents": [{"name": "part", "actions": [called]}]}
    # From version 0.4 on the tree must have these as well. No component takes them from there: each has its own.
    around = {key: 1 for key in REQUIRED if all(key in one["attributes"] for one in local)}
    tree = {"version": version, "subtree": [{"name": SYSTEM, "attributes": around, "local": local}]}
    sections: dict[str, Any] = {"architecture": tree}
    if classes:
        sections["compound_components"] = {"version": version, "classes": [
            one | {"actions": list(actions[name].values())} for name, one in classes.items()]}
    return json.dumps(sections, indent=1) + "\n"


def left_out(hardware: DescribedHardware) -> list[str]:
    """Attributes of containers that no component is asked about with, as they are no plain values; in order."""
    return sorted(hardware.unknown.union(*map(_untold, hardware.primitives)))


def asked_name(number: int) -> str:
    """The name under which a primitive component is asked about, by its number among all of them."""
    return f"component_{number}"


def part_name(part: PrimitiveComponent) -> str:
    """The name under which a part of a compound component is asked about: parts that are alike have the same."""
    return "part_" + _digest(part.kind, part.attributes)


def action_name(step: PartAction) -> str:
    """The name under which an action of a part is asked about, with its arguments."""
    return "action_" + _digest(step.action, step.arguments)


def plain_value(value: Any, place: str) -> Any:
    """The same value: nothing, a number, a truth value, plain words or a list of these. Raises SpecError."""
    if isinstance(value, str):
        if not WORDS.fullmatch(value) or len(value) > LONGEST:
            raise refusal(place, value)
        return str(value)
    if isinstance(value, list) and len(value) <= MOST_VALUES and not any(isinstance(item, list) for item in value):
        return [plain_value(item, place) for item in value]
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise refusal(place, value)


def refusal(place: str, value: Any) -> SpecError:
    """The error for a value that is not handed over.

    Args:
        place: Component and class that it belongs to.
        value: The value.
    """
    return SpecError(f"{place}: found {str(value)[:60]!r}, which is not handed to Accelergy as it might run it; "
                     f"accepted: {ACCEPTED}")


def _untold(one: PrimitiveComponent) -> set[str]:
    """The attributes that a component has from the containers around it alone and that are no plain values."""
    return {key for key in one.inherited if not _is_plain(one.attributes[key])}


def _is_plain(value: Any) -> bool:
    try:
        plain_value(value, "")
    except SpecError:
        return False
    return True


def _plain(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Values by name. Raises SpecError."""
    return {_name(key, place): plain_value(value, f"{place}: {key}") for key, value in values.items()}


def _name(name: str, place: str) -> str:
    """A name of one plain word. Raises SpecError."""
    if not WORD.fullmatch(name) or len(name) > LONGEST:
        raise refusal(place, name)
    return str(name)


def _digest(kind: str, values: Mapping[str, Any]) -> str:
    """A name for a class or action with these values; their order counts, as it may for a plug-in."""
    text = json.dumps([kind, list(values.items())], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]
