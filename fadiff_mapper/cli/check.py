"""`check`: read and validate."""

from __future__ import annotations

import argparse

from fadiff_mapper.cli.arguments import Commands, add_vary, inputs, load_input
from fadiff_mapper.cli.exit_codes import DONE


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("check", parents=[inputs()], help="read and validate; print what was understood, of a "
                                 "space of designs its parameters and its size")
    add_vary(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints all that was understood.

    Returns:
        The exit code: `CHECK_FAILED` where no mapping can meet the constraints.
    """
    from fadiff_mapper.design.space import is_space, read_space
    from fadiff_mapper.inputs.load import read_document
    from fadiff_mapper.inputs.load_layers import files_of
    files, data = files_of(options.files), dict(options.variables)
    if options.vary or is_space(read_document(*files, jinja_data=data)):
        from fadiff_mapper.output.print_design import print_space
        print_space(read_space(*files, jinja_data=data, vary=options.vary, strict=not options.lenient))
        return DONE
    from fadiff_mapper.output.print_layer import print_spec
    return print_spec(load_input(options))
