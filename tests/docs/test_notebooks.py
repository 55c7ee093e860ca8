"""Notebooks are what `docs/make_notebooks.py` makes of the tutorials, and a notebook reader accepts them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def script() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("make_notebooks", DOCS / "make_notebooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", script().PAGES)
def test_a_notebook_is_what_the_script_makes(name: str) -> None:
    page = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    written = (DOCS / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert written == script().notebook_text(page), "run: python docs/make_notebooks.py"


def test_blocks_become_cells() -> None:
    page = ("# Title\n\n```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n\nMore.\n\n```console\n$ ls out\na\n```\n\n"
            "<!-- not compared -->\n```console\n$ ls\n```\n\n```yaml\na: 1\n```\n\n```python\nx\n```\n")
    cells = json.loads(script().notebook_text(page))["cells"]
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in cells] == [
        ("markdown", "# Title"), ("code", "x = 1\nprint(x)"), ("markdown", "More."), ("code", "!ls out"),
        ("markdown", "```console\n$ ls\n```\n\n```yaml\na: 1\n```"), ("code", "x")]
    assert len({cell["id"] for cell in cells}) == len(cells)


@pytest.mark.parametrize("name", script().PAGES)
def test_a_notebook_ends_with_the_object_and_its_figure(name: str) -> None:
    cells = json.loads((DOCS / "tutorials" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert code[-2] == f"{code[-1]}.plot()"
