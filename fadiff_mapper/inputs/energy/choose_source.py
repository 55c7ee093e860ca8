"""The order in which energies and areas are looked for; only the source that is taken is loaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.inputs.energy import recorded_tables
from fadiff_mapper.inputs.energy.source_names import CHOICES, COMPLETES
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import Tables, component_name

Sourced = tuple[Tables, tuple[str, ...]]
"""The tables in force, and sentences about sources that were passed over or attributes that a source was not told."""


def installed(search_path: str | None = None) -> str | None:
    """The path of the `accelergy` command, or None. The search path defaults to PATH in the environment."""
    program = shutil.which("accelergy", path=search_path)
    return None if program is None else os.path.abspath(program)


def check_choice(choice: str) -> None:
    """Raises FadiffError for a word that is none of `CHOICES`."""
    if choice not in CHOICES:
        raise FadiffError(f"energy: found {choice!r}{nearest(str(choice), list(CHOICES))}; accepted: {listed(CHOICES)}")


def find_tables(arch: Architecture, given: Tables, choice: str, literal: Mapping[str, Any]) -> Sourced:
    """Finds the energies and areas of an architecture; FadiffError where Accelergy is asked for in vain.

    The tables in the input come first; some choices complete them. An area in the input counts under every choice.
    """
    check_choice(choice)
    if choice == "built-in" or (given.ert and choice not in COMPLETES):
        return given, ()
    found: Tables | None = None
    notes: tuple[str, ...] = ()
    program = installed() if choice in ("auto", "accelergy") else None
    if choice == "dosa":
        from fadiff_mapper.inputs.energy.dosa_tables import dosa_tables
        found = dosa_tables(arch, given)
    elif choice == "accelergy" or program is not None:
        from fadiff_mapper.inputs.energy.accelergy_tables import complete_answer, why_not
        unable = why_not(arch)
        if program is not None and not unable:
            answer = complete_answer(arch, literal, program)
            found, notes = answer.tables, answer.notes
        elif choice == "accelergy":
            raise FadiffError(f"Accelergy cannot be asked: {unable or 'there is no accelergy command on the PATH'}; "
                              "accepted: an ERT in the input, or --energy with another source")
        else:
            notes = (f"Accelergy was not asked: {unable}",)
    if found is None and choice != "estimate":
        found = recorded_tables.tables_for(arch) or (given if choice == "bundled" else None)
    if found is None:
        from fadiff_mapper.inputs.energy.estimated_tables import estimated
        found = estimated(arch, given)
    # Areas in the input replace the areas that were found.
    names = {component_name(name) for name in given.art}
    others = {name: area for name, area in found.art.items() if component_name(name) not in names}
    sources = {name: source for name, source in found.area_source.items() if name in others}
    return replace(found, art=others | given.art, area_source=sources), notes


def operation_figures(arch: Architecture, choice: str, literal: Mapping[str, Any]) -> tuple[
        dict[str, tuple[float, str]], tuple[str, ...]]:
    """pJ and source of operations on primitive components of Accelergy, by name, and sentences about what failed.

    None where Accelergy is not asked by this choice.
    """
    program = installed() if choice in ("auto", "accelergy") else None
    if program is None:
        return {}, ()
    from fadiff_mapper.inputs.energy.accelergy_tables import operation_energies, why_not
    if why_not(arch):
        return {}, ()
    try:
        return operation_energies(arch, literal, program), ()
    except FadiffError as error:
        return {}, (f"operations of compute units have bundled energies: {error}",)
