"""The public Python interface: all that the command line calls, each of whose flags is an argument here.

The searches of layers, networks and designs, in memory or into a folder of results, are written below; `__getattr__`
finds the other functions in their rooms. Modules are imported when they are first used, so that small commands stay
instant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from math import inf
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fadiff_mapper.base.atomic_files import check_names, lock, write_files
from fadiff_mapper.base.deadline import never, with_grace
from fadiff_mapper.base.errors import FadiffError, InvalidMapping, SpecError, attempted
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.search.options import MOST_THREADS, SearchOptions

if TYPE_CHECKING:
    from fadiff_mapper.base.bundled_files import bundled_names
    from fadiff_mapper.base.deadline import Over
    from fadiff_mapper.base.version import __version__
    from fadiff_mapper.calibration.correction import Calibration, read_calibration
    from fadiff_mapper.design.question import DesignOptions, DesignWorkers
    from fadiff_mapper.design.result import DesignResult
    from fadiff_mapper.design.search_design import OnDesign
    from fadiff_mapper.design.space import DesignSpace, is_space, read_space
    from fadiff_mapper.inference.infer import InferenceResult
    from fadiff_mapper.inference.language_model import LanguageModel, read_model
    from fadiff_mapper.inputs.load import (
        Source,
        files_of,
        load,
        load_layers,
        load_mapping,
        read_document,
        refuse_missing_energies,
    )
    from fadiff_mapper.inputs.spec.mapping import Mapping
    from fadiff_mapper.model.evaluate_spec import evaluate
    from fadiff_mapper.model.stats import Stats
    from fadiff_mapper.network.one_design import Design
    from fadiff_mapper.network.options import NetworkOptions
    from fadiff_mapper.network.planning import OnProgress
    from fadiff_mapper.network.result import NetworkResult
    from fadiff_mapper.output.schema import json_schema
    from fadiff_mapper.search.explanation.explain_run import explain_run, read_run
    from fadiff_mapper.search.options import Progress
    from fadiff_mapper.search.result import Result
    from fadiff_mapper.timeloop.calls import call_mapper, call_model
    from fadiff_mapper.timeloop.doctor import examine
    from fadiff_mapper.timeloop.launchers import remove_launchers, write_launchers
    from fadiff_mapper.timeloop.verify import real_model, verify
    from fadiff_mapper.workload import Workload
    from fadiff_mapper.workload.coverage import require_coverage
    from fadiff_mapper.workload.readers.load_network import load_network

    Path_ = str | PathLike[str]

_HOME = {
    "base.bundled_files": ("bundled_names",), "base.version": ("__version__",),
    "calibration.correction": ("Calibration", "read_calibration"),
    "design.question": ("DesignOptions", "DesignWorkers"), "design.result": ("DesignResult",),
    "design.space": ("DesignSpace", "is_space", "read_space"),
    "inference.infer": ("InferenceResult",), "inference.language_model": ("LanguageModel", "read_model"),
    "inputs.load": ("files_of", "load", "load_layers", "load_mapping", "read_document", "refuse_missing_energies"),
    "inputs.spec.mapping": ("Mapping",), "model.stats": ("Stats",),
    "model.evaluate_spec": ("evaluate",), "network.options": ("NetworkOptions",),
    "network.result": ("NetworkResult",), "output.schema": ("json_schema",),
    "search.explanation.explain_run": ("explain_run", "read_run"),
    "search.result": ("Result",), "timeloop.calls": ("call_mapper", "call_model"), "timeloop.doctor": ("examine",),
    "timeloop.launchers": ("remove_launchers", "write_launchers"), "timeloop.verify": ("real_model", "verify"),
    "workload": ("Workload",), "workload.coverage": ("require_coverage",),
    "workload.readers.load_network": ("load_network",)}
"""The rooms of the public functions and classes that are not written here."""


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used."""
    for room, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"fadiff_mapper.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "MOST_THREADS",
    "Calibration",
    "DesignOptions",
    "DesignResult",
    "DesignSpace",
    "DesignWorkers",
    "FadiffError",
    "InferenceResult",
    "InvalidMapping",
    "LanguageModel",
    "Mapping",
    "NetworkOptions",
    "NetworkResult",
    "Result",
    "SearchOptions",
    "Spec",
    "SpecError",
    "Stats",
    "Workload",
    "__version__",
    "bundled_names",
    "calibrate",
    "call_mapper",
    "call_model",
    "evaluate",
    "examine",
    "explain_run",
    "files_of",
    "infer",
    "is_space",
    "json_schema",
    "load",
    "load_layers",
    "load_mapping",
    "load_network",
    "map_layer",
    "map_layers",
    "map_network",
    "quickstart",
    "read_calibration",
    "read_document",
    "read_model",
    "read_run",
    "read_space",
    "real_model",
    "refuse_missing_energies",
    "remove_launchers",
    "require_coverage",
    "save_network",
    "search_design",
    "verify",
    "write_launchers",
]

