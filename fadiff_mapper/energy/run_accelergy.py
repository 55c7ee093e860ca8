"""Runs Accelergy and takes in what it leaves."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError

NEEDED = ("ERT.yaml", "ART.yaml")
LOG = "accelergy.log"
"""The name, among the files of an answer, of what Accelergy printed."""
MOST_BYTES = 16 * 2 ** 20
"""Of one file."""
COMPLAINT = re.compile(r"\w*(Error|Exception)\b: *\S.*")


def ask(text: str, program: str, environment: Mapping[str, str], time_limit: float) -> dict[str, str]:
    """Run Accelergy on the text of an input: every YAML file that it writes, by name, and its `LOG`.

    Raises FadiffError, one line, where it fails, takes longer than `time_limit` seconds, or leaves no tables; its
    exit code alone says nothing.
    """
    with tempfile.TemporaryDirectory(prefix="fadiff-accelergy-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "out").mkdir()
        (folder / "input.yaml").write_text(text, encoding="utf-8")
        done = run_program.run([program, "input.yaml", "-o", "out"], folder, environment, time_limit)
        if done.returncode != 0:
            raise FadiffError(f"{program} {done.how}: {_reason(done.output)}")
        written = [path for path in sorted((folder / "out").glob("*.yaml")) if path.is_file()]
        for needed in NEEDED:
            if needed not in (path.name for path in written):
                raise FadiffError(f"Accelergy ended without writing {needed}: {_reason(done.output)}")
        return {path.name: _text(path) for path in written} | {LOG: done.output}


def first_line(text: str) -> str:
    """Printable characters of the first line, not too many."""
    first = text.strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()).strip()[:200]


def _text(path: Path) -> str:
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise FadiffError(f"Accelergy wrote {size} bytes into {path.name}; at most {MOST_BYTES}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FadiffError(f"Accelergy left an {path.name} that cannot be read: {error.reason}") from None


def _reason(output: str) -> str:
    """The line that says best what went wrong: the last one that names an error, else the last one."""
    lines = [line for line in map(first_line, output.splitlines()) if line]
    complaints = [found[0] for line in lines if (found := COMPLAINT.search(line))]
    return next(iter([*complaints[-1:], *lines[-1:]]), "it printed nothing")
