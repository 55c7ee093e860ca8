"""The records of finished jobs: one file, one line a run, so that a run that was stopped goes on where it was.

A line is appended in one write and forced to disk. Several processes may append to one file; a line that a crash cut
off is no record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from .part import Key, Record

FILE = "runs.jsonl"


@dataclass(frozen=True)
class Run:
    """A finished job.

    Attributes:
        part: Name of its part.
        key: Its key.
        record: Its outcome.
        cpu_s: Seconds of processor time that it took, those of programs that it started included.
        commit: The repository's commit.
        machine: The processor's name.
        date: The day, YYYY-MM-DD.
    """

    part: str
    key: Key
    record: Record
    cpu_s: float
    commit: str
    machine: str
    date: str


def append(folder: Path, run: Run) -> None:
    """Appends a finished job to the records of a folder; a line that was cut off before it is ended first."""
    path = folder / FILE
    line = json.dumps(asdict(run), allow_nan=False).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, b"\n" + line if torn else line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(folder: Path) -> Mapping[tuple[str, Key], Run]:
    """The finished jobs of a folder by part and key; of several with one key the first counts."""
    path, found = folder / FILE, {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
            run = Run(**{**entry, "key": tuple(entry["key"])})
        except (ValueError, TypeError, KeyError):   # cut off by a crash
            continue
        found.setdefault((run.part, run.key), run)
    return found
