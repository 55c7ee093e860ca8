"""Compilation of scalar loops to machine code.

What Timeloop walks element by element (`sliding_window_walk.py`, `spatial_transfers.py`) reads best as plain loops;
numba compiles them on
first use and keeps the result on disk until the file of the function changes. (A function of another file that it
calls may change unnoticed: delete the *.nbc files beside the sources then.) Importing this module loads numba, so it
is imported only to evaluate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The same function as machine code that leaves other threads running. Arguments: NumPy arrays and numbers."""
    def build(cache: bool) -> F:
        return cast(F, numba.njit(cache=cache, nogil=True, error_model="numpy")(function))

    try:
        return build(cache=True)
    except RuntimeError:  # there is no folder to keep the result in
        return build(cache=False)
