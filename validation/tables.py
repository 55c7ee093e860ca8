"""Accelergy's energies beside those that come with the designs, our estimate and Timeloop's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.energy.accelergy_tables import complete_answer
from fadiff_mapper.inputs.energy.choose_source import installed, recorded_tables
from fadiff_mapper.inputs.energy.estimated_tables import estimated
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import Tables, compute_energy, storage_energy

ACTIONS = ("read", "fill", "update", "leak")


@dataclass(frozen=True)
class Price:
    """The energy of one action from four sources, in pJ.

    Attributes:
        design: The bundled design.
        component: Level or arithmetic.
        action: One of `ACTIONS`, or "compute".
        accelergy: As Accelergy says now.
        bundled: As recorded with the design.
        estimate: As this package estimates it without Accelergy.
        built_in: As Timeloop takes it without a table.
    """

    design: str
    component: str
    action: str
    accelergy: float
    bundled: float
    estimate: float
    built_in: float

    def as_dict(self) -> dict[str, Any]:
        """The price as JSON values."""
        return asdict(self)


def prices(designs: Sequence[str] = ()) -> list[Price]:
    """The energies of bundled designs from all sources; empty where Accelergy is not installed.

    Args:
        designs: Designs wanted; empty for all.

    Raises:
        FadiffError: Accelergy cannot price a design.
    """
    program = installed()
    return [] if program is None else [price for design in designs or tuple(bundled_files.designs())
                                       for price in _prices(design, program)]


def _prices(design: str, program: str) -> list[Price]:
    files = (str(bundled_files.find(f"arch/{design}")), str(bundled_files.find("problems/conv")))
    spec, nothing = load(*files, energy="built-in"), Tables()
    arch = spec.arch
    sources = (complete_answer(arch, spec.literal, program).tables, recorded_tables(arch) or nothing,
               estimated(arch, nothing), nothing)
    columns = [energies(arch, tables) for tables in sources]
    return [Price(design, *key, *(column[key] for column in columns)) for key in columns[0]]


def energies(arch: Architecture, tables: Tables) -> dict[tuple[str, str], float]:
    """(component, action) -> pJ for all memories, outermost first, and the arithmetic.

    Args:
        arch: The architecture.
        tables: The energies in force; Timeloop's built-in values stand for missing ones.
    """
    memories = {(level.name, action): getattr(storage_energy(level, tables), action)
                for level in reversed(arch.levels) if not level.is_dummy for action in ACTIONS}
    return memories | {(arch.arithmetic.name, "compute"): compute_energy(arch.arithmetic, tables)[0]}
