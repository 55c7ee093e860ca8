"""The command that runs a program in a new process, for launchers and `return_proc`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fadiff_mapper.base.program_start import python_command

CODE = "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('fadiff_mapper.dropin.launched'))"


def command(program: str, options: Sequence[str] = ()) -> list[str]:
    """The beginning of a command line: this interpreter, this package, options, program; the program's words follow."""
    home = str(Path(__file__).resolve().parents[2])     # the interpreter finds an installed package
    first = [] if Path(home).name in ("site-packages", "dist-packages") else [home]
    # Python 3.10 has the working folder on its path, as an empty entry.
    return [*python_command(f"{json.dumps(first)} + [p for p in sys.path if p]", CODE), *options, program]
