"""The store of everything evaluated, once for good: a JSON file for each entry, under a hash of all that bears on it.

Any number of processes on any number of machines read and write one folder at once. They need no lock: equal keys
have equal entries, a file is renamed into place whole, and a file that is not as it was written counts as missing. A
library's store on SQLite (diskcache) was measured beside it: 0.39 ms of processor time to write and read an entry,
against 0.13 ms; and its locks do not hold on network file systems, where clusters keep such a folder. Entries are data:
nothing of them is run.

With each entry goes a hash of its key and content, against damage and against edits; who edits an entry can work it out
anew. So the figures of the best design are evaluated again at the end of a run (`evaluate_design.disagreement`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fadiff_mapper.base.atomic_files import check_writable, write_shared
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.yaml.input_file import read_bytes

FORM = re.compile(rb'\{"digest": "(?P<digest>[0-9a-f]{64})", "entry": (?P<entry>.*)\}\n', re.DOTALL)
"""The text of a file."""

LARGEST = 2 ** 24
"""Bytes of an entry that are read: a safety limit against files that are none, not measured."""


class ResultStore:
    """Entries by key, a hash in hexadecimal digits, in a folder.

    Attributes:
        folder: The folder; None keeps nothing.
        changed: Files that were asked for and were not as they had been written, each once.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.changed: dict[Path, None] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Makes the folder, so that a long run does not fail at its first entry; removes a new one that stays empty.

        Raises:
            FadiffError: The folder cannot be made or written to.
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
                with suppress(OSError):  # there are entries
                    self.folder.rmdir()

    def get(self, key: str) -> dict[str, Any] | None:
        """Reads an entry; None where there is none, or none that is as it was written."""
        if self.folder is None:
            return None
        path = self._path(key)
        if not path.is_file():    # mostly so; `read_bytes` would look for names like it
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
        """Writes an entry of plain values; JSON keeps every float exactly. Raises FadiffError where it cannot."""
        if self.folder is not None:
            text = json.dumps(entry)
            write_shared(self._path(key),
                         f'{{"digest": "{_digest(key, text.encode()).decode()}", "entry": {text}}}\n')

    def _path(self, key: str) -> Path:
        """The file of an entry; 256 folders keep each of them small."""
        return Path(self.folder or "") / key[:2] / f"{key}.json"


def _digest(key: str, text: bytes) -> bytes:
    """The hash that goes with an entry's text, in hexadecimal digits."""
    return hashlib.sha256(key.encode() + text).hexdigest().encode()
