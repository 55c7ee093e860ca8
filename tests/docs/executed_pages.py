"""Markdown pages as programs: their code blocks run in order, and what they print is compared with the page."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.cli import main

NOT_COMPARED = "<!-- not compared -->"
"""Stands on the line above a block that only shows an example."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = "fadiff-mapper"


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line in the page."""

    language: str
    text: str
    line: int
    compared: bool


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in FENCE.finditer(page):
        before = page[:match.start()]
        yield Block(match[1], match[2], before.count("\n") + 2, not before.rstrip().endswith(NOT_COMPARED))


def run_page(file: Path) -> None:
    """Runs a page in the working folder: `python` blocks in one namespace, commands of `console` blocks.

    A `text` block after a `python` block is the output of that block.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    exports: list[str] = []
    printed: str | None = None
    for block in blocks(file.read_text(encoding="utf-8")):
        where = f"{file.name}:{block.line}"
        if block.language == "python":
            printed = run_python(block, names, where)
        elif block.language == "console" and block.compared:
            for command, expected in commands(block.text):
                compare(expected, run_command(command, exports), f"{where}: {command}")
        elif block.language == "text" and printed is not None and block.compared:
            compare(block.text, printed, where)
        if block.language != "python":
            printed = None


def run_python(block: Block, names: dict[str, Any], where: str) -> str:
    """The text that a block prints. A block of one expression may be what a notebook shows: a figure, or an object."""
    shown = re.fullmatch(r"(\w+)(\.plot\(\))?\n", block.text)
    if shown:
        display = getattr(names[shown[1]], "plot" if shown[2] else "_repr_html_", None)
        assert display is None or display(), where
        return ""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile("\n" * (block.line - 1) + block.text, where, "exec"), names)
    return output.getvalue()


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a `console` block, each with the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def run_command(command: str, exports: list[str]) -> str:
    """The text that a command prints, errors included; `export` holds for the commands that follow."""
    if command.startswith("export "):
        exports.append(command)
        return ""
    words = shlex.split(command)
    if words[0] == PROGRAM:
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            main(words[1:])
        return output.getvalue()
    done = subprocess.run(["bash", "-c", "\n".join([*exports, command])], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, timeout=120, check=False, env=os.environ | {"LC_ALL": "C"})
    return done.stdout


def compare(expected: str, printed: str, where: str) -> None:
    """Fails where the output differs; `...` in the page stands for any text, blanks at the ends of lines are free."""
    wanted, got = (re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE) for text in (expected, printed))
    agrees = doctest.OutputChecker().check_output(wanted.rstrip() + "\n", got.rstrip() + "\n", doctest.ELLIPSIS)
    assert agrees, f"{where}\nexpected:\n{wanted}\nprinted:\n{got}"
