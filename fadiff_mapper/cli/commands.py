"""The commands: each has a function that describes its arguments, and one that runs it by calls of `api`."""

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
from fadiff_mapper.cli.arguments import CHECK_FAILED, DONE, Commands
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.network import options as network_options
from fadiff_mapper.search import options as search_options


def add_check(commands: Commands) -> None:
    parser = commands.add_parser("check", help="read and validate; print what was understood, of a space of designs "
                                 "its parameters and its size")
    arguments.add_inputs(parser)
    arguments.add_vary(parser)
    parser.set_defaults(run=check)


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


def add_evaluate(commands: Commands) -> None:
    parser = commands.add_parser("evaluate", help="what timeloop-model computes for the mapping in the input")
    arguments.add_inputs(parser)
    parser.add_argument("--json", action="store_true", help="all numbers as JSON; infinite ones are null")
    arguments.add_verify(parser)
    parser.set_defaults(run=evaluate)


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


def add_map(commands: Commands) -> None:
    parser = commands.add_parser("map", help="find good mappings and write them as timeloop-mapper does")
    arguments.add_inputs(parser)
    arguments.add_search(parser)
    parser.add_argument("--metric", action="append", metavar="NAME",
                        help=f"{', '.join(METRICS[:-1])} or {METRICS[-1]}; repeat it for further priorities")
    parser.add_argument("--warm-start", metavar="FILE.map.yaml", help="a mapping to improve on")
    arguments.add_gradient(parser, "annealing (default): simulated annealing on the exact model; gradient: the same "
                           "from the ends of gradient descents (FADiff; needs PyTorch); exhaustive: every mapping, the "
                           "true optimum of a small problem", search_options.METHODS, exhaustive=True)
    parser.add_argument("--exhaustive-limit", type=arguments.positive, metavar="N",
                        default=search_options.EXHAUSTIVE_LIMIT,
                        help=f"mappings above which that is refused (default {search_options.EXHAUSTIVE_LIMIT:,})")
    parser.add_argument("--effort", choices=search_options.EFFORTS, default="full",
                        help="how long each problem is searched (default full)")
    parser.add_argument("--imperfect", action="store_true",
                        help="also search factors that do not divide their dimension (Timeloop's imperfect factors)")
    parser.add_argument("--prove", action="store_true",
                        help="go on until it is proved that no mapping is better (dense designs)")
    parser.add_argument("--gap", type=arguments.decimal, default=0.0, metavar="SHARE",
                        help="with --prove: stop once the mapping is so close to the least bound (default 0)")
    parser.add_argument("--certificate", metavar="FILE.json",
                        help="with --prove: the proof of one problem, for `fadiff-validate certificate`")
    parser.add_argument("--sensitivities", action="store_true",
                        help="also store what a little more of each constant of the machine would change")
    parser.set_defaults(run=map_problems)


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


def add_network(commands: Commands) -> None:
    parser = commands.add_parser("network", help="map every layer of a network and fuse layers where that helps")
    parser.add_argument("network", metavar="NET", help="a network file, an ONNX model, a folder of problems with "
                        "edges.yaml, or bundled:networks/NAME")
    arguments.add_inputs(parser)
    arguments.add_search(parser)
    parser.add_argument("--metric", choices=network_options.METRICS, default=network_options.METRICS[0],
                        help="of the whole network")
    parser.add_argument("--no-fusion", action="store_true", help="every layer by itself")
    parser.add_argument("--allow-partial", action="store_true",
                        help="map what is understood, even where that is less than 90 %% of the network")
    arguments.add_dimensions(parser)
    arguments.add_gradient(parser, "annealing (default): annealed mappings and enumerated groups; gradient: also the "
                           "groups of a gradient descent on the mappings and fusion of all layers together (FADiff; "
                           "needs PyTorch)", network_options.METHODS)
    parser.add_argument("--longest", type=arguments.positive, default=network_options.LONGEST, metavar="N",
                        help=f"layers of a fused group at most (default {network_options.LONGEST})")
    parser.add_argument("--gap", type=arguments.decimal, metavar="SHARE",
                        help="end as soon as the plan is proven to be at most so far above the best one, such as 0.01")
    parser.set_defaults(run=map_network)


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


def add_explain(commands: Commands) -> None:
    parser = commands.add_parser("explain", help="where the numbers of a finished run come from")
    parser.add_argument("folder", type=arguments.folder, metavar="DIR", help="a folder that `map` has written")
    parser.add_argument("--count", nargs=3, metavar=("LEVEL", "DATASPACE", "ACTION"),
                        help="one access count as the product of the loops that cause it, such as DRAM Inputs reads")
    parser.add_argument("--json", action="store_true", help="everything as JSON")
    parser.set_defaults(run=explain)


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


