"""Runs one program that may hang, crash or print without end; it ends with this process, even if this is killed."""

from __future__ import annotations

import os
import resource
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base import process_family
from fadiff_mapper.base.errors import FadiffError

KEPT = 1 << 16  # bytes of a program's output that are kept from its beginning, and from its end: a limit on memory
PATIENCE = 0.2
"""Seconds without output after which the program is polled: it may have ended while its children hold the pipe. This
delays only the end of programs that leave children behind."""
MARK = "FADIFF_MAPPER_RUN"  # environment variable that identifies the processes of one run


class TimeLimitPassed(FadiffError):
    """A program exceeded its time limit and was killed."""


@dataclass(frozen=True)
class FinishedProgram:
    """How a program ended."""

    returncode: int  # exit code; negative: the signal that killed the program
    output: str  # standard output and standard error as they came; of a long output only beginning and end

    @property
    def how(self) -> str:
        """How the program ended, in words for a message."""
        if self.returncode >= 0:
            return f"ended with exit code {self.returncode}"
        try:
            return f"was killed by {signal.Signals(-self.returncode).name}"
        except ValueError:  # a real-time signal
            return f"was killed by signal {-self.returncode}"


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], timeout: float,
        memory: int | None = None, temporary: bool = False) -> FinishedProgram:
    """Runs a program in a folder, without a shell and without input.

    Every process that the program started ends with it, after `timeout` seconds in any case (TimeLimitPassed), and when
    this process is killed. The middle of a long output is dropped. FadiffError where the program cannot start.

    Args:
        arguments: The program and its arguments.
        environment: All environment variables of the program.
        memory: Bytes of address space that the program, and each process that it starts, may have; None: no limit.
            Systems other than Linux set none.
        temporary: Whether the folder is removed, too, when this process is killed.
    """
    token = secrets.token_hex(16)
    with _guard(f"{MARK}={token}", str(folder.resolve()) if temporary else "") as guard:
        try:
            process = subprocess.Popen(list(arguments), cwd=folder, env={**environment, MARK: token},
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        except OSError as error:
            raise FadiffError(f"{arguments[0]} cannot be run: {error.strerror}") from None
        try:
            guard(process.pid)
            if memory is not None and hasattr(resource, "prlimit"):  # set from outside, because with threads no code
                with suppress(ProcessLookupError):                   # may run between fork and exec
                    resource.prlimit(process.pid, resource.RLIMIT_AS, (memory, memory))
            output, ended = _listen(process, time.monotonic() + timeout)
        finally:
            process_family.end_family(process.pid, f"{MARK}={token}".encode())
            process.wait()
            if process.stdout:
                process.stdout.close()
    if not ended:
        raise TimeLimitPassed(f"{arguments[0]} did not end within {timeout:g} s")
    return FinishedProgram(process.returncode, output)


@contextmanager
def _guard(mark: str, folder: str) -> Iterator[Callable[[object], None]]:
    """Starts a process that ends the program's family, and removes the folder, if this process is killed.

    It starts before the program, and knows the family by the mark until the yielded function tells it the program's id.
    """
    def tell(line: object) -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the guard was killed: the program runs on without it
            process.stdin.write(os.fsencode(f"{line}\0"))

    try:
        process = subprocess.Popen([sys.executable, "-I", "-S", process_family.__file__], cwd="/", bufsize=0,
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
    except OSError as error:
        raise FadiffError(f"{sys.executable} cannot be run: {error.strerror}") from None
    with process:
        try:
            tell(mark)
            tell(folder)
            yield tell
        finally:
            process.kill()


def _listen(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, bool]:
    """The output until the program has ended and its output, too, or until the deadline; and whether it ended."""
    assert process.stdout is not None
    head, tail, ended, quiet = bytearray(), bytearray(), False, False
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not (ended and quiet) and time.monotonic() < deadline:
            quiet = not selector.select(min(PATIENCE, max(0.0, deadline - time.monotonic())))
            if not quiet:
                part = os.read(process.stdout.fileno(), KEPT)
                if not part:
                    break
                head += part[:KEPT - len(head)]
                tail = (tail + part)[-KEPT:]
            ended = _has_ended(process)
    # A closed pipe is not the end: a program may close its outputs and run on.
    while not (ended := _has_ended(process)) and time.monotonic() < deadline:
        time.sleep(0.001)
    text = head if len(head) < KEPT else head + b"\n...\n" + tail
    return text.decode(errors="replace"), ended


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Polls with WNOWAIT: the unreaped process keeps its id, which `_end_all` needs to end the process group."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
