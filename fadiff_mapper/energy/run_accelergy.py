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
MOST_BYTES = 16 * 2 ** 20
"""Bytes of one file, a plain safety limit; nothing was measured."""
COMPLAINT = re.compile(r"\w*(Error|Exception)\b: *\S.*")
"""The last line of a Python traceback, from the name of the exception on."""


def ask(given: str | Sequence[str], program: str, environment: Mapping[str, str],
        time_limit: float) -> dict[str, str]:
    """Runs Accelergy on an input.

    Args:
        given: The input: a text, YAML, or the paths of files.
        program: Path of the command.
        environment: Environment variables of the run.
        time_limit: Seconds.

    Returns:
        Every YAML file that it writes, and its `LOG`, by name.

    Raises:
        FadiffError: Accelergy fails, takes too long, or leaves no tables, which its exit code does not tell; one line.
    """
    with tempfile.TemporaryDirectory(prefix="fadiff-accelergy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "out").mkdir()
        files = ["input.yaml"] if isinstance(given, str) else list(given)
        if isinstance(given, str):
            (folder / files[0]).write_text(given, encoding="utf-8")
        done = run_program.run([program, *files, "-o", "out"], folder, environment, time_limit)
        if done.returncode != 0:
            raise FadiffError(f"{program} {done.how}: {_reason(done.output)}")
        written = [path for path in sorted((folder / "out").glob("*.yaml")) if path.is_file()]
        for needed in NEEDED:
            if needed not in (path.name for path in written):
                raise FadiffError(f"Accelergy ended without writing {needed}: {_reason(done.output)}")
        return {path.name: _text(path) for path in written} | {LOG: done.output}


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
