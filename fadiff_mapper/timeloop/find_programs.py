"""Finds the real programs of Timeloop: never a launcher of ours that goes by their name.

A launcher on the PATH (`dropin.shim`) would verify this program against itself.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

LAUNCHER_MARK = b"fadiff-mapper launcher"
"""Words in the first lines of every launcher that `shim` writes."""

HEAD = 1024
"""Bytes of a file in which the mark is looked for."""


def find_real(name: str, search_path: str | None = None) -> Path | None:
    """Looks for a program on a search path, as a shell does, but passes over launchers of ours.

    Args:
        name: The program's name.
        search_path: Folders as in PATH; None: the variable PATH itself.

    Returns:
        The absolute path of the first one that can be run; None if there is none.
    """
    for folder in (os.environ.get("PATH", "") if search_path is None else search_path).split(os.pathsep):
        candidate = Path(folder or ".") / name
        if candidate.is_file() and os.access(candidate, os.X_OK) and not is_launcher(candidate):
            return candidate.absolute()
    return None


def is_launcher(path: Path) -> bool:
    """Whether a file, or what it links to, is a launcher of ours."""
    if not path.is_file():    # a pipe would be waited for
        return False
    try:
        with path.open("rb") as file:
            return LAUNCHER_MARK in file.read(HEAD)
    except OSError:  # a program that may be run but not read
        return False


def identity(program: Path) -> str:
    """A name for the very build of a program: Timeloop's programs do not know their version, so the file's SHA-256."""
    try:
        return "sha256 " + hashlib.sha256(program.read_bytes()).hexdigest()[:12]
    except OSError:
        return "unreadable"
