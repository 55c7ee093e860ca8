"""`bundled`: the specs that come with the program."""

from __future__ import annotations

import argparse

from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.cli.arguments import Commands


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("bundled", help="list the designs and workloads that come with this program")
    parser.add_argument("prefix", nargs="?", default="",
                        help="only those whose name begins so, such as layers/resnet18")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prints the names, one a line."""
    from fadiff_mapper.base import bundled_files
    for name in bundled_files.listing():
        if name.startswith(options.prefix):
            say(bundled_files.PREFIX + name)
