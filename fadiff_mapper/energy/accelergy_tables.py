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
from fadiff_mapper.energy.accelergy_request import request
from fadiff_mapper.energy.run_accelergy import ask, first_line
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.tables import read_tables
from fadiff_mapper.spec.tables import Tables, missing_actions
from fadiff_mapper.yaml.load import load_text
from fadiff_mapper.yaml.located import Map

TIME_LIMIT_S = 600.0
"""Seconds for one run, a safety limit: CACTI takes seconds for each memory, minutes for many large ones."""
ANSWER_FORMAT = "2"
"""Number of the format of kept answers: another one leaves older answers aside."""
ASK_VERSION = "from importlib.metadata import version; print(version('accelergy'))"
VERSION = re.compile(r"\d[\w.+-]{0,40}", re.ASCII)
"""The printed version; anything else is taken for no answer."""
CONFIGURATION = ".config/accelergy/accelergy_config.yaml"
"""Accelergy's configuration below the home folder."""
AVOID = "--energy bundled, estimate or built-in does without Accelergy"


@dataclass(frozen=True)
class AccelergyAnswer:
    """One answer of Accelergy.

    Attributes:
        tables: Its ERT and ART.
        files: Every file that it wrote, and its output, by name (see `run_accelergy.ask`).
    """

    tables: Tables
    files: Mapping[str, str]


def accelergy_tables(arch: Architecture, literal: Mapping[str, Any], program: str, *,
                     time_limit: float = TIME_LIMIT_S) -> Tables:
    """Accelergy's tables for an architecture, complete.

    Args:
        arch: The architecture.
        literal: Sections of the input, see `answer`.
        program: Path of the `accelergy` command.
        time_limit: Seconds for one run.

    Raises:
        SpecError: The input holds text that Accelergy might run.
        FadiffError: Accelergy fails, or leaves a component without a price. Both messages say how to do without it.
    """
    try:
        tables = answer(arch, literal, program, os.environ, time_limit).tables
        missing = missing_actions(arch, tables)
        if missing:
            raise FadiffError(f"Accelergy left a table without energies for {listed(missing)}")
    except FadiffError as error:
        family = SpecError if isinstance(error, SpecError) else FadiffError
        raise family(f"{error}; {AVOID}") from None
    return tables


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
        SpecError: The input holds text that Accelergy might run.
    """
    text = request(arch, literal)
    version = installed_version(program, environment)
    key = answer_cache.key_of(ANSWER_FORMAT, text, version, *_fingerprints(program, environment))
    kept = answer_cache.read(key)
    if kept:
        try:
            return AccelergyAnswer(_tables(kept, version), kept)
        except FadiffError:
            pass  # damaged: ask again
    files = ask(text, program, environment, time_limit)
    fresh = AccelergyAnswer(_tables(files, version), files)
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
    return AccelergyAnswer(_tables(written, installed_version(program, environment)), written)


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
        done = run_program.run([first[0][2:], *first[1:], "-c", ASK_VERSION], Path(program).parent, environment, 30)
    except (OSError, FadiffError):
        return ""
    said = done.output.strip()
    return said if done.returncode == 0 and VERSION.fullmatch(said) else ""


def _fingerprints(program: str, environment: Mapping[str, str]) -> list[str]:
    """Digests of the command and of its configuration, which names the plug-ins."""
    home = environment.get("HOME")
    files = [Path(program), *([Path(home) / CONFIGURATION] if home else [])]
    return [hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "" for file in files]


def _tables(files: Mapping[str, str], version: str) -> Tables:
    """The tables among the files of an answer. Raises FadiffError."""
    ert, art = (_section(files, kind) for kind in ("ERT", "ART"))
    source = f"Accelergy {version}" if version else f"Accelergy (tables of version {ert.get('version', '?')})"
    try:
        return read_tables(ert, ert.where, art, art.where, source)
    except FadiffError as error:
        raise FadiffError(f"Accelergy left a table that cannot be used: {first_line(str(error))}") from None


def _section(files: Mapping[str, str], kind: str) -> Map:
    """The ERT or ART in the file of its name, which must list something."""
    name = f"{kind}.yaml"
    try:
        section = load_text(files.get(name, ""), name).get(kind)
    except FadiffError as error:
        raise FadiffError(f"Accelergy left an {name} that cannot be read: {first_line(str(error))}") from None
    if not isinstance(section, Map) or not section.get("tables"):
        raise FadiffError(f"Accelergy left no table in {name}")
    return section
