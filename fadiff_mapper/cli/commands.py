"""The commands: a function for each, which calls `api`, and a table of them all with their arguments."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from fadiff_mapper import api
from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.deadline import interruptible, reading_in_time
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.base.program_start import INTERRUPTED
from fadiff_mapper.base.standard_streams import say, say_error
from fadiff_mapper.cli import arguments
from fadiff_mapper.cli.arguments import (
    BITS,
    CHECK_FAILED,
    DONE,
    FLAG,
    FOLDING,
    INPUTS,
    JOBS,
    MODEL,
    NETWORKS,
    OUTPUT,
    READING,
    SEARCH,
    SEED,
    VARY,
    VERIFY,
    Argument,
    Command,
    Named,
    bits,
    decimal,
    folder,
    limit,
    numbers,
    positive,
    shard,
    weights,
)
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.network import options as network_options
from fadiff_mapper.search import options as search_options


def check(options: argparse.Namespace) -> int:
    """Prints all that was understood; returns `CHECK_FAILED` where no mapping can meet the constraints."""
    from fadiff_mapper.output.terminal.inputs import print_space, print_spec
    files, data = api.files_of(options.files), options.variables
    if options.vary or api.is_space(api.read_document(*files, jinja_data=data)):
        for flag, found in (("--bits", options.bits is not None), ("--energy", options.energy != "auto")):
            if found:
                raise FadiffError(f"{flag}: found with a space of designs, of which neither energies nor words are "
                                  "computed here; accepted: the command design, or the files of one design and problem")
        print_space(api.read_space(*files, jinja_data=data, vary=options.vary, strict=not options.lenient))
        return DONE
    return print_spec(arguments.load_input(options))


def evaluate(options: argparse.Namespace) -> int:
    """Prints the numbers of the mapping in the input; returns `CHECK_FAILED` where real Timeloop disagrees."""
    from fadiff_mapper.base.text_formats import json_text
    from fadiff_mapper.output.terminal.console import print_notes, print_verdict
    from fadiff_mapper.output.terminal.layers import print_stats
    spec, program = arguments.load_input(options), api.real_model() if options.verify else None
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
    search = search_options.SearchOptions(
        tuple(options.metric or ()), options.seed, options.time_limit, options.jobs, options.method, options.model,
        options.effort, options.imperfect, options.exhaustive_limit, arguments.calibration(options), options.prove,
        options.gap)
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
        target = Path(options.certificate)
        atomic_files.write_files(target.parent, {target.name: json.dumps(results[0].certificate(), indent=1) + "\n"})
    differ = [print_verdict(api.verify(result.spec, result.mapping, result.stats, program),
                            name if len(names) > 1 else "")
              for name, result in zip(names, results, strict=True)] if program else []
    return INTERRUPTED if stopped() else CHECK_FAILED if any(differ) else DONE


def map_network(options: argparse.Namespace) -> int:
    """Maps the network, writes its plan and prints it; returns `CHECK_FAILED` where real Timeloop disagrees."""
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.networks import print_plan
    from fadiff_mapper.output.terminal.progress import network_progress
    program = api.real_model() if options.verify else None
    search = network_options.NetworkOptions(
        options.metric, not options.no_fusion, options.seed, options.time_limit, options.jobs, options.method,
        options.model, options.longest, arguments.calibration(options), options.gap)
    network_options.check(search)
    with reading_in_time(options.begun, options.time_limit):
        network = api.load_network(options.network, **arguments.sizes(options))
        api.require_coverage(network, options.allow_partial, "--allow-partial")
        design = api.read_document(*options.files, jinja_data=options.variables)
    with interruptible() as stopped, network_progress(options.quiet, search.time_limit) as on_progress:
        result = api.map_network(
            network, design, search, energy=options.energy, strict=not options.lenient, allow_partial=True,
            output=options.output, read=[options.network, *options.files], begun=options.begun,
            on_progress=on_progress, stopped=stopped)
    if not options.quiet:
        print_plan(result, options.output)
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


def design(options: argparse.Namespace) -> int:
    """Searches, writes the best design with its mappings, all tables and the page, and prints the front.

    Returns `CHECK_FAILED` where real Timeloop disagrees, or the best design, evaluated again, differs from the store.
    """
    from fadiff_mapper.output.terminal.console import print_plan_verdicts
    from fadiff_mapper.output.terminal.designs import print_design
    from fadiff_mapper.output.terminal.progress import design_progress
    program, corrected = api.real_model() if options.verify else None, arguments.calibration(options)
    search = api.DesignOptions(
        tuple(options.metric or ["edp"]), not options.no_fusion, options.seed, options.time_limit, options.method,
        options.evaluations, options.gap, corrected, per_round=options.per_round)
    workers = api.DesignWorkers(options.jobs, options.backend, options.address, options.store, options.shard,
                                options.study)
    files = api.files_of([options.space, *options.arch])
    space = api.read_space(*files, jinja_data=options.variables, vary=options.vary, limits=options.limits,
                           energy=options.energy, strict=not options.lenient)
    networks = [api.load_network(name, **arguments.sizes(options)) for name in options.networks]
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
    network = api.load_network(options.model, **arguments.sizes(options))
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
    """Prints a line for every program and library that was looked for."""
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


COMMANDS = {
    "quickstart": Command(quickstart, "make a folder with a small design, layer, network and space to try and to "
                                      "change", (
        Argument("folder", "the folder to make", {"type": folder, "metavar": "DIR"}),
    )),
    "check": Command(check, "read and validate; print what was understood, of a space of designs its parameters and "
                            "its size", (*INPUTS, VARY)),
    "evaluate": Command(evaluate, "what timeloop-model computes for the mapping in the input", (
        *INPUTS,
        Argument("--json", "all numbers as JSON; infinite ones are null", FLAG),
        VERIFY,
    )),
    "map": Command(map_problems, "find good mappings and write them as timeloop-mapper does", (
        *INPUTS,
        *SEARCH,
        Argument("--metric", f"{', '.join(METRICS[:-1])} or {METRICS[-1]}; repeat it for further priorities",
                 {"action": "append", "metavar": "NAME"}),
        Argument("--warm-start", "a mapping to improve on", {"metavar": "FILE.map.yaml"}),
        Argument("--method", "annealing (default): simulated annealing on the exact model; gradient: the same from "
                             "the ends of gradient descents (FADiff; needs PyTorch); exhaustive: every mapping, the "
                             "true optimum of a small problem",
                 {"choices": search_options.METHODS, "default": search_options.METHODS[0]}, "method"),
        Argument("--exhaustive", "the same as --method exhaustive",
                 {"action": "store_const", "dest": "method", "const": "exhaustive"}, "method"),
        MODEL,
        Argument("--exhaustive-limit",
                 f"mappings above which that is refused (default {search_options.EXHAUSTIVE_LIMIT:,})",
                 {"type": positive, "metavar": "N", "default": search_options.EXHAUSTIVE_LIMIT}),
        Argument("--effort", "how long each problem is searched (default full)",
                 {"choices": search_options.EFFORTS, "default": "full"}),
        Argument("--imperfect", "also search factors that do not divide their dimension (Timeloop's imperfect factors)",
                 FLAG),
        Argument("--prove", "go on until it is proved that no mapping is better (dense designs)", FLAG),
        Argument("--gap", "with --prove: stop once the mapping is so close to the least bound (default 0)",
                 {"type": decimal, "default": 0.0, "metavar": "SHARE"}),
        Argument("--certificate", "with --prove: the proof of one problem, for `fadiff-validate certificate`",
                 {"metavar": "FILE.json"}),
        Argument("--sensitivities", "also store what a little more of each constant of the machine would change", FLAG),
    )),
    "network": Command(map_network, "map every layer of a network and fuse layers where that helps", (
        Argument("network", "a network file, an ONNX model, a folder of problems with edges.yaml, or "
                            "bundled:networks/NAME", {"metavar": "NET"}),
        *INPUTS,
        *SEARCH,
        Argument("--metric", "of the whole network",
                 {"choices": network_options.METRICS, "default": network_options.METRICS[0]}),
        Argument("--no-fusion", "every layer by itself", FLAG),
        Argument("--allow-partial", "map what is understood, even where that is less than 90 %% of the network", FLAG),
        *NETWORKS,
        Argument("--method", "annealing (default): annealed mappings and enumerated groups; gradient: also the "
                             "groups of a gradient descent on the mappings and fusion of all layers together "
                             "(FADiff; needs PyTorch)",
                 {"choices": network_options.METHODS, "default": network_options.METHODS[0]}),
        MODEL,
        Argument("--longest", f"layers of a fused group at most (default {network_options.LONGEST})",
                 {"type": positive, "default": network_options.LONGEST, "metavar": "N"}),
        Argument("--gap", "end as soon as the plan is proven to be at most so far above the best one, such as 0.01",
                 {"type": decimal, "metavar": "SHARE"}),
    )),
    "design": Command(design, "find the design of a space that is best for networks", (
        Argument("space", "an architecture with the section design_space, or bundled:spaces/NAME",
                 {"metavar": "SPACE"}),
        Argument("networks", "a network file, an ONNX model, a folder of problems with edges.yaml, or "
                             "bundled:networks/NAME", {"nargs": "+", "metavar": "NETWORK"}),
        Argument("--arch", "a further file of the space, such as the architecture that the space refers to",
                 {"action": "append", "default": [], "metavar": "FILE"}),
        *SEARCH,
        Argument("--metric", "edp (default), energy, delay, area, edap, or a product such as energy*area; given two "
                             "or three times, the Pareto front is searched", {"action": "append", "metavar": "NAME"}),
        Argument("--limit", "the greatest area_mm2, leakage_pj, units, or value of an expression over the "
                            "parameters; takes the place of the space's own",
                 {"dest": "limits", "action": Named, "default": {}, "type": limit, "metavar": "NAME=VALUE"}),
        Argument("--weights", "how often each network runs (default 1)", {"type": weights, "metavar": "W,W,..."}),
        Argument("--no-fusion --layers-alone", "every layer by itself, as map maps it; else networks are planned as "
                                               "network plans them", FLAG),
        Argument("--method", "bounds (the designs of the best lower bounds), gradient (also those of descents on "
                             "hardware, mappings and fusion together, as in DOSA; needs PyTorch), random, "
                             "exhaustive, tpe or nsga2 (these two need optuna); default: gradient, or bounds without "
                             "PyTorch", {"metavar": "NAME"}),
        Argument("--evaluations", "designs to map at most; designs beside the best one come on top, at most as many "
                                  "again", {"type": positive, "metavar": "N"}),
        Argument("--backend", "who carries the work: processes (default; those of this machine), or dask or ray",
                 {"default": "processes", "metavar": "NAME"}),
        Argument("--address", "the cluster's scheduler, such as tcp://host:8786", {"metavar": "URL"}),
        Argument("--per-round", "designs proposed at a time (default 8, for random and exhaustive 64), on which the "
                                "answer depends; for clusters of more workers", {"type": positive, "metavar": "N"}),
        Argument("--shard", "evaluate only every N-th of the designs, starting with the I-th; for array jobs that "
                            "share a --store", {"type": shard, "metavar": "I/N"}),
        Argument("--gap", "go on until the best design is proven to be at most so far above the best one of the "
                          "whole space: every other design is bounded, and mapped where it could be better by more",
                 {"type": decimal, "metavar": "SHARE"}),
        Argument("--store", "the folder that keeps all that is evaluated; runs may share it (default: store in the "
                            "output folder)", {"metavar": "FOLDER"}),
        Argument("--study", "take part in the search of that name in the --store, with all runs of the same command "
                            "that name it (tpe, nsga2)", {"metavar": "NAME"}),
        *READING,
        BITS,
        VARY,
        Argument("--allow-partial", "design for what is understood, even where that is less than 90 %% of a network",
                 FLAG),
        *NETWORKS,
    ), defaults={"energy": None}),
    "infer": Command(infer, "what the inference of a language model costs on a design", (
        Argument("model", "a config.json of Hugging Face's transformers (weights are not read), or bundled:models/NAME",
                 {"metavar": "MODEL"}),
        Argument("files", "the files of the design", {"nargs": "+", "metavar": "DESIGN"}),
        OUTPUT,
        Argument("--batch", "sequences at once, each an inference of its own (default 1)",
                 {"type": numbers, "default": [1], "metavar": "N,N,..."}),
        Argument("--prompt", "tokens of a sequence (default 2048)", {"type": int, "default": 2048, "metavar": "N"}),
        Argument("--generate", "tokens to generate (default 512)", {"type": int, "default": 512, "metavar": "N"}),
        Argument("--bits", "bits of an element of Weights, Cache and Activations, such as Weights=4,Cache=8; a word "
                           "of each memory by default", {"type": bits, "metavar": "NAME=N,..."}),
        Argument("--frequency", "cycles a second, in place of the design's", {"type": decimal, "metavar": "HZ"}),
        Argument("--metric", "by which problems are mapped", {"choices": network_options.METRICS, "default": "edp"}),
        SEED,
        JOBS,
        Argument("--serving-profile", "also write time tables as LLMServingSim reads them, into DIR/llmservingsim",
                 FLAG),
        Argument("--fuse", "run operators in fused groups where that pays", FLAG),
        FOLDING,
        *READING,
    )),
    "calibrate": Command(calibrate, "learn a correction of cycles from measured hardware", (
        Argument("measured", "", {"metavar": "MEASURED.csv"}),
        Argument("arch", "the measured design, as file or files", {"nargs": "+", "metavar": "ARCH"}),
        Argument("-o --output", "the calibration to write (JSON)", {"required": True, "metavar": "MODEL"}),
        Argument("--program", "what runs a mapping on the hardware: as-mapped (the loops of the mapping) or gemmini "
                              "(Gemmini's library); default: what predicts layers not learned from best",
                 {"metavar": "NAME"}),
        Argument("--seed", "of the split by layer (default 0)", {"type": int, "default": 0}),
    ), "MEASURED.csv has one measured point a row: rtl_cycles (or cycles), mapping (in one line, or the name of a "
        "YAML file), and the layer: R S P Q C K N with Wstride Hstride Wdilation Hdilation, or problem, the name of "
        "a YAML file; part=searched marks points that a search proposed, by which the correction is judged and from "
        "which it does not learn."),
    "explain": Command(explain, "where the numbers of a finished run come from", (
        Argument("folder", "a folder that `map` has written", {"type": folder, "metavar": "DIR"}),
        Argument("--count", "one access count as the product of the loops that cause it, such as DRAM Inputs reads",
                 {"nargs": 3, "metavar": ("LEVEL", "DATASPACE", "ACTION")}),
        Argument("--json", "everything as JSON", FLAG),
    )),
    "import": Command(import_network, "read a network and write it as a network file", (
        Argument("model", "", {"metavar": "MODEL"}),
        Argument("-o --output", "the network file to write (YAML)", {"required": True, "metavar": "FILE"}),
        BITS,
        *NETWORKS,
    ), "MODEL is an ONNX model, a folder of Timeloop problems with edges.yaml, or a network file. PyTorch modules "
        "are code, so they come in from Python only: fadiff_mapper.load_network(module, inputs)."),
    "schema": Command(schema, "print the JSON Schema of a kind of file, for an editor", (
        Argument("kind", "arch, problem, mapping, mapper, constraints, sparse, units, ERT, ART, network or space",
                 {"metavar": "KIND"}),
    )),
    "bundled": Command(bundled, "list the designs and workloads that come with this program", (
        Argument("prefix", "only those whose name begins so, such as layers/resnet18", {"nargs": "?", "default": ""}),
    )),
    "doctor": Command(doctor, "what is installed here and what that enables", ()),
    "shim": Command(shim, "write launchers by which unchanged Timeloop scripts run this program", (
        Argument("folder", "where they go; put it first on the PATH", {"type": folder, "metavar": "DIR"}),
        Argument("--remove", "remove them instead", FLAG),
        Argument("--seed", "seed of every search that the launchers start", {"type": int}),
        Argument("--time-limit", "time limit of every such search", {"type": decimal, "metavar": "SECONDS"}),
    )),
    "mcp": Command(mcp, "serve check, evaluate, map, network, design and explain to language models, by the Model "
                        "Context Protocol", (
        Argument("--folder", "the folder that tools read and write (default: the working folder)",
                 {"type": folder, "default": ".", "metavar": "DIR"}),
        Argument("--time-limit", "of a call at most (default 120)",
                 {"type": decimal, "default": 120.0, "metavar": "SECONDS"}),
    )),
}
"""Commands by name, in the order of the help."""
