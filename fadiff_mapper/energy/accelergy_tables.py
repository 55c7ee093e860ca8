"""Asks Accelergy for the energies and areas of an architecture, once: its answer is kept."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError, SpecError, listed
from fadiff_mapper.energy import answer_cache
from fadiff_mapper.energy.accelergy_answer import assembled
from fadiff_mapper.energy.accelergy_components import DescribedHardware, described
from fadiff_mapper.energy.accelergy_request import left_out, request
from fadiff_mapper.energy.run_accelergy import LOG, ask, first_line, inherited
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.tables import read_tables
from fadiff_mapper.spec.tables import Tables, component_name, missing_actions
from fadiff_mapper.yaml.load import dump, load_text
from fadiff_mapper.yaml.located import Map, with_places
from fadiff_mapper.yaml.place import Where

TIME_LIMIT_S = 60.0
"""Seconds for one run, a safety limit."""
ANSWER_FORMAT = "3"
"""Number of the format of kept answers: another one leaves older answers aside."""
ASK_VERSION = "from importlib.metadata import version; print(version('accelergy'))"
VERSION = re.compile(r"\d[\w.+-]{0,40}", re.ASCII)
"""The printed version; anything else is taken for no answer."""
CONFIGURATION = ".config/accelergy/accelergy_config.yaml"
"""Accelergy's configuration below the home folder."""
FILE_NAMES = {"architecture": "flattened_architecture"}
"""Names of the files of sections that are named otherwise."""
AVOID = "--energy bundled, estimate or built-in does without Accelergy"


@dataclass(frozen=True)
class AccelergyAnswer:
    """One answer of Accelergy.

    Attributes:
        tables: Its ERT and ART.
        files: The files that it writes for such an input, and its `LOG`, by name.
        notes: A sentence about attributes that it was not told, if there are such.
    """

    tables: Tables
    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


def complete_answer(arch: Architecture, literal: Mapping[str, Any], program: str, *,
                    time_limit: float = TIME_LIMIT_S) -> AccelergyAnswer:
    """Accelergy's tables for an architecture, complete.

    Args:
        arch: The architecture.
        literal: Sections of the input, see `answer`.
        program: Path of the `accelergy` command.
        time_limit: Seconds for one run.

    Raises:
        SpecError: The input says more than can be worked out or handed over.
        FadiffError: Accelergy fails, or leaves a component without a price. Both messages say how to do without it.
    """
    try:
        found = answer(arch, literal, program, os.environ, time_limit)
        missing = missing_actions(arch, found.tables)
        if missing:
            raise FadiffError(f"Accelergy left a table without energies for {listed(missing)}")
    except FadiffError as error:
        family = SpecError if isinstance(error, SpecError) else FadiffError
        raise family(f"{error}; {AVOID}") from None
    return found


def answer(arch: Architecture, literal: Mapping[str, Any], program: str, environment: Mapping[str, str],
           time_limit: float = TIME_LIMIT_S) -> AccelergyAnswer:
    """Asks Accelergy about an architecture; the answer comes from the cache where it was asked before.

    Args:
        arch: The architecture.
        literal: Sections of the input (see `Spec.literal`), of which Accelergy reads the compound components.
        program: Path of the `accelergy` command.
        environment: Environment variables of the run.
        time_limit: Seconds for the run.

    Returns:
        The answer, not necessarily complete: a plug-in may be lacking.

    Raises:
        FadiffError: In one line: Accelergy fails, takes too long, or leaves a table that cannot be read.
        SpecError: The input says more than can be worked out or handed over.
    """
    hardware = described(arch, literal)
    text = request(hardware)
    version = installed_version(program, environment)
    key = answer_cache.key_of(ANSWER_FORMAT, text, version, *_fingerprints(program, environment))
    kept = answer_cache.read(key)
    if kept:
        try:
            return _read(hardware, kept, version)
        except FadiffError:
            pass  # damaged: ask again
    files = ask(text, program, environment, time_limit)
    fresh = _read(hardware, files, version)
    if not missing_actions(arch, fresh.tables):  # else a plug-in is lacking, which may be installed later
        answer_cache.write(key, files)
    return fresh


