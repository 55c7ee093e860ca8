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

from fadiff_mapper.inputs.yaml.expressions import Expression, Literal

MAX_FLOW = 100
"""Characters of the longest list that is written in one line: a matter of taste alone."""

REMEMBERED = 4096
"""Texts of which is kept whether they need quotes: documents repeat their keys."""

# Text that may stand without quotes, unless it is one of the _WORDS, which YAML 1.1 or 1.2 converts.
_SAFE = re.compile(r"[A-Za-z_/(][\w.+*/()=<>-]*( [\w.+*/()=<>-]+)*", re.ASCII)
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "infinity", "nan"))
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def dump(value: Any) -> str:
    """Writes dicts, lists, strings, numbers, booleans and None as YAML, with the tags of a `Map` or `Seq`.

    Raises TypeError for a value of any other type.
    """
    lines: list[str] = []
    flow = _flow(value)
    if flow is not None:
        lines.append(flow)
    else:
        head = _head(value)
        lines += [head.rstrip()] if head else []
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
            flow = _flow(item)
            if flow is None:
                _write_item(item, indent, lines)
            else:
                lines.append(f"{indent}- {flow}")


def _write_item(item: Any, indent: str, lines: list[str]) -> None:
    """Appends the lines of a block in a list: its head, or else its first line, stands behind the dash."""
    head, first, inner = _head(item), len(lines), indent + "  "
    lines += [f"{inner}{head.rstrip()}"] if head else []
    _write_block(item, inner + "  " if isinstance(item, str) else inner, lines)
    lines[first] = f"{indent}- {lines[first][len(inner):]}"


def _tag(value: Any) -> str:
    """The tag with a blank behind it, or an empty string."""
    return f"{value.tag} " if getattr(value, "tag", None) else ""


def _head(value: Any) -> str:
    """The words in front of a block: its tag, or the sign of a block of text, with a blank behind; else empty."""
    return "|- " if isinstance(value, str) else _tag(value)


def _is_block(value: Any) -> bool:
    """Whether the value is an expression that stands neither plainly nor in quotes."""
    return (isinstance(value, Expression) and not _is_plain(value) and value.isprintable()
            and bool(value) and value == value.strip())


def _flow(value: Any) -> str | None:
    """The value in one line, or None where it is a mapping with entries, a long list, or has such a part."""
    if _is_block(value):
        return None
    if isinstance(value, dict):
        return None if value else f"{_tag(value)}{{}}"
    if not isinstance(value, list | tuple):
        return _scalar(value)
    parts: list[str] = []
    for item in value:
        part = _flow(item)
        if part is None:
            return None
        parts.append(part)
    line = f"{_tag(value)}[{', '.join(parts)}]"
    return None if len(line) > MAX_FLOW else line


def _scalar(value: Any) -> str:
    """One scalar. Booleans come before numbers, as Python's are integers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return value if _is_plain(value) else _quoted(value)
    raise TypeError(f"cannot write {type(value).__name__} as YAML")


def _float(value: float) -> str:
    """All digits, with the point that YAML 1.1 wants in a float: 1e-09 is written 1.0e-09."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    digits, exponent, power = float.__repr__(value).partition("e")
    return (digits if "." in digits else f"{digits}.0") + exponent + power


def _is_plain(text: str) -> bool:
    """Whether unquoted text is read back as the same text by every reader, in blocks and in lists."""
    return not isinstance(text, Literal) and _reads_back(text)


@lru_cache(maxsize=REMEMBERED)
def _reads_back(text: str) -> bool:
    """Whether the text has safe signs alone and is no word that a reader converts."""
    return _SAFE.fullmatch(text) is not None and text.lower() not in _WORDS


def _quoted(text: str) -> str:
    """Text in double quotes, unprintable characters as YAML's escapes."""
    return '"' + "".join(_ESCAPES.get(letter) or (letter if letter.isprintable() else _escaped(ord(letter)))
                         for letter in text) + '"'


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
