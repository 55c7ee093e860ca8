"""The commands: a function for each, which calls `api` with the arguments that were read, and the exit codes."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper import api
from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.deadline import interruptible, reading_in_time
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.base.program_start import INTERRUPTED
from fadiff_mapper.base.standard_streams import say, say_error

if TYPE_CHECKING:
    from fadiff_mapper.api import Calibration, Spec

DONE, CHECK_FAILED, BAD_INPUT = 0, 1, 2
"""Exit codes: done; a check failed (constraints contradict each other, or real Timeloop disagrees); the input or the
arguments are wrong, and the error lines say what is accepted. Ctrl-C has `base.program_start.INTERRUPTED`."""


def calibration(options: argparse.Namespace) -> Calibration | None:
    """The calibration that --calibration names, if any. Raises FadiffError."""
    if options.calibration is None:
        if options.force:
            raise FadiffError("--force: found without --calibration; accepted: both, or neither")
        return None
    return api.read_calibration(options.calibration, force=options.force)


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `load_network`, from the options of `NETWORKS` and `BITS`."""
    return {"dims": options.dims, "shapes": options.shapes, "values": options.values,
            "busy_experts": options.busy_experts, "bits": options.bits, "fold": not options.no_folding}


def load_input(options: argparse.Namespace) -> Spec:
    """Reads the input as one spec, with the options of `INPUTS`. Raises SpecError."""
    spec = api.load(*api.files_of(options.files), jinja_data=options.variables, energy=options.energy,
                    strict=not options.lenient, bits=options.bits)
    api.refuse_missing_energies(spec, options.energy)
    return spec


def check(options: argparse.Namespace) -> int:
    """Prints the input as understood; returns `CHECK_FAILED` where no mapping can meet the constraints."""
    from fadiff_mapper.output.terminal.inputs import print_space, print_spec
    files, data = api.files_of(options.files), options.variables
    if options.vary or api.is_space(api.read_document(*files, jinja_data=data)):
        for flag, found in (("--bits", options.bits is not None), ("--energy", options.energy != "auto")):
            if found:
                raise FadiffError(f"{flag}: found with a space of designs, of which neither energies nor words are "
                                  "computed here; accepted: the command design, or the files of one design and problem")
        print_space(api.read_space(*files, jinja_data=data, vary=options.vary, strict=not options.lenient))
        return DONE
    return print_spec(load_input(options))


def evaluate(options: argparse.Namespace) -> int:
    """Prints the numbers of the mapping in the input; returns `CHECK_FAILED` where real Timeloop disagrees."""
    from fadiff_mapper.base.text_formats import json_text
    from fadiff_mapper.output.terminal.console import print_notes, print_verdict
    from fadiff_mapper.output.terminal.layers import print_stats
    spec, program = load_input(options), api.real_model() if options.verify else None
    stats = api.evaluate(spec)
    if options.json:
        say(json_text(stats.to_dict(), ascii_only=True))
    else:
        print_stats(stats)
        print_notes(spec)
    if program is None or spec.mapping is None:
        return DONE
    return print_verdict(api.verify(spec, spec.mapping, stats, program), file=sys.stderr if options.json else None)


def map_problems(options: argparse.Namespace) -> int:
    """Searches, writes the files of every problem as soon as there is a legal mapping, and prints the results.

    Returns `CHECK_FAILED` where real Timeloop disagrees.
    """
    from fadiff_mapper.output.terminal.console import print_verdict
    from fadiff_mapper.output.terminal.layers import print_results
    from fadiff_mapper.output.terminal.progress import layer_progress
    search = api.SearchOptions(
        metrics=tuple(options.metric or ()), seed=options.seed, time_limit=options.time_limit, threads=options.jobs,
        method=options.method, model=options.model, effort=options.effort, imperfect=options.imperfect,
        exhaustive_limit=options.exhaustive_limit, calibration=calibration(options), prove=options.prove,
        gap=options.gap)
    with reading_in_time(options.begun, options.time_limit):
        specs = api.load_layers(*options.files, jinja_data=options.variables, energy=options.energy,
                                strict=not options.lenient, bits=options.bits)
        for spec in specs.values():
            api.refuse_missing_energies(spec, options.energy)
    program, names, start = api.real_model() if options.verify else None, list(specs), options.warm_start
    if start is not None and len(specs) > 1:
        raise FadiffError(f"--warm-start {start}: there are {len(specs)} problems; accepted: one problem")
    if options.certificate and (len(specs) > 1 or not options.prove):
        raise FadiffError(f"--certificate {options.certificate}: found "
                          + (f"with {len(specs)} problems" if options.prove else "without --prove")
                          + "; accepted: one problem, with --prove")
    starts = [] if start is None else [api.load_mapping(start, next(iter(specs.values())))]
    with interruptible() as stopped, layer_progress(names, quiet=options.quiet) as on_progress:
        results = api.map_layers(specs, search, warm_starts=starts, sensitivities=options.sensitivities,
                                 output=options.output, begun=options.begun, on_progress=on_progress, stopped=stopped)
    if not options.quiet:
        print_results(names, results, options.output)
    if options.certificate:
        write_certificate(options.certificate, results[0])
    differ = [print_verdict(api.verify(result.spec, result.mapping, result.stats, program),
                            name if len(names) > 1 else "")
              for name, result in zip(names, results, strict=True)] if program else []
    return INTERRUPTED if stopped() else CHECK_FAILED if any(differ) else DONE


