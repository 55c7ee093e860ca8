"""`call_mapper` and `call_model` of Timeloop's Python front end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from fadiff_mapper.base.atomic_files import check_writable, write_files
from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.inputs.native.arch import cycle_seconds
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.expressions import Expression, Literal
from fadiff_mapper.inputs.yaml.located import Map, Seq
from fadiff_mapper.model.stats import Stats, counted
from fadiff_mapper.output.run_files import map_txt
from fadiff_mapper.timeloop.find_programs import MAPPER, MODEL
from fadiff_mapper.timeloop.launchers import command
from fadiff_mapper.timeloop.programs import ProgramOutcome, ProgramSettings, run

Specification: TypeAlias = Any
"""A front end's object (`pytimeloop.timeloopfe`, `timeloopfe`), one file, a list of files, or a dict."""
WRITTEN_INPUT = "parsed-processed-input.yaml"  # the input file that the front end leaves in the output folder
VERSIONS = (".v4.", ".v3.")  # parts of a specification's module name that follow the front end's name


def input_files(specification: Specification, folder: Path, for_model: bool) -> tuple[str, ...]:
    """The absolute paths of a specification's files; SpecError where the value is no specification.

    An object or dict is written into the folder, as the front end would write it for the model or for the mapper.
    """
    if isinstance(specification, str | os.PathLike):
        return (os.path.abspath(specification),)
    if isinstance(specification, list | tuple) and all(isinstance(item, str | os.PathLike) for item in specification):
        return tuple(os.path.abspath(item) for item in specification)
    front_end = front_end_of(specification)
    if front_end:
        calls = import_module(f"{front_end}.common.backend_calls")
        text = str(calls._specification_to_yaml_string(specification, for_model))
    elif isinstance(specification, Mapping):
        text = dump(_unquoted(read_document(specification)))
    else:
        raise SpecError(f"specification: found {type(specification).__name__}; accepted: a Specification of "
                        "Timeloop's Python front end, a file, a list of files, or a dict")
    write_files(folder, {WRITTEN_INPUT: text})
    return (os.path.abspath(folder / WRITTEN_INPUT),)


def _unquoted(value: Any) -> Any:
    """The same tree with its strings as Python expressions; strings quoted in a file stay literal."""
    if isinstance(value, Map):
        return Map({key: _unquoted(item) for key, item in value.items()}, where=value.where, tag=value.tag)
    if isinstance(value, Seq):
        return Seq(map(_unquoted, value), where=value.where, tag=value.tag)
    return Expression(value) if isinstance(value, str) and not isinstance(value, Literal) else value


def front_end_of(specification: Specification) -> str:
    """The package of the front end that made the object, or an empty string."""
    module = type(specification).__module__
    if not hasattr(specification, "_parse_timeloop_output"):
        return ""
    return next((module.partition(version)[0] for version in VERSIONS if version in module), "")


DEFAULT_CYCLE = 1e-9  # seconds of a cycle where the input gives none


@dataclass(frozen=True)
class OutputStats:
    """The result of `call_mapper` and `call_model`: seconds, joules and square meters, all instances together.

    Timeloop's Python front end has a class of this name with the same attributes; `stats` is our addition.
    """

    percent_utilization: float  # computes over MAC instances times cycles, in percent
    computes: int  # multiply-accumulates
    cycles: int  # cycles
    cycle_seconds: float  # seconds of a cycle
    per_component_energy: dict[str, float]  # joules by component
    per_component_area: dict[str, float]  # square meters by component
    accesses: dict[str, dict[str, float]]  # words by level and action (reads, fills, updates), all data spaces together
    mapping: str  # the loop nest as text
    stats: Stats  # all other numbers, exact and in pJ
    variables: dict[str, Any]  # the `variables` section of the input
    latency: float  # seconds
    energy: float  # joules
    edp: float  # joule * seconds
    area: float  # square meters
    computes_per_second: float
    computes_per_second_per_square_meter: float  # infinite where no component has an area
    computes_per_joule: float  # infinite where all energies are 0

    def access(self, key: str) -> Any:
        """An attribute, or one of the variables. Raises AttributeError."""
        return self.variables[key] if key in self.variables else getattr(self, key)

    def per_compute(self, key: str) -> Any:
        """An attribute over the number of computes; of a dict, each value."""
        value = getattr(self, key)
        if isinstance(value, dict):
            return {name: part / self.computes for name, part in value.items()}
        return value / self.computes


def output_stats(done: ProgramOutcome) -> OutputStats:
    """The numbers of one run in the front end's units."""
    spec, stats = done.spec, done.stats
    seconds = cycle_seconds(spec.arch, spec.literal) or DEFAULT_CYCLE
    areas = {name: um2 * 1e-12 for name, um2 in stats.areas_um2.items()}
    latency, energy, area = stats.cycles * seconds, stats.energy_pj * 1e-12, sum(areas.values())
    rate = stats.computes / latency
    return OutputStats(
        percent_utilization=stats.utilization * 100, computes=stats.computes, cycles=stats.cycles,
        cycle_seconds=seconds, per_component_area=areas,
        per_component_energy={name: pj * 1e-12 for name, pj in stats.component_energies().items()},
        accesses={level["name"]: {  # over all instances and data spaces
            action: float(sum(counted(space[action], "actual") * space["utilized_instances"]
                              for space in level["dataspaces"].values()))
            for action in ("reads", "fills", "updates")} for level in stats.levels},
        mapping=map_txt(spec, done.mapping, stats), stats=stats, variables=dict(spec.literal.get("variables", {})),
        latency=latency, energy=energy, edp=energy * latency, area=area, computes_per_second=rate,
        computes_per_second_per_square_meter=rate / area if area else inf,
        computes_per_joule=stats.computes / energy if energy else inf)


