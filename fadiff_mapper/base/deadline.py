"""Deadlines of work with long loops.

Such loops get a function that tells whether time is over, and go through their items by `in_time`. The caller that
gave the function names the interrupted work in its error.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias, TypeVar

from fadiff_mapper.base.errors import OutOfTime

T = TypeVar("T")
Over: TypeAlias = Callable[[], bool]  # tells whether time is over; once true, it stays so
GRACE = 1.0
"""Seconds beyond the deadline for work without which all earlier work would be lost, such as the preparation of a
search; below `LATE`."""


def never() -> bool:
    """The deadline of work without a limit: time is never over."""
    return False


def at_latest(moment: float, stopped: Over) -> Over:
    """A deadline: time is over after `moment`, in seconds of `time.monotonic`, or once `stopped` is true."""
    return lambda: stopped() or time.monotonic() > moment


def in_time(items: Iterable[T], over: Over) -> Iterator[T]:
    """The items of a loop, one after the other; raises OutOfTime once time is over before an item."""
    for item in items:
        if over():
            raise OutOfTime
        yield item


def with_grace(moment: float, stopped: Over) -> Over:
    """A deadline for work that may go on for `GRACE` longer.

    Time is over `GRACE` after `moment`, in seconds of `time.monotonic`, or `GRACE` after `stopped` became true.
    """
    came: list[float] = []

    def over() -> bool:
        now = time.monotonic()
        if not came and (now > moment or stopped()):
            came.append(min(now, moment))
        return bool(came) and now > came[0] + GRACE

    return over


def in_main_thread() -> bool:
    """Whether this is the main thread, the only one to which Python delivers signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handled(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Sets the handler of a signal inside the block; does nothing outside the main thread."""
    if not in_main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


class _Alarm(BaseException):
    """Ends the work at any line, past all handlers of input errors."""


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside the block, a first Ctrl-C raises nothing but is remembered; a second Ctrl-C ends the program as usual.

    If the work then ends without a result (`OutOfTime`), the first Ctrl-C ends the program, too. Does nothing outside
    the main thread. Yields a function that tells whether Ctrl-C came.
    """
    came, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        if came.is_set() and callable(before):
            before(number, frame)
        came.set()

    with handled(signal.SIGINT, handle):
        try:
            yield came.is_set
        except OutOfTime:
            if came.is_set():
                raise KeyboardInterrupt from None
            raise


LATE, LATE_SHARE = 2.0, 0.2  # a command may exceed its time limit by these seconds, or by this share if that is longer


@contextmanager
def reading_in_time(begun: float, limit: float | None) -> Iterator[None]:
    """Interrupts the reading of input inside the block, at any line, when the command must end.

    `begun` is in seconds of `time.monotonic`, `limit` is the time limit in seconds; None: no limit. Does nothing
    outside the main thread. Raises OutOfTime when it interrupts.
    """
    if limit is None or not limit > 0 or not in_main_thread():
        yield
        return
    moment = begun + limit + max(LATE, LATE_SHARE * limit)

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Alarm

    with handled(signal.SIGALRM, ring):
        try:
            signal.setitimer(signal.ITIMER_REAL, max(moment - time.monotonic(), 1e-6))
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except _Alarm:
            raise OutOfTime("out of time before the input was read; accepted: a longer time limit") from None
