"""Random hostile and unlucky input at every door of the package, and the few outcomes that are accepted.

A case is a folder of files and a command. A case passes where the command ends by itself within `SECONDS` and
`BYTES`, with exit code 0, or with one of the documented other codes and lines that begin with "error: " (of the
launchers "ERROR: "), and leaves no file half-written, none outside of its folder, and none in the folder for temporary
files.
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
"""Seconds of processor time of a case, its child processes included: a busy machine changes nothing."""

BYTES = 1 << 30
"""Bytes in memory, at any time of a case, of its process or of one of its child processes."""

HANGS = 60.0
"""Seconds without any processor time after which a case waits for something that does not come."""

WARMING = 90.0
"""Seconds of processor time of a worker's first case at a door, which loads and compiles."""

WATCHED = 0.02
"""Seconds between two looks at a worker's memory and time."""

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """Files are in the folder; `words` are those of the command line, or of a launcher's."""

    words: tuple[str, ...]
    program: str = "fadiff-mapper"


Door = Callable[[Path, random.Random], Case]
"""Writes the files of one case into a folder."""


@dataclass(frozen=True)
class Ended:
    """How a case ended, as its worker saw it.

    Attributes:
        code: Exit code.
        errors: Standard error.
        broken: The traceback of an exception that left the command, else "".
        seconds: Processor time of the case with its child processes.
        bytes: The most memory at any time of the case, of its process or of a child process.
    """

    code: int
    errors: str
    broken: str
    seconds: float
    bytes: int


TOO_LARGE = f"took more than {BYTES >> 20} MiB"


@dataclass
class Report:
    """Outcomes by door, what is wrong, and the most that a case at a door took.

    Attributes:
        outcomes: Number of cases by door and outcome.
        findings: Faults in words, with the number of the case and its command.
        longest: Seconds of processor time of the longest case by door, without the first one of a worker.
        largest: Bytes of the largest case by door.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    longest: dict[str, float] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)


class Worker:
    """A process that runs cases (see `worker.py`); replaced where a case ended it."""

    def __init__(self, temporary: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                       "PATH": "/usr/bin:/bin", "MPLBACKEND": "agg", "TMPDIR": str(temporary)}
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
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def processor(self) -> float:
        """Seconds of processor time, those of ended child processes included."""
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    def ask(self, case: Case, folder: Path, seconds: float) -> Ended | str:
        """The worker's report, or why there is none."""
        assert self.process.stdin is not None and self.process.stdout is not None
        request = {"folder": str(folder), "program": case.program, "words": case.words}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        before = used = self.processor()
        moved = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while time.monotonic() < moved + HANGS:
                if selector.select(WATCHED):
                    line = self.process.stdout.readline()
                    if not line:
                        return f"the process died with {self.process.wait()}"
                    return Ended(**json.loads(line))
                if self.memory() > BYTES:
                    return TOO_LARGE
                if (now := self.processor()) > used:
                    used, moved = now, time.monotonic()
                if used > before + seconds:
                    return f"took longer than {seconds:g} s"
        return f"waited for {HANGS:g} s"


def judged(case: Case, answer: Ended | str, seconds: float) -> tuple[str, str]:
    """(outcome, what is wrong with it or "")."""
    if isinstance(answer, str):
        return answer, answer
    if answer.broken:
        return "traceback", answer.broken
    if answer.seconds > seconds:
        return "too long", f"took {answer.seconds:.1f} s of {seconds:g} s"
    if answer.bytes > BYTES:
        return "too large", TOO_LARGE
    lines = answer.errors.splitlines()
    launcher = case.program == "launcher"
    failed, start = (1, "ERROR: ") if launcher else (2, "error: ")
    if answer.code == 0:
        return "success", ""
    if answer.code == 1 and not launcher:
        return "a check failed", ""
    if answer.code == failed and any(start.strip() in line for line in lines) and len(lines) <= 200 and all(
            len(line) < 4000 for line in lines):
        return "refused", ""
    return f"exit code {answer.code}", "\n".join(lines)[-2000:]


def left_behind(root: Path) -> list[str]:
    """Files that no case may leave: parts of files, those outside of the case's folder, and temporary ones."""
    return [str(path.relative_to(root)) for path in root.rglob("*")
            if path.name.endswith((".tmp", ".partial", ".probe")) or path.parent == root / "tmp"
            or path.relative_to(root).parts[0] not in ("case", "tmp")]


class Attack:
    """A running attack: a worker, its folders, and the report."""

    def __init__(self, root: Path, keep: Path | None, say: Callable[[str], None]) -> None:
        self.root, self.keep, self.say, self.report = root, keep, say, Report()
        (root / "tmp").mkdir()
        self.worker = Worker(root / "tmp")
        self.warm: set[str] = set()
        """Doors at which the worker has loaded and compiled all that it needs."""

    def case(self, name: str, door: Door, number: int, seed: int) -> None:
        """Runs one case and notes its outcome."""
        folder = self.root / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        case = door(folder, random.Random(f"{seed} {name} {number}"))
        seconds = SECONDS if name in self.warm else WARMING
        answer = self.worker.ask(case, folder, seconds)
        outcome, wrong = judged(case, answer, seconds)
        left = left_behind(self.root)
        wrong = wrong or (f"left {left}" if left else "")
        self.report.outcomes[name, outcome if not wrong else "FINDING"] += 1
        if isinstance(answer, Ended):
            self.report.largest[name] = max(answer.bytes, self.report.largest.get(name, 0))
            if name in self.warm:
                self.report.longest[name] = max(answer.seconds, self.report.longest.get(name, 0.0))
        self.warm.add(name)
        if wrong:
            self._found(f"{name} {number}: {' '.join(case.words)[:300]}\n{wrong}", f"{name}-{number}")

    def _found(self, finding: str, name: str) -> None:
        """Notes a finding, keeps its files, and goes on with a new worker and clean folders."""
        self.report.findings.append(finding)
        self.say(finding)
        if self.keep is not None:
            shutil.copytree(self.root / "case", self.keep / name, dirs_exist_ok=True, symlinks=True)
        self.close()
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        (self.root / "tmp").mkdir()
        self.worker = Worker(self.root / "tmp")
        self.warm.clear()

    def close(self) -> None:
        self.worker.__exit__(None, None, None)


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
    end = time.monotonic() + 60 * (minutes if minutes is not None else 1e6)
    number = 0
    with TemporaryDirectory(prefix="fadiff-fuzz-") as root:
        running = Attack(Path(root), keep, say)
        try:
            while time.monotonic() < end and (cases is None or number < cases):
                for name, door in doors.items():
                    running.case(name, door, number, seed)
                number += 1
        finally:
            running.close()
    return running.report


def table(report: Report) -> Sequence[str]:
    """A line for each door: cases by outcome, the longest and the largest."""
    return [f"{name:12} {sum(counts.values()):6} cases: "
            + ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
            + f"; at most {report.longest.get(name, 0.0):.1f} s, {report.largest.get(name, 0) >> 20} MiB"
            for name, counts in by_door(report).items()]


def by_door(report: Report) -> dict[str, Counter[str]]:
    """Door -> outcome -> number of cases."""
    doors: dict[str, Counter[str]] = {}
    for (name, outcome), count in report.outcomes.items():
        doors.setdefault(name, Counter())[outcome] += count
    return doors
