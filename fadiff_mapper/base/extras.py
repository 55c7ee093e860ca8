"""Packages of the optional extras, such as `fadiff-mapper[gradient]`."""

from __future__ import annotations

from importlib.util import find_spec

from fadiff_mapper.base.errors import FadiffError


def installed(package: str) -> bool:
    """Whether a package can be imported; it is not loaded."""
    try:
        return find_spec(package) is not None
    except ImportError:
        return False


def require(package: str, extra: str, what: str) -> None:
    """Raises FadiffError where `package`, which `what` needs, is not installed; `extra` is the one that installs it."""
    if not installed(package):
        raise FadiffError(f"{what}: needs {package}, which is not installed; accepted: pip install "
                          f'"fadiff-mapper[{extra}]"')