def add_design(commands: Commands) -> None:
    parser = commands.add_parser("design", help="find the design of a space that is best for networks")
    parser.add_argument("space", metavar="SPACE", help="an architecture with the section design_space, or "
                        "bundled:spaces/NAME")
    parser.add_argument("networks", nargs="+", metavar="NETWORK", help="a network file, an ONNX model, a folder of "
                        "problems with edges.yaml, or bundled:networks/NAME")
    parser.add_argument("--arch", action="append", default=[], metavar="FILE",
                        help="a further file of the space, such as the architecture that the space refers to")
    arguments.add_search(parser)
    parser.add_argument("--metric", action="append", metavar="NAME",
                        help="edp (default), energy, delay, area, edap, or a product such as energy*area; given two or "
                             "three times, the Pareto front is searched")
    parser.add_argument("--limit", dest="limits", action=arguments.Named, default={}, type=arguments.limit,
                        metavar="NAME=VALUE", help="the greatest area_mm2, leakage_pj, units, or value of an "
                        "expression over the parameters; takes the place of the space's own")
    parser.add_argument("--weights", type=arguments.weights, metavar="W,W,...",
                        help="how often each network runs (default 1)")
    parser.add_argument("--no-fusion", "--layers-alone", action="store_true",
                        help="every layer by itself, as map maps it; else networks are planned as network plans them")
    parser.add_argument("--method", metavar="NAME",
                        help="bounds (the designs of the best lower bounds), gradient (also those of descents on "
                             "hardware, mappings and fusion together, as in DOSA; needs PyTorch), random, exhaustive, "
                             "tpe or nsga2 (these two need optuna); default: gradient, or bounds without PyTorch")
    parser.add_argument("--evaluations", type=arguments.positive, metavar="N",
                        help="designs to map at most; designs beside the best one come on top, at most as many again")
    parser.add_argument("--backend", default="processes", metavar="NAME",
                        help="who carries the work: processes (default; those of this machine), or dask or ray")
    parser.add_argument("--address", metavar="URL", help="the cluster's scheduler, such as tcp://host:8786")
    parser.add_argument("--per-round", type=arguments.positive, metavar="N",
                        help="designs proposed at a time (default 8, for random and exhaustive 64), on which the "
                             "answer depends; for clusters of more workers")
    parser.add_argument("--shard", type=arguments.shard, metavar="I/N",
                        help="evaluate only every N-th of the designs, starting with the I-th; for array jobs that "
                             "share a --store")
    parser.add_argument("--gap", type=arguments.decimal, metavar="SHARE",
                        help="go on until the best design is proven to be at most so far above the best one of the "
                             "whole space: every other design is bounded, and mapped where it could be better by more")
    parser.add_argument("--store", metavar="FOLDER", help="the folder that keeps all that is evaluated; runs may share "
                        "it (default: store in the output folder)")
    parser.add_argument("--study", metavar="NAME", help="take part in the search of that name in the --store, with all "
                        "runs of the same command that name it (tpe, nsga2)")
    arguments.add_reading(parser, energy=None)
    arguments.add_bits(parser)
    arguments.add_vary(parser)
    parser.add_argument("--allow-partial", action="store_true",
                        help="design for what is understood, even where that is less than 90 %% of a network")
    arguments.add_dimensions(parser)
    parser.set_defaults(run=design)


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


def add_infer(commands: Commands) -> None:
    parser = commands.add_parser("infer", help="what the inference of a language model costs on a design")
    parser.add_argument("model", metavar="MODEL", help="a config.json of Hugging Face's transformers (weights are not "
                        "read), or bundled:models/NAME")
    parser.add_argument("files", nargs="+", metavar="DESIGN", help="the files of the design")
    parser.add_argument("-o", "--output", required=True, type=arguments.folder, metavar="DIR",
                        help="folder for the results")
    parser.add_argument("--batch", type=arguments.numbers, default=[1], metavar="N,N,...",
                        help="sequences at once, each an inference of its own (default 1)")
    parser.add_argument("--prompt", type=int, default=2048, metavar="N", help="tokens of a sequence (default 2048)")
    parser.add_argument("--generate", type=int, default=512, metavar="N", help="tokens to generate (default 512)")
    parser.add_argument("--bits", type=arguments.bits, metavar="NAME=N,...",
                        help="bits of an element of Weights, Cache and Activations, such as Weights=4,Cache=8; a word "
                             "of each memory by default")
    parser.add_argument("--frequency", type=arguments.decimal, metavar="HZ",
                        help="cycles a second, in place of the design's")
    parser.add_argument("--metric", choices=network_options.METRICS, default="edp", help="by which problems are mapped")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same answer (default 0)")
    parser.add_argument("--jobs", type=arguments.jobs, metavar="N", help="threads (default: all cores)")
    parser.add_argument("--serving-profile", action="store_true",
                        help="also write time tables as LLMServingSim reads them, into DIR/llmservingsim")
    parser.add_argument("--fuse", action="store_true", help="run operators in fused groups where that pays")
    arguments.add_folding(parser)
    arguments.add_reading(parser)
    parser.set_defaults(run=infer)


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
    """Fits, writes and prints the calibration; returns `CHECK_FAILED` where it does not beat the exact model."""
    from fadiff_mapper.output.terminal.console import print_calibration
    fitted = api.calibrate(options.measured, api.files_of(options.arch), program=options.program, seed=options.seed,
                           output=options.output)
    print_calibration(fitted, options.output)
    return DONE if fitted.useful else CHECK_FAILED


