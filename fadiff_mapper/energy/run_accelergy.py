"""Runs Accelergy in a folder of its own and reads the files that it leaves."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError

NEEDED = ("ERT.yaml", "ART.yaml")
"""Files without which a run has failed, whatever its exit code."""
LOG = "accelergy.log"
"""Name of Accelergy's printed output among the files of an answer."""
INHERITED = ("HOME", "PATH", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH")
"""The environment variables that Accelergy sees: others load functions (`ACCELERGY_MATH_FUNCTIONS`), libraries of
components, and modules of Python."""
MEMORY = 2 * 2 ** 30
"""Bytes of address space of Accelergy and of each program that it starts."""
PRECISION = "17"
"""Significant digits that it is asked for: enough for every number, as sums are made and rounded afterwards."""
MOST_BYTES = 16 * 2 ** 20
"""Bytes of one file, a plain safety limit; nothing was measured."""
COMPLAINT = re.compile(r"\w*(Error|Exception)\b: *\S.*")
"""The last line of a Python traceback, from the name of the exception on."""


def ask(given: str | Sequence[str], program: str, environment: Mapping[str, str],
        time_limit: float) -> dict[str, str]:
    """Runs Accelergy on an input.

    Args:
        given: The input: a text, YAML, or the paths of files that are trusted, with which it runs as under Timeloop.
        program: Path of the command.
        environment: Environment variables, of which it inherits some (`inherited`), with trusted files all.
        time_limit: Seconds.

    Returns:
        Every YAML file that it writes, and its `LOG`, by name; figures about a text with `PRECISION` digits.

    Raises:
        FadiffError: Accelergy fails, takes too long, or leaves no tables, which its exit code does not tell; one line.
    """
    with tempfile.TemporaryDirectory(prefix="fadiff-accelergy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "out").mkdir()
        if isinstance(given, str):
            (folder / "input.yaml").write_text(given, encoding="utf-8")
            words, variables = ["input.yaml", "-o", "out", "-p", PRECISION], inherited(environment)
        else:  # files that are trusted, run as Timeloop runs them
            words, variables = [*given, "-o", "out"], dict(environment)
        done = run_program.run([program, *words], folder, variables, time_limit, MEMORY, temporary=True)
        if done.returncode != 0:
            raise FadiffError(f"{program} {done.how}: {_reason(done.output)}")
        written = [path for path in sorted((folder / "out").glob("*.yaml")) if path.is_file()]
        for needed in NEEDED:
            if needed not in (path.name for path in written):
                raise FadiffError(f"Accelergy ended without writing {needed}: {_reason(done.output)}")
        return {path.name: _text(path) for path in written} | {LOG: done.output}


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that Accelergy sees; numerical libraries reserve memory for each of their threads."""
    return {name: environment[name] for name in INHERITED if name in environment} | {"OMP_NUM_THREADS": "1"}


def first_line(text: str) -> str:
    """The printable characters of the first line of a text, at most 200, for messages of one line."""
    first = text.strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()).strip()[:200]


def _text(path: Path) -> str:
    """The text of a file that Accelergy wrote. Raises FadiffError where it is too large or no text."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise FadiffError(f"Accelergy wrote {size} bytes into {path.name}; at most {MOST_BYTES}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FadiffError(f"Accelergy left an {path.name} that cannot be read: {error.reason}") from None


def _reason(output: str) -> str:
    """The line of the output to report after a failure: the last one that names an error, else the last one."""
    lines = [line for line in map(first_line, output.splitlines()) if line]
    complaints = [match[0] for line in lines if (match := COMPLAINT.search(line))]
    return next(iter([*complaints[-1:], *lines[-1:]]), "it printed nothing")
