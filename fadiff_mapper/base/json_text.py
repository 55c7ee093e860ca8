"""Results as JSON text that every reader of JSON understands."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(content: Any, ascii_only: bool = False) -> str:
    """The content as JSON on several lines, without an end of the last.

    Numbers that are not finite become null, because JSON has no infinity; tuples become lists.

    Args:
        content: Nested dicts, lists, tuples, texts, numbers, booleans and None.
        ascii_only: Whether all but the printable characters of ASCII is written by its number, for streams of any
            encoding.
    """
    try:
        text = _dumped(content, ascii_only)
    except ValueError:  # some number is not finite
        text = _dumped(_finite(content), ascii_only)
    return text.replace("\x7f", "\\u007f")  # a control character that JSON lets stand in ASCII


def _dumped(content: Any, ascii_only: bool) -> str:
    return json.dumps(content, indent=1, ensure_ascii=ascii_only, allow_nan=False)


def _finite(value: Any) -> Any:
    """The value with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
