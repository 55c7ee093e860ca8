"""Runs the real `timeloop-model` on one input and returns its answer.

An exit code of 0 is not believed: Timeloop ends so on some errors as well, so its files must be there and whole.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.read_answer import read_answer

CLEARED = "TIMELOOP_"
"""Variables with this prefix change results, so no run inherits them."""

SHOW_ALL = {"TIMELOOP_HIDE_INCONSEQUENTIAL_STATS": "0"}
"""The variable by which Timeloop also prints levels and networks without traffic."""

INPUT = "input.yaml"
"""The name of the input in the folder of a run."""

MESSAGE = re.compile(r"ERROR|Assertion|what\(\)")
"""Lines of the output that say why a run failed."""

SOURCE_FOLDER = re.compile(r"\S*/(?=\S+\.[ch]pp)")
"""The folder before a source file's name in such a line: where Timeloop was built, which says nothing."""


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of `timeloop-model`.

    Attributes:
        result: The numbers of an accepted mapping (see `read_answer.read_answer`); None if it was rejected.
        error: The reason of a rejection, in Timeloop's words.
    """

    result: dict[str, Any] | None
    error: str = ""


class ModelKilled(FadiffError):
    """The program was killed, and not by this process: on a full machine, most often for its memory."""


def run_model(document: Mapping[str, Any], dataspaces: Sequence[str], folder: Path, *,
              program: str = "timeloop-model", timeout: float = 60.0) -> ModelAnswer:
    """Runs `timeloop-model` on a document.

    Args:
        document: A document of Timeloop's native (v0.3) dialect with all its sections.
        dataspaces: The names of the problem's data spaces in order.
        folder: An empty folder to run in.
        program: The program, by its path or its name on the PATH.
        timeout: Seconds until the program is ended.

    Raises:
        FadiffError: The program cannot be run, takes longer than the timeout, ends without a reason (`ModelKilled`
            where something else ended it), or leaves files that are missing or cut off.
    """
    text = yaml.dump(dict(document), Dumper=_Plain, sort_keys=False, default_flow_style=None)
    return run_text(text, dataspaces, folder, (program,), timeout=timeout)


def run_text(text: str, dataspaces: Sequence[str], folder: Path, command: Sequence[str] = ("timeloop-model",), *,
             timeout: float = 60.0) -> ModelAnswer:
    """Runs `timeloop-model` on a literal YAML text; otherwise as `run_model`.

    Args:
        text: The input.
        dataspaces: The names of the problem's data spaces in order.
        folder: An empty folder to run in.
        command: The program with its first arguments; the input's name is added.
        timeout: Seconds until the program is ended.
    """
    (folder / INPUT).write_text(text, encoding="utf-8")
    done = run_program.run([*command, INPUT], folder, environment(), timeout)
    if done.returncode == 0:
        return ModelAnswer(read_answer(folder, dataspaces))
    reason = "\n".join(SOURCE_FOLDER.sub("", line) for line in done.output.splitlines() if MESSAGE.search(line))
    if not reason:
        error = ModelKilled if done.returncode == -signal.SIGKILL else FadiffError
        raise error(f"{command[0]} {done.how} and gave no reason")
    return ModelAnswer(None, reason)


def environment() -> dict[str, str]:
    """The variables that a run sees: this process's without those that change results."""
    return {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)} | SHOW_ALL


def cleared() -> dict[str, str]:
    """The variables that `environment` leaves out, with their values."""
    return {name: value for name, value in os.environ.items() if name.startswith(CLEARED)}


class _Plain(yaml.SafeDumper):
    """Writes equal parts out in full: `timeloop-model` does not follow YAML's aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always: no part becomes an alias of another one."""
        return True