def write_certificate(file: str, result: api.Result | api.NetworkResult | api.DesignResult) -> None:
    """Writes the certificate of a proof. Raises FadiffError where there is none."""
    target = Path(file)
    atomic_files.write_files(target.parent, {target.name: json.dumps(result.certificate()) + "\n"})


def map_network(options: argparse.Namespace) -> int:
    """Maps the network, writes its plan and prints it; returns `CHECK_FAILED` where real Timeloop disagrees."""
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.networks import print_plan
    from fadiff_mapper.output.terminal.progress import network_progress
    program = api.real_model() if options.verify else None
    search = api.NetworkOptions(
        metric=options.metric, fuse=not options.no_fusion, seed=options.seed, time_limit=options.time_limit,
        threads=options.jobs, method=options.method, model=options.model, longest=options.longest,
        calibration=calibration(options), gap=options.gap)
    with reading_in_time(options.begun, options.time_limit):
        network = api.load_network(options.network, **sizes(options))
        api.require_coverage(network, options.allow_partial, "--allow-partial")
        design = api.read_document(*options.files, jinja_data=options.variables)
    with interruptible() as stopped, network_progress(options.quiet, search.time_limit) as on_progress:
        result = api.map_network(
            network, design, search, energy=options.energy, strict=not options.lenient, allow_partial=True,
            output=options.output, read=[options.network, *options.files], begun=options.begun,
            on_progress=on_progress, stopped=stopped)
    if not options.quiet:
        print_plan(result, options.output)
    if options.certificate:
        write_certificate(options.certificate, result)
    differ = program is not None and print_plan_verdicts(result, program)
    return INTERRUPTED if stopped() else CHECK_FAILED if differ else DONE


def explain(options: argparse.Namespace) -> None:
    """Reads the folder and prints the explanation."""
    from fadiff_mapper.base.text_formats import json_text
    from fadiff_mapper.output.terminal.layers import print_counts, print_explained
    run = api.read_run(options.folder)
    explained = api.explain_run(run, options.count)
    if options.json:
        say(json_text(explained.to_dict(), ascii_only=True))
    elif options.count:
        print_counts(explained)
    else:
        print_explained(run, explained)


def read_space(options: argparse.Namespace, files: Sequence[Path]) -> api.DesignSpace:
    """The space of designs in some files, as the options say."""
    return api.read_space(*files, jinja_data=options.variables, vary=options.vary, limits=options.limits,
                          energy=options.energy, strict=not options.lenient)


def design(options: argparse.Namespace) -> int:
    """Searches, writes the best design with its mappings, all tables and the page, and prints the front.

    Returns `CHECK_FAILED` where real Timeloop disagrees, or the best design, evaluated again, differs from the store.
    """
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.designs import print_design
    from fadiff_mapper.output.terminal.progress import design_progress
    program, corrected = api.real_model() if options.verify else None, calibration(options)
    search = api.DesignOptions(
        metrics=tuple(options.metric or ["edp"]), fuse=not options.no_fusion, seed=options.seed,
        time_limit=options.time_limit, method=options.method, evaluations=options.evaluations, gap=options.gap,
        calibration=corrected, per_round=options.per_round)
    workers = api.DesignWorkers(jobs=options.jobs, backend=options.backend, address=options.address,
                                store=options.store, shard=options.shard, study=options.study)
    if options.certificate and options.gap is None:
        raise FadiffError(f"--certificate {options.certificate}: found without --gap; accepted: with --gap")
    files = api.files_of([options.space, *options.arch])
    space = read_space(options, files)
    networks = [api.load_network(name, **sizes(options)) for name in options.networks]
    for network in networks:
        api.require_coverage(network, options.allow_partial, "--allow-partial")
    with interruptible() as stopped, design_progress(search.metrics[0], quiet=options.quiet) as on_progress:
        result = api.search_design(
            space, networks, search, weights=options.weights, workers=workers, allow_partial=True,
            output=options.output, read=[*files, *api.files_of(options.networks)], begun=options.begun,
            on_progress=on_progress, stopped=stopped)
    if not options.quiet:
        print_design(result, options.output)
    for warning in result.warnings:
        say_error(warning, "warning: ")
    if options.certificate:
        write_certificate(options.certificate, result)
    differ = [print_plan_verdicts(network, program) for network in result.mapped_networks] if program else []
    return INTERRUPTED if stopped() else CHECK_FAILED if any(differ) or not result.confirmed else DONE


