"""`call_mapper` and `call_model`, as Timeloop's Python front end has them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from fadiff_mapper.base.atomic_files import check_writable
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.dropin.arguments import MAPPER, MODEL, read_arguments
from fadiff_mapper.dropin.command import command
from fadiff_mapper.dropin.output_stats import OutputStats, output_stats
from fadiff_mapper.dropin.programs import ProgramSettings, run
from fadiff_mapper.dropin.specification import Specification, front_end_of, input_files

Log = str | os.PathLike[str] | TextIO | None
"""Where the lines of a program go: a file, its name, or (None) standard output."""


class CallFailed(FadiffError, RuntimeError):
    """A call that failed. Also a RuntimeError, as scripts expect of the functions that these replace."""


def call_mapper(specification: Specification, output_dir: str | os.PathLike[str],
                environment: Mapping[str, str] | None = None, extra_input_files: Sequence[str] | None = None,
                dump_intermediate_to: str | None = None, log_to: Log = None, extra_args: Sequence[str] = (),
                return_proc: bool = False, *, seed: int = 0, time_limit: float | None = None) -> Any:
    """Finds a mapping and writes the files of `timeloop-mapper`.

    Takes the place of `call_mapper` of Timeloop's Python front end (`pytimeloop.timeloopfe`). The `mapper` section of
    the input says how to search; `seed` and `time_limit` are our additions.

    Args:
        specification: An object of Timeloop's front end, a file, a list of files, or a dict.
        output_dir: The folder for the results; made where it does not exist.
        environment: Variables in addition to this process's. Names TIMELOOP_* are ignored, and the log says so.
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

    Takes the place of `call_model` of Timeloop's Python front end.

    Args:
        specification: See `call_mapper`; with a mapping.
        output_dir: See `call_mapper`.
        environment: See `call_mapper`.
        extra_input_files: See `call_mapper`.
        dump_intermediate_to: See `call_mapper`.
        log_to: See `call_mapper`.
        extra_args: Words of `timeloop-model`'s command line.
        return_proc: See `call_mapper`.

    Returns:
        See `call_mapper`.

    Raises:
        CallFailed: The input cannot be read, the mapping is illegal, or the results cannot be written.
    """
    del dump_intermediate_to
    settings = ProgramSettings(os.environ | dict(environment or {}))
    return _call(MODEL, specification, Path(output_dir), settings, tuple(extra_input_files or ()), log_to,
                 tuple(extra_args), return_proc)


def _call(program: str, specification: Specification, folder: Path, settings: ProgramSettings,
          extra_files: tuple[str, ...], log_to: Log, extra_args: tuple[str, ...], return_proc: bool) -> Any:
    """Runs a program here, or starts it in a process of its own; arguments as those of `call_mapper`."""
    settings = replace(settings, trusted=bool(front_end_of(specification)))  # it has run what the input says already
    try:
        check_writable(folder)
        files = (*input_files(specification, folder, for_model=program == MODEL), *map(os.path.abspath, extra_files))
        with _log(log_to) as log:
            if return_proc:
                return _started(program, folder, settings, (*extra_args, *files), log)
            done = run(program, read_arguments((*extra_args, *files), folder), settings,
                       lambda line: say(line, log, flush=True))
    except FadiffError as error:
        raise CallFailed(str(error)) from error
    if done.interrupted:
        raise KeyboardInterrupt
    stats = output_stats(done)
    return _as_front_end(specification, folder, program, stats) if front_end_of(specification) else stats


def _as_front_end(specification: Specification, folder: Path, program: str, exact: OutputStats) -> Any:
    """The results as the front end itself reads the files; fails where all areas are 0, by whose sum it divides.

    It takes energies from the printed fJ per compute, of which two decimals are few on small analog parts: they are
    set to the exact ones.
    """
    try:
        found = specification._parse_timeloop_output(str(folder), prefix=program)
    except Exception as error:
        raise CallFailed(f"Timeloop's front end cannot read the results in {folder}: {type(error).__name__}: "
                         f"{error}") from error
    if isinstance(getattr(found, "per_component_energy", None), dict):
        energies = exact.per_component_energy.items()
        found.per_component_energy.update({name: joules for name, joules in energies if joules})
        found.energy, found.computes_per_joule = exact.energy, exact.computes_per_joule
    return found


def _started(program: str, folder: Path, settings: ProgramSettings, words: tuple[str, ...],
             log: TextIO) -> subprocess.Popen[bytes]:
    """Starts a program in a process of its own, as its launcher would."""
    options = [f"--seed={settings.seed}"]
    options += [f"--time-limit={settings.time_limit}"] if settings.time_limit is not None else []
    options += ["--trusted"] if settings.trusted else []
    return subprocess.Popen([*command(program, options), *words], cwd=folder, env=dict(settings.environment),
                            stdout=log, stderr=subprocess.STDOUT)


@contextmanager
def _log(log_to: Log) -> Iterator[TextIO]:
    """The open file to print to; only one that is opened here is closed."""
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
