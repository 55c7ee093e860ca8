"""The command line: arguments in, exit codes out (see `exit_codes`).

One file per command; each has `add`, which describes its arguments, and `run`. Modules that take time to load are
imported in `run`, so that `--help` stays instant.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from fadiff_mapper.base.rare_collections import collect_rarely
from fadiff_mapper.base.standard_streams import ended
from fadiff_mapper.cli import bundled, calibrate, check, design, doctor, evaluate, explain, import_, map, network, shim
from fadiff_mapper.cli.arguments import Parser
from fadiff_mapper.cli.exit_codes import BAD_INPUT, DONE

COMMANDS = (check, evaluate, map, network, design, calibrate, explain, import_, bundled, doctor, shim)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; errors are printed as lines, never as a traceback.

    Args:
        arguments: The words after the program's name; None: the words of this process.

    Returns:
        The exit code.
    """
    begun = time.monotonic()
    if arguments is None:   # this process is the command: its time so far was Python's start
        begun -= time.process_time()
    def run() -> int:
        _spare_the_start()
        options = _parser().parse_args(arguments)
        options.begun = begun   # a time limit holds for the whole command
        return int(options.run(options) or DONE)
    return ended(run, BAD_INPUT)


def _spare_the_start() -> None:
    """Keeps NumPy from starting threads for linear algebra, of which there is none here, and rarely collects garbage.

    The threads take 0.07 of the 0.17 s of processor time in which NumPy is loaded.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collect_rarely()


def _parser() -> Parser:
    """The parser of the program with all commands."""
    parser = Parser(
        prog="fadiff-mapper", description="Read Timeloop's files, evaluate mappings exactly, find good ones.",
        epilog="FILES are Timeloop YAML files of either dialect, in any order, or folders or patterns of them; "
               "bundled:NAME is one that comes with this program (see: fadiff-mapper bundled).")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return parser


def _version() -> str:
    """The line that --version prints."""
    from fadiff_mapper.base.version import __version__
    return f"fadiff-mapper {__version__}"
