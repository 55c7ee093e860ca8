"""The order in which energies and areas are looked for; only the source that is taken is loaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.inputs.energy import recorded_tables
from fadiff_mapper.inputs.energy.source_names import CHOICES, COMPLETES
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import Tables, component_name


@dataclass(frozen=True)
class SourcedTables:
    """The outcome of the choice."""

    tables: Tables  # the tables in force
    # sentences about sources that were passed over, and about attributes that a source was not told
    notes: tuple[str, ...] = ()


def installed(search_path: str | None = None) -> str | None:
    """The path of the `accelergy` command, or None. The search path defaults to PATH in the environment."""
    program = shutil.which("accelergy", path=search_path)
    return None if program is None else os.path.abspath(program)


def check_choice(choice: str) -> None:
    """Raises FadiffError for a word that is none of `CHOICES`."""
    if choice not in CHOICES:
        raise FadiffError(f"energy: found {choice!r}{nearest(str(choice), list(CHOICES))}; accepted: {listed(CHOICES)}")


def find_tables(arch: Architecture, given: Tables, choice: str, literal: Mapping[str, Any]) -> SourcedTables:
    """Finds the energies and areas of an architecture. An area in the input counts under every choice.

    The tables in the input come first; some choices complete them. Raises FadiffError where the choice is unknown, or
    Accelergy is asked for and is not there, cannot be asked, or fails.
    """
    check_choice(choice)
    if choice == "built-in" or (given.ert and choice not in COMPLETES):
        return SourcedTables(given)
    if choice == "dosa":
        from fadiff_mapper.inputs.energy.dosa_tables import dosa_tables
        found = SourcedTables(dosa_tables(arch, given))
    elif choice == "bundled":
        found = SourcedTables(recorded_tables.tables_for(arch) or given)
    else:
        found = _asked_or_estimated(arch, given, choice, literal)
    # Areas in the input replace the areas that were found.
    names = {component_name(name) for name in given.art}
    others = {name: area for name, area in found.tables.art.items() if component_name(name) not in names}
    sources = {name: source for name, source in found.tables.area_source.items() if name in others}
    return replace(found, tables=replace(found.tables, art=others | given.art, area_source=sources))


def _asked_or_estimated(arch: Architecture, given: Tables, choice: str, literal: Mapping[str, Any]) -> SourcedTables:
    """The tables of Accelergy, or of the next source where it cannot be asked and need not be."""
    notes: tuple[str, ...] = ()
    program = installed() if choice != "estimate" else None
    if choice == "accelergy" or program is not None:
        from fadiff_mapper.inputs.energy.accelergy_tables import complete_answer, why_not
        unable = why_not(arch)
        if program is not None and not unable:
            found = complete_answer(arch, literal, program)
            return SourcedTables(found.tables, found.notes)
        if choice == "accelergy":
            raise FadiffError(f"Accelergy cannot be asked: {unable or 'there is no accelergy command on the PATH'}; "
                              "accepted: an ERT in the input, or --energy with another source")
        notes = (f"Accelergy was not asked: {unable}",)
    recorded = recorded_tables.tables_for(arch) if choice != "estimate" else None
    if recorded is None:
        from fadiff_mapper.inputs.energy.estimated_tables import estimated
        recorded = estimated(arch, given)
    return SourcedTables(recorded, notes)
