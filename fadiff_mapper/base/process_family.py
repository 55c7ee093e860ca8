"""Ends all processes that a program started, directly or not, together with the program.

They are found by their session and by a mark in their environment. As a script this file is the guard of one program:
it reads the mark, a folder to remove and the program's id, and ends the family when its input ends, because then the
process that started both has ended. It imports nothing of the package, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE = 0.5  # seconds after which a program that was being started has its mark; set by hand
LOOKS = 100  # most searches for remaining processes; a safety limit against a program that forks without end


def end_family(program: int, mark: bytes) -> None:
    """Kills the program's group, then processes that left it: the rest of its session, and processes with its mark.

    `program` is a process id (0: not known), which is also the id of the program's group and session. `mark` is an
    environment variable with a value that only the program and its descendants have.
    """
    if program:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program, signal.SIGKILL)
    for _ in range(LOOKS):  # a process may fork between two searches
        try:
            others = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        except OSError:     # no /proc: only the group is ended
            others = []
        left = [pid for pid in others if pid != program and _belongs(pid, program, mark)]
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            break


def _belongs(pid: int, session: int, mark: bytes) -> bool:
    """Whether a living process is of the program's session, or has inherited the mark in its environment."""
    try:
        state, _, _, own_session = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[:4]
        if state == b"Z":
            return False
        return int(own_session) == session or mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (OSError, ValueError):  # ended meanwhile, or of another user
        return False


def guard() -> None:
    """Waits until standard input ends, because the parent has ended, then ends the program's family.

    The input has parts that end with a zero byte: the mark, a folder to remove or nothing, the program's id if it runs.
    """
    mark, folder, *program = sys.stdin.buffer.read().split(b"\0")[:-1]
    if not program:  # the program may be starting
        time.sleep(PATIENCE)
    end_family(int(program[0]) if program else 0, mark)
    if folder:
        import shutil  # takes longer to load than all the rest
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard()
