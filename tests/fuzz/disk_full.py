"""Disks that fill up: `python -m tests.fuzz.disk_full --runs 40`; a run on a full disk loses no file of an earlier one.

Each command runs on a small file system of its own in memory (`mount -t tmpfs`, as root) with a random number of bytes
left. Where it cannot be mounted, a random limit on the size of a file takes its place. Half of the disks hold the files
of an earlier run. A run either ends well, or says that there is no room; its files and those of before are there whole.
The exit code is 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of the tests are imported as the tests import them

from fuzz.runs import AFRESH, COMMANDS, Figures, forked, loaded, parts, prepared, unwhole, waited

DISK = 4 << 20
"""Bytes of the disk, more than any command writes."""

PAGE = 4096
"""Bytes of a block of such a disk."""

FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EFBIG))
"""How the system says that a file has no room."""


@contextmanager
def disk(folder: Path) -> Iterator[bool]:
    """Mounts a small disk; False where the system does not let us."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(folder)], check=False,
                             capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path, left: int) -> None:
    """Fills the disk of a folder but for so many bytes."""
    free = os.statvfs(folder)
    (folder / "filler").write_bytes(bytes(max(0, free.f_bavail * free.f_bsize - left)))


def attacked(name: str, runs: int, rng: random.Random, place: Path) -> Figures:
    """Runs a command on disks that fill up."""
    words, filled, whole, said = COMMANDS[name], Figures(runs), place / "whole", place / "said"
    prepared(whole, None)
    if code := waited(forked(whole, words)):
        filled.lost.append(f"exit code {code} on an empty disk")
    finished = {path for path, _ in unwhole(whole / "out")}
    sizes = [path.stat().st_size for path in (whole / "out").rglob("*") if path.is_file()]
    needed = sum(-(-size // PAGE) * PAGE for size in sizes)
    for number in range(runs):
        earlier = rng.random() < 0.5
        with disk(place / f"disk{number}") as mounted:
            folder = place / f"disk{number}" / "run"
            prepared(folder, whole if earlier else None)
            largest = None if mounted else rng.randint(0, 2 * max(sizes))
            if mounted:
                fill(folder.parent, PAGE * rng.randint(0, 2 * needed // PAGE))
            code = waited(forked(folder, words, said, largest))
            filled.done += code == 0
            filled.declined += (no_room := code in (1, 2) and any(word in said.read_text() for word in FULL))
            if code and not no_room:
                filled.lost.append(f"run {number}: exit code {code}: {said.read_text()[-300:]}")
            filled.look(folder / "out", finished if code == 0 or (earlier and name not in AFRESH) else (),
                        f"run {number}")
            filled.lost += [f"run {number}: left {part}" for part in parts(folder)]
    return filled


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.disk_full")
    parser.add_argument("--runs", type=int, default=40, help="of each command")
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    loaded()
    with TemporaryDirectory(prefix="fadiff-disk-") as place, disk(Path(place) / "disk") as mounted:
        print("full disks" if mounted else "no disk can be mounted: limits on the size of a file instead")
    lost = 0
    for name in options.command or COMMANDS:
        with TemporaryDirectory(prefix="fadiff-disk-") as place:
            filled = attacked(name, options.runs, random.Random(f"{options.seed} {name}"), Path(place))
        print(f"{name:15} {filled.runs} runs, {filled.done} done, {filled.declined} without room, "
              f"{filled.read} files read, {len(filled.lost)} lost", *filled.lost, sep="\n  ", flush=True)
        lost += len(filled.lost)
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