SUMMARY = "fadiff.summary.json"
"""The file that a run of several problems has besides: their results side by side."""

CHECKPOINT = "fadiff.checkpoint.json"
"""The mappings of a network found so far, in its output folder: a run that was killed goes on from there."""

Options = TypeVar("Options", "SearchOptions", "NetworkOptions", "DesignOptions")


def _with_given(options: Options, **given: Any) -> Options:
    """Options with the values that are given, not None, in the place of theirs; metrics may be one, or a list."""
    if isinstance(metrics := given.get("metrics"), str | list):
        given["metrics"] = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    return replace(options, **{name: value for name, value in given.items() if value is not None})


def map_layer(spec: Spec, options: SearchOptions | None = None, *, metric: str | Sequence[str] | None = None,
              seed: int | None = None, time_limit: float | None = None, prove: bool | None = None,
              gap: float | None = None, warm_start: Mapping | None = None,
              sensitivities: bool = False, output: Path_ | None = None,
              on_progress: Callable[[Progress], None] | None = None) -> Result:
    """Finds a mapping of one problem: `map_layers` with one problem.

    Returns:
        The best mapping with its statistics, how far it can be from the best possible one, and how the search ended.
    """
    watch = None if on_progress is None else lambda _, progress: on_progress(progress)
    return map_layers([spec], options, metric=metric, seed=seed, time_limit=time_limit, prove=prove, gap=gap,
                      warm_starts=[warm_start], sensitivities=sensitivities, output=output, on_progress=watch)[0]


def map_layers(specs: Sequence[Spec] | AnyMapping[str, Spec], options: SearchOptions | None = None, *,
               metric: str | Sequence[str] | None = None, seed: int | None = None, time_limit: float | None = None,
               prove: bool | None = None, gap: float | None = None,
               warm_starts: Sequence[Mapping | None] = (), sensitivities: bool = False,
               output: Path_ | None = None, begun: float | None = None,
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None, stopped: Over = never) -> list[Result]:
    """Finds a mapping for each of many problems, all at once; equal problems are mapped once.

    Args:
        specs: The problems, each on its design; with their names where several are written.
        options: Effort and parts of the search; None is `SearchOptions()`.
        metric: One metric, or several in order of priority; takes the place of `options.metrics`.
        seed, time_limit, prove, gap: Take the place of these fields of `options`; the time is for all problems.
        warm_starts: For each problem a mapping to start from, or None; the result is at least as good.
        sensitivities: Whether results have the derivatives of their metric by the constants of the machine, too. Where
            these fail, or there is no time for them, the result's status says so.
        output: Folder into which the files of every result are written as soon as there is a legal mapping, and again
            as it improves: of one problem into the folder itself, of several into folders of their names.
        begun: When the time limit begins, seconds of `time.monotonic`; None: now.
        on_progress: Called with the number of a problem whenever its best mapping improves.
        on_better: Called with the number of a problem and a result to keep: a first one, better ones while the search
            runs, and the last.
        stopped: Asked again and again; once true, the search ends with the best so far.

    Returns:
        One result per problem, in order.

    Raises:
        FadiffError: An option is out of range, constraints contradict each other, a space is too large for an
            exhaustive search, a warm start is not a legal mapping of its problem, no legal mapping is found, or the
            folder cannot be written to. The results of the other problems have then been written.
    """
    from fadiff_mapper.output import RESULT_FILES
    from fadiff_mapper.search import map_layers as layer_search
    options = _with_given(options or SearchOptions(), metrics=metric or None, seed=seed, time_limit=time_limit,
                          prove=prove, gap=gap)
    if options.method == "gradient":
        from fadiff_mapper.gradient import with_layer_descent
        options = with_layer_descent(options)
    names = list(specs) if isinstance(specs, AnyMapping) else []
    problems = list(specs.values() if isinstance(specs, AnyMapping) else specs)
    if sensitivities:
        from fadiff_mapper.search.explanation.sensitivities import mapping_sensitivities, refuse_sparse
        if options.imperfect:
            raise FadiffError("sensitivities: found with imperfect; accepted: one of them, as residual factors have no "
                              "derivatives")
        for spec in problems:
            refuse_sparse(spec)
    deadline = None if options.time_limit is None or begun is None else begun + options.time_limit
    root = Path(output or ".")
    folders = [root / name for name in names] if len(problems) > 1 else [root]
    if output is not None and len(folders) != len(problems):
        raise FadiffError("output: found several problems without names; accepted: a dict with a name for each")

    def keep(index: int, result: Result) -> None:
        if output is not None:
            from fadiff_mapper.output.run_files import run_files
            write_files(folders[index], run_files(result))
        if on_better is not None:
            on_better(index, result)

    with nullcontext() if output is None else lock(
            root, dict.fromkeys(folders, RESULT_FILES), (file for spec in problems for file in spec.files)):
        results = layer_search.map_layers(problems, options, warm_starts=warm_starts, on_progress=on_progress,
                                          on_better=keep, stopped=stopped, deadline=deadline)
        late = with_grace(inf if deadline is None else deadline, stopped)
        for index, result in enumerate(results if sensitivities else ()):
            found, lost = attempted("sensitivities", lambda: mapping_sensitivities(
                result.spec, result.mapping, result.metric, late))  # noqa: B023  called at once
            results[index] = replace(result, sensitivities=found or (),
                                     status=f"{result.status}; {lost}" if lost else result.status)
            keep(index, results[index])
        if output is not None and len(problems) > 1:
            from fadiff_mapper.output.run_files import summary_json
            write_files(root, {SUMMARY: summary_json(names, results)})
    return results


