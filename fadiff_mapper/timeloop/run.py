"""Runs the real `timeloop-model` on one input and returns its answer."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fadiff_mapper.errors import FadiffError
from fadiff_mapper.timeloop.answer import read_answer

CLEARED = "TIMELOOP_"
"""Variables with this prefix change results, so no run inherits them."""

SHOW_ALL = {"TIMELOOP_HIDE_INCONSEQUENTIAL_STATS": "0"}
"""Also print levels and networks without traffic."""

INPUT = "input.yaml"
MESSAGE = re.compile(r"ERROR|Assertion|what\(\)")
SOURCE_FOLDER = re.compile(r"\S*/(?=\S+\.[ch]pp)")


@dataclass(frozen=True)
class Answer:
    """Either `result`, the numbers of an accepted mapping (see `answer.read_answer`), or `error`: why not."""

    result: dict[str, Any] | None
    error: str = ""


def run_model(document: Mapping[str, Any], dataspaces: Sequence[str], folder: Path, *,
              program: str = "timeloop-model", timeout: float = 60.0) -> Answer:
    """Run `timeloop-model` in `folder`, which must be empty, on a native document with all its sections.

    `dataspaces` names the problem's data spaces in order. An exit code of 0 is not believed: the files must be
    there and whole. Raises FadiffError where the program cannot be run, takes longer than `timeout` seconds, ends
    without a reason, or leaves files that are cut off.
    """
    (folder / INPUT).write_text(yaml.dump(dict(document), Dumper=_Plain, sort_keys=False, default_flow_style=None))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)} | SHOW_ALL
    try:
        done = subprocess.run([program, INPUT], cwd=folder, env=environment, capture_output=True, text=True,
                              errors="replace", timeout=timeout, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise FadiffError(f"{program} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise FadiffError(f"{program} did not end within {timeout:g} s in {folder}") from None
    if done.returncode == 0:
        return Answer(read_answer(folder, dataspaces))
    said = (done.stderr + "\n" + done.stdout).splitlines()
    reason = "\n".join(SOURCE_FOLDER.sub("", line) for line in said if MESSAGE.search(line))
    if not reason:
        raise FadiffError(f"{program} ended with exit code {done.returncode} in {folder} and gave no reason")
    return Answer(None, reason)


class _Plain(yaml.SafeDumper):
    """Writes equal parts out in full: `timeloop-model` does not follow YAML's aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
