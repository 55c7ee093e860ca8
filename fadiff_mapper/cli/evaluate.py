"""`evaluate`: what timeloop-model computes."""

from __future__ import annotations

import argparse
import json

from fadiff_mapper.cli.arguments import Commands, inputs, load_input


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser("evaluate", parents=[inputs()],
                                 help="what timeloop-model computes for the mapping in the input")
    parser.add_argument("--json", action="store_true", help="all numbers as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the numbers of the mapping in the input."""
    from fadiff_mapper.api import evaluate
    from fadiff_mapper.report.spec import print_notes
    from fadiff_mapper.report.stats import print_stats
    spec = load_input(options)
    stats = evaluate(spec)
    if options.json:
        print(json.dumps(stats.to_dict(), indent=1))
    else:
        print_stats(stats)
        print_notes(spec)
