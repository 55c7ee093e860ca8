"""Build steps of the documents: formulas as MathML, the page of rooms, and the figures of README.

Everything is read from source text: neither the package nor its tests are imported.
"""

from __future__ import annotations

import ast
import html
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LAYOUT_TEST = ROOT / "tests" / "test_layout.py"
PACKAGE = ROOT / "fadiff_mapper"

ROOMS_MARK = "<!-- rooms -->"
"""Stands in a page where the picture of the rooms goes."""

FIGURES_MARK = "<!-- figures of README -->"
"""Stands in a page where the table and the plot of README go."""

ROOT_ROOM = "fadiff_mapper"
"""Name in the picture of the room that `ORDER` calls "": the files at the root of the package."""

_FIGURES = re.compile(r"<!-- results: .*? -->\n(.*?)<!-- end of results -->", re.DOTALL)

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

_PRIMED = re.compile(r"<msup>(<mi>[^<]*</mi>)<mi>&#x02032;</mi></msup>")
"""A letter with a raised prime. The sign itself is raised and small already, so raised once more it cannot be read."""

_NO_REFERENCE = re.compile(
    r'<autoref (?![^>]*\boptional\b)[^>]*\bidentifier="(?!fadiff_mapper)([^"]*)"[^>]*>(.*?)</autoref>', re.DOTALL)
"""Two pairs of brackets in a docstring, such as levels[...]["dataspaces"], which Markdown takes for a link."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts the picture of the rooms and the figures of README in their places."""
    if FIGURES_MARK in markdown:
        markdown = markdown.replace(FIGURES_MARK, readme_figures())
    return markdown.replace(ROOMS_MARK, rooms_html()) if ROOMS_MARK in markdown else markdown


def readme_figures() -> str:
    """The table and the plot of README, with links from the folder of the documents."""
    figures = _FIGURES.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if figures is None:
        raise LookupError("README.md has no block of results")
    return figures[1].replace("](docs/", "](")


def on_page_content(content: str, **_: Any) -> str:
    """Turns formulas into MathML, which browsers show without a script, and gives docstrings their brackets back."""
    return _NO_REFERENCE.sub(r"[\2][\1]", _FORMULA.sub(_mathml, content))


def _mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert  # here, so that the tests of the other parts need no such package

    tag, bracket, latex = match.groups()
    display = "inline" if bracket == "(" else "block"
    formula = convert(html.unescape(latex.strip()), display=display)
    if "\\" in formula:
        raise ValueError(f"a command of this formula has no MathML: {latex.strip()}")
    formula = _PRIMED.sub(r'<mrow>\1<mo lspace="0" rspace="0">&#x02032;</mo></mrow>', formula)
    return f'<{tag} class="formula">{formula}</{tag}>'


def room_order() -> tuple[str, ...]:
    """The rooms in order of dependency, from the test that holds the package to it."""
    for node in ast.parse(LAYOUT_TEST.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["ORDER"]:
            order: tuple[str, ...] = ast.literal_eval(node.value)
            return order
    raise LookupError(f"{LAYOUT_TEST.name} assigns no ORDER")


def room_sentence(room: str) -> str:
    """The first paragraph of the docstring of a room's `__init__.py`, on one line."""
    file = PACKAGE.joinpath(*room.split("."), "__init__.py") if room else PACKAGE / "__init__.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split())


def room_files(room: str) -> list[str]:
    """The modules of a room, without its `__init__.py`."""
    folder = PACKAGE.joinpath(*room.split(".")) if room else PACKAGE
    return sorted(path.name for path in folder.glob("*.py") if not path.name.startswith("__"))


def rooms_html() -> str:
    """Boxes from top to bottom, one per room: name, sentence, modules. A room imports from itself and from above."""
    boxes = []
    for room in room_order():
        depth = room.count(".")
        sentence = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(room_sentence(room), quote=False))
        modules = " ".join(f"<code>{name}</code>" for name in room_files(room))
        boxes.append(f'<div class="room depth{depth}" id="room-{room or "root"}">'
                     f"<strong>{room.replace('.', '/') or ROOT_ROOM}/</strong> <span>{sentence}</span>"
                     f"<details><summary>{len(room_files(room))} modules</summary>{modules}</details></div>")
    return '<div class="rooms">\n' + "\n".join(boxes) + "\n</div>"
