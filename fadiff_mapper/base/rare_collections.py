"""Rare searches for unreachable cycles of objects, of which this program makes hardly any."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 50_000
"""Objects made between two collections of the youngest; Python's own 700 make the start of a command a tenth longer."""

FULL_EVERY = 1000
"""Collections of the middle generation between two of all objects, at least.

Planning 200 distinct layers made 16 full collections at Python's own settings, which took a tenth of the processor time
and freed nothing (23 November 2026). It makes 400 collections of the middle generation, so that none is full now.
"""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes collections of the whole process rare until the end of a `with` block.

    Where full collections are rare already, as inside another such block, or none are made, nothing is changed.
    """
    thresholds = gc.get_threshold()
    if not thresholds[0] or thresholds[2] >= FULL_EVERY:
        yield
        return
    gc.set_threshold(max(thresholds[0], ALLOCATIONS), thresholds[1], FULL_EVERY)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
