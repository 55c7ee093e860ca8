"""Makes garbage collections rare: this program makes hardly any reference cycles, which only collections free."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 50_000  # objects made between collections of the youngest generation; Python's own 700 slow commands
MIDDLE_EVERY, FULL_EVERY = 10, 1000
"""Collections of the youngest generation per collection of the middle generation, and of the middle one per full
collection. Full collections take long while a large network is planned, and free nothing."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes collections of the whole process rare until the end of a `with` block.

    Does nothing where collections are off, or rare already, as inside another such block.
    """
    before = gc.get_threshold()
    if not before[0] or before[0] >= ALLOCATIONS:
        yield
        return
    gc.set_threshold(ALLOCATIONS, MIDDLE_EVERY, FULL_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*before)
