"""Benchmarks take from the package only names that it has."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = sorted(Path(__file__).parents[1].joinpath("benchmarks").rglob("*.py"))


@pytest.mark.parametrize("file", BENCHMARKS, ids=[f"{file.parent.name}/{file.stem}" for file in BENCHMARKS])
def test_every_name_that_a_benchmark_imports_from_the_package_is_there(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fadiff_mapper":
            module = import_module(node.module or "")
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or import_module(f"{module.__name__}.{name}"), name
