"""The sources of the energies and areas in force: tables of the input, recorded tables, estimates, built-in values."""

from __future__ import annotations

from collections.abc import Mapping

from fadiff_mapper.base.errors import listed
from fadiff_mapper.output.terminal.console import console


def print_sources(what: str, sources: Mapping[str, str]) -> None:
    """Prints one line if all components share a source, else one line per source with its components.

    Args:
        what: "energies" or "areas".
        sources: Component -> source, as in `Stats.energy_source` and `Stats.area_source`.
    """
    out = console()
    names: dict[str, list[str]] = {}
    for component, source in sources.items():
        names.setdefault(source, []).append(component)
    for source, components in names.items():
        subject = what if len(names) == 1 else f"{what} of {listed(components)}"
        out.print(f"{subject}: {source}")
