"""Asks Accelergy for the energies and areas of an architecture, once: its answer is kept."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from fadiff_mapper.energy import cache
from fadiff_mapper.energy.process import Ended, run_program
from fadiff_mapper.energy.request import request
from fadiff_mapper.errors import FadiffError, listed
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.tables import read_tables
from fadiff_mapper.spec.tables import Tables, missing_actions
from fadiff_mapper.tree import Map, plain
from fadiff_mapper.yamldump import dump
from fadiff_mapper.yamlio import load_text

PROGRAM = "accelergy"
TIME_LIMIT_S = 600.0
"""CACTI takes seconds for each memory, minutes for many large ones."""
MOST_TABLE_BYTES = 16 * 2 ** 20
ASK_VERSION = "from importlib.metadata import version; print(version('accelergy'))"
VERSION = re.compile(r"\d[\w.+-]{0,40}", re.ASCII)
COMPLAINT = re.compile(r"\w*(Error|Exception)\b: *\S.*")
CONFIGURATION = ".config/accelergy/accelergy_config.yaml"
AVOID = "--energy bundled, estimate or built-in does without Accelergy"


def installed() -> str | None:
    """The path of the `accelergy` command, or None."""
    found = shutil.which(PROGRAM)
    return None if found is None else os.path.abspath(found)


def accelergy_tables(arch: Architecture, program: str, *, time_limit: float = TIME_LIMIT_S) -> Tables:
    """The tables that Accelergy gives for an architecture, from the cache where it was asked before.

    Raises FadiffError, one line, where Accelergy fails, takes longer than `time_limit` seconds, or leaves a table
    that cannot be read or lacks a component; SpecError where the architecture holds more than literals.
    """
    text = request(arch)
    version = installed_version(program)
    key = cache.key_of("1", text, version, *_fingerprints(program))
    kept = cache.read(key)
    if kept is not None:
        try:
            return _tables(load_text(kept, "cached tables"), arch, version)
        except FadiffError:
            pass  # damaged: ask again
    document = ask(text, program, time_limit)
    tables = _tables(document, arch, version)
    cache.write(key, dump(plain(document)))
    return tables


def ask(text: str, program: str, time_limit: float) -> Map:
    """Run Accelergy on the text of an architecture: a document with ERT and ART, as it wrote them."""
    with tempfile.TemporaryDirectory(prefix="fadiff-accelergy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "architecture.yaml").write_text(text, encoding="utf-8")
        try:
            ended = run_program([program, "architecture.yaml", "-o", ".", "-f", "ERT", "ART"], folder, time_limit)
        except OSError as error:
            raise _failure(f"{program} cannot be run: {error.strerror}") from None
        if ended.code is None:
            raise _failure(f"{program} did not end within {time_limit:g} s")
        if ended.code != 0:
            raise _failure(f"{program} ended with exit code {ended.code}: {_reason(ended)}")
        tables = {kind: _written(folder / f"{kind}.yaml", kind, ended) for kind in ("ERT", "ART")}
    return Map(tables, where=tables["ERT"].where)


def installed_version(program: str) -> str:
    """The version of Accelergy, as the Python that runs it tells; "" where the command is no Python script."""
    try:
        with open(program, "rb") as file:
            first = file.readline(1024).decode("utf-8", "replace").split()
        if not first or not first[0].startswith("#!") or "python" not in Path(first[-1]).name:
            return ""
        interpreter = [first[0][2:], *first[1:]]
        ended = run_program([*interpreter, "-c", ASK_VERSION], Path(program).parent, 30)
    except OSError:
        return ""
    answer = ended.output.strip()
    return answer if ended.code == 0 and VERSION.fullmatch(answer) else ""


def _fingerprints(program: str) -> list[str]:
    """Digests of the command and of its configuration, which names the plug-ins."""
    files = [Path(program), *([Path(os.environ["HOME"]) / CONFIGURATION] if os.environ.get("HOME") else [])]
    return [hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "" for file in files]


def _tables(document: Map, arch: Architecture, version: str) -> Tables:
    """The tables of a document that price every component. Raises FadiffError."""
    ert, art = (_section(document, kind) for kind in ("ERT", "ART"))
    source = f"Accelergy {version}" if version else f"Accelergy (tables of version {ert.get('version', '?')})"
    try:
        tables = read_tables(ert, ert.where, art, art.where, source)
    except FadiffError as error:
        raise _failure(f"Accelergy left a table that cannot be used: {_line(str(error))}") from None
    missing = missing_actions(arch, tables)
    if missing:
        raise _failure(f"Accelergy left a table without energies for {listed(missing)}")
    return tables


def _written(path: Path, kind: str, ended: Ended) -> Map:
    """One of the files that Accelergy must leave; its exit code says nothing."""
    if not path.is_file():
        raise _failure(f"Accelergy ended without writing {path.name}: {_reason(ended)}")
    if path.stat().st_size > MOST_TABLE_BYTES:
        raise _failure(f"Accelergy wrote {path.stat().st_size} bytes into {path.name}; at most {MOST_TABLE_BYTES}")
    try:
        document = load_text(path.read_text(encoding="utf-8"), path.name)
    except (FadiffError, UnicodeDecodeError) as error:
        raise _failure(f"Accelergy left an {path.name} that cannot be read: {_line(str(error))}") from None
    return _section(document, kind)


def _section(document: Map, kind: str) -> Map:
    """The ERT or ART of a document, which must list something."""
    found = document.get(kind)
    if not isinstance(found, Map) or not found.get("tables"):
        raise _failure(f"Accelergy left no table in {kind}.yaml")
    return found


def _reason(ended: Ended) -> str:
    """The line that says best what went wrong: the last one that names an error, else the last one."""
    lines = [line for line in map(_line, ended.output.splitlines()) if line]
    complaints = [found[0] for line in lines if (found := COMPLAINT.search(line))]
    return next(iter([*complaints[-1:], *lines[-1:]]), "it printed nothing")


def _line(text: str) -> str:
    """Printable characters of the first line, not too many."""
    first = text.strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()).strip()[:200]


def _failure(what: str) -> FadiffError:
    return FadiffError(f"{what}; {AVOID}")