def answer_about_files(files: Sequence[str], program: str, environment: Mapping[str, str],
                       time_limit: float = TIME_LIMIT_S) -> AccelergyAnswer:
    """Asks Accelergy about input files as they are, which it may run as code; nothing is kept.

    Args:
        files: Absolute paths. What they say must be trusted: their text is evaluated, and functions and plug-ins that
            they name are loaded.
        program: Path of the `accelergy` command.
        environment: Environment variables of the run.
        time_limit: Seconds for the run.

    Raises:
        FadiffError: As in `answer`.
    """
    written = ask(files, program, environment, time_limit)
    ert, art = (_section(written, kind) for kind in ("ERT", "ART"))
    try:
        tables = read_tables(ert, ert.where, art, art.where, _source(ert, installed_version(program, environment)))
    except FadiffError as error:
        raise _unusable(error) from None
    return AccelergyAnswer(tables, written)


def installed_version(program: str, environment: Mapping[str, str]) -> str:
    """The version of Accelergy.

    Args:
        program: Path of the command. The Python in its first line is asked, as several may be installed.
        environment: Environment variables of that Python.

    Returns:
        The version, "" where the command is no Python script or gives no answer.
    """
    try:
        with open(program, "rb") as file:
            first = file.readline(1024).decode("utf-8", "replace").split()
        if not first or not first[0].startswith("#!") or "python" not in Path(first[-1]).name:
            return ""
        done = run_program.run([first[0][2:], *first[1:], "-c", ASK_VERSION], Path(program).parent,
                               inherited(environment), 30)
    except (OSError, FadiffError):
        return ""
    said = done.output.strip()
    return said if done.returncode == 0 and VERSION.fullmatch(said) else ""


def _fingerprints(program: str, environment: Mapping[str, str]) -> list[str]:
    """Digests of the command and of its configuration, which names the plug-ins."""
    home = environment.get("HOME")
    files = [Path(program), *([Path(home) / CONFIGURATION] if home else [])]
    return [hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "" for file in files]


def _read(hardware: DescribedHardware, files: Mapping[str, str], version: str) -> AccelergyAnswer:
    """What Accelergy's files say about the whole input. Raises FadiffError."""
    ert, art = (_section(files, kind) for kind in ("ERT", "ART"))
    source = _source(ert, version)
    try:
        answered = read_tables(ert if ert.get("tables") else None, ert.where, art, art.where, source)
        sections = assembled(hardware, answered, _estimators(files, "ERT", "primitive_estimation(s)"),
                             _estimators(files, "ART", "primitive_estimations"))
        if not sections["ERT"]["tables"]:
            raise FadiffError("ERT: no component has an action")
        energies, areas = (with_places(sections[kind], Where(kind)) for kind in ("ERT", "ART"))
        tables = read_tables(energies, energies.where, areas, areas.where, source)
    except FadiffError as error:
        raise _unusable(error) from None
    written = {f"{FILE_NAMES.get(name, name)}.yaml": dump({name: section}) for name, section in sections.items()}
    untold = left_out(hardware)
    notes = (f"Accelergy was not told {listed(untold)}: no numbers or plain words",) if untold else ()
    return AccelergyAnswer(tables, written | {LOG: files.get(LOG, "")}, notes)


def _source(ert: Map, version: str) -> str:
    """Where the figures come from, in words."""
    return f"Accelergy {version}" if version else f"Accelergy (tables of version {ert.get('version', '?')})"


def _unusable(error: FadiffError) -> FadiffError:
    """The error of a table that cannot be read."""
    return FadiffError(f"Accelergy left a table that cannot be used: {first_line(str(error))}")


def _estimators(files: Mapping[str, str], kind: str, key: str) -> dict[str, str]:
    """The plug-in that estimated each component, by the name that it was asked about under; none without summary."""
    name, found = f"{kind}_summary", {}
    rows = _section(files, name).get("table_summary") if f"{name}.yaml" in files else ()
    for row in rows or ():
        match row:
            case {"name": str(asked)}:
                match row.get(key):
                    case [{"estimator": str(first)}, *_] | str(first):
                        found[component_name(asked)] = first
    return found


def _section(files: Mapping[str, str], kind: str) -> Map:
    """The section in the file of its name."""
    name = f"{kind}.yaml"
    try:
        section = load_text(files.get(name, ""), name).get(kind)
    except FadiffError as error:
        raise FadiffError(f"Accelergy left an {name} that cannot be read: {first_line(str(error))}") from None
    if not isinstance(section, Map):
        raise FadiffError(f"Accelergy left no table in {name}")
    return section
