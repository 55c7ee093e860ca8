"""`evaluate`: the numbers that timeloop-model computes."""

from __future__ import annotations

import argparse
import sys

from fadiff_mapper.cli.arguments import Commands, add_verify, inputs, load_input


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("evaluate", parents=[inputs()],
                                 help="what timeloop-model computes for the mapping in the input")
    parser.add_argument("--json", action="store_true", help="all numbers as JSON; infinite ones are null")
    add_verify(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the numbers of the mapping in the input.

    Returns:
        The exit code: `CHECK_FAILED` where they are to be verified and real Timeloop disagrees.
    """
    from fadiff_mapper.base.standard_streams import say
    from fadiff_mapper.base.text_formats import json_text
    from fadiff_mapper.model.evaluate_spec import evaluate
    from fadiff_mapper.output.terminal.console import print_verdict
    from fadiff_mapper.output.terminal.layer_search import print_stats
    from fadiff_mapper.output.terminal.spec_summary import print_notes
    from fadiff_mapper.timeloop.verify import real_model, verify
    spec = load_input(options)
    program = real_model() if options.verify else None
    stats = evaluate(spec)
    if options.json:
        say(json_text(stats.to_dict(), ascii_only=True))
    else:
        print_stats(stats)
        print_notes(spec)
    if program is None or spec.mapping is None:
        return 0
    return print_verdict(verify(spec, spec.mapping, stats, program), file=sys.stderr if options.json else None)
