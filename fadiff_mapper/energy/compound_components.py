"""The compound components and variables that are handed to Accelergy, which evaluates their text.

Variables are evaluated here and handed over as values. Expressions of compound components cannot be: Accelergy binds
their arguments later. Each is rebuilt from a syntax tree of arithmetic (`arithmetic_text`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.energy.arithmetic_text import handed_over
from fadiff_mapper.yaml.bounded_arithmetic import ExpressionError
from fadiff_mapper.yaml.expressions import Literal, resolve

ACCEPTED = "names of attributes, numbers and arithmetic"


def definitions(literal: Mapping[str, Any], declared: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The sections of an input that define something for Accelergy, with every text checked and rebuilt.

    Args:
        literal: The sections of the input by name.
        declared: Names of attributes of the architecture, which expressions may use besides the names that the
            sections themselves declare.

    Returns:
        `variables` as values and `compound_components` with rebuilt text, where the input has them.

    Raises:
        SpecError: Text that is neither arithmetic nor plain words; its place is named.
    """
    sections: dict[str, Any] = {}
    variables = _variables(literal.get("variables") or {})
    components = literal.get("compound_components")
    if components:
        names = declared | set(variables) | set(_keys(components))
        sections["compound_components"] = _rebuilt(components, "compound_components", names)
    if variables:
        sections["variables"] = variables
    return sections


def refusal(place: str, value: Any, accepted: str) -> SpecError:
    """The error for a value that is not handed over.

    Args:
        place: Path of the value in the input.
        value: The value.
        accepted: The accepted alternatives.
    """
    return SpecError(f"{place}: found {str(value)[:60]!r}, which is not handed to Accelergy as it might run it; "
                     f"accepted: {accepted}")


def _variables(variables: Any) -> dict[str, Any]:
    """The values of all variables; each may use those before it."""
    if not isinstance(variables, Mapping):
        raise refusal("variables", variables, "a mapping of names to values")
    values: dict[str, Any] = {}
    for name, text in variables.items():
        place = f"variables.{name}"
        if _checked(str(name), place) != name or isinstance(text, dict | list):
            raise refusal(place, text if isinstance(text, dict | list) else name, ACCEPTED)
        try:
            value = resolve(text, values)
        except ExpressionError:
            raise refusal(place, text, ACCEPTED) from None
        values[name] = Literal(str(_checked(Literal(value), place))) if isinstance(value, str) else value
    return values


def _rebuilt(value: Any, place: str, names: frozenset[str]) -> Any:
    """A tree with every key checked and every text rebuilt."""
    if isinstance(value, Mapping):
        tree = {}
        for key, item in value.items():
            path = f"{place}.{key}"
            if isinstance(key, str) and str(_checked(key, path, names)) != key:
                raise refusal(path, key, ACCEPTED)
            tree[key] = _rebuilt(item, path, names)
        return tree
    if isinstance(value, list):
        return [_rebuilt(item, f"{place}[{index}]", names) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _checked(value, place, names)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise refusal(place, value, ACCEPTED)


def _checked(text: str, place: str, names: frozenset[str] | None = None) -> str | int | float:
    result = handed_over(text, lambda name: names is None or name in names)
    if result is None:
        raise refusal(place, text, ACCEPTED)
    return result


def _keys(value: Any) -> Iterator[str]:
    """All keys of a tree, and the names that a list of attributes declares."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _keys(item)
            if key in ("attributes", "arguments") and isinstance(item, list):
                yield from (name for name in item if isinstance(name, str))
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)