def _read_networks(networks: Sequence[Any], allow_partial: bool) -> tuple[Workload, ...]:
    """Networks, read where they are not yet `Workload`s. Raises FadiffError if too little of one is understood."""
    from fadiff_mapper.workload import Workload
    from fadiff_mapper.workload.coverage import require_coverage
    from fadiff_mapper.workload.readers.load_network import load_network
    found = tuple(each if isinstance(each, Workload) else load_network(each) for each in networks)
    for network in found:
        require_coverage(network, allow_partial, "allow_partial=True")
    return found


def map_network(workload: Any, arch_spec: Design, options: NetworkOptions | None = None, *,
                metric: str | None = None, seed: int | None = None, time_limit: float | None = None,
                gap: float | None = None, energy: str = "bundled", strict: bool = True,
                jinja_data: AnyMapping[str, Any] | None = None, checkpoint_file: Path_ | None = None,
                allow_partial: bool = False, output: Path_ | None = None, read: Sequence[Path_] = (),
                begun: float | None = None, on_progress: OnProgress = lambda *_: None,
                stopped: Over = never) -> NetworkResult:
    """Plans a whole network: fused groups, their tiles, all mappings.

    Args:
        workload: A `Workload`, or anything that `load_network` reads.
        arch_spec: The design: a `Spec` (its problem is left out), a dict, a file or several.
        options: Effort and parts of the search; None is `NetworkOptions()`.
        metric, seed, time_limit, gap: Take the place of these fields of `options`.
        energy: Where energies come from that no ERT in the design gives (see `energy.source_names.CHOICES`).
        strict: Whether input of the design that Timeloop ignores is an error, not a warning.
        jinja_data: Variables of the design's Jinja2 templates, as for `load`.
        checkpoint_file: File to which mappings of layers and groups are written as they are found, and from which
            they are read if it exists; None: `CHECKPOINT` in the output folder, if there is one.
        allow_partial: Whether the network may have operators that are not understood.
        output: Folder for the plan, its page, and the files of every layer and tile.
        read: Further files that were read: no result is written over them.
        begun: When the time limit begins, seconds of `time.monotonic`, where it holds for the files, too; None: now,
            and for the search alone.
        on_progress: Called with a stage and the network's value at every improvement.
        stopped: Asked again and again; once true, the search ends with the best plan so far.

    Returns:
        A plan that is never worse than the layers one by one.

    Raises:
        SpecError: The design or the network is wrong.
        FadiffError: Too little of the network is understood, an option is out of range, a layer has no legal mapping,
            the checkpoint is of another network, design or version, or the folder cannot be written to.
    """
    from fadiff_mapper.inputs.load import read_document, source_files
    from fadiff_mapper.network.map_network import plan_network
    from fadiff_mapper.network.one_design import specs_of
    from fadiff_mapper.network.options import NetworkOptions, check
    from fadiff_mapper.network.planning_clock import PlanningClock, command_clock
    from fadiff_mapper.output import PLAN_FILES
    from fadiff_mapper.output.network_files import write_held
    files = (*read, *([workload] if isinstance(workload, str | PathLike) else []))
    workload, = _read_networks([workload], allow_partial)
    options = _with_given(options or NetworkOptions(), metric=metric, seed=seed, time_limit=time_limit, gap=gap)
    check(options)
    descent = None
    if options.method == "gradient":
        from fadiff_mapper.gradient import descent_for_network
        descent = descent_for_network(options)
    if not isinstance(arch_spec, Spec):
        sources = [arch_spec] if isinstance(arch_spec, str | PathLike | AnyMapping) else arch_spec
        files = (*files, *source_files(sources))
        arch_spec = read_document(*sources, jinja_data=jinja_data) if jinja_data else arch_spec
    root = Path(output or ".")
    with nullcontext() if output is None else lock(root, {root: (*PLAN_FILES, CHECKPOINT)}, files):
        clock = PlanningClock(options.time_limit, stopped) if begun is None else command_clock(
            options.time_limit, stopped, begun, workload)  # reading the design counts, too
        specs = specs_of(workload, arch_spec, energy, strict, clock.late())
        result = plan_network(
            workload, specs, options,
            checkpoint_file=checkpoint_file or (root / CHECKPOINT if output is not None else None),
            on_progress=on_progress, clock=clock, descent=descent)
        return result if output is None else write_held(
            result, root, never if begun is None else clock.over_for_files)


