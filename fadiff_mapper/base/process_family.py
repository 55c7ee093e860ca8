"""The processes that a program started, wherever they went: they are ended with it.

They are found by their session and by a mark in their environment. As a script this file is the guard of one program:
it reads the mark, a folder to remove and the program's id, and ends the family as soon as its input ends, that is, when
the process that started both is gone. It imports nothing of the package, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE = 0.5  # seconds within which a program that was about to be started has its mark; set by hand
LOOKS = 100  # looks at most for processes that are left; a safety limit against a program that forks without end


def end_family(program: int, mark: bytes) -> None:
    """Kills the program's group, then whatever left the group: the rest of its session, and processes with its mark.

    `program` is the process id, 0 where it is not known, of the leader of a session and a group of its own; `mark` an
    environment variable with its value that only the program and what it started have.
    """
    if program:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program, signal.SIGKILL)
    for _ in range(LOOKS):  # a process may have forked between two looks
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
    except (OSError, ValueError):  # ended meanwhile, or somebody else's
        return False


def guard() -> None:
    """Waits until standard input ends, because the parent has ended, and ends the program's family.

    Input, each part ended by a zero: the mark, a folder to remove or nothing, the program's id once it runs.
    """
    mark, folder, *program = sys.stdin.buffer.read().split(b"\0")[:-1]
    if not program:  # about to be started
        time.sleep(PATIENCE)
    end_family(int(program[0]) if program else 0, mark)
    if folder:
        import shutil  # takes longer to load than all the rest
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard()
