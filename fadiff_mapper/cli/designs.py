"""The commands about machines: `design` searches them, `calibrate` learns from measured hardware."""

from __future__ import annotations

import argparse
from pathlib import Path

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.deadline import interruptible
from fadiff_mapper.base.standard_streams import say_error
from fadiff_mapper.cli.arguments import (
    CHECK_FAILED,
    DONE,
    INTERRUPTED,
    Commands,
    add_calibration,
    add_dimensions,
    add_jobs_and_quiet,
    add_output,
    add_reading,
    add_seed_and_time,
    add_vary,
    add_verify,
    calibration,
    limit,
    positive,
    real_model,
    shard,
    sizes,
    weights,
)


def add_design(commands: Commands) -> None:
    parser = commands.add_parser("design", help="find the design of a space that is best for networks")
    parser.add_argument("space", metavar="SPACE", help="an architecture with the section design_space, or "
                        "bundled:spaces/NAME")
    parser.add_argument("networks", nargs="+", metavar="NETWORK", help="a network file, an ONNX model, a folder of "
                        "problems with edges.yaml, or bundled:networks/NAME")
    parser.add_argument("--arch", action="append", default=[], metavar="FILE",
                        help="a further file of the space, such as the architecture that the space refers to")
    add_output(parser)
    parser.add_argument("--metric", action="append", metavar="NAME",
                        help="edp (default), energy, delay, area, edap, or a product such as energy*area; given two or "
                             "three times, the Pareto front is searched")
    parser.add_argument("--limit", dest="limits", action="append", default=[], type=limit, metavar="NAME=VALUE",
                        help="the greatest area_mm2, leakage_pj, units, or value of an expression over the parameters; "
                             "takes the place of the space's own")
    parser.add_argument("--weights", type=weights, metavar="W,W,...", help="how often each network runs (default 1)")
    parser.add_argument("--no-fusion", "--layers-alone", action="store_true",
                        help="every layer by itself, as map maps it; else networks are planned as network plans them")
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
                        help="evaluate only every N-th of the designs, starting with the I-th; for array jobs that "
                             "share a --store")
    parser.add_argument("--store", metavar="FOLDER", help="the folder that keeps all that is evaluated; runs may share "
                        "it (default: store in the output folder)")
    add_seed_and_time(parser)
    add_reading(parser, energy=None)
    add_vary(parser)
    parser.add_argument("--allow-partial", action="store_true",
                        help="design for what is understood, even where that is less than 90 %% of a network")
    add_dimensions(parser)
    add_jobs_and_quiet(parser)
    add_calibration(parser)
    add_verify(parser)
    parser.set_defaults(run=design)


def design(options: argparse.Namespace) -> int:
    """Searches, writes the best design with its mappings, all tables and the page, and prints the front.

    Returns:
        The exit code: `CHECK_FAILED` where mappings are to be verified and real Timeloop disagrees with one, or where
        the best design, evaluated again, is not what the store said.
    """
    from fadiff_mapper import api
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.designs import print_design, progress
    program, corrected, metrics = real_model(options), calibration(options), options.metric or ["edp"]
    files = api.files_of([options.space, *options.arch])
    space = api.read_space(*files, jinja_data=dict(options.variables), vary=options.vary, limits=dict(options.limits),
                           strict=not options.lenient)
    networks = [api.load_network(name, **sizes(options)) for name in options.networks]
    for network in networks:
        api.require_coverage(network, options.allow_partial, "--allow-partial")
    with interruptible() as stopped, progress(metrics[0], quiet=options.quiet) as on_progress:
        result = api.search_design(
            space, networks, metric=metrics, method=options.method, weights=options.weights,
            evaluations=options.evaluations, time_limit=options.time_limit, seed=options.seed,
            fuse=not options.no_fusion, energy=options.energy, strict=not options.lenient, jobs=options.jobs,
            backend=options.backend, address=options.address, shard=options.shard, store=options.store,
            calibration=corrected, allow_partial=True, output=options.output,
            read=[*files, *api.files_of(options.networks)], begun=options.begun, on_progress=on_progress,
            stopped=stopped)
    if not options.quiet:
        print_design(result, options.output)
    for warning in result.warnings:
        say_error(warning, "warning: ")
    differ = [print_plan_verdicts(network, program) for network in result.mapped_networks] if program else []
    return INTERRUPTED if stopped() else CHECK_FAILED if any(differ) or not result.confirmed else DONE


def add_calibrate(commands: Commands) -> None:
    parser = commands.add_parser(
        "calibrate", help="learn a correction of cycles from measured hardware",
        description="MEASURED.csv has one measured point a row: rtl_cycles (or cycles), mapping (in one line, or the "
                    "name of a YAML file), and the layer: R S P Q C K N with Wstride Hstride Wdilation Hdilation, or "
                    "problem, the name of a YAML file; part=searched marks points that a search proposed, by which the "
                    "correction is judged and from which it does not learn.")
    parser.add_argument("measured", metavar="MEASURED.csv")
    parser.add_argument("arch", nargs="+", metavar="ARCH", help="the measured design, as file or files")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the calibration to write (JSON)")
    parser.add_argument("--program", metavar="NAME",
                        help="what runs a mapping on the hardware: as-mapped (the loops of the mapping) or gemmini "
                             "(Gemmini's library); default: what predicts layers not learned from best")
    parser.add_argument("--seed", type=int, default=0, help="of the split by layer (default 0)")
    parser.set_defaults(run=calibrate)


def calibrate(options: argparse.Namespace) -> int:
    """Fits, writes the calibration and prints the verdict.

    Returns:
        The exit code: `CHECK_FAILED` where the correction does not beat the exact model.
    """
    from fadiff_mapper import api
    from fadiff_mapper.output.terminal.console import print_calibration
    output, files = Path(options.output), api.files_of(options.arch)
    atomic_files.check_names(output.parent, [output.name], [options.measured, *files])
    layers = api.read_measured(options.measured, api.read_document(*files))
    fitted = api.calibrate(layers, program=options.program, seed=options.seed)
    atomic_files.write_files(output.parent, {output.name: api.calibration_text(fitted)})
    print_calibration(fitted, options.output)
    return DONE if fitted.useful else CHECK_FAILED
