"""What is installed on this machine, and what that enables. Nothing here is needed to evaluate or to map."""

from __future__ import annotations

import importlib.util
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from fadiff_mapper.timeloop.find import find_real


@dataclass(frozen=True)
class Finding:
    """One thing looked for: where it is or which version (None: not there), and what it is good for."""

    name: str
    found: str | None
    enables: str


PROGRAMS = {
    "timeloop-model": "checking a mapping against real Timeloop",
    "timeloop-mapper": "comparing with Timeloop's own mapper",
    "accelergy": "energy tables for designs that bring none",
    "docker": "asking Timeloop in a container",
    "podman": "asking Timeloop in a container",
}
MODULES = {"pytimeloop": "handing over specifications as Python objects"}
LIBRARIES = {"torch": "mapping (gradient descent)", "numpy": "evaluation", "PyYAML": "reading files",
             "Jinja2": "reading templates", "numba": "evaluation (compiled)",
             "array-api-compat": "evaluation", "rich": "tables and progress"}


def examine() -> list[Finding]:
    """Look for optional programs on the PATH, importable modules, and the libraries in use."""
    findings = [Finding("python", platform.python_version(), "everything")]
    findings += [Finding(name, _version(name), enables) for name, enables in LIBRARIES.items()]
    findings += [Finding(name, _path(name), enables) for name, enables in PROGRAMS.items()]
    findings += [Finding(name, "importable" if importlib.util.find_spec(name) else None, enables)
                 for name, enables in MODULES.items()]
    return findings


def _path(program: str) -> str | None:
    found = find_real(program)
    return None if found is None else str(found)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
