"""Finds Accelergy's command, without loading the modules that ask it."""

from __future__ import annotations

import os
import shutil

PROGRAM = "accelergy"
"""The command."""


def installed(search_path: str | None = None) -> str | None:
    """The path of the `accelergy` command, or None. The search path defaults to PATH in the environment."""
    program = shutil.which(PROGRAM, path=search_path)
    return None if program is None else os.path.abspath(program)
