"""Fewer searches for unreachable cycles of objects, while a long computation keeps many objects and makes no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FULL_EVERY = 1000
"""Collections of the middle generation between two of all objects, at least.

Planning 200 distinct layers made 16 full collections at Python's own settings, which took a tenth of the processor time
and freed nothing (23 November 2026); it makes 400 collections of the middle generation, so that none is full now.
"""


@contextmanager
def rare_full_collections() -> Iterator[None]:
    """Makes full collections of the whole process rare until the end of a `with` block.

    Where they are rare already, as inside another such block, nothing is changed.
    """
    thresholds = gc.get_threshold()
    if thresholds[2] >= FULL_EVERY:
        yield
        return
    gc.set_threshold(thresholds[0], thresholds[1], FULL_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
