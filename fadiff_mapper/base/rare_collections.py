"""Rare garbage collections: this program makes hardly any cycles of objects that only these would free."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 50_000  # objects made between collections of the youngest generation; Python's own 700 slow commands
MIDDLE_EVERY, FULL_EVERY = 10, 1000
"""Collections of the youngest generation between two of the middle one, and of the middle one between two of all: the
latter take long while a large network is planned, and free nothing."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes collections of the whole process rare until the end of a `with` block.

    Where collections are rare already, as inside another such block, or none are made, nothing is changed.
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
