"""Which program, and what it ran on."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

import numpy as np

PACKAGE = "fadiff_mapper"


def package_version() -> str:
    """The version of this package, "unversioned" where it runs from files that were never installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return "unversioned"


def versions() -> dict[str, str]:
    """Versions of what takes part in a result; torch only if this process has loaded it."""
    found = {PACKAGE: package_version(), "python": platform.python_version(), "numpy": np.__version__}
    torch = sys.modules.get("torch")
    return found | ({"torch": str(torch.__version__)} if torch else {})
