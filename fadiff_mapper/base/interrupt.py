"""Signals as requests to come to an end: Ctrl-C, and the alarm at the end of a time limit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType

from fadiff_mapper.base.errors import OutOfTime


class _Alarm(BaseException):
    """Raised wherever the work stands, and past whatever catches errors of the input."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside the block, a first Ctrl-C raises nothing but is remembered; a second one ends the program as usual.

    So does the first one where the work comes to an end by it without a result (`OutOfTime`).

    Outside the main thread nothing changes, since Python delivers signals to the main thread alone.

    Yields:
        A function that tells whether Ctrl-C came.
    """
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        if came.is_set() and callable(before):
            before(number, frame)
        came.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield came.is_set
    except OutOfTime:
        if came.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def given_up_at(moment: float, what: str) -> Iterator[None]:
    """Inside the block, work is given up at a moment, wherever it stands: for work that leaves nothing behind.

    Outside the main thread nothing is given up, since Python delivers signals to the main thread alone.

    Args:
        moment: Seconds of `time.monotonic`; infinite without a limit.
        what: The work, as in "the input was read".

    Raises:
        OutOfTime: The moment came.
    """
    if moment == inf or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(moment - time.monotonic(), 1e-6))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Alarm:
        raise OutOfTime(f"out of time before {what}; accepted: a longer time limit") from None
    finally:
        signal.signal(signal.SIGALRM, before)