def add_import(commands: Commands) -> None:
    parser = commands.add_parser(
        "import", help="read a network and write it as a network file",
        description="MODEL is an ONNX model, a folder of Timeloop problems with edges.yaml, or a network file. PyTorch "
                    "modules are code, so they come in from Python only: fadiff_mapper.load_network(module, inputs).")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the network file to write (YAML)")
    arguments.add_bits(parser)
    arguments.add_dimensions(parser)
    parser.set_defaults(run=import_network)


def import_network(options: argparse.Namespace) -> None:
    """Reads the network, writes its file whole or not at all, and prints what is in it."""
    from fadiff_mapper.output.terminal.networks import print_network
    output = Path(options.output)
    atomic_files.check_names(output.parent, [output.name, "network.schema.json"], api.files_of([options.model]))
    network = api.load_network(options.model, **arguments.sizes(options))
    api.save_network(network, output)
    print_network(network, options.output)


def add_quickstart(commands: Commands) -> None:
    parser = commands.add_parser("quickstart", help="make a folder with a small design, layer, network and space "
                                                    "to try and to change")
    parser.add_argument("folder", type=arguments.folder, metavar="DIR", help="the folder to make")
    parser.set_defaults(run=quickstart)


def quickstart(options: argparse.Namespace) -> None:
    """Writes the files and prints the commands to try."""
    api.quickstart(options.folder)
    say(f"{options.folder} has a design, a layer, a network and a space of designs, with comments. Try in this folder:")
    for words in ("map design.yaml layer.yaml -o layer", "explain layer", "network network.yaml design.yaml -o network",
                  "design space.yaml network.yaml --arch design.yaml --evaluations 5 -o space"):
        say(f"  fadiff-mapper {words}")


def add_schema(commands: Commands) -> None:
    parser = commands.add_parser("schema", help="print the JSON Schema of a kind of file, for an editor")
    parser.add_argument("kind", metavar="KIND", help="arch, problem, mapping, mapper, constraints, sparse, units, ERT, "
                                                     "ART, network or space")
    parser.set_defaults(run=schema)


def schema(options: argparse.Namespace) -> None:
    """Prints the schema."""
    say(json.dumps(api.json_schema(options.kind), indent=1))


def add_bundled(commands: Commands) -> None:
    parser = commands.add_parser("bundled", help="list the designs and workloads that come with this program")
    parser.add_argument("prefix", nargs="?", default="",
                        help="only those whose name begins so, such as layers/resnet18")
    parser.set_defaults(run=bundled)


def bundled(options: argparse.Namespace) -> None:
    """Prints the names, one a line."""
    for name in api.bundled_names(options.prefix):
        say(name)


def add_doctor(commands: Commands) -> None:
    parser = commands.add_parser("doctor", help="what is installed here and what that enables")
    parser.set_defaults(run=doctor)


def doctor(_: argparse.Namespace) -> None:
    """Prints a line for every program and library that was looked for."""
    from fadiff_mapper.output.terminal.console import print_findings
    print_findings(api.examine())


def add_shim(commands: Commands) -> None:
    parser = commands.add_parser("shim", help="write launchers by which unchanged Timeloop scripts run this program")
    parser.add_argument("folder", type=arguments.folder, metavar="DIR", help="where they go; put it first on the PATH")
    parser.add_argument("--remove", action="store_true", help="remove them instead")
    parser.add_argument("--seed", type=int, help="seed of every search that the launchers start")
    parser.add_argument("--time-limit", type=arguments.decimal, metavar="SECONDS",
                        help="time limit of every such search")
    parser.set_defaults(run=shim)


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


def add_mcp(commands: Commands) -> None:
    parser = commands.add_parser("mcp", help="serve check, evaluate, map, network, design and explain to language "
                                             "models, by the Model Context Protocol")
    parser.add_argument("--folder", type=arguments.folder, default=".", metavar="DIR",
                        help="the folder that tools read and write (default: the working folder)")
    parser.add_argument("--time-limit", type=arguments.decimal, default=120.0, metavar="SECONDS",
                        help="of a call at most (default 120)")
    parser.set_defaults(run=mcp)


def mcp(options: argparse.Namespace) -> None:
    """Serves on standard input and output."""
    require("mcp", "mcp", "mcp")
    from fadiff_mapper.cli.mcp_server import serve
    serve(Path(options.folder), options.time_limit)
