"""Launchers under the names of Timeloop's programs: writing and removing them, and the program that they start.

The exit code is 0 if the files were written, else 1. As in Timeloop, Ctrl-C ends a search with the best mapping so far
and exit code 0; before the search, or a second time, it ends the program with 130.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fadiff_mapper.base.atomic_files import write_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.program_start import python_command
from fadiff_mapper.base.standard_streams import drop_output, ended, say, say_error
from fadiff_mapper.timeloop.find_programs import LAUNCHER_MARK, PROGRAMS, is_launcher

CODE = "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('fadiff_mapper.timeloop.launchers'))"


def command(program: str, options: Sequence[str] = ()) -> list[str]:
    """The beginning of a command line: this interpreter, this package, options, program; the program's words follow."""
    home = str(Path(__file__).resolve().parents[2])     # put on the module path, unless the package is installed
    first = [] if Path(home).name in ("site-packages", "dist-packages") else [home]
    # Python 3.10 has the working folder on its path, as an empty entry.
    return [*python_command(f"{json.dumps(first)} + [p for p in sys.path if p]", CODE), *options, program]


def write_launchers(folder: Path | str, *, seed: int | None = None, time_limit: float | None = None) -> list[Path]:
    """Writes launchers named `timeloop-mapper` and `timeloop-model`: first on the PATH, they run this package instead.

    They are shell scripts with the absolute paths of this interpreter and this package.

    Args:
        folder: The folder for the launchers; made where it does not exist.
        seed: Seed of every search that they start; None: 0.
        time_limit: Seconds for every such search; None: no limit.

    Returns:
        The paths of the launchers.

    Raises:
        FadiffError: Seed or time limit is out of range, or one of the names belongs to a file that is no launcher of
            this package; nothing is written.
    """
    from fadiff_mapper.search.options import SearchOptions, check_options  # launchers start without them
    folder = Path(folder)
    check_options(SearchOptions(seed=seed or 0, time_limit=time_limit))
    options = [f"{name}={value}" for name, value in (("--seed", seed), ("--time-limit", time_limit))
               if value is not None]
    if os.pathsep in str(folder.absolute()):
        raise FadiffError(f'{folder}: a folder on the PATH cannot have "{os.pathsep}" in its name')
    paths = [folder.absolute() / program for program in PROGRAMS]
    _refuse_foreign(paths, "is not overwritten")
    write_files(folder, {program: f"""#!/bin/sh
# {LAUNCHER_MARK.decode()}: runs fadiff_mapper in place of Timeloop's {program}.
# Remove it with: fadiff-mapper shim --remove FOLDER
exec {shlex.join(command(program, options))} "$@"
""" for program in PROGRAMS}, mode=0o777)
    return paths


def remove_launchers(folder: Path | str) -> list[Path]:
    """Removes the launchers that `write_launchers` wrote into a folder, and returns their paths.

    Raises FadiffError, and removes nothing, where one of the names belongs to a file that is no such launcher.
    """
    paths = [path for program in PROGRAMS if os.path.lexists(path := Path(folder).absolute() / program)]
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


FAILED, MARK = 1, "ERROR: "  # the exit code of a launched program after an error, and the prefix of its lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of Timeloop's programs by its command line; returns the exit code.

    Arguments: `[--seed N] [--time-limit SECONDS] [--trusted] PROGRAM WORD ...`, with the real program's words and the
    options of `programs.ProgramSettings`; None: the words of this process.
    """
    parser = argparse.ArgumentParser(prog="fadiff-mapper launcher", add_help=False)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--trusted", action="store_true")
    parser.add_argument("program")
    parser.add_argument("words", nargs=argparse.REMAINDER)

    def said(line: str) -> None:
        """Prints a line at once; if this fails, as with `| head` or a full disk, the search goes on."""
        try:
            say(line, flush=True)
        except OSError as error:
            drop_output(sys.stdout)
            if not isinstance(error, BrokenPipeError):
                say_error(f"standard output: {error.strerror or error}", "WARNING: ")

    def work() -> int:
        options = parser.parse_args(arguments)
        from fadiff_mapper.timeloop.programs import ProgramSettings, run  # loaded only for correct words
        settings = ProgramSettings(dict(os.environ), options.seed, options.time_limit, options.trusted)
        run(options.program, options.words, settings, said)
        return 0

    return ended(work, FAILED, MARK)
