"""The programs and libraries installed on this machine, with the features that each enables.

The first libraries are needed to evaluate and to map; each further library or program adds a feature.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.kernel.instruction_sets import level_of
from fadiff_mapper.timeloop.find_programs import find_real


@dataclass(frozen=True)
class InstalledFinding:
    """The result of looking for one program or library."""

    name: str  # its name
    found: str | None  # its version, its path, or both; None if missing
    enables: str  # the features that need it


LIBRARIES = {
    "numpy": "evaluation",
    "array-api-compat": "evaluation",
    "torch": "the method gradient, networks from PyTorch modules (extra: gradient)",
    "scipy": "sensitivities of capacities and fan-outs, rank correlations",
    "distributed": "designs evaluated on a Dask cluster (extra: dask)",
    "ray": "designs evaluated on a Ray cluster (extra: ray)",
    "PyYAML": "reading files",
    "Jinja2": "reading templates",
    "rich": "tables and progress",
    "matplotlib": "figures in notebooks and in reports of fadiff-validate (extra: plot)",
    "onnx": "networks from ONNX models",
    "pytimeloop": "handing over specifications as Python objects",
}
TIMELOOP = {
    "timeloop-model": "checking a mapping against real Timeloop",
    "timeloop-mapper": "comparing with Timeloop's own mapper",
}
ENGINES = ("docker", "podman")  # programs that run containers


def examine() -> list[InstalledFinding]:
    """Looks for the libraries in use, optional ones, and optional programs on the PATH."""
    from fadiff_mapper.inputs.energy import accelergy_tables, choose_source  # other commands import this module, too
    program = choose_source.installed()
    return [InstalledFinding("python", platform.python_version(), "everything"),
            InstalledFinding("compiled kernel", f"{level_of(_kernel.__file__)} {_kernel.__file__}",
                             "evaluation, mapping"),
            *(InstalledFinding(name, _library(name), enables) for name, enables in LIBRARIES.items()),
            *(InstalledFinding(name, str(path) if (path := find_real(name)) else None, enables)
              for name, enables in TIMELOOP.items()),
            InstalledFinding("accelergy", program and " ".join(filter(None, [
                program, accelergy_tables.installed_version(program, os.environ)])),
                "energy tables for designs that bring none"),
            *(InstalledFinding(name, shutil.which(name), "asking Timeloop in a container") for name in ENGINES)]


def _library(name: str) -> str | None:
    """The version of a library; "importable" where it is on the path without being installed; None if missing."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "importable" if find_spec(name.replace("-", "_")) else None
