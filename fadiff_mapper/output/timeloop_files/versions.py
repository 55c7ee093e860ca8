"""Which program, and what it ran on."""

from __future__ import annotations

import platform
import sys

import numpy as np

from fadiff_mapper.base.version import __version__


def versions() -> dict[str, str]:
    """Versions of what takes part in a result; torch only if this process has loaded it."""
    found = {"fadiff_mapper": __version__, "python": platform.python_version(), "numpy": np.__version__}
    torch = sys.modules.get("torch")
    return found | ({"torch": str(torch.__version__)} if torch else {})
