"""Finds the real programs of Timeloop, never our launchers of the same names.

A launcher on the PATH (`timeloop.launchers`) would verify this program against itself.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MAPPER, MODEL = PROGRAMS = ("timeloop-mapper", "timeloop-model")  # the programs of Timeloop that launchers replace
LAUNCHER_MARK = b"fadiff-mapper launcher"  # words in the first lines of every launcher that `shim` writes
HEAD = 1024  # bytes of a file that are searched for the mark


def find_real(name: str, search_path: str | None = None) -> Path | None:
    """The absolute path of the first program on a search path (None: PATH) that is no launcher of ours, or None."""
    for folder in (os.environ.get("PATH", "") if search_path is None else search_path).split(os.pathsep):
        candidate = Path(folder or ".") / name
        if candidate.is_file() and os.access(candidate, os.X_OK) and not is_launcher(candidate):
            return candidate.absolute()
    return None


def is_launcher(path: Path) -> bool:
    """Whether a file, or the target of a link, is our launcher."""
    if not path.is_file():    # reading a pipe would block
        return False
    try:
        with path.open("rb") as file:
            return LAUNCHER_MARK in file.read(HEAD)
    except OSError:  # executable but not readable
        return False


def identity(program: Path) -> str:
    """A name for the build of a program: Timeloop's programs print no version, so the file's SHA-256."""
    try:
        return "sha256 " + hashlib.sha256(program.read_bytes()).hexdigest()[:12]
    except OSError:
        return "unreadable"
