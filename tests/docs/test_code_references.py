"""Files and names cited by the documents, as `file.py` or `file.py:name`, exist in the package or the repository."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))

REFERENCE = re.compile(r"`([\w./]+\.py)(?::([\w.]+))?`")


def file_of(path: str) -> Path | None:
    """The file that a page names, from the package or from the repository."""
    return next((file for file in (ROOT / "fadiff_mapper" / path, ROOT / path) if file.is_file()), None)


@cache
def names_in(file: Path) -> frozenset[str]:
    """Functions, classes and values at the top of a file, and `Class.member`."""
    return frozenset(_names(ast.parse(file.read_text(encoding="utf-8")).body))


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
