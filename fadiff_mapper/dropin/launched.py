"""The program behind the launchers: one of Timeloop's programs by its command line.

The exit code is 0 with files, else 1 without. Ctrl-C ends a search with the best mapping so far and 0, as it does
Timeloop's; before the search, and the second time, it ends the program with 130.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from fadiff_mapper.base.errors import FadiffError, printed_lines
from fadiff_mapper.base.program_start import INTERRUPTED

FAILED = 1
"""The exit code where there are no files."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of Timeloop's programs.

    Args:
        arguments: `[--seed N] [--time-limit SECONDS] [--trusted] PROGRAM WORD ...`, the words as the real program
            takes them, see `programs.ProgramSettings`; None: the words of this process.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="fadiff-mapper launcher", add_help=False)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float)
    parser.add_argument("--trusted", action="store_true")
    parser.add_argument("program")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    try:
        _run(parser.parse_args(arguments))
        return 0
    except FadiffError as error:
        for line in printed_lines(error):
            print(f"ERROR: {line}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        for line in printed_lines(f"{error.filename or 'standard output'}: {error.strerror or error}"):
            print(f"ERROR: {line}", file=sys.stderr)
    except (MemoryError, RecursionError) as error:
        print(f"ERROR: the input is too large for this machine: {type(error).__name__}", file=sys.stderr)
    return FAILED


def _run(options: argparse.Namespace) -> None:
    """Runs the program; the imports stand here so that a mistake in the arguments ends it at once."""
    from fadiff_mapper.dropin.arguments import read_arguments
    from fadiff_mapper.dropin.programs import ProgramSettings, run
    words: list[str] = options.words
    settings = ProgramSettings(dict(os.environ), options.seed, options.time_limit, options.trusted)
    run(options.program, read_arguments(words), settings, lambda line: print(line, flush=True))
