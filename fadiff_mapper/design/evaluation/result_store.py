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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fadiff_mapper.base.atomic_files import check_writable, write_shared
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.yaml.input_file import read_bytes

LARGEST = 2 ** 24
"""Bytes of an entry that are read: a safety limit against files that are none, not measured."""


class ResultStore:
    """Entries by key in a folder.

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
        """Reads an entry.

        Args:
            key: Its hash in hexadecimal digits.

        Returns:
            The entry; None where there is none, or none that is as it was written.
        """
        if self.folder is None:
            return None
        path = self._path(key)
        if not path.is_file():    # mostly so; `read_bytes` would look for names like it
            return None
        try:
            content = json.loads(read_bytes(path, "an entry", LARGEST))
            if content["digest"] == _digest(key, content["entry"]):
                return dict(content["entry"])
        except FadiffError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError):  # no such text at all
            pass
        self.changed[path] = None
        return None

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Writes an entry.

        Args:
            key: Its hash in hexadecimal digits.
            entry: Plain values; JSON keeps every float exactly.

        Raises:
            FadiffError: The file cannot be written.
        """
        if self.folder is not None:
            write_shared(self._path(key), json.dumps({"digest": _digest(key, entry), "entry": entry}) + "\n")

    def _path(self, key: str) -> Path:
        """The file of an entry; 256 folders keep each of them small."""
        return Path(self.folder or "") / key[:2] / f"{key}.json"


def _digest(key: str, entry: dict[str, Any]) -> str:
    """The hash that goes with an entry."""
    return hashlib.sha256(json.dumps([key, entry], sort_keys=True).encode()).hexdigest()
