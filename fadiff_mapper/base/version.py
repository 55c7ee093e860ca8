"""The version of the installed package, as its metadata tell."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("fadiff-mapper")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
