"""Runs the real `timeloop-model` on one input and returns its answer."""

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
"""Also print levels and networks without traffic."""

INPUT = "input.yaml"
MESSAGE = re.compile(r"ERROR|Assertion|what\(\)")
SOURCE_FOLDER = re.compile(r"\S*/(?=\S+\.[ch]pp)")


@dataclass(frozen=True)
class ModelAnswer:
    """Either `result`, the numbers of an accepted mapping (see `read_answer.read_answer`), or `error`: why not."""

    result: dict[str, Any] | None
    error: str = ""


class ModelKilled(FadiffError):
    """The program was killed, and not by this process: on a full machine, most often for its memory."""


def run_model(document: Mapping[str, Any], dataspaces: Sequence[str], folder: Path, *,
              program: str = "timeloop-model", timeout: float = 60.0) -> ModelAnswer:
    """Run `timeloop-model` in `folder`, which must be empty, on a native document with all its sections.

    `dataspaces` names the problem's data spaces in order. An exit code of 0 is not believed: the files must be
    there and whole. Raises FadiffError where the program cannot be run, takes longer than `timeout` seconds, ends
    without a reason (Killed where something else ended it), or leaves files that are cut off.
    """
    text = yaml.dump(dict(document), Dumper=_Plain, sort_keys=False, default_flow_style=None)
    return run_text(text, dataspaces, folder, (program,), timeout=timeout)


def run_text(text: str, dataspaces: Sequence[str], folder: Path, command: Sequence[str] = ("timeloop-model",), *,
             timeout: float = 60.0) -> ModelAnswer:
    """The same on a literal YAML text, with the program as an argument list to which the input's name is added."""
    (folder / INPUT).write_text(text, encoding="utf-8")
    done = run_program.run([*command, INPUT], folder, environment(), timeout)
    if done.returncode == 0:
        return ModelAnswer(read_answer(folder, dataspaces))
    reason = "\n".join(SOURCE_FOLDER.sub("", line) for line in done.output.splitlines() if MESSAGE.search(line))
    if not reason:
        kind = ModelKilled if done.returncode == -signal.SIGKILL else FadiffError
        raise kind(f"{command[0]} {done.how} and gave no reason")
    return ModelAnswer(None, reason)


def environment() -> dict[str, str]:
    """This process's variables without those that change results."""
    return {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)} | SHOW_ALL


def cleared() -> dict[str, str]:
    """Those that `environment` leaves out."""
    return {name: value for name, value in os.environ.items() if name.startswith(CLEARED)}


class _Plain(yaml.SafeDumper):
    """Writes equal parts out in full: `timeloop-model` does not follow YAML's aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
