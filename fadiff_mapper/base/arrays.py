"""Arrays of NumPy and tensors of torch by the same names."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace as find_namespace

Array: TypeAlias = Any
"""A NumPy array or a torch tensor; `array_namespace` names the functions that both have."""

STANDARD = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Whether NumPy itself has every name of the array API standard (since 2.1), so that no wrapper must be loaded."""


def array_namespace(array: Array) -> Any:
    """The functions that work on an array, by the names of the array API standard: NumPy, or a view of torch."""
    return np if STANDARD and isinstance(array, np.ndarray) else find_namespace(array)
