"""The end of the time for some work, as it reaches loops that may be long.

Such loops are given a function that tells whether time is over, and go through their items by `in_time`. Whoever gave
the function says in words what there was no time for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from fadiff_mapper.base.errors import OutOfTime

T = TypeVar("T")

Over: TypeAlias = Callable[[], bool]
"""Tells whether time is over; once true, it stays so."""


GRACE = 1.0
"""Seconds beyond its time that work may take without which all before it would be in vain, such as the preparation of a
search: a command has two. Set by hand, not measured."""


def never() -> bool:
    """The end of work without a limit."""
    return False


def in_time(items: Iterable[T], over: Over) -> Iterator[T]:
    """The items of a loop, one after the other, as long as there is time.

    Raises:
        OutOfTime: Time is over before the loop.
    """
    for item in items:
        if over():
            raise OutOfTime
        yield item


def with_grace(moment: float, stopped: Over) -> Over:
    """The end of work that may go on for `GRACE` after its time.

    Args:
        moment: When time is over, seconds of `time.monotonic`.
        stopped: Tells whether the work was stopped, such as by Ctrl-C.

    Returns:
        A function that tells whether it is `GRACE` since either.
    """
    came: list[float] = []

    def over() -> bool:
        now = time.monotonic()
        if not came and (now > moment or stopped()):
            came.append(min(now, moment))
        return bool(came) and now > came[0] + GRACE

    return over
