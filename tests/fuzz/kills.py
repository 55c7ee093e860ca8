"""Kills at random moments: `python -m tests.fuzz.kills --kills 200`; every file that a killed run leaves is whole.

Each command runs in a fork of a loaded process (`runs.py`), so that the kills fall into its work. Half of the runs are
killed (SIGKILL) after a random time, half within a millisecond of their n-th change of the folder, n random: while they
write. Half of the folders hold the files of an earlier run.

Every file that is left is read: YAML by the package's own reader, JSON as JSON, others as text that ends with a line.
None of an earlier run may be missing, but for those commands that remove them first. Every fourth folder is then given
to the same command again, which must end by itself, and leave whole files and no part of one. The exit code is 1 where
anything was lost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of the tests are imported as the tests import them

from fuzz.runs import AFRESH, COMMANDS, Figures, ended, forked, loaded, parts, prepared, unwhole, waited

RESUMED = 4
"""Of so many folders one is given to the same command again."""


@dataclass
class Kills(Figures):
    """The figures of one command.

    Attributes:
        killed: Runs that were killed before their end.
        writing: Runs that were killed while a part of a file was beside its destination.
        resumed: Killed runs whose folder was given to the same command again.
    """

    killed: int = 0
    writing: int = 0
    resumed: int = 0


def seen(folder: Path) -> Any:
    """The names and times of all files: another value after every change."""
    with contextlib.suppress(FileNotFoundError):  # renamed meanwhile
        return sorted((entry.path, entry.stat().st_mtime_ns, entry.stat().st_size)
                      for inside in (folder, *(path for path in folder.iterdir() if path.is_dir()))
                      for entry in os.scandir(inside))
    return object()


def at_a_time(pid: int, folder: Path, seconds: float) -> None:
    """Waits for a moment of the run."""
    deadline = time.monotonic() + seconds
    while not ended(pid) and time.monotonic() < deadline:
        time.sleep(0.0005)


def at_a_change(pid: int, folder: Path, changes: float) -> None:
    """Waits for a number of changes of the folder, and the fraction of it in milliseconds more."""
    before = seen(folder)
    for _ in range(int(changes)):
        while not ended(pid) and (now := seen(folder)) == before:
            time.sleep(0.0002)  # or this process takes the time that the command needs
        before = now if not ended(pid) else before
    time.sleep(changes % 1 / 1000)


def attacked(name: str, kills: int, rng: random.Random, place: Path) -> Kills:
    """Kills the runs of one command."""
    words, count = COMMANDS[name], Kills(kills)
    whole, longest, changes = place / "whole", 0.0, 8
    prepared(whole, None)
    for _ in range(2):  # the first one compiles
        start = time.monotonic()
        if code := waited(forked(whole, words)):
            count.lost.append(f"exit code {code} without a kill")
        longest = time.monotonic() - start
    finished = {path for path, _ in unwhole(whole / "out")}
    for number in range(kills):
        earlier = rng.random() < 0.5
        folder = place / "killed"
        prepared(folder, whole if earlier else None)
        wait: Callable[[int, Path, float], None] = rng.choice((at_a_time, at_a_change))
        moment = rng.uniform(0, longest) if wait is at_a_time else rng.uniform(1, changes)
        pid = forked(folder, words)
        wait(pid, folder / "out", moment)
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)
        count.killed += waited(pid) == -signal.SIGKILL
        count.writing += bool(parts(folder))
        count.look(folder / "out", finished if earlier and name not in AFRESH else (), f"kill {number}")
        if number % RESUMED == 0:
            if code := waited(forked(folder, words)):
                count.lost.append(f"kill {number}: exit code {code} when gone on with")
            count.resumed += 1
            count.look(folder / "out", finished, f"kill {number}, gone on with")
            count.lost += [f"kill {number}, gone on with: left {part}" for part in parts(folder)]
        shutil.rmtree(folder)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills")
    parser.add_argument("--kills", type=int, default=200, help="of each command")
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    loaded()
    lost = 0
    for name in options.command or COMMANDS:
        with TemporaryDirectory(prefix="fadiff-kills-") as place:
            count = attacked(name, options.kills, random.Random(f"{options.seed} {name}"), Path(place))
        print(f"{name:15} {count.runs} runs, {count.killed} killed before their end, {count.writing} of them while a "
              f"file was written, {count.resumed} gone on with, {count.read} files read, {len(count.lost)} lost",
              *count.lost, sep="\n  ", flush=True)
        lost += len(count.lost)
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
