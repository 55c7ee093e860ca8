"""Writes and removes launchers under the names of Timeloop's programs."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from fadiff_mapper.base.atomic_files import write_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.program_start import python_command
from fadiff_mapper.dropin.programs import PROGRAMS
from fadiff_mapper.timeloop.find_programs import LAUNCHER_MARK, is_launcher

CODE = "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('fadiff_mapper.dropin.launched'))"


def command(program: str, options: Sequence[str] = ()) -> list[str]:
    """The beginning of a command line: this interpreter, this package, options, program; the program's words follow."""
    home = str(Path(__file__).resolve().parents[2])     # the interpreter finds an installed package
    first = [] if Path(home).name in ("site-packages", "dist-packages") else [home]
    # Python 3.10 has the working folder on its path, as an empty entry.
    return [*python_command(f"{json.dumps(first)} + [p for p in sys.path if p]", CODE), *options, program]


def launcher(program: str, options: Sequence[str] = ()) -> str:
    """A shell script with the absolute paths of this interpreter and this package, and the options of every run."""
    return "\n".join((
        "#!/bin/sh",
        f"# {LAUNCHER_MARK.decode()}: runs fadiff_mapper in place of Timeloop's {program}.",
        "# Remove it with: fadiff-mapper shim --remove FOLDER",
        f'exec {shlex.join(command(program, options))} "$@"\n'))


def write_launchers(folder: Path, options: Sequence[str] = ()) -> list[Path]:
    """Writes executable launchers of all programs into a folder, with options (see `launched.main`) of every run.

    Raises FadiffError, and writes nothing, where one of the names belongs to a file that is not our launcher.
    """
    if os.pathsep in str(folder.absolute()):
        raise FadiffError(f'{folder}: a folder on the PATH cannot have "{os.pathsep}" in its name')
    paths = [folder.absolute() / program for program in PROGRAMS]
    _refuse_foreign(paths, "is not overwritten")
    write_files(folder, {program: launcher(program, options) for program in PROGRAMS}, mode=0o777)
    return paths


def remove_launchers(folder: Path) -> list[Path]:
    """Removes our launchers in a folder and returns their paths; FadiffError as in `write_launchers`."""
    paths = [path for program in PROGRAMS if os.path.lexists(path := folder.absolute() / program)]
    _refuse_foreign(paths, "is not removed")
    for path in paths:
        try:
            path.unlink()
        except OSError as error:
            raise FadiffError(f"{path}: cannot be removed: {error.strerror}") from None
    return paths


def _refuse_foreign(paths: Sequence[Path], consequence: str) -> None:
    """Raises FadiffError if one of the paths is a file but not our launcher."""
    foreign = [path for path in paths if os.path.lexists(path) and (path.is_symlink() or not is_launcher(path))]
    if foreign:
        raise FadiffError("\n".join(f"{path}: {consequence}: it is no launcher of fadiff-mapper" for path in foreign))