def infer(options: argparse.Namespace) -> int:
    """Maps all layers, writes tables and page, and prints the numbers of every batch."""
    from fadiff_mapper.output.terminal.inference import print_inference
    with interruptible() as stopped:
        result = api.infer(
            options.model, options.files, batch=options.batch, prompt=options.prompt, generate=options.generate,
            frequency=options.frequency, metric=options.metric, seed=options.seed, jobs=options.jobs,
            energy=options.energy, strict=not options.lenient, bits=options.bits,
            fold=not options.no_folding, fuse=options.fuse, jinja_data=options.variables, output=options.output,
            serving_profile=options.serving_profile, stopped=stopped)
    print_inference(result, options.output)
    return INTERRUPTED if stopped() else DONE


def calibrate(options: argparse.Namespace) -> int:
    """Fits, writes and prints the calibration; returns `CHECK_FAILED` where it does not beat the exact model."""
    from fadiff_mapper.output.terminal.console import print_calibration
    fitted = api.calibrate(options.measured, api.files_of(options.arch), program=options.program, seed=options.seed,
                           output=options.output)
    print_calibration(fitted, options.output)
    return DONE if fitted.useful else CHECK_FAILED


def import_network(options: argparse.Namespace) -> None:
    """Reads the network, writes its file whole or not at all, and prints what is in it."""
    from fadiff_mapper.output.terminal.networks import print_network
    output = Path(options.output)
    atomic_files.check_names(output.parent, [output.name, "network.schema.json"], api.files_of([options.model]))
    network = api.load_network(options.model, **sizes(options))
    api.save_network(network, output)
    print_network(network, options.output)


def quickstart(options: argparse.Namespace) -> None:
    """Writes the files and prints the commands to try."""
    api.quickstart(options.folder)
    say(f"{options.folder} has a design, a layer, a network and a space of designs, with comments. Try in this folder:")
    for words in ("map design.yaml layer.yaml -o layer", "explain layer", "network network.yaml design.yaml -o network",
                  "design space.yaml network.yaml --arch design.yaml --evaluations 5 -o space"):
        say(f"  fadiff-mapper {words}")


def schema(options: argparse.Namespace) -> None:
    """Prints the schema."""
    say(json.dumps(api.json_schema(options.kind), indent=1))


def bundled(options: argparse.Namespace) -> None:
    """Prints the names, one a line."""
    for name in api.bundled_names(options.prefix):
        say(name)


def doctor(_: argparse.Namespace) -> None:
    """Prints a line for every program and library of `examine`."""
    from fadiff_mapper.output.terminal.console import print_findings
    print_findings(api.examine())


def shim(options: argparse.Namespace) -> None:
    """Writes or removes the launchers and prints their names."""
    target = Path(options.folder)
    if options.remove:
        if options.seed is not None or options.time_limit is not None:
            raise FadiffError("--remove: found with --seed or --time-limit of launchers that are written; accepted: "
                              "one of them")
        for path in api.remove_launchers(target):
            say(f"removed {path}")
        return
    for path in api.write_launchers(target, seed=options.seed, time_limit=options.time_limit):
        say(f"wrote {path}")
    say(f"now, in the shell: export PATH={shlex.quote(str(target.absolute()))}:\"$PATH\"")


def mcp(options: argparse.Namespace) -> None:
    """Serves on standard input and output."""
    require("mcp", "mcp", "mcp")
    from fadiff_mapper.cli.mcp_server import serve
    serve(Path(options.folder), options.time_limit)
