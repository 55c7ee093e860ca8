"""Compilation of scalar loops to machine code.

The parts that Timeloop walks element by element (`model/exact/sliding_window_walk.py`, `spatial_transfers.py`) read
best as plain loops; numba compiles them on first use and keeps the result on disk until the file of the function
changes. A change of a function in another file that it calls goes unnoticed: delete the *.nbc files beside the
sources then. Importing this module loads numba, so only modules that evaluate import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compiles a function of NumPy arrays and numbers, which then releases Python's lock for other threads.

    Args:
        function: A function in numba's nopython subset. A division by zero gives inf or nan as in NumPy.
    """
    def build(cache: bool) -> F:
        return cast(F, numba.njit(cache=cache, nogil=True, error_model="numpy")(function))

    try:
        return build(cache=True)
    except RuntimeError:  # there is no folder to keep the result in
        return build(cache=False)
