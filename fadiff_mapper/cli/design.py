"""`design`: search the best designs of a space for networks."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from fadiff_mapper.base.standard_streams import say_error
from fadiff_mapper.cli.arguments import (
    Commands,
    add_calibration,
    add_dimensions,
    add_jobs_and_quiet,
    add_output,
    add_reading,
    add_seed_and_time,
    add_vary,
    add_verify,
    positive,
    read_calibration_argument,
)
from fadiff_mapper.cli.exit_codes import CHECK_FAILED, DONE, INTERRUPTED
from fadiff_mapper.output.design_report import RUN_FILES, STORE

if TYPE_CHECKING:
    from fadiff_mapper.design.question import DesignOptions, DesignQuestion


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
    parser = commands.add_parser("design", help="find the design of a space that is best for networks")
    parser.add_argument("space", metavar="SPACE", help="an architecture with the section design_space, or "
                        "bundled:spaces/NAME")
    parser.add_argument("networks", nargs="+", metavar="NETWORK", help="a network file, an ONNX model, a folder of "
                        "problems with edges.yaml, or bundled:networks/NAME")
    parser.add_argument("--arch", action="append", default=[], metavar="FILE",
                        help="a further file of the space, such as the architecture that the space stands beside")
    add_output(parser)
    _add_question(parser)
    _add_search(parser)
    add_seed_and_time(parser)
    add_reading(parser, energy=None)
    add_vary(parser)
    parser.add_argument("--allow-partial", action="store_true",
                        help="design for what is understood, even where that is less than 90 %% of a network")
    add_dimensions(parser)
    add_jobs_and_quiet(parser)
    add_calibration(parser)
    add_verify(parser)
    parser.set_defaults(run=run)


def _add_question(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say what is wanted."""
    parser.add_argument("--metric", action="append", metavar="NAME",
                        help="edp (default), energy, delay, area, edap, or a product such as energy*area; given two or "
                             "three times, the Pareto front is searched")
    parser.add_argument("--limit", dest="limits", action="append", default=[], type=limit, metavar="NAME=VALUE",
                        help="the greatest area_mm2, leakage_pj, units, or value of an expression over the parameters; "
                             "takes the place of the space's own")
    parser.add_argument("--weights", type=weights, metavar="W,W,...", help="how often each network runs (default 1)")
    parser.add_argument("--no-fusion", "--layers-alone", action="store_true",
                        help="every layer by itself, as map maps it; else networks are planned as network plans them")


def _add_search(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that say how designs are searched, and by whom."""
    parser.add_argument("--method", metavar="NAME",
                        help="bounds (the designs of the best lower bounds), gradient (also those of descents on "
                             "hardware, mappings and fusion together, as in DOSA; needs PyTorch), random, exhaustive, "
                             "tpe or nsga2 (these two need optuna); default: gradient, or bounds without PyTorch")
    parser.add_argument("--evaluations", type=positive, metavar="N",
                        help="designs to map at most; designs beside the best one come on top, at most as many again")
    parser.add_argument("--backend", default="processes", metavar="NAME",
                        help="who carries the work: processes (default; those of this machine), or dask or ray")
    parser.add_argument("--address", metavar="URL", help="the cluster's scheduler, such as tcp://host:8786")
    parser.add_argument("--shard", type=shard, metavar="I/N",
                        help="evaluate every N-th of the designs alone, starting with the I-th; for array jobs that "
                             "share a --store")
    parser.add_argument("--store", metavar="FOLDER", help="the folder that keeps all that is evaluated; runs may share "
                        f"it (default: {STORE} in the output folder)")


def run(options: argparse.Namespace) -> int:
    """Searches, writes the best design with its mappings, all tables and the page, and prints the front.

    Returns:
        The exit code: `CHECK_FAILED` where mappings are to be verified and real Timeloop disagrees with one, or where
        the best design, evaluated again, is not what the store said.
    """
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.base.deadline import interruptible
    from fadiff_mapper.gradient import descent_for_designs
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.design_summary import print_design, progress
    from fadiff_mapper.timeloop.verify import real_model
    program = real_model() if options.verify else None
    question, search, descent = _question(options), _search(options), descent_for_designs(options.method)
    root = Path(options.output)
    atomic_files.check_names(root, RUN_FILES, files_of([options.space, *options.arch, *options.networks]))
    with (atomic_files.lock(root), interruptible() as stopped,
          progress(question.metrics[0], quiet=options.quiet) as on_progress):
        from fadiff_mapper.design.search_design import kept_back, search_design
        from fadiff_mapper.output.design_report.design_files import write_open_folder
        atomic_files.check_writable(root)
        result = search_design(question, search, on_progress=on_progress, stopped=stopped,
                               kept_back=kept_back(options.begun), descent=descent)
        result = write_open_folder(result, root, lambda: options.time_limit is not None and
                                   time.monotonic() > options.begun + options.time_limit)
    if not options.quiet:
        print_design(result, options.output)
    for warning in result.warnings:
        say_error(warning, "warning: ")
    verdicts = [print_plan_verdicts(network, program) for network in result.mapped_networks] if program else []
    return INTERRUPTED if stopped() else CHECK_FAILED if any(verdicts) or not result.confirmed else DONE


def _question(options: argparse.Namespace) -> DesignQuestion:
    """The space, the networks and the metrics. Raises FadiffError."""
    from fadiff_mapper.design.question import DesignQuestion
    from fadiff_mapper.design.space import read_space
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.workload.coverage import require_coverage
    from fadiff_mapper.workload.readers.load_network import load_network
    calibration = read_calibration_argument(options)
    space = read_space(*files_of([options.space, *options.arch]), jinja_data=dict(options.variables),
                       vary=options.vary, limits=dict(options.limits), strict=not options.lenient)
    networks = tuple(load_network(name, dims=dict(options.dims), shapes=dict(options.shapes),
                                  values=dict(options.values), busy_experts=options.busy_experts)
                     for name in options.networks)
    for network in networks:
        require_coverage(network, options.allow_partial, "--allow-partial")
    return DesignQuestion(
        space, networks, options.weights or (1.0,) * len(networks), tuple(options.metric or ("edp",)),
        fuse=not options.no_fusion and calibration is None, seed=options.seed,
        energy=options.energy or space.energy or "estimate",
        strict=not options.lenient, calibration=calibration)


def _search(options: argparse.Namespace) -> DesignOptions:
    """The method and the effort."""
    from fadiff_mapper.design.question import DesignOptions
    store = Path(options.store) if options.store else Path(options.output) / STORE
    return DesignOptions(options.method, options.evaluations, options.time_limit, jobs=options.jobs,
                         backend=options.backend, address=options.address, shard=options.shard, store=store)


def limit(text: str) -> tuple[str, float]:
    """The type of an argument NAME=VALUE, where the name may be an expression."""
    name, sign, value = text.rpartition("=")
    try:
        if sign and name.strip():
            return name.strip(), float(value)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f'found "{text}"; accepted: NAME=VALUE with a number')


def weights(text: str) -> tuple[float, ...]:
    """The type of an argument of numbers above 0, separated by commas."""
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 < value < float("inf") for value in values):
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: numbers above 0 separated by commas')
    return values


def shard(text: str) -> tuple[int, int]:
    """The type of an argument I/N with 1 <= I <= N."""
    number, _, shards = text.partition("/")
    if number.isdigit() and shards.isdigit() and 1 <= int(number) <= int(shards):
        return int(number), int(shards)
    raise argparse.ArgumentTypeError(f'found "{text}"; accepted: I/N with I from 1 to N')
