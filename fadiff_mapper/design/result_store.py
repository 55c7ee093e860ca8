"""The store of all evaluations: one file of JSON lines for each process that wrote to it.

Any number of processes on any number of machines share one folder without locks, as locks fail on network file systems:
each process appends to a file of its own and reads all others. A key is a hash of everything that determines an entry;
equal keys have equal entries, and the entry in the newest file counts. Entries are data: nothing in them is executed.

Each line has a hash of key and entry, against damage and accidental edits; a deliberate edit can forge it. So the
figures of the best design are computed again at the end of a run (`evaluate_design.disagreement`).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fadiff_mapper.base.atomic_files import append_line, check_writable

T = TypeVar("T")

FORM = re.compile(
    rb'\{"key": "(?P<key>[0-9a-f]{64})", "digest": "(?P<digest>[0-9a-f]{64})", "entry": (?P<entry>.*)\}\n')
"""The form of a line."""

LARGEST = 2 ** 24  # longest line in bytes that is read: a safety limit


class ResultStore:
    """Entries by key, a hash in hexadecimal digits, in a folder; without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.changed: dict[str, None] = {}  # lines whose hash does not fit: file and number
        self.places: dict[str, tuple[str, int, int]] = {}  # by key: file, start and length in bytes of the line
        self.read: dict[str, tuple[int, int]] = {}  # by file: bytes and lines read so far

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Makes the folder, so that a long run does not fail at its first entry; removes a new folder that stays empty.

        Raises FadiffError if the folder cannot be made or written to.
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

    @cached_property
    def own(self) -> Path:
        """The file of this process; names rise with time, and two machines do not share one."""
        return Path(self.folder or "") / f"{time.time_ns():016x}-{os.urandom(4).hex()}.jsonl"

    def get(self, key: str) -> dict[str, Any] | None:
        """Reads an entry; None if missing or changed."""
        if self.folder is None:
            return None
        if key not in self.places:
            self._read_on()
        if key in self.places:
            name, start, length = self.places[key]
            path = self.folder / name
            with suppress(OSError, ValueError, TypeError, RecursionError), path.open("rb") as file:
                file.seek(start)
                parts = FORM.fullmatch(file.read(length))
                if parts and parts["key"] == key.encode() and parts["digest"] == _digest(parts["key"], parts["entry"]):
                    return dict(json.loads(parts["entry"]))
            self.changed[f"{path}, byte {start}"] = None
            del self.places[key]
        return None

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Writes an entry of plain values; JSON keeps every float exactly. Raises FadiffError if it cannot."""
        if self.folder is None:
            return
        text = json.dumps(entry).encode()
        line = b'{"key": "%b", "digest": "%b", "entry": %b}\n' % (key.encode(), _digest(key.encode(), text), text)
        start = append_line(self.own, line)
        self.places[key] = self.own.name, start, len(line)
        self.read[self.own.name] = start + len(line), 0

    def _read_on(self) -> None:
        """Reads the lines that were written since the last reading, in the order of the files.

        A changed line is reported unless a later line has its entry anew.
        """
        broken: dict[bytes, str] = {}  # changed lines by key, or by the line if it has none
        files: list[os.DirEntry[str]] = []
        with suppress(OSError), os.scandir(self.folder) as entries:
            files = sorted((entry for entry in entries if entry.name.endswith(".jsonl")), key=lambda entry: entry.name)
        for entry in files:
            start, number = self.read.get(entry.name, (0, 0))
            with suppress(OSError):
                if not entry.is_file(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_size <= start:
                    continue
                with open(entry.path, "rb") as file:
                    file.seek(start)
                    while (line := file.readline(LARGEST)).endswith(b"\n"):    # the last line may be incomplete
                        number += 1
                        parts = FORM.fullmatch(line)
                        if parts and parts["digest"] == _digest(parts["key"], parts["entry"]):
                            self.places[parts["key"].decode()] = entry.name, start, len(line)
                            broken.pop(parts["key"], None)
                        else:
                            broken[parts["key"] if parts else line] = f"{entry.path}, line {number}"
                        start += len(line)
                    if len(line) == LARGEST:
                        broken[line] = f"{entry.path}, line {number + 1}"
            self.read[entry.name] = start, number
        self.changed |= dict.fromkeys(broken.values())


def _digest(key: bytes, text: bytes) -> bytes:
    """The hash of an entry's text, in hexadecimal digits."""
    return hashlib.sha256(key + text).hexdigest().encode()


def as_stored(kind: Callable[..., T], content: dict[str, Any] | None, positive: Sequence[str]) -> T | None:
    """An entry as a value of a class; None if missing or invalid, so that the entry is computed again.

    `positive`: the names of fields that must be above 0.
    """
    try:
        entry = kind(**content) if content else None
    except TypeError:
        return None
    figures = [getattr(entry, name, None) for name in positive]
    return entry if all(isinstance(value, int | float) and value > 0 for value in figures) else None
