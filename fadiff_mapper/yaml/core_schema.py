"""Unquoted scalars by YAML 1.2's core schema."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,999})|0x[0-9a-fA-F]{1,999}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = {".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}


REMEMBERED = 4096
"""Texts whose values are kept: files repeat their numbers and words."""


@lru_cache(maxsize=REMEMBERED)
def plain_scalar(text: str) -> Any:
    """The value of unquoted text by YAML 1.2's core schema: null, boolean, number, or the text itself.

    Numbers with leading zeros (`0777`) and octal ones (`0o17`) stay text, so that no reader takes them for another
    number.
    """
    lower = text.lower()
    if lower in ("", "~", "null"):
        return None
    if lower in ("true", "false"):
        return lower == "true"
    if _INTEGER.fullmatch(text):
        return int(text, 16) if text.startswith("0x") else int(text)
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdecimal():
        return float(text)
    return _SPECIAL.get(lower, text)
