"""Files and names cited by the documents, as `file.py` or `file.cpp:name`, exist in the package or the repository."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))

REFERENCE = re.compile(r"`([\w./]+\.(?:py|cpp|hpp))(?::([\w.]+))?`")
COMPILED = re.compile(r"^(?:(?:struct|class) (\w+)|(?!//|\s|#|return|using)[\w:<>&* ]+?[ *&]((?:\w+::)?\w+)\()",
                      re.MULTILINE)
"""A structure, or a function at the start of a line: its name, `Class::name` where it is a member."""


def file_of(path: str) -> Path | None:
    """The file that a page names, from the package or from the repository."""
    return next((file for file in (ROOT / "fadiff_mapper" / path, ROOT / path) if file.is_file()), None)


@cache
def names_in(file: Path) -> frozenset[str]:
    """Functions, classes and values at the top of a file, and `Class.member`; of C++ functions and structures."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return frozenset((structure or function).replace("::", ".") for structure, function in COMPILED.findall(text))
    return frozenset(_names(ast.parse(text).body))


def _names(body: list[ast.stmt], prefix: str = "") -> list[str]:
    found = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(prefix + node.name)
        if isinstance(node, ast.ClassDef):
            found += _names(node.body, f"{prefix}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
            node, ast.AnnAssign) else []
        found += [prefix + name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return found


def test_names_of_compiled_code_are_read_from_its_text() -> None:
    chains, walk = (names_in(ROOT / "fadiff_mapper" / "kernel" / name) for name in ("chains.cpp", "window_walk.hpp"))
    assert {"Chains.polish", "Objective.value", "now"} <= chains and {"WindowWalk", "walk_held"} <= walk
    assert not {"anneal", "Chains", "exp", "if", "for"} & chains and not {"move", "vector", "return"} & walk


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT / "docs").as_posix())
def test_files_and_names_on_a_page_exist(page: Path) -> None:
    missing = []
    for path, name in REFERENCE.findall(page.read_text(encoding="utf-8")):
        if not name and "/" not in path:
            continue    # any file at all, such as a script of the reader's
        file = file_of(path)
        if file is None or (name and name not in names_in(file)):
            missing.append(f"{path}:{name}" if name else path)
    assert not missing