Log = str | os.PathLike[str] | TextIO | None  # place of a program's lines: a file, its name, or (None) standard output


class CallFailed(FadiffError, RuntimeError):
    """A call that failed; also a RuntimeError, as scripts expect of the front end's functions."""


def call_mapper(specification: Specification, output_dir: str | os.PathLike[str],
                environment: Mapping[str, str] | None = None, extra_input_files: Sequence[str] | None = None,
                dump_intermediate_to: str | None = None, log_to: Log = None, extra_args: Sequence[str] = (),
                return_proc: bool = False, *, seed: int = 0, time_limit: float | None = None) -> Any:
    """Finds a mapping and writes the files of `timeloop-mapper`.

    Replaces `call_mapper` of Timeloop's Python front end (`pytimeloop.timeloopfe`). The `mapper` section of the input
    says how to search; `seed` and `time_limit` are our additions.

    Args:
        specification: An object of Timeloop's front end, a file, a list of files, or a dict.
        output_dir: The folder for the results; made where it does not exist.
        environment: Variables in addition to this process's. Names TIMELOOP_* are ignored, with a line in the log.
        extra_input_files: Files that are read with the specification.
        dump_intermediate_to: Has no effect, as in the front end: the input is kept as `parsed-processed-input.yaml`.
        log_to: A file, or its name, for the lines that the program prints; None: standard output.
        extra_args: Words of `timeloop-mapper`'s command line.
        return_proc: Whether to return the process at once.
        seed: Seed of the search.
        time_limit: Seconds for the search; None: no limit.

    Returns:
        The front end's own `OutputStats` for its object, else ours, which has the same attributes; with `return_proc`
        the process (subprocess.Popen) instead.

    Raises:
        CallFailed: The input cannot be read, there is no legal mapping, or the results cannot be written.
        KeyboardInterrupt: Ctrl-C ended the search; the best mapping so far is in the folder.
    """
    del dump_intermediate_to
    settings = ProgramSettings(os.environ | dict(environment or {}), seed, time_limit)
    return _call(MAPPER, specification, Path(output_dir), settings, tuple(extra_input_files or ()), log_to,
                 tuple(extra_args), return_proc)


def call_model(specification: Specification, output_dir: str | os.PathLike[str],
               environment: Mapping[str, str] | None = None, extra_input_files: Sequence[str] | None = None,
               dump_intermediate_to: str | None = None, log_to: Log = None, extra_args: Sequence[str] = (),
               return_proc: bool = False) -> Any:
    """Evaluates the mapping in the input and writes the files of `timeloop-model`.

    Replaces `call_model` of Timeloop's Python front end; arguments, results and errors are as for `call_mapper`,
    without seed and time limit. An illegal mapping raises CallFailed, too.
    """
    del dump_intermediate_to
    settings = ProgramSettings(os.environ | dict(environment or {}))
    return _call(MODEL, specification, Path(output_dir), settings, tuple(extra_input_files or ()), log_to,
                 tuple(extra_args), return_proc)


def _call(program: str, specification: Specification, folder: Path, settings: ProgramSettings,
          extra_files: tuple[str, ...], log_to: Log, extra_args: tuple[str, ...], return_proc: bool) -> Any:
    """Runs a program here or in a new process; arguments as for `call_mapper`."""
    settings = replace(settings, trusted=bool(front_end_of(specification)))  # the front end has run its code
    try:
        check_writable(folder)
        files = (*input_files(specification, folder, for_model=program == MODEL), *map(os.path.abspath, extra_files))
        with _log(log_to) as log:
            if return_proc:  # started as by its launcher
                options = [f"--seed={settings.seed}"]
                options += [f"--time-limit={settings.time_limit}"] if settings.time_limit is not None else []
                options += ["--trusted"] if settings.trusted else []
                return subprocess.Popen([*command(program, options), *extra_args, *files], cwd=folder,
                                        env=dict(settings.environment), stdout=log, stderr=subprocess.STDOUT)
            done = run(program, (*extra_args, *files), settings, lambda line: say(line, log, flush=True), folder)
    except FadiffError as error:
        raise CallFailed(str(error)) from error
    if done.interrupted:
        raise KeyboardInterrupt
    exact = output_stats(done)
    if not settings.trusted:
        return exact
    try:  # the front end's own reader, which fails where all areas are 0, as it divides by their sum
        found = specification._parse_timeloop_output(str(folder), prefix=program)
    except Exception as error:
        raise CallFailed(f"Timeloop's front end cannot read the results in {folder}: {type(error).__name__}: "
                         f"{error}") from error
    # It takes energies from the printed fJ per compute, with too few decimals for small analog parts.
    if isinstance(getattr(found, "per_component_energy", None), dict):
        energies = exact.per_component_energy.items()
        found.per_component_energy.update({name: joules for name, joules in energies if joules})
        found.energy, found.computes_per_joule = exact.energy, exact.computes_per_joule
    return found


@contextmanager
def _log(log_to: Log) -> Iterator[TextIO]:
    """The open file to print to; a file that is opened here is closed again."""
    if log_to is None:
        yield sys.stdout
    elif isinstance(log_to, str | os.PathLike):
        try:
            with open(log_to, "w", encoding="utf-8") as file:
                yield file
        except OSError as error:
            raise FadiffError(f"{error.filename or log_to}: cannot be written: {error.strerror}") from None
    else:
        yield log_to
