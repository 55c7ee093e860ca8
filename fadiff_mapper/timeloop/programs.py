"""`timeloop-mapper` and `timeloop-model` on this package: files in, files out, lines to print."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.deadline import interruptible
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.energy import accelergy_tables, choose_source
from fadiff_mapper.inputs.energy.accelergy_tables import why_not
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import Mapping as LoopMapping
from fadiff_mapper.inputs.spec.spec import WARNING, Spec
from fadiff_mapper.inputs.spec.tables import energy_sources
from fadiff_mapper.model.evaluate_spec import evaluate, is_sparse
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output import RESULT_FILES
from fadiff_mapper.output.run_files import program_files, run_files
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.mapspace.build import rounded_up
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.timeloop.find_programs import MAPPER, MODEL
from fadiff_mapper.timeloop.run_model import CLEARED

OWN_RESULT = "timeloop-mapper.map.yaml"  # ignored as input, so that `*.yaml` works in a folder of results


def read_arguments(words: Sequence[str], folder: Path = Path(".")) -> tuple[list[str], Path]:
    """Reads a command line in a folder, as Timeloop does: the last `-o` counts, and its folder must exist.

    Returns the named files and the folder for the results. Raises FadiffError for an option that is unknown (Timeloop
    takes it for a file) or lacks its folder, and where no file is named.
    """
    files: list[str] = []
    output = folder
    rest = iter(words)
    for word in rest:
        if word == "-o":
            name = next(rest, None)
            if not name:
                raise FadiffError("-o: no folder follows; accepted: -o FOLDER")
            output = folder / name
        elif word.startswith("-"):
            raise FadiffError(f'unknown option "{word}"; accepted: input files and -o FOLDER')
        else:
            files.append(word)
    if not output.is_dir():
        raise FadiffError(f"cannot access output directory: {output}")
    if not {*files} - {OWN_RESULT}:
        raise FadiffError("no input files; accepted: input files and -o FOLDER")
    return files, output


def summary_line(stats: Stats) -> str:
    """Utilization, pJ per compute and cycles, as Timeloop prints them at the end of a run.

    A sparse design prints pJ per algorithmic compute, too, beside pJ per actual compute.
    """
    each = stats.energy_pj / stats.actual_computes if stats.actual_computes else math.inf
    algorithmic = (f"pJ/Algorithmic-Compute = {stats.energy_pj / stats.computes:8.3f} | " if stats.sections else "")
    return (f"Utilization = {stats.utilization:4.2f} | {algorithmic}pJ/Compute = {each:8.3f} | "
            f"Cycles = {stats.cycles}")


_OF_BOTH = ("stats.txt", "map.txt", "ERT.yaml", "ART.yaml", "ERT_summary.yaml", "ART_summary.yaml",
            "flattened_architecture.yaml", "accelergy.log", "map+stats.xml", "map.tensella.txt")
LEFT_BEHIND = {MAPPER: (*_OF_BOTH, "map.yaml", "map.cpp", "orojenesis.csv"), MODEL: _OF_BOTH}
"""Endings of the files of a run, Timeloop's or ours; files of an earlier run are removed, as they are not new."""


@dataclass(frozen=True)
class ProgramSettings:
    """Settings of a run beside its command line."""

    environment: Mapping[str, str]  # environment variables of the program
    seed: int = 0  # seed of a search
    time_limit: float | None = None  # seconds for a search; None: no limit
    trusted: bool = False  # whether Accelergy may run code of the input, see `_read`


@dataclass(frozen=True)
class ProgramOutcome:
    """The mapping that a program evaluated or found."""

    spec: Spec  # the input with its energies
    mapping: LoopMapping  # the mapping
    stats: Stats  # its numbers
    interrupted: bool = False  # whether Ctrl-C ended the search; the mapping is then the best so far


Say = Callable[[str], None]  # prints a line of Timeloop's programs


