"""The order in which energies and areas are looked for, tables recorded for bundled designs, and DOSA's formulas.

The modules of Accelergy and of the estimate are imported only when they are needed.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from fadiff_mapper.base.bundled_files import ROOT, designs
from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.inputs.energy.source_names import CHOICES, COMPLETES
from fadiff_mapper.inputs.native.arch import written_components
from fadiff_mapper.inputs.native.tables import read_tables
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import BITS_PER_KIB, EnergyTable, Tables, component_name, full_name, unpriced
from fadiff_mapper.inputs.v04.document import translated_architecture
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.inputs.yaml.located import Map

Sourced = tuple[Tables, tuple[str, ...]]
"""The tables in force, and sentences on sources that were skipped or attributes that were withheld from a source."""


def installed(search_path: str | None = None) -> str | None:
    """The path of the `accelergy` command, or None. The search path defaults to PATH in the environment."""
    program = shutil.which("accelergy", path=search_path)
    return None if program is None else os.path.abspath(program)


def find_tables(arch: Architecture, given: Tables, choice: str, literal: Mapping[str, Any]) -> Sourced:
    """Finds the energies and areas of an architecture.

    The tables in the input come first; some choices complete them. An area in the input counts under every choice.
    Raises FadiffError for a choice that is none of `CHOICES`, and where the choice is Accelergy and it does not answer.
    """
    if choice not in CHOICES:
        raise FadiffError(f"energy: found {choice!r}{nearest(str(choice), list(CHOICES))}; accepted: {listed(CHOICES)}")
    if choice == "built-in" or (given.ert and choice not in COMPLETES):
        return given, ()
    found: Tables | None = None
    notes: tuple[str, ...] = ()
    program = installed() if choice in ("auto", "accelergy") else None
    if choice == "dosa":
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
        found = recorded_tables(arch) or (given if choice == "bundled" else None)
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
    """Energies of operations from Accelergy's primitive components, name -> (pJ, source), and sentences on failures.

    Both are empty where this choice does not ask Accelergy.
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


# The energy and area tables recorded from Accelergy for the bundled designs.

def recorded_tables(arch: Architecture) -> Tables | None:
    """The recorded tables of an architecture that is a bundled design; None for any other architecture.

    An architecture is a bundled design where all components agree in name, class and every attribute.
    """
    levels = {arch.arithmetic.name, *arch.level_names()}
    written = [part.component for part in written_components(arch.native).values()]
    for name in designs():
        tables = _recorded(name)
        names = {component_name(table.component) for table in tables.ert}
        if arch.arithmetic.name not in names or not names <= levels:
            continue  # another design by its names; most need not be translated
        if _bundled_components(name) == written:
            return tables
    return None


@cache
def _recorded(name: str) -> Tables:
    ert, art = (load_file(ROOT / "tables" / f"{name}.{kind}.yaml") for kind in ("ERT", "ART"))
    return read_tables(ert["ERT"], ert.at("ERT"), art["ART"], art.at("ART"), f"bundled with {name}")


@cache
def _bundled_components(name: str) -> list[dict[str, Any]]:
    template, design = map(load_file, (ROOT / "problems" / "conv.yaml", designs()[name]))
    native = {"architecture": translated_architecture(Map(design | template, where=template.where))}
    return [part.component for part in written_components(native).values()]


# DOSA's energies for the levels of an architecture that is built like a Gemmini, in pJ per word, as its public code has
# them (a7a3239); there are no areas.

MAC_PJ, REGISTER_PJ, DRAM_PJ = 0.5608, 0.48746172, 100.0
SOURCE = "DOSA's formula"


def dosa_tables(arch: Architecture, given: Tables) -> Tables:
    """Completes an ERT with DOSA's energies, a row for every component that it does not price completely.

    DRAM and register files are told by their class, an accumulator by "accum" in its name, and every other level with
    a capacity counts as a scratchpad. A vector access costs what its words cost, nothing leaks, and there are no areas.
    """
    rows, lacking = [], unpriced(arch, given)
    for level in reversed(arch.levels):
        if level.name in lacking:
            kilobytes = (level.size or 0) * level.word_bits / BITS_PER_KIB
            if level.is_dram:
                word, role = DRAM_PJ, "DRAM"
            elif not level.size:
                word, role = 0.0, "no level: without capacity"
            elif "reg" in level.kind.lower():
                word, role = REGISTER_PJ, "a register"
            elif "accum" in level.name.lower():
                kilobytes, side = kilobytes * level.instances, math.sqrt(arch.arithmetic.instances)
                word = 1.94 + 0.1005 * kilobytes / side  # a bank for every column
                role = f"an accumulator of {kilobytes:g} KB, array of side {side:g}"
            else:
                word, role = 0.49 + 0.02513 * kilobytes, f"a scratchpad of {kilobytes:g} KB"
            energies = dict.fromkeys(("read", "write", "update"), word * level.block_size) | {"leak": 0.0}
            rows.append(EnergyTable(full_name(arch, level.name), energies, f"{SOURCE} for {role}"))
    if arch.arithmetic.name in lacking:
        rows.append(EnergyTable(full_name(arch, arch.arithmetic.name), {"compute": MAC_PJ}, f"{SOURCE} for a MAC"))
    return replace(given, ert=(*given.ert, *rows))
