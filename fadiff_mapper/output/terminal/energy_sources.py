"""Where energies come from."""

from __future__ import annotations

from collections.abc import Mapping

from fadiff_mapper.base.errors import listed
from fadiff_mapper.output.terminal.console import console


def print_energy_sources(sources: Mapping[str, str]) -> None:
    """One line where all components have one source, else one line per source with its components."""
    out = console()
    names: dict[str, list[str]] = {}
    for component, source in sources.items():
        names.setdefault(source, []).append(component)
    for source, components in names.items():
        whose = "energies" if len(names) == 1 else f"energies of {listed(components)}"
        out.print(f"{whose}: {source}", markup=False)
