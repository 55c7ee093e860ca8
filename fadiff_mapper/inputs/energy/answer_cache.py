"""Answers kept between runs, in the user's cache folder, under the hash of all that they depend on.

The cache only saves time: where it cannot be read or written, everything works without it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.yaml.input_file import read_bytes

LARGEST = 1 << 28
"""Bytes of kept answers that are read: a plain safety limit, above all files that one run of Accelergy may leave."""


def key_of(*parts: str) -> str:
    """One name for the texts that a result depends on: a SHA-256, into which their lengths go too.

    Without the lengths, ("ab", "c") and ("a", "bc") would have the same name.
    """
    lengths = (f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256("".join(lengths).encode("utf-8", "surrogatepass")).hexdigest()


def folder() -> Path | None:
    """The folder of the answers: under XDG_CACHE_HOME, else ~/.cache; None where the user has no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return base / "fadiff_mapper" / "energies"


def read(key: str) -> dict[str, str] | None:
    """The texts by name that were kept under a key; None where there are none, or the file is damaged."""
    base = folder()
    if base is None:
        return None
    kept = base / f"{key}.json"
    if not kept.is_file():    # mostly so; `read_bytes` would look for names like it
        return None
    with suppress(FadiffError, ValueError, RecursionError):
        texts = json.loads(read_bytes(kept, "answers of Accelergy", LARGEST))
        if isinstance(texts, dict) and all(isinstance(text, str) for text in texts.values()):
            return texts
    return None


def write(key: str, texts: Mapping[str, str]) -> None:
    """Keeps texts by name; another process sees them whole or not at all."""
    base = folder()
    if base is not None:
        with suppress(FadiffError):
            atomic_files.write_files(base, {f"{key}.json": json.dumps(texts, indent=1)})
