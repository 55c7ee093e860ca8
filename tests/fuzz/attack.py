"""Random hostile and unlucky input at every door of the package, and the few outcomes that are accepted.

A case is a folder of files and a command. It passes where the command ends by itself within `SECONDS`, in a process of
at most `BYTES`, with exit code 0, or with one of the documented other codes and lines that begin with "error: " (of the
launchers "ERROR: "), and leaves no file half-written.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

SECONDS = 10.0
WARMING = 90.0
"""Seconds of a worker's first case at a door, which loads and compiles."""

BYTES = 1 << 30

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """Files are in the folder; `words` are those of the command line, or of a launcher's."""

    words: tuple[str, ...]
    program: str = "fadiff-mapper"


Door = Callable[[Path, random.Random], Case]
"""Writes the files of one case into a folder."""


@dataclass
class Report:
    """Outcomes by door, and what is wrong, with the folder in which it can be repeated."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


class Worker:
    """A process that runs cases (see `worker.py`); replaced where a case ended it."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                       "PATH": "/usr/bin:/bin", "MPLBACKEND": "agg"}
        self.process = subprocess.Popen([sys.executable, str(HERE / "worker.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    def memory(self) -> int:
        """Bytes of the process that are in memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def ask(self, case: Case, folder: Path, seconds: float) -> dict[str, object] | str:
        """The worker's report, or why there is none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"folder": str(folder), "program": case.program, "words": case.words}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                if selector.select(0.02):
                    line = self.process.stdout.readline()
                    if not line:
                        return f"the process died with {self.process.wait()}"
                    report: dict[str, object] = json.loads(line)
                    return report
                if self.memory() > BYTES:
                    return f"took more than {BYTES >> 20} MiB"
        return f"took longer than {seconds:g} s"


def judged(case: Case, answer: dict[str, object] | str) -> tuple[str, str]:
    """(outcome, what is wrong with it or "")."""
    if isinstance(answer, str):
        return answer, answer
    if answer["broken"]:
        return "traceback", str(answer["broken"])
    code, lines = answer["code"], str(answer["errors"]).splitlines()
    launcher = case.program == "launcher"
    failed, start = (1, "ERROR: ") if launcher else (2, "error: ")
    if code == 0:
        return "success", ""
    if code == 1 and not launcher:
        return "a check failed", ""
    if code == failed and any(start.strip() in line for line in lines) and len(lines) <= 200 and all(
            len(line) < 4000 for line in lines):
        return "refused", ""
    return f"exit code {code}", "\n".join(lines)[-2000:]


def attack(doors: dict[str, Door], seed: int, minutes: float | None = None, cases: int | None = None,
           keep: Path | None = None, say: Callable[[str], None] = lambda line: None) -> Report:
    """Cases at all doors in turn, until the time or the number is used up.

    Args:
        doors: Writers of cases by name.
        seed: Case number n at a door depends on the seed and n alone.
        minutes: Time limit.
        cases: Cases for each door.
        keep: A folder for the cases with findings.
        say: Called with every finding.
    """
    report, end = Report(), time.monotonic() + 60 * (minutes if minutes is not None else 1e6)
    worker, number = Worker(), 0
    warm: set[str] = set()  # doors at which the worker has loaded and compiled all that it needs
    try:
        with TemporaryDirectory(prefix="fadiff-fuzz-") as root:
            while time.monotonic() < end and (cases is None or number < cases):
                for name, door in doors.items():
                    folder = Path(root) / "case"
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir()
                    case = door(folder, random.Random(f"{seed} {name} {number}"))
                    answer = worker.ask(case, folder, SECONDS if name in warm else WARMING)
                    warm.add(name)
                    outcome, wrong = judged(case, answer)
                    leftovers = [path for path in folder.rglob("*") if path.name.endswith((".tmp", ".partial"))]
                    wrong = wrong or (f"left {leftovers}" if leftovers else "")
                    report.outcomes[name, outcome if not wrong else "FINDING"] += 1
                    if wrong:
                        report.findings.append(f"{name} {number}: {' '.join(case.words)[:300]}\n{wrong}")
                        say(report.findings[-1])
                        if keep is not None:
                            shutil.copytree(folder, keep / f"{name}-{number}", dirs_exist_ok=True)
                    if isinstance(answer, str):
                        worker.__exit__(None, None, None)
                        worker = Worker()
                        warm.clear()
                number += 1
    finally:
        worker.__exit__(None, None, None)
    return report


def table(report: Report) -> Sequence[str]:
    """Outcomes by door, a line each."""
    doors = dict.fromkeys(name for name, _ in report.outcomes)
    return [f"{name:12} " + ", ".join(f"{count} {outcome}" for (door, outcome), count in report.outcomes.most_common()
                                      if door == name) for name in doors]