def search_design(space: DesignSpace | Source | Sequence[Source], networks: Any,
                  options: DesignOptions | None = None, *, metric: str | Sequence[str] | None = None,
                  seed: int | None = None, time_limit: float | None = None, evaluations: int | None = None,
                  gap: float | None = None, weights: Sequence[float] | None = None,
                  workers: DesignWorkers | None = None, allow_partial: bool = False, output: Path_ | None = None,
                  read: Sequence[Path_] = (), begun: float | None = None, on_progress: OnDesign = lambda _: None,
                  stopped: Over = never) -> DesignResult:
    """Searches the best design of a space for one network or several.

    Args:
        space: An architecture with a section `design_space`: what `read_space` gave, which takes further limits and a
            source of energies, or files or a dict as for `load`.
        networks: A network, or a list: each a `Workload`, or anything that `load_network` reads.
        options: What is searched for, how, and how long; None is `DesignOptions()`.
        metric: One metric, or two or three for a front; takes the place of `options.metrics`.
        seed, time_limit, evaluations, gap: Take the place of these fields of `options`.
        weights: How often each network runs; once by default.
        workers: Who evaluates designs, and what several runs share; None is `DesignWorkers()`.
        allow_partial: Whether a network may have operators that are not understood.
        output: Folder for the best architecture with its mappings, every design in a table, and the page.
        read: Further files that were read: no result is written over them.
        begun: When the time limit begins, seconds of `time.monotonic`, where it holds for the files, too; None: now,
            and for the search alone.
        on_progress: Called after every design.
        stopped: Asked after every design; once true, the search ends with the best so far.

    Returns:
        The best design or the front, all designs evaluated, and the best one's mappings.

    Raises:
        SpecError: The space or a network is wrong.
        FadiffError: An option is out of range, something is not installed, no design evaluated is feasible (the message
            says which limit is to blame), or the folder cannot be written to.
    """
    from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
    from fadiff_mapper.design.search_design import kept_back
    from fadiff_mapper.design.search_design import search_design as design_search
    from fadiff_mapper.design.space import DesignSpace, read_space
    from fadiff_mapper.gradient import descent_for_designs
    from fadiff_mapper.inputs.load import source_files
    from fadiff_mapper.output import RUN_FILES, STORE
    from fadiff_mapper.output.design_files import write_open_folder
    options = _with_given(options or DesignOptions(), metrics=metric, seed=seed, time_limit=time_limit,
                          evaluations=evaluations, gap=gap)
    descent, files = descent_for_designs(options.method), tuple(read)
    if not isinstance(space, DesignSpace):
        sources = [space] if isinstance(space, str | PathLike | AnyMapping) else space
        space, files = read_space(*sources), (*files, *source_files(sources))
    workloads = _read_networks(networks if isinstance(networks, list | tuple) else [networks], allow_partial)
    question = DesignQuestion(space, workloads, tuple(weights or (1.0,) * len(workloads)), options)
    root, workers = Path(output or "."), workers or DesignWorkers()
    if output is not None and workers.store is None:
        workers = replace(workers, store=root / STORE)
    with nullcontext() if output is None else lock(root, {root: RUN_FILES}, files):
        result = design_search(question, workers, on_progress=on_progress, stopped=stopped, descent=descent,
                               kept_back=0.0 if begun is None else kept_back(begun))
        return result if output is None else write_open_folder(
            result, root, lambda: begun is not None and options.time_limit is not None and
            time.monotonic() > begun + options.time_limit)


