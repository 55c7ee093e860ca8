"""The compound components of an input, which Accelergy evaluates as Python: nothing but arithmetic is handed over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fadiff_mapper.base.errors import SpecError

SECTIONS = ("compound_components", "variables")
"""Sections of the input that define something for Accelergy."""

HARMLESS = re.compile(r"([\w .,:/+*<>=()-]|\[[\w .,/+*()-]+\])*", re.ASCII)
"""Names, arithmetic, and ranges such as "PE[0..13]"; no quotes and no braces."""
CALLED = re.compile(r"([\w)\]]+) *\(")
"""What stands before a parenthesis that opens: the name of what is called, the end of an expression, or a word."""
ALLOWED = frozenset(("abs", "ceil", "float", "floor", "int", "log", "log10", "log2", "max", "min", "pow", "round",
                     "sqrt", "if", "else"))
"""Functions and words that may stand there."""


def definitions(literal: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of an input that define something for Accelergy.

    Args:
        literal: All sections by name.

    Raises:
        SpecError: A text in them could do anything else than calculate.
    """
    sections = {key: literal[key] for key in SECTIONS if literal.get(key)}
    for path, text in _texts(sections, ""):
        if not HARMLESS.fullmatch(text) or "__" in text or not ALLOWED.issuperset(CALLED.findall(text)):
            raise refusal(path, text, "names, numbers and arithmetic")
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


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every key and text of a tree with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            place = f"{path}.{key}".lstrip(".")
            yield place, str(key)
            yield from _texts(item, place)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value
