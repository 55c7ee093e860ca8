"""The parts by name. A part whose libraries are missing is left out, and its reason is told."""

from __future__ import annotations

from importlib import import_module

from .part import Part

MODULES = {"table1": "benchmarks.papers.table1", "figure4": "benchmarks.papers.figure4",
           "figure3": "benchmarks.papers.figure3", "agatf": "benchmarks.agatf.part",
           "ablations": "benchmarks.agatf.ablations"}
"""The module of each part, in the order of the page; each has a constant `PART`."""


def load_parts(names: list[str]) -> tuple[list[Part], dict[str, str]]:
    """Imports parts.

    Args:
        names: Keys of `MODULES`.

    Returns:
        The parts, and for those that cannot be imported the library that they miss.

    Raises:
        ModuleNotFoundError: A module of this repository is missing.
    """
    found, missing = [], {}
    for name in names:
        try:
            found.append(import_module(MODULES[name]).PART)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in ("benchmarks", "fadiff_mapper", "validation"):
                raise
            missing[name] = error.name
    return found, missing