def infer(model: Any, design: Design, *, batch: Sequence[int] = (1,),
          prompt: int = 2048, generate: int = 512, frequency: float | None = None, metric: str = "edp", seed: int = 0,
          jobs: int | None = None, energy: str = "bundled", strict: bool = True,
          bits: AnyMapping[str, Any] | None = None, fold: bool = True, fuse: bool = False,
          jinja_data: AnyMapping[str, Any] | None = None, output: Path_ | None = None, serving_profile: bool = False,
          stopped: Over = never) -> InferenceResult:
    """Finds what the inference of a language model costs on a design: a prompt at once, then token after token.

    Args:
        model: A `config.json` of Hugging Face's transformers, `bundled:models/NAME`, a dict of the same keys, what
            `read_model` gave, or a PyTorch module, on any device: one of transformers counts as its configuration, any
            other takes tokens [batch, prompt] and is traced for the prompt only (`generate=1`). Weights are not read.
        design: As `arch_spec` of `map_network`; its compute units do what has no multiply-accumulates.
        batch: Numbers of sequences, each an inference of its own.
        prompt, generate: Tokens of a sequence, and tokens that are generated.
        frequency: Cycles a second; None: `global_cycle_seconds` of the design.
        metric: By which every problem is mapped: "edp", "energy" or "delay".
        seed: The same seed gives the same mappings.
        jobs: Threads at work; None: all cores.
        energy, strict, jinja_data: As for `map_network`.
        bits: Bits of an element of `Weights`, `Cache` and `Activations`, such as `{"Weights": {"bits": 4, "scale": 16,
            "per": 128}, "Cache": 8}`, as in `load`; a word of every memory where none are given.
        fold: As for `load_network`.
        fuse: Whether operators run in fused groups where that pays, as `map_network` plans them; else one by one.
        output: Folder for the tables, all numbers and the page.
        serving_profile: Whether time tables in the form of LLMServingSim's profiles are written, too, up to the largest
            batch, into the folder `llmservingsim` there.
        stopped: Asked again and again; once true, the search ends with the best so far.

    Returns:
        Time to first token, time and energy of every further one, and the share of each operator, at every batch.

    Raises:
        SpecError: The model's description or the design is wrong.
        FadiffError: A number is out of range, the prompt is longer than the model's context, a module cannot be traced
            or would have to generate, no unit of the design does an operation, the design has no clock, LLMServingSim
            has no form for the model's layers, or the folder cannot be written to.
    """
    from fadiff_mapper.inference import infer as inference
    from fadiff_mapper.inference import serving_profile as serving
    from fadiff_mapper.inference.language_model import described
    from fadiff_mapper.inputs.load import read_document, source_files
    from fadiff_mapper.output import INFERENCE_FILES
    sources = [design] if isinstance(design, str | PathLike) else list(design) if isinstance(
        design, list | tuple) and all(isinstance(each, str | PathLike) for each in design) else []
    files = [*source_files(sources), *([model] if isinstance(model, str | PathLike) else [])]
    read = described(model)
    if serving_profile and output is None:
        raise FadiffError("serving_profile: found no output; accepted: a folder to write to")
    if serving_profile and not fold:
        raise FadiffError("serving_profile: found fold=False; accepted: fold=True: its tables have no place for copies")
    if serving_profile and fuse:
        raise FadiffError("serving_profile: found fuse=True; accepted: fuse=False: its tables have each part")
    folders: dict[Path, tuple[str, ...]] = {} if output is None else {Path(output): INFERENCE_FILES}
    if output is not None and serving_profile:
        serving.describable(read)
        folders |= {Path(output, "llmservingsim", name): names for name, names in serving.FILES.items()}
    with nullcontext() if output is None else lock(Path(output), folders, files):
        document = read_document(*sources, jinja_data=jinja_data) if sources else design
        question = inference.InferenceQuestion(
            model=read, design=document, batch=batch, prompt=prompt, generate=generate, frequency=frequency,
            metric=metric, seed=seed, jobs=jobs, energy=energy, strict=strict, bits=bits or {}, fold=fold, fuse=fuse,
            stopped=stopped)
        result = inference.infer(question)
        if output is not None:
            from fadiff_mapper.output.inference_files import inference_files
            tables = serving.serving_profile(question) if serving_profile else {}
            write_files(Path(output), inference_files(result))
            for name, texts in tables.items():
                folder = Path(output, "llmservingsim", name)
                write_files(folder, texts)
                for old in set(serving.FILES[name]).difference(texts):  # of another model's profile
                    (folder / old).unlink(missing_ok=True)
        return result


