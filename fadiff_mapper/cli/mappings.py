"""The commands about mappings: `map` and `network` find, `evaluate` and `explain` show their numbers."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from fadiff_mapper.base.deadline import interruptible
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli.arguments import (
    CHECK_FAILED,
    DONE,
    INTERRUPTED,
    Commands,
    add_calibration,
    add_dimensions,
    add_gradient,
    add_jobs_and_quiet,
    add_output,
    add_seed_and_time,
    add_verify,
    calibration,
    folder,
    inputs,
    load_input,
    load_inputs,
    positive,
    reading_in_time,
    real_model,
    sizes,
)
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.network import options as network_options
from fadiff_mapper.search import options as layer_options


def add_evaluate(commands: Commands) -> None:
    parser = commands.add_parser("evaluate", parents=[inputs()],
                                 help="what timeloop-model computes for the mapping in the input")
    parser.add_argument("--json", action="store_true", help="all numbers as JSON; infinite ones are null")
    add_verify(parser)
    parser.set_defaults(run=evaluate)


def evaluate(options: argparse.Namespace) -> int:
    """Prints the numbers of the mapping in the input.

    Returns:
        The exit code: `CHECK_FAILED` where they are to be verified and real Timeloop disagrees.
    """
    from fadiff_mapper import api
    from fadiff_mapper.base.standard_streams import say
    from fadiff_mapper.base.text_formats import json_text
    from fadiff_mapper.output.terminal.console import print_notes, print_verdict
    from fadiff_mapper.output.terminal.layers import print_stats
    spec, program = load_input(options), real_model(options)
    stats = api.evaluate(spec)
    if options.json:
        say(json_text(stats.to_dict(), ascii_only=True))
    else:
        print_stats(stats)
        print_notes(spec)
    if program is None or spec.mapping is None:
        return DONE
    return print_verdict(api.verify(spec, spec.mapping, stats, program), file=sys.stderr if options.json else None)


def add_map(commands: Commands) -> None:
    parser = commands.add_parser("map", parents=[inputs()],
                                 help="find good mappings and write them as timeloop-mapper does")
    add_output(parser)
    parser.add_argument("--metric", action="append", metavar="NAME",
                        help=f"{', '.join(METRICS[:-1])} or {METRICS[-1]}; repeat it for further priorities")
    add_seed_and_time(parser)
    parser.add_argument("--warm-start", metavar="FILE.map.yaml", help="a mapping to improve on")
    add_jobs_and_quiet(parser)
    add_gradient(parser, "annealing (default): simulated annealing on the exact model; gradient: the same from the "
                 "ends of gradient descents (FADiff; needs PyTorch); exhaustive: every mapping, the true optimum of a "
                 "small problem", layer_options.METHODS)
    parser.add_argument("--exhaustive", action="store_const", dest="method", const="exhaustive",
                        help="the same as --method exhaustive")
    parser.add_argument("--exhaustive-limit", type=positive, default=layer_options.EXHAUSTIVE_LIMIT, metavar="N",
                        help=f"mappings above which that is refused (default {layer_options.EXHAUSTIVE_LIMIT:,})")
    parser.add_argument("--effort", choices=layer_options.EFFORTS, default="full",
                        help="how long each problem is searched (default full)")
    parser.add_argument("--imperfect", action="store_true",
                        help="also search factors that do not divide their dimension (Timeloop's imperfect factors)")
    parser.add_argument("--prove", action="store_true",
                        help="go on until it is proved that no mapping is better (dense designs)")
    parser.add_argument("--gap", type=float, default=0.0, metavar="SHARE",
                        help="with --prove: stop once the mapping is so close to the least bound (default 0)")
    parser.add_argument("--certificate", metavar="FILE.json",
                        help="with --prove: the proof of one problem, for `fadiff-validate certificate`")
    parser.add_argument("--sensitivities", action="store_true",
                        help="also store what a little more of each constant of the machine would change")
    add_calibration(parser)
    add_verify(parser)
    parser.set_defaults(run=map_problems)


def map_problems(options: argparse.Namespace) -> int:
    """Searches, writes the files of every problem as soon as there is a legal mapping, and prints the results.

    Returns:
        The exit code: `CHECK_FAILED` where a result is to be verified and real Timeloop disagrees.
    """
    from fadiff_mapper import api
    from fadiff_mapper.output.terminal.console import print_verdict
    from fadiff_mapper.output.terminal.layers import print_results, progress
    search = layer_options.SearchOptions(
        tuple(options.metric or ()), options.seed, options.time_limit, options.jobs, options.method, options.model,
        options.effort, options.imperfect, options.exhaustive_limit, calibration(options), options.prove, options.gap)
    with reading_in_time(options):
        specs = load_inputs(options)
    program, names, start = real_model(options), list(specs), options.warm_start
    if start is not None and len(specs) > 1:
        raise FadiffError(f"--warm-start {start}: there are {len(specs)} problems; accepted: one problem")
    if options.certificate and (len(specs) > 1 or not options.prove):
        raise FadiffError(f"--certificate {options.certificate}: found "
                          + (f"with {len(specs)} problems" if options.prove else "without --prove")
                          + "; accepted: one problem, with --prove")
    starts = [] if start is None else [api.load_mapping(start, next(iter(specs.values())))]
    with interruptible() as stopped, progress(names, quiet=options.quiet) as on_progress:
        results = api.map_layers(specs, search, warm_starts=starts, sensitivities=options.sensitivities,
                                 output=options.output, begun=options.begun, on_progress=on_progress, stopped=stopped)
    if not options.quiet:
        print_results(names, results, options.output)
    if options.certificate:
        from fadiff_mapper.base.atomic_files import write_files
        target = Path(options.certificate)
        write_files(target.parent, {target.name: json.dumps(results[0].certificate(), indent=1) + "\n"})
    differ = [print_verdict(api.verify(result.spec, result.mapping, result.stats, program),
                            name if len(names) > 1 else "")
              for name, result in zip(names, results, strict=True)] if program else []
    return INTERRUPTED if stopped() else CHECK_FAILED if any(differ) else DONE


def add_network(commands: Commands) -> None:
    net = argparse.ArgumentParser(add_help=False)
    net.add_argument("network", metavar="NET", help="a network file, an ONNX model, a folder of problems with "
                     "edges.yaml, or bundled:networks/NAME")
    parser = commands.add_parser("network", parents=[net, inputs()],
                                 help="map every layer of a network and fuse layers where that helps")
    add_output(parser)
    parser.add_argument("--metric", choices=network_options.METRICS, default=network_options.METRICS[0],
                        help="of the whole network")
    add_seed_and_time(parser)
    parser.add_argument("--no-fusion", action="store_true", help="every layer by itself")
    parser.add_argument("--allow-partial", action="store_true",
                        help="map what is understood, even where that is less than 90 %% of the network")
    add_dimensions(parser)
    add_jobs_and_quiet(parser)
    add_gradient(parser, "annealing (default): annealed mappings and enumerated groups; gradient: also the groups of a "
                 "gradient descent on the mappings and fusion of all layers together (FADiff; needs PyTorch)",
                 network_options.METHODS)
    parser.add_argument("--longest", type=positive, default=network_options.LONGEST, metavar="N",
                        help=f"layers of a fused group at most (default {network_options.LONGEST})")
    add_calibration(parser)
    add_verify(parser)
    parser.set_defaults(run=map_network)


def map_network(options: argparse.Namespace) -> int:
    """Maps the network, writes its plan and prints it.

    Returns:
        The exit code: `CHECK_FAILED` where mappings are to be verified and real Timeloop disagrees with one.
    """
    from fadiff_mapper import api
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.networks import print_plan, progress
    program = real_model(options)
    search = network_options.NetworkOptions(
        options.metric, not options.no_fusion, options.seed, options.time_limit, options.jobs, options.method,
        options.model, options.longest, calibration(options))
    network_options.check(search)
    with reading_in_time(options):
        network = api.load_network(options.network, **sizes(options))
        api.require_coverage(network, options.allow_partial, "--allow-partial")
        design = api.read_document(*options.files, jinja_data=dict(options.variables))
    with interruptible() as stopped, progress(options.quiet, search.time_limit) as on_progress:
        result = api.map_network(
            network, design, search, energy=options.energy, strict=not options.lenient, allow_partial=True,
            output=options.output, read=[options.network, *options.files], begun=options.begun,
            on_progress=on_progress, stopped=stopped)
    if not options.quiet:
        print_plan(result, options.output)
    differ = program is not None and print_plan_verdicts(result, program)
    return INTERRUPTED if stopped() else CHECK_FAILED if differ else DONE


def add_explain(commands: Commands) -> None:
    parser = commands.add_parser("explain", help="where the numbers of a finished run come from")
    parser.add_argument("folder", type=folder, metavar="DIR", help="a folder that `map` has written")
    parser.add_argument("--count", nargs=3, metavar=("LEVEL", "DATASPACE", "ACTION"),
                        help="one access count as the product of the loops that cause it, such as DRAM Inputs reads")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.set_defaults(run=explain)


def explain(options: argparse.Namespace) -> None:
    """Reads the folder and prints the explanation."""
    from fadiff_mapper.api import explain_run, read_run
    from fadiff_mapper.base.standard_streams import say
    from fadiff_mapper.base.text_formats import json_text
    from fadiff_mapper.output.terminal.layers import print_counts, print_explained
    run = read_run(options.folder)
    explained = explain_run(run, options.count)
    if options.json:
        say(json_text(explained.to_dict(), ascii_only=True))
    elif options.count:
        print_counts(explained)
    else:
        print_explained(run, explained)
