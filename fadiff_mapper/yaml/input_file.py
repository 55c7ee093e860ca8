"""The text of an input file: UTF-8 of at most `MAX_BYTES`, from a regular file."""

from __future__ import annotations

import stat
from pathlib import Path

from fadiff_mapper.base.errors import nearest
from fadiff_mapper.yaml.place import Where

MAX_BYTES = 4 << 20
"""Bytes of one input file. A plain safety limit; nothing was measured."""


def read_text(path: Path) -> str:
    """The text of a file of at most `MAX_BYTES` of UTF-8. Raises SpecError naming the file."""
    where = Where(str(path))
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise where.error("is a folder", "a YAML file")
        if not stat.S_ISREG(status.st_mode):
            raise where.error("is not a regular file", "a YAML file")
        if status.st_size > MAX_BYTES:
            raise where.error(f"has {status.st_size / (1 << 20):.1f} MiB", f"at most {MAX_BYTES >> 20} MiB")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise where.error(f"no such file{nearest(path.name, _siblings(path))}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise where.error(f"cannot be read: {reason}") from None
    return _decoded(raw, where)


def _siblings(path: Path) -> list[str]:
    """Names beside a missing file, for "did you mean"."""
    try:
        return [entry.name for entry in path.parent.iterdir()][:1000]
    except OSError:
        return []


def _decoded(raw: bytes, where: Where) -> str:
    """The text of UTF-8 bytes with or without a byte order mark. Raises SpecError with the line of the first fault."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[:error.start].count(b"\n") + 1
        raise Where(where.file, line).error("is not UTF-8 text", "a YAML file") from None
    if "\0" in text:
        line = text[:text.index("\0")].count("\n") + 1
        raise Where(where.file, line).error("is a binary file", "a YAML file")
    return text
