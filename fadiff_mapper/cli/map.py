"""`map`: find a good mapping."""

from __future__ import annotations

import argparse

from fadiff_mapper.cli.arguments import Commands, add_verify, folder, inputs, load_input, positive


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser("map", parents=[inputs()],
                                 help="find a good mapping and write it as timeloop-mapper does")
    parser.add_argument("-o", "--output", required=True, type=folder, metavar="DIR", help="folder for the results")
    parser.add_argument("--metric", action="append", metavar="NAME",
                        help="edp, energy, delay or last_level_accesses; repeat it for further priorities")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same answer (default 0)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop with the best so far")
    parser.add_argument("--restarts", type=positive, help="descents side by side")
    parser.add_argument("--steps", type=positive, help="steps of each descent")
    parser.add_argument("--jobs", type=positive, metavar="N", help="threads (default: all cores)")
    parser.add_argument("--no-gradient", action="store_true", help="start the refinement from random mappings")
    parser.add_argument("--no-refinement", action="store_true", help="return the best mapping of the descent")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    add_verify(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Search, write the files, print the result; 1 where it is to be verified and real Timeloop disagrees."""
    from fadiff_mapper import rundir
    from fadiff_mapper.report.search import print_result, progress
    from fadiff_mapper.report.verdict import print_verdict
    from fadiff_mapper.timeloop.verify import real_model, verify
    spec = load_input(options)
    program = real_model() if options.verify else None
    rundir.check_writable(options.output)
    from fadiff_mapper.api import map_layer
    with progress(quiet=options.quiet) as on_progress:
        result = map_layer(
            spec, metric=options.metric, seed=options.seed, time_limit=options.time_limit, restarts=options.restarts,
            steps=options.steps, gradient=not options.no_gradient, refinement=not options.no_refinement,
            threads=options.jobs, on_progress=on_progress)
    result.write(options.output)
    if not options.quiet:
        print_result(result, options.output)
    return print_verdict(verify(spec, result.mapping, result.stats, program)) if program else 0
