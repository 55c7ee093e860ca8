"""Versions of the program and of the libraries on which a result rests."""

from __future__ import annotations

import platform
import sys

import numpy as np

from fadiff_mapper.base.version import __version__


def versions() -> dict[str, str]:
    """Library -> version of this package, Python and NumPy, and of torch if this process has loaded it."""
    loaded = {"fadiff_mapper": __version__, "python": platform.python_version(), "numpy": np.__version__}
    torch = sys.modules.get("torch")
    return loaded | ({"torch": str(torch.__version__)} if torch else {})
