"""`check`: read and validate."""

from __future__ import annotations

import argparse

from fadiff_mapper.cli.arguments import Commands, inputs, load_input


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser("check", parents=[inputs()], help="read and validate; print what was understood")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print all that was understood; 1 where no mapping can meet the constraints."""
    from fadiff_mapper.output.terminal.spec_summary import print_spec
    return print_spec(load_input(options))
