"""`doctor`: the programs and packages installed here."""

from __future__ import annotations

import argparse

from fadiff_mapper.cli.arguments import Commands


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("doctor", help="what is installed here and what that enables")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prints a line for every program and library that was looked for."""
    from fadiff_mapper.output.console import print_findings
    from fadiff_mapper.timeloop import doctor
    print_findings(doctor.examine())
