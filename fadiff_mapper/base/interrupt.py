"""Ctrl-C as a request to come to an end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Inside the block, a first Ctrl-C raises nothing but is remembered; a second one ends the program as usual.

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
    finally:
        signal.signal(signal.SIGINT, before)
