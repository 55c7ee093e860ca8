"""`explain`: where the numbers of a finished run come from."""

from __future__ import annotations

import argparse

from fadiff_mapper.cli.arguments import Commands, folder


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("explain", help="where the numbers of a finished run come from")
    parser.add_argument("folder", type=folder, metavar="DIR", help="a folder that `map` has written")
    parser.add_argument("--count", nargs=3, metavar=("LEVEL", "DATASPACE", "ACTION"),
                        help="one access count as the product of the loops that cause it, such as DRAM Inputs reads")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Reads the folder and prints the explanation."""
    from fadiff_mapper.output.print_layer import print_counts, print_explained, print_json
    from fadiff_mapper.search.explanation.explain_run import explain_run, read_run
    run = read_run(options.folder)
    explained = explain_run(run, options.count)
    if options.json:
        print_json(explained)
    elif options.count:
        print_counts(explained)
    else:
        print_explained(run, explained)
