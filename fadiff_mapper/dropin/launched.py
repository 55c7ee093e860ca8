"""The program behind the launchers: one of Timeloop's programs by its command line.

The exit code is 0 with files, else 1. Ctrl-C ends a search with the best mapping so far and 0, as in Timeloop; before
the search, and the second time, it ends the program with 130.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from fadiff_mapper.base.standard_streams import drop_output, ended, say, say_error

FAILED, MARK = 1, "ERROR: "
"""The exit code after an error, and the prefix of its lines."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of Timeloop's programs; returns the exit code.

    Arguments: `[--seed N] [--time-limit SECONDS] [--trusted] PROGRAM WORD ...`, with the real program's words and the
    options of `programs.ProgramSettings`; None: the words of this process.
    """
    parser = argparse.ArgumentParser(prog="fadiff-mapper launcher", add_help=False)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--trusted", action="store_true")
    parser.add_argument("program")
    parser.add_argument("words", nargs=argparse.REMAINDER)

    def work() -> int:
        options = parser.parse_args(arguments)
        from fadiff_mapper.dropin.programs import ProgramSettings, read_arguments, run  # after mistakes in the words
        settings = ProgramSettings(dict(os.environ), options.seed, options.time_limit, options.trusted)
        run(options.program, read_arguments(options.words), settings, _said)
        return 0

    return ended(work, FAILED, MARK)


def _said(line: str) -> None:
    """Prints a line at once; where that fails, as into `| head` or onto a full disk, the search continues silently."""
    try:
        say(line, flush=True)
    except OSError as error:
        drop_output()
        if not isinstance(error, BrokenPipeError):
            say_error(f"standard output: {error.strerror or error}", "WARNING: ")
