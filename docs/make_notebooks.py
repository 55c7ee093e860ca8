"""Writes tutorials as Jupyter notebooks (format 4.5) from their Markdown pages.

    python docs/make_notebooks.py

Python blocks and commands become code cells, everything else text. The outputs that a page shows are left out: a
notebook makes its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parent / "tutorials"
PAGES = ("map_a_layer", "fuse_mobilenet")
"""The tutorials that have a notebook."""

NOT_COMPARED = "<!-- not compared -->"
"""Stands above a block that only shows an example; such a block stays text."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)


def notebook_text(page: str) -> str:
    """The notebook of a page, as JSON text.

    Args:
        page: Markdown of a tutorial.
    """
    content = {"cells": [_cell(number, *part) for number, part in enumerate(_parts(page), 1)],
               "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                            "language_info": {"name": "python"}},
               "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _parts(page: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) of every cell, in order; neighbouring texts are one cell."""
    parts: list[tuple[str, str]] = []
    end, output_follows = 0, False
    for match in _FENCE.finditer(page):
        text, code = page[end:match.start()], _code(match[1], match[2])
        is_output = match[1] == "text" and output_follows and not text.strip()
        if text.rstrip().endswith(NOT_COMPARED) or (code is None and not is_output):
            code, text = None, text + match[0]
        _add_text(parts, text.replace(NOT_COMPARED + "\n", ""))
        if code is not None:
            parts.append(("code", code))
        end, output_follows = match.end(), match[1] == "python"
    _add_text(parts, page[end:])
    return parts


def _add_text(parts: list[tuple[str, str]], text: str) -> None:
    if not text.strip():
        return
    if parts and parts[-1][0] == "markdown":
        parts[-1] = ("markdown", parts[-1][1] + "\n\n" + text.strip())
    else:
        parts.append(("markdown", text.strip()))


def _code(language: str, text: str) -> str | None:
    """The code of a block, None for one that is no program."""
    if language == "python":
        return text.strip("\n")
    if language == "console":
        return "\n".join("!" + line[2:] for line in text.splitlines() if line.startswith("$ "))
    return None


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number:02}", "metadata": {},
                            "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def main() -> None:
    """Writes the notebook of every page in `PAGES` beside it."""
    for name in PAGES:
        page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
        (TUTORIALS / f"{name}.ipynb").write_text(notebook_text(page), encoding="utf-8")


if __name__ == "__main__":
    main()