def run(program: str, words: Sequence[str], settings: ProgramSettings, say: Say,
        folder: Path = Path(".")) -> ProgramOutcome:
    """Runs one program by the words of its command line; afterwards the output folder has all its files or none.

    The run locks the folder from beginning to end; a second run fails before it changes anything. Results of an earlier
    run are removed first, so that no script takes them for new ones; results that are also input stay until new files
    replace them. A search writes its best mapping so far repeatedly; Ctrl-C ends it with that mapping. Raises
    FadiffError where input cannot be read, no mapping is legal, results cannot be written, or another run has the lock.
    """
    named, output = read_arguments(words, folder)
    files = [name for name in named if name != OWN_RESULT]
    if program not in LEFT_BEHIND:
        raise FadiffError(f'program: found "{program}"; accepted: {listed(LEFT_BEHIND)}')
    names = [f"{program}.{ending}" for ending in LEFT_BEHIND[program]]
    names += RESULT_FILES if program == MAPPER else []

    def remove() -> None:
        inputs = set(map(os.path.realpath, files))
        for path in (output / name for name in names):
            with suppress(OSError):
                if path.is_file() and not path.is_symlink() and os.path.realpath(path) not in inputs:
                    path.unlink()

    with atomic_files.lock(output):
        try:
            atomic_files.check_names(output, names)
            for name in files:
                say(f"input file: {name}")
            for _ in named[len(files):]:
                say(f"WARNING: found {OWN_RESULT} in input file list, ignoring.")
            spec, tables = _read(program, files, settings, say)
            atomic_files.check_writable(output)
        finally:
            remove()

        def write(results: Mapping[str, str]) -> None:
            atomic_files.write_files(output, {**results, **tables})

        try:
            if program == MAPPER:
                # Timeloop's mapper turns fixed factors that do not divide their dimension into shorter last runs.
                whole = rounded_up(spec.problem, spec.constraints)
                uneven = [] if is_sparse(spec) else [
                    f"{name}={bound}" for name, bound in spec.problem.bounds.items() if whole[name] != bound]
                if uneven:
                    say(f"WARNING: fixed factors do not divide {listed(uneven)}: the mapping has residual factors")
                options = SearchOptions(seed=settings.seed, time_limit=settings.time_limit, imperfect=bool(uneven))
                with interruptible() as stopped:
                    result = map_layers([spec], options, stopped=stopped,
                                        on_better=lambda _, better: write(run_files(better)))[0]
                outcome = ProgramOutcome(spec, result.mapping, result.stats, stopped())
                summary = [f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s)",
                           f"\nSummary stats for best mapping found by mapper:\n  {summary_line(result.stats)}"]
            else:
                stats = evaluate(spec)
                assert spec.mapping is not None
                write(program_files(MODEL, spec, spec.mapping, stats))
                outcome, summary = ProgramOutcome(spec, spec.mapping, stats), [summary_line(stats)]
        except Exception:
            remove()
            raise
        for line in summary:    # the files are written, even if a line cannot be printed
            say(line)
        return outcome


def _read(program: str, files: Sequence[str], settings: ProgramSettings, say: Say) -> tuple[Spec, dict[str, str]]:
    """The input with the energies that Timeloop would use, and the files that Accelergy wrote for it, by name.

    As in Timeloop, Accelergy runs only if the input has no ERT and describes components that it can price. It is found
    on the PATH, else in the folder ACCELERGYPATH. Trusted files are passed to it unchanged; else it gets the input as
    made safe by `accelergy_tables.answer`, whose FadiffErrors are raised.
    """
    environment = settings.environment
    for name, value in sorted(environment.items()):
        if name.startswith(CLEARED):
            say(f"WARNING: {name}={value} is ignored: switches of Timeloop's model have no effect here")
    spec, tables = load(*files, strict=False), dict[str, str]()
    if not any(table.source.startswith("ERT") for table in spec.tables.ert) and not why_not(spec.arch):
        folders = (environment.get(name, "") for name in ("PATH", "ACCELERGYPATH"))
        command = next((found for path in folders if (found := choose_source.installed(path))), None)
        if command is None:
            sources = listed(dict.fromkeys(energy_sources(spec.arch, spec.tables).values()))
            say(f"WARNING: no ERT in the input and no accelergy on the PATH: energies are {sources}")
        else:
            say(f"execute: {command}")
            answer = (accelergy_tables.answer_about_files(tuple(map(os.path.abspath, files)), command,
                                                          environment) if settings.trusted
                      else accelergy_tables.answer(spec.arch, spec.literal, command, environment))
            for note in answer.notes:
                say(f"WARNING: {note}")
            spec = replace(spec, tables=answer.tables)
            tables = {f"{program}.{name}": text for name, text in answer.files.items()}
    for note in spec.notes:
        say(f"WARNING: {note.removeprefix(WARNING)}" if note.startswith(WARNING) else f"note: {note}")
    return spec, tables
