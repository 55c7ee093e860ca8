"""`check`: read and validate."""

from __future__ import annotations

import argparse

from fadiff_mapper.cli.arguments import Commands, inputs, load_input


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("check", parents=[inputs()], help="read and validate; print what was understood")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints all that was understood.

    Returns:
        The exit code: `CHECK_FAILED` where no mapping can meet the constraints.
    """
    from fadiff_mapper.output.terminal.spec_summary import print_spec
    return print_spec(load_input(options))
