"""The command that runs one of the programs in a process of its own, as launchers and `return_proc` do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fadiff_mapper.base.program_start import python_command

CODE = "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('fadiff_mapper.dropin.launched'))"
"""The code that the interpreter runs."""


def command(program: str, options: Sequence[str] = ()) -> list[str]:
    """The beginning of a command line: this interpreter, this package, options, program; the program's words follow.

    Args:
        program: `timeloop-mapper` or `timeloop-model`.
        options: The launcher's own options (see `launched.main`).
    """
    home = str(Path(__file__).resolve().parents[2])     # the interpreter finds an installed package by itself
    first = [] if Path(home).name in ("site-packages", "dist-packages") else [home]
    # Python 3.10 has the working folder on its path, as an empty entry.
    return [*python_command(f"{json.dumps(first)} + [p for p in sys.path if p]", CODE), *options, program]
