"""Asks Accelergy for the energies of an input that brings none, as Timeloop's programs do."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from fadiff_mapper.errors import FadiffError, SpecError
from fadiff_mapper.expressions import Literal
from fadiff_mapper.inputs import Spec
from fadiff_mapper.spec.native.tables import read_tables
from fadiff_mapper.timeloop import process
from fadiff_mapper.yamlio import load_text

PROGRAM = "accelergy"
TIMEOUT = 600.0
INPUT = "input.yaml"
SECTIONS = ("architecture", "arch", "compound_components", "variables")
"""What Accelergy reads of an input."""

HARMLESS = re.compile(r"([\w .,:/+*<>=()-]|\[[\w .,/+*()-]+\])*", re.ASCII)
"""Names, arithmetic, and ranges such as "PE[0..13]"; no quotes and no braces."""
CALLED = re.compile(r"([\w)\]]+) *\(")
"""What stands before a parenthesis that opens: the name of what is called, the end of an expression, or a word."""
ALLOWED = frozenset(("abs", "ceil", "float", "floor", "int", "log", "log10", "log2", "max", "min", "pow", "round",
                     "sqrt", "if", "else"))
"""Functions and words that may stand there."""


@dataclass(frozen=True)
class Priced:
    """An input with Accelergy's tables, and all that Accelergy wrote, by file name."""

    spec: Spec
    files: dict[str, str]


def installed(environment: Mapping[str, str]) -> str | None:
    """The accelergy command: on the PATH, else in the folder that ACCELERGYPATH names, as Timeloop looks for it."""
    return (shutil.which(PROGRAM, path=environment.get("PATH", ""))
            or shutil.which(PROGRAM, path=environment.get("ACCELERGYPATH", "")))


def is_asked(spec: Spec) -> bool:
    """Whether Timeloop would ask Accelergy: the input has no ERT, and the architecture is not in the list format."""
    given = any(table.source.startswith("ERT") for table in spec.tables.ert)
    return not given and any(
        "subtree" in tree or "local" in tree for tree in spec.arch.native.values())


def priced(spec: Spec, program: str, prefix: str, environment: Mapping[str, str], timeout: float = TIMEOUT) -> Priced:
    """The input with the tables that Accelergy gives. Its files are named after `prefix`, as Timeloop names them.

    Accelergy renders its input as a template and evaluates text in it as Python, so only text that can do no harm is
    handed over. Raises SpecError for other text, FadiffError where Accelergy fails or leaves no tables.
    """
    sections = {key: spec.literal[key] for key in SECTIONS if key in spec.literal}
    for path, text in _texts(sections, ""):
        if not HARMLESS.fullmatch(text) or "__" in text or not ALLOWED.issuperset(CALLED.findall(text)):
            raise SpecError(f"{path}: found {text[:60]!r}, which is not handed to Accelergy, as it might run it; "
                            "accepted: names, numbers and arithmetic")
    with tempfile.TemporaryDirectory(prefix="fadiff-accelergy-") as name:
        folder = Path(name)
        (folder / INPUT).write_text(yaml.dump(sections, Dumper=_Unquoted, sort_keys=False, width=10 ** 6), "utf-8")
        done = process.run([program, INPUT, "--oprefix", f"{prefix}.", "-o", "."], folder, environment, timeout)
        if done.returncode != 0:
            raise FadiffError(f"{program} ended with exit code {done.returncode}: {_last_line(done.output)}")
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"{prefix}.*.yaml"))}
    files[f"{prefix}.accelergy.log"] = done.output
    return Priced(_with_tables(spec, files, prefix), files)


class _Unquoted(yaml.SafeDumper):
    """Quotes only what was quoted before: to Accelergy, text in quotes is never an expression."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Unquoted.add_representer(Literal, lambda dumper, text: dumper.represent_scalar(
    "tag:yaml.org,2002:str", str(text), style='"'))


def _with_tables(spec: Spec, files: Mapping[str, str], prefix: str) -> Spec:
    ert, art = (_document(files, f"{prefix}.{kind}.yaml") for kind in ("ERT", "ART"))
    tables = read_tables(ert["ERT"], ert.at("ERT"), art["ART"], art.at("ART"), "Accelergy")
    return replace(spec, tables=tables)


def _document(files: Mapping[str, str], name: str) -> Any:
    if name not in files:
        raise FadiffError(f"{PROGRAM} left no {name}")
    return load_text(files[name], name)


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every key and text of a tree with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}.{key}".lstrip("."), str(key)
            yield from _texts(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"

