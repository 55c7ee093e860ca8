"""Plain values -> literal YAML that every reader, YAML 1.1 or 1.2, reads back as the same values.

No anchors, no aliases, no implicit conversions: text that some reader would take for a number, boolean or
null is quoted, floats always show a point. Mappings are written as blocks, short lists in one line. An expression that
would need quotes, by which it would become a literal string, is written as a block, too.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from fadiff_mapper.base.standard_streams import printable
from fadiff_mapper.inputs.yaml.expressions import Expression, Literal

MAX_FLOW = 100  # characters of the longest list that is written in one line: a matter of taste
REMEMBERED = 4096  # texts whose need of quotes is cached: documents repeat their keys

# Text that may be written without quotes, unless it is one of the _WORDS, which YAML 1.1 or 1.2 converts.
_SAFE = re.compile(r"[A-Za-z_/(][\w.+*/()=<>-]*( [\w.+*/()=<>-]+)*", re.ASCII)
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "infinity", "nan"))


def dump(value: Any) -> str:
    """Writes dicts, lists, strings, numbers, booleans and None as YAML, with the tags of a `Map` or `Seq`.

    Raises TypeError for a value of any other type.
    """
    flow = _flow(value)
    if flow is not None:
        return flow + "\n"
    head = _head(value).rstrip()
    lines = [head] if head else []
    _write_block(value, "  " if isinstance(value, str) else "", lines)
    return "\n".join(lines) + "\n"


def _write_block(value: Any, indent: str, lines: list[str]) -> None:
    """Appends the lines of a mapping, list or expression that does not fit into one line, without its head."""
    if isinstance(value, str):
        lines.append(indent + value)
    elif isinstance(value, dict):
        for key, item in value.items():
            flow = _flow(item)
            lines.append(f"{indent}{_scalar(key)}: {_head(item) if flow is None else flow}".rstrip())
            if flow is None:
                _write_block(item, indent + "  ", lines)
    else:
        for item in value:
            flow, inner, first = _flow(item), indent + "  ", len(lines)
            if flow is not None:
                lines.append(f"{indent}- {flow}")
                continue
            lines += [f"{inner}{_head(item).rstrip()}"] if _head(item) else []
            _write_block(item, inner + "  " if isinstance(item, str) else inner, lines)
            lines[first] = f"{indent}- {lines[first][len(inner):]}"  # the head, or the first line, behind the dash


def _head(value: Any) -> str:
    """The words in front of a block: its tag, or the sign of a block of text, with a blank behind; else empty."""
    tag = "|-" if isinstance(value, str) else getattr(value, "tag", None)
    return f"{tag} " if tag else ""


def _flow(value: Any) -> str | None:
    """The value in one line, or None where it is a mapping with entries, a long list, or has such a part.

    An expression that can be written neither plainly nor in quotes becomes a block of text, too.
    """
    if (isinstance(value, Expression) and value.isprintable() and value and value == value.strip()
            and not _reads_back(value)):
        return None
    if isinstance(value, dict):
        return None if value else f"{_head(value)}{{}}"
    if not isinstance(value, list | tuple):
        return _scalar(value)
    parts: list[str] = []
    for item in value:
        part = _flow(item)
        if part is None:
            return None
        parts.append(part)
    line = f"{_head(value)}[{', '.join(parts)}]"
    return None if len(line) > MAX_FLOW else line


def _scalar(value: Any) -> str:
    """One scalar; floats with all digits and the point that YAML 1.1 wants: 1e-09 is written 1.0e-09."""
    if value is None:
        return "null"
    if isinstance(value, bool):  # before numbers, as Python's are integers
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
        digits, exponent, power = float.__repr__(value).partition("e")
        return (digits if "." in digits else f"{digits}.0") + exponent + power
    if not isinstance(value, str):
        raise TypeError(f"cannot write {type(value).__name__} as YAML")
    if not isinstance(value, Literal) and _reads_back(value):
        return value
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(quoted)}"'  # Python's escapes are YAML's


@lru_cache(maxsize=REMEMBERED)
def _reads_back(text: str) -> bool:
    """Whether every reader reads the unquoted text back: it has only safe signs and is no word that some convert."""
    return _SAFE.fullmatch(text) is not None and text.lower() not in _WORDS
