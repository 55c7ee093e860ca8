"""Asks Accelergy for the energies and areas of an architecture, once: its answer is kept."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
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

PROGRAM = "accelergy"
TIME_LIMIT_S = 600.0
"""CACTI takes seconds for each memory, minutes for many large ones."""
ASK_VERSION = "from importlib.metadata import version; print(version('accelergy'))"
VERSION = re.compile(r"\d[\w.+-]{0,40}", re.ASCII)
CONFIGURATION = ".config/accelergy/accelergy_config.yaml"
AVOID = "--energy bundled, estimate or built-in does without Accelergy"


@dataclass(frozen=True)
class AccelergyAnswer:
    """The tables, and every file that Accelergy wrote besides what it printed (see `run_accelergy.ask`), by name."""

    tables: Tables
    files: Mapping[str, str]


def installed(search_path: str | None = None) -> str | None:
    """The path of the `accelergy` command on the search path (None: PATH), or None."""
    found = shutil.which(PROGRAM, path=search_path)
    return None if found is None else os.path.abspath(found)


def accelergy_tables(arch: Architecture, literal: Mapping[str, Any], program: str, *,
                     time_limit: float = TIME_LIMIT_S) -> Tables:
    """The tables for an architecture, which price every component.

    Raises what `answer` raises, and FadiffError where a component is lacking; the message says how to do without.
    """
    try:
        tables = answer(arch, literal, program, os.environ, time_limit).tables
        missing = missing_actions(arch, tables)
        if missing:
            raise FadiffError(f"Accelergy left a table without energies for {listed(missing)}")
    except FadiffError as error:
        kind = SpecError if isinstance(error, SpecError) else FadiffError
        raise kind(f"{error}; {AVOID}") from None
    return tables


def answer(arch: Architecture, literal: Mapping[str, Any], program: str, environment: Mapping[str, str],
           time_limit: float = TIME_LIMIT_S) -> AccelergyAnswer:
    """What Accelergy, run with these variables, says about an architecture; from the cache where it was asked before.

    `literal` are the sections of the input (see `load.Spec`), of which it reads the compound components. Raises
    FadiffError, one line, where Accelergy fails, takes longer than `time_limit` seconds, or leaves a table that cannot
    be read; SpecError where the input holds text that it might run.
    """
    text = request(arch, literal)
    version = installed_version(program, environment)
    key = answer_cache.key_of("2", text, version, *_fingerprints(program, environment))
    kept = answer_cache.read(key)
    if kept:
        try:
            return AccelergyAnswer(_tables(kept, version), kept)
        except FadiffError:
            pass  # damaged: ask again
    files = ask(text, program, environment, time_limit)
    found = AccelergyAnswer(_tables(files, version), files)
    if not missing_actions(arch, found.tables):  # else a plug-in is lacking, which may come
        answer_cache.write(key, files)
    return found


def installed_version(program: str, environment: Mapping[str, str]) -> str:
    """The version of Accelergy, as the Python that runs it tells; "" where the command is no Python script."""
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
        found = load_text(files.get(name, ""), name).get(kind)
    except FadiffError as error:
        raise FadiffError(f"Accelergy left an {name} that cannot be read: {first_line(str(error))}") from None
    if not isinstance(found, Map) or not found.get("tables"):
        raise FadiffError(f"Accelergy left no table in {name}")
    return found
