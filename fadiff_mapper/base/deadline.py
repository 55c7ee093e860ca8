"""The end of the time for some work, as it reaches loops that may be long.

Such loops are given a function that tells whether time is over, and go through their items by `in_time`. The caller
who gave the function names the work that was cut short in its error.
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
"""Seconds beyond its time that work may take without which all before it would be in vain, such as the preparation of a
search: a command has two. Set by hand."""


def never() -> bool:
    """The end of work without a limit."""
    return False


def at_latest(moment: float, stopped: Over) -> Over:
    """The end of work at a moment, seconds of `time.monotonic`, or before, once `stopped` is true."""
    return lambda: stopped() or time.monotonic() > moment


def in_time(items: Iterable[T], over: Over) -> Iterator[T]:
    """The items of a loop, one after the other; raises OutOfTime where time is over before the loop."""
    for item in items:
        if over():
            raise OutOfTime
        yield item


def with_grace(moment: float, stopped: Over) -> Over:
    """The end of work that may go on for `GRACE` after its time.

    Time is over `GRACE` after `moment`, seconds of `time.monotonic`, or after `stopped` became true, as by Ctrl-C.
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
    """Inside the block a signal is handled by the handler; outside the main thread nothing changes."""
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
    """Inside the block, a first Ctrl-C raises nothing but is remembered; a second one ends the program as usual.

    So does the first one where the work comes to an end by it without a result (`OutOfTime`). Outside the main thread
    nothing changes. Yields whether Ctrl-C came, as a function.
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


LATE, LATE_SHARE = 2.0, 0.2  # seconds, or share of its time limit, by which a command may end later: the longer


@contextmanager
def reading_in_time(begun: float, limit: float | None) -> Iterator[None]:
    """Reading of input inside the block is given up, at any line, at the moment when the command must end.

    `begun` is in seconds of `time.monotonic`, the time limit in seconds; None: there is none. Outside the main thread
    nothing is given up. Raises OutOfTime once the moment has come.
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
