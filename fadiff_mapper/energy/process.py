"""Runs another program that is not trusted to end, to be brief, or to clean up after itself."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KEPT_BYTES = 256 * 1024
"""Of what a program prints, the end that is kept."""

TICK_S = 0.2
"""How often an ended program is noticed whose descendants keep its output open."""


@dataclass(frozen=True)
class Ended:
    """How a program ended (`code` is None where it was stopped at the time limit) and the end of what it printed."""

    code: int | None
    output: str


def run_program(arguments: Sequence[str], folder: Path, time_limit: float) -> Ended:
    """Run a program in `folder` for at most `time_limit` seconds, without input; nothing of it runs on afterwards.

    The program leads a process group of its own, which is ended with it. Raises OSError where it cannot be started.
    """
    deadline = time.monotonic() + time_limit
    process = subprocess.Popen(arguments, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = _last_output(process, deadline)
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        code = process.returncode
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    return Ended(code, output.decode("utf-8", "replace"))


def _last_output(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The end of the output, once it is closed, the program has ended or the time is up."""
    assert process.stdout is not None
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(min(left, TICK_S)):
                chunk = os.read(process.stdout.fileno(), KEPT_BYTES)
                if not chunk:
                    break
                kept = (kept + chunk)[-KEPT_BYTES:]
            elif process.poll() is not None:
                break
    return kept
