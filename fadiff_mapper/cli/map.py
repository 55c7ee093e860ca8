"""`map`: find a good mapping."""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from fadiff_mapper.base.errors import FadiffError, attempted
from fadiff_mapper.cli.arguments import (
    Commands,
    add_calibration,
    add_gradient,
    add_jobs_and_quiet,
    add_output,
    add_seed_and_time,
    add_verify,
    inputs,
    load_inputs,
    positive,
    read_calibration_argument,
    reading_in_time,
)
from fadiff_mapper.cli.exit_codes import CHECK_FAILED, DONE, INTERRUPTED
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.output.timeloop_files import RESULT_FILES
from fadiff_mapper.search.options import EFFORTS, EXHAUSTIVE_LIMIT, METHODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from fadiff_mapper.base.deadline import Over
    from fadiff_mapper.inputs.spec.mapping import Mapping
    from fadiff_mapper.inputs.spec.spec import Spec
    from fadiff_mapper.search.result import Result

SUMMARY = "fadiff.summary.json"
"""The file that a run of several problems has besides: their results side by side."""


def add(commands: Commands) -> None:
    """Adds the command with its arguments."""
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
                 "small problem", METHODS)
    parser.add_argument("--exhaustive", action="store_const", dest="method", const="exhaustive",
                        help="the same as --method exhaustive")
    parser.add_argument("--exhaustive-limit", type=positive, default=EXHAUSTIVE_LIMIT, metavar="N",
                        help=f"mappings above which that is refused (default {EXHAUSTIVE_LIMIT:,})")
    parser.add_argument("--effort", choices=EFFORTS, default="full",
                        help="how long each problem is searched (default full)")
    parser.add_argument("--imperfect", action="store_true",
                        help="also search factors that do not divide their dimension (Timeloop's imperfect factors)")
    parser.add_argument("--prove", action="store_true",
                        help="go on until it is proved that no mapping is better (dense designs)")
    parser.add_argument("--gap", type=float, default=0.0, metavar="SHARE",
                        help="with --prove: stop once the mapping is so close to the least bound (default 0)")
    parser.add_argument("--sensitivities", action="store_true",
                        help="also store what a little more of each constant of the machine would change")
    add_calibration(parser)
    add_verify(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Searches, writes the files of every problem as soon as there is a legal mapping, and prints the results.

    One problem is written into the output folder itself, several into folders of their names.

    Returns:
        The exit code: `CHECK_FAILED` where a result is to be verified and real Timeloop disagrees.
    """
    from fadiff_mapper.base import atomic_files
    from fadiff_mapper.base.deadline import interruptible
    from fadiff_mapper.gradient import with_layer_descent
    from fadiff_mapper.inputs.load_layers import files_of
    from fadiff_mapper.output.terminal.layer_search import print_results, progress
    from fadiff_mapper.search.options import SearchOptions
    if options.imperfect and options.sensitivities:
        raise FadiffError("--sensitivities: found with --imperfect; accepted: one of them, as residual factors have no "
                          "derivatives")
    search = with_layer_descent(SearchOptions(
        tuple(options.metric or ()), options.seed, options.time_limit, options.jobs, options.method, options.model,
        options.effort, options.imperfect, options.exhaustive_limit, read_calibration_argument(options), options.prove,
        options.gap))
    with reading_in_time(options):
        specs = load_inputs(options)
    if options.sensitivities:
        from fadiff_mapper.search.sensitivity.sensitivities import refuse_sparse
        for spec in specs.values():
            refuse_sparse(spec)
    check = _verification(list(specs)) if options.verify else None
    names, root, starts = list(specs), Path(options.output), _warm_starts(options.warm_start, list(specs.values()))
    folders = [root / name for name in names] if len(names) > 1 else [root]
    for folder in folders:
        atomic_files.check_names(folder, RESULT_FILES, files_of(options.files))
    deadline = None if search.time_limit is None else options.begun + search.time_limit
    with atomic_files.lock(root), interruptible() as stopped, progress(names, quiet=options.quiet) as on_progress:
        from fadiff_mapper.output.timeloop_files.run_files import run_files, summary_json
        from fadiff_mapper.search.map_layers import map_layers
        atomic_files.check_writable(root)
        results = map_layers(
            list(specs.values()), search, warm_starts=starts, on_progress=on_progress, stopped=stopped,
            deadline=deadline,
            on_better=lambda index, result: atomic_files.write_files(folders[index], run_files(result)))
        if options.sensitivities:
            from fadiff_mapper.base.deadline import with_grace
            late = with_grace(inf if deadline is None else deadline, stopped)
            for index, (target, result) in enumerate(zip(folders, results, strict=True)):
                results[index] = _with_sensitivities(result, late)
                atomic_files.write_files(target, run_files(results[index]))
        if len(names) > 1:
            atomic_files.write_files(root, {SUMMARY: summary_json(names, results)})
    if not options.quiet:
        print_results(names, results, options.output)
    disagreed = check is not None and max(map(check, names, results))
    return INTERRUPTED if stopped() else CHECK_FAILED if disagreed else DONE


def _with_sensitivities(result: Result, late: Over) -> Result:
    """The result with its sensitivities; where they fail, or there is no time for them, its status says so."""
    from fadiff_mapper.search.sensitivity.sensitivities import mapping_sensitivities
    found, lost = attempted("sensitivities", lambda: mapping_sensitivities(
        result.spec, result.mapping, result.metric, late))
    return replace(result, sensitivities=found or (), status=f"{result.status}; {lost}" if lost else result.status)


def _verification(names: list[str]) -> Callable[[str, Result], int]:
    """A function that compares a result with real Timeloop, prints the verdict and returns 1 where they differ, else 0.

    Raises FadiffError where Timeloop is not installed.
    """
    from fadiff_mapper.output.terminal.console import print_verdict
    from fadiff_mapper.timeloop.verify import real_model, verify
    program = real_model()
    return lambda name, result: print_verdict(verify(result.spec, result.mapping, result.stats, program),
                                              name if len(names) > 1 else "")


def _warm_starts(file: str | None, specs: list[Spec]) -> list[Mapping]:
    """The mapping in a file, if one is given. Raises FadiffError for several problems, or another problem's mapping."""
    from fadiff_mapper.inputs.load import load_mapping
    if file is None:
        return []
    if len(specs) > 1:
        raise FadiffError(f"--warm-start {file}: there are {len(specs)} problems; accepted: one problem")
    return [load_mapping(file, specs[0])]
