"""setuptools' build backend, which also asks for a C++ compiler from PyPI where this machine has none."""

from __future__ import annotations

from typing import Any

from cxx_compiler import ZIG_PACKAGE, installed_compiler
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (the hooks that stay as they are)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What pip installs before it builds a wheel."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_compiler()]


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """What pip installs before an editable installation."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *_compiler()]


def _compiler() -> list[str]:
    """A compiler as a package, unless one is installed that works."""
    return [] if installed_compiler() else [ZIG_PACKAGE]
