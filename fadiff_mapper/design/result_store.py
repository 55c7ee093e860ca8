"""The store of all evaluations: a JSON file for each entry, named by a hash of everything that determines it.

Any number of processes on any number of machines share one folder without locks: equal keys have equal entries, a file
is renamed into place whole, and a changed file counts as missing. A store on SQLite would be slower, and its locks fail
on network file systems. Entries are data: none of their content is executed.

Each entry has a hash of its key and content, against damage and accidental edits; a deliberate edit can forge it. So
the figures of the best design are evaluated again at the end of a run (`evaluate_design.disagreement`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from fadiff_mapper.base.atomic_files import check_writable, write_shared
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.yaml.input_file import read_bytes

T = TypeVar("T")

FORM = re.compile(rb'\{"digest": "(?P<digest>[0-9a-f]{64})", "entry": (?P<entry>.*)\}\n', re.DOTALL)
"""The text of a file."""

LARGEST = 2 ** 24  # bytes of an entry that are read: a safety limit


class ResultStore:
    """Entries by key, a hash in hexadecimal digits, in a folder; None keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.changed: dict[Path, None] = {}  # distinct files that were read and had been changed

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Makes the folder, so that a long run does not fail at its first entry; removes a new folder that stays empty.

        Raises FadiffError where it cannot be made or written to.
        """
        if self.folder is None:
            yield
            return
        new = not self.folder.exists()
        check_writable(self.folder)
        try:
            yield
        finally:
            if new:
                with suppress(OSError):  # not empty
                    self.folder.rmdir()

    def get(self, key: str) -> dict[str, Any] | None:
        """Reads an entry; None if missing or changed."""
        if self.folder is None:
            return None
        path = self._path(key)
        if not path.is_file():    # mostly so; a failing `read_bytes` searches similar names
            return None
        try:
            parts = FORM.fullmatch(read_bytes(path, "an entry", LARGEST))
            if parts and parts["digest"] == _digest(key, parts["entry"]):
                return dict(json.loads(parts["entry"]))
        except (FadiffError, ValueError, TypeError, RecursionError):
            pass
        self.changed[path] = None
        return None

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Writes an entry of plain values; JSON keeps every float exactly. Raises FadiffError if it cannot."""
        if self.folder is not None:
            text = json.dumps(entry)
            write_shared(self._path(key), f'{{"digest": "{_digest(key, text.encode()).decode()}", "entry": {text}}}\n')

    def _path(self, key: str) -> Path:
        """The file of an entry; 256 subfolders keep each small."""
        return Path(self.folder or "") / key[:2] / f"{key}.json"


def _digest(key: str, text: bytes) -> bytes:
    """The hash of an entry's text, in hexadecimal digits."""
    return hashlib.sha256(key.encode() + text).hexdigest().encode()


def as_stored(kind: Callable[..., T], content: dict[str, Any] | None, positive: Sequence[str]) -> T | None:
    """An entry as a value of a class; None if missing or invalid, so that it is computed again.

    `positive` are the names of numbers above 0.
    """
    try:
        entry = kind(**content) if content else None
    except TypeError:
        return None
    figures = [getattr(entry, name, None) for name in positive]
    return entry if all(isinstance(value, int | float) and value > 0 for value in figures) else None
