"""The command that runs one of the programs in a process of its own, as launchers and `return_proc` do."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

CODE = "import sys; sys.path[:] = {path} + [p for p in sys.path if p]; " \
       "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('fadiff_mapper.dropin.launched'))"
"""The code that the interpreter runs. No module is ever imported from the working folder, where a user's file may be
called like one."""

SAFE_PATH = ["-P"] if sys.version_info >= (3, 11) else []
"""Keeps the interpreter itself from looking there, which since Python 3.13 imports a module before it runs `CODE`."""


def command(program: str, options: Sequence[str] = ()) -> list[str]:
    """The beginning of a command line: this interpreter, this package, options, program; the program's words follow.

    `-E` keeps PYTHONPATH and its kin, which belong to the calling program, away from the interpreter.

    Args:
        program: `timeloop-mapper` or `timeloop-model`.
        options: The launcher's own options (see `launched.main`).
    """
    return [sys.executable, "-E", *SAFE_PATH, "-c", CODE.format(path=json.dumps(_import_path())), *options, program]


def _import_path() -> list[str]:
    """The folder to import this package from, where the interpreter would not find it by itself."""
    home = str(Path(__file__).resolve().parents[2])
    return [] if Path(home).name in ("site-packages", "dist-packages") else [home]
