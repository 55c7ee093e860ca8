"""The command line: words in, exit codes out.

Modules that take time to load are imported when a command runs, so that `--help` stays instant.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

from fadiff_mapper.base.rare_collections import rare_collections
from fadiff_mapper.base.standard_streams import ended
from fadiff_mapper.base.version import __version__
from fadiff_mapper.cli.arguments import COMMANDS, Parser, add_arguments
from fadiff_mapper.cli.commands import BAD_INPUT, DONE


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; errors are printed as lines, never as a traceback.

    `arguments` are the words after the program's name; None: the words of this process.
    """
    begun = time.monotonic()
    if arguments is None:   # this process is the command: its time so far was Python's start
        begun -= time.process_time()

    def run() -> int:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # there is no linear algebra that needs more threads
        words = sys.argv[1:] if arguments is None else arguments
        program = program_parser(*words[:1])
        command = program.commands.get(words[0]) if words else None
        # the command's own parser reads its words, as it takes files between options
        options = command.parse_intermixed_args(words[1:]) if command else program.parse_args(words)
        options.begun = begun   # a time limit holds for the whole command
        with rare_collections():
            return int(options.run(options) or DONE)
    return ended(run, BAD_INPUT)


def program_parser(command: str = "") -> Parser:
    """The parser of the program with one command, or with all commands if none has this name."""
    parser = Parser(
        prog="fadiff-mapper", description="Read Timeloop's files, evaluate mappings exactly, find good ones.",
        epilog="FILES are Timeloop YAML files of either dialect, in any order, or folders or patterns of them; "
               "bundled:NAME is one that comes with this program (see: fadiff-mapper bundled).")
    parser.add_argument("--version", action="version", version=f"fadiff-mapper {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in (command,) if command in COMMANDS else COMMANDS:
        described = COMMANDS[name]
        own = subparsers.add_parser(name, help=described.help, description=described.description)
        add_arguments(own, described.arguments)
        own.set_defaults(run=described.run, **described.defaults)
    parser.commands = subparsers.choices
    return parser
