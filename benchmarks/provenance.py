"""Tables of benchmarks as Markdown, under a line that says which commit was measured when and on which machine.

Every benchmark prints its table and, with `-o FILE`, writes the same lines into a file row by row, so that a run that
is stopped keeps the rows that it has.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime, timezone
from pathlib import Path

Write = Callable[[str], None]
"""Takes a line, or several, of Markdown."""


def add_output(parser: argparse.ArgumentParser) -> None:
    """Adds the option `-o FILE` to a benchmark's arguments, as `options.output`."""
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the table here as well, as Markdown")


@contextmanager
def markdown(file: Path | None) -> Iterator[Write]:
    """Begins a report of a benchmark with its provenance.

    Args:
        file: Where lines go besides standard output; None for nowhere.

    Yields:
        A function that prints lines and keeps them in the file, at once.
    """
    with nullcontext() if file is None else file.open("w", encoding="utf-8") as kept:
        def write(line: str) -> None:
            print(line, flush=True)
            if kept is not None:
                kept.write(line + "\n")
                kept.flush()

        write(provenance() + "\n")
        yield write


def heading(*columns: str) -> str:
    """The two lines with which a table of Markdown begins."""
    return f"{row(*columns)}\n|{'---|' * len(columns)}"


def row(*cells: object) -> str:
    """A row of a table; a bar inside a cell would end the cell and becomes a slash."""
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


def provenance(arguments: Sequence[str] | None = None) -> str:
    """One line: the command, the commit, the date and the machine.

    Args:
        arguments: The program and its arguments, by default of this process. The file of `-o` is left out, because it
            is part of no measurement.
    """
    program, *given = sys.argv if arguments is None else arguments
    for option in ("-o", "--output"):
        if option in given[:-1]:
            del given[given.index(option):given.index(option) + 2]
    command = shlex.join(["python", f"benchmarks/{Path(program).name}", *given])
    today = datetime.now(timezone.utc).date().isoformat()
    return f"Measured by `{command}` at commit {commit()} on {today}, {processor()}, {os.cpu_count() or 1} cores."


PACKAGE = ("fadiff_mapper", "timeloop_specs", "setup.py")
"""Parts of the checkout on which figures rest."""


def commit() -> str:
    """The last commit that changed the package, with a note on changes that are not in it; "not known" elsewhere.

    So figures before and after a commit of documents alone are of one commit.
    """
    revision = _git("log", "-1", "--first-parent", "--format=%h", "--", *PACKAGE)
    if not revision:
        return "not known"
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", *PACKAGE)
    return revision + (" with local changes" if changed else "")


def _git(*arguments: str) -> str:
    """Output of git in the checkout; empty where git fails or is missing."""
    try:
        return subprocess.run(["git", *arguments], cwd=Path(__file__).parents[1], capture_output=True, text=True,
                              check=False).stdout.strip()
    except OSError:
        return ""


def processor() -> str:
    """The processor's name; Linux tells it in /proc/cpuinfo, where Python's `platform` does not look."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "unknown processor"
