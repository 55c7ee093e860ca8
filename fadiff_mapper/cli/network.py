"""`network`: map a whole network and decide which layers to fuse."""

from __future__ import annotations

import argparse
from pathlib import Path

from fadiff_mapper.cli.arguments import (
    Commands,
    add_calibration,
    add_dimensions,
    add_gradient,
    add_jobs_and_quiet,
    add_output,
    add_seed_and_time,
    add_verify,
    inputs,
    positive,
    read_calibration_argument,
    reading_in_time,
)
from fadiff_mapper.cli.exit_codes import CHECK_FAILED, DONE, INTERRUPTED
from fadiff_mapper.network.options import LONGEST, METHODS, METRICS

CHECKPOINT = "fadiff.checkpoint.json"
"""The mappings found so far, in the output folder: a run that was killed goes on from there."""


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    net = argparse.ArgumentParser(add_help=False)
    net.add_argument("network", metavar="NET", help="a network file, an ONNX model, a folder of problems with "
                     "edges.yaml, or bundled:networks/NAME")
    parser = commands.add_parser("network", parents=[net, inputs()],
                                 help="map every layer of a network and fuse layers where that helps")
    add_output(parser)
    parser.add_argument("--metric", choices=METRICS, default=METRICS[0], help="of the whole network")
    add_seed_and_time(parser)
    parser.add_argument("--no-fusion", action="store_true", help="every layer by itself")
    parser.add_argument("--allow-partial", action="store_true",
                        help="map what is understood, even where that is less than 90 %% of the network")
    add_dimensions(parser)
    add_jobs_and_quiet(parser)
    add_gradient(parser, "annealing (default): annealed mappings and enumerated groups; gradient: also the groups of a "
                 "gradient descent on the mappings and fusion of all layers together (FADiff; needs PyTorch)", METHODS)
    parser.add_argument("--longest", type=positive, default=LONGEST, metavar="N",
                        help=f"layers of a fused group at most (default {LONGEST})")
    add_calibration(parser)
    add_verify(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Maps the network, writes its plan and prints it.

    Returns:
        The exit code: `CHECK_FAILED` where mappings are to be verified and real Timeloop disagrees with one.
    """
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.base.deadline import interruptible
    from fadiff_mapper.gradient import descent_for_network
    from fadiff_mapper.inputs.load import read_document
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.network.options import NetworkOptions, check
    from fadiff_mapper.output import PLAN_FILES
    from fadiff_mapper.output.console import print_plan_verdicts
    from fadiff_mapper.output.network_files import write_held
    from fadiff_mapper.output.print_network import print_plan, progress
    from fadiff_mapper.timeloop.verify import real_model
    from fadiff_mapper.workload.coverage import require_coverage
    from fadiff_mapper.workload.readers.load_network import load_network
    program = real_model() if options.verify else None
    search = NetworkOptions(options.metric, not options.no_fusion, options.seed, options.time_limit, options.jobs,
                            options.method, options.model, options.longest, read_calibration_argument(options))
    check(search)
    descent = descent_for_network(search)
    with reading_in_time(options):
        network = load_network(options.network, dims=dict(options.dims), shapes=dict(options.shapes),
                               values=dict(options.values), busy_experts=options.busy_experts)
        require_coverage(network, options.allow_partial, "--allow-partial")
        design = read_document(*files_of(options.files), jinja_data=dict(options.variables))
    root = Path(options.output)
    atomic_files.check_names(root, (*PLAN_FILES, CHECKPOINT), files_of([options.network, *options.files]))
    with atomic_files.lock(root), interruptible() as stopped, progress(
            options.quiet, search.time_limit) as on_progress:
        from fadiff_mapper.network.map_network import map_network
        from fadiff_mapper.network.planning_clock import command_clock
        atomic_files.check_writable(root)
        clock = command_clock(search.time_limit, stopped, options.begun, network)
        result = map_network(
            network, design, search, energy=options.energy, strict=not options.lenient,
            checkpoint_file=root / CHECKPOINT, on_progress=on_progress, clock=clock, descent=descent)
        result = write_held(result, root, clock.over_for_files)
    if not options.quiet:
        print_plan(result, options.output)
    disagreed = program is not None and print_plan_verdicts(result, program)
    return INTERRUPTED if stopped() else CHECK_FAILED if disagreed else DONE