def calibrate(measured: Path_, arch: Source | Sequence[Source], *, program: str | None = None, seed: int = 0,
              output: Path_ | None = None) -> Calibration:
    """Learns a correction of cycles from measured hardware, and judges it beside the exact model.

    Args:
        measured: A table (CSV) with one measured point a row: `rtl_cycles` or `cycles`, the mapping and the layer.
        arch: The measured design: a file, several, or a dict.
        program: How the hardware runs a mapping: "as-mapped", by its loops, or "gemmini", as Gemmini's library does;
            None: the one that predicts layers not learned from better.
        seed: Seed of the split of layers into folds.
        output: File for the calibration (JSON), from which `read_calibration` reads it.

    Returns:
        The correction with its verdicts; `useful` says whether it beats the exact model.

    Raises:
        FadiffError: A file cannot be read or written, an entry of the table is wrong, or there are fewer than five
            layers.
    """
    from fadiff_mapper.calibration import calibrate as calibration
    from fadiff_mapper.calibration.correction import calibration_text
    from fadiff_mapper.calibration.measured_points import read_measured
    from fadiff_mapper.inputs.load import read_document, source_files
    sources = [arch] if isinstance(arch, str | PathLike | AnyMapping) else arch
    written_to = None if output is None else Path(output)
    if written_to is not None:
        check_names(written_to.parent, [written_to.name], [str(measured), *source_files(sources)])
    fitted = calibration.calibrate(read_measured(measured, read_document(*sources)), program=program, seed=seed)
    if written_to is not None:
        write_files(written_to.parent, {written_to.name: calibration_text(fitted)})
    return fitted


def save_network(network: Workload, path: Path_) -> None:
    """Writes a network as a file that the command line and `load_network` read, and its schema for editors beside it.

    Args:
        network: Any network, such as one traced from a PyTorch module.
        path: The file, ending in .yaml or .yml. The schema is `network.schema.json` in the same folder.

    Raises:
        FadiffError: The name ends otherwise, or a file cannot be written.
    """
    from fadiff_mapper.output.schema import schema_file, schema_line
    from fadiff_mapper.workload.readers.network_text import network_text
    file = Path(path)
    if file.suffix not in (".yaml", ".yml"):
        raise FadiffError(f"{file}: found the suffix \"{file.suffix}\"; accepted: .yaml, .yml")
    write_files(file.parent, {file.name: schema_line("network") + network_text(network), **schema_file("network")})


def quickstart(folder: Path_) -> list[Path]:
    """Writes a small design, a layer, a network and a space of designs, with comments, into a new folder.

    Schemas beside them let editors complete and check all four.
    Raises FadiffError where the folder has one of these files already, or cannot be written to.
    """
    from fadiff_mapper.base import bundled_files
    from fadiff_mapper.output.schema import schema_file
    root, texts = Path(folder), {path.name: path.read_text(encoding="utf-8")
                                 for path in sorted((bundled_files.ROOT / "quickstart").glob("*.yaml"))}
    for kind in ("arch", "problem", "network", "space"):
        texts |= schema_file(kind)
    for name in texts:
        if (root / name).exists():
            raise FadiffError(f"{root / name}: is there already; accepted: a new folder")
    write_files(root, texts)
    return [root / name for name in texts]

