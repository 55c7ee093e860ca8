"""Energy per action (Accelergy's energy reference table, ERT) and area per component (ART).

As in Timeloop, actions of a level have several names, and an action that no table gives has a built-in estimate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, NamedInterconnect, StorageLevel

BUILT_IN = "Timeloop's built-in values"  # the source of an energy that no table gives
NO_ENERGY = "none: 0 pJ, as no table has an entry for it"
"""The source of the energies of a multicast without an entry, with which Timeloop ends on an assertion."""


@dataclass(frozen=True)
class ArguedEnergy:
    """The energy of an action with arguments, such as a multicast to so many receivers."""

    action: str
    energy: float  # pJ
    arguments: dict[str, Any] = field(default_factory=dict)  # the arguments as written


@dataclass(frozen=True)
class EnergyTable:
    """Energies of one component."""

    component: str  # full name as in the file, such as "system.PE[0..15].spad"
    actions: dict[str, float] = field(default_factory=dict)  # pJ by action; the largest where an action is listed twice
    source: str = field(default="", compare=False)  # source for the report, such as "ERT in the input"
    argued: tuple[ArguedEnergy, ...] = ()  # all entries where some have arguments or an action is listed twice

    @property
    def entries(self) -> tuple[ArguedEnergy, ...]:
        """All entries, those without arguments included."""
        return self.argued or tuple(ArguedEnergy(action, energy) for action, energy in self.actions.items())


@dataclass(frozen=True)
class Tables:
    """The ERT and ART in force."""

    ert: tuple[EnergyTable, ...] = ()  # energies by component; none where Timeloop's built-in values count
    art: dict[str, float] = field(default_factory=dict)  # area in um^2 by full component name, as in the file
    version: str = "0.4"  # version that the ERT states
    # Where the areas in `art` come from, for the report, by the same names.
    area_source: dict[str, str] = field(default_factory=dict, compare=False)

    @cached_property
    def actions(self) -> dict[str, dict[str, float]]:
        """pJ by component and action; as in Timeloop the largest counts where several tables give one."""
        found: dict[str, dict[str, float]] = {}
        for table in self.ert:
            of = found.setdefault(component_name(table.component), {})
            for action, energy in table.actions.items():
                of[action] = max(energy, of.get(action, energy))
        return found


@dataclass(frozen=True)
class ComponentEnergy:
    """Energies of one storage level."""

    read: float  # pJ per vector access
    fill: float  # pJ per vector access that brings words from the next level outwards
    update: float  # pJ per vector access that takes results from further in
    leak: float  # pJ per cycle and instance
    built_in: frozenset[str] = frozenset()  # "read", "fill", "update", as far as Timeloop estimates them


READ_ACTIONS = ("random_read", "read")
FILL_ACTIONS = ("random_fill", "random_write", "fill", "write")
UPDATE_ACTIONS = ("random_update", "random_write", "update", "write")
COMPUTE_ACTIONS = ("mac_random", "mult_random", "mac", "mult", "compute")
"""The names under which Timeloop looks an action up in the ERT; the first one that is there counts."""
UNNAMED_ROOT = "system"  # where tables need a parent for their components and the architecture names none
RANGE = re.compile(r"\[[^\]]*\]")  # the range of instances in the full name of a component, such as "[0..3]"
REMEMBERED = 1 << 12  # names of components that are remembered, enough for a few designs: a limit on memory
DRAM_PJ_PER_16_BITS = 200.0
SRAM_PJ_PER_KIB = 5 / 99.5
SRAM_LEAST_KIB = 0.5
"""Timeloop's built-in energies (its public estimator, `pat-public`), which `built_in_storage_energy` repeats.

16 bits cost 200 pJ at a DRAM. At an SRAM they cost 1 pJ at 0.5 KiB and, on a straight line through this point, 6 pJ at
100 KiB: the normalized costs of register file, global buffer and DRAM that Chen et al. give for Eyeriss (ISCA 2016).
"""
BITS_PER_KIB = 8192


@lru_cache(maxsize=REMEMBERED)
def component_name(full_name: str) -> str:
    """The name of a level in the full name of a table: "L2" of "chip.tile[0..3].L2[1..4]", as Timeloop matches them."""
    return RANGE.sub("", full_name).rsplit(".", 1)[-1]


def full_name(arch: Architecture, name: str) -> str:
    """The name of a component in a table that is written for this architecture."""
    return f"{arch.name or UNNAMED_ROOT}.{name}"


def storage_energy(level: StorageLevel, tables: Tables) -> ComponentEnergy:
    """The energies of a storage level, in Timeloop's order.

    The level's own `vector_access_energy` replaces the ERT, for all accesses, and leaves no leakage. An action that the
    tables lack keeps the built-in value, and leakage is then 0.
    """
    if level.vector_access_energy is not None:
        value = level.vector_access_energy
        return ComponentEnergy(value, value, value, 0.0)
    actions = tables.actions.get(level.name, {})
    default = built_in_storage_energy(level)
    given = {"read": first_energy(actions, READ_ACTIONS), "fill": first_energy(actions, FILL_ACTIONS),
             "update": first_energy(actions, UPDATE_ACTIONS)}
    read, fill, update = (default if energy is None else energy for energy in given.values())
    missing = frozenset(action for action, energy in given.items() if energy is None)
    return ComponentEnergy(read, fill, update, actions.get("leak") or 0.0, missing)


def compute_energy(arithmetic: Arithmetic, tables: Tables) -> tuple[float, bool]:
    """The energy of a multiply-accumulate: from the ERT, else the attribute `energy`, else Timeloop's built-in value.

    Returns (pJ per operation, whether it is the built-in value, 1 pJ at 16 bits and quadratic in the bits).
    """
    energy = first_energy(tables.actions.get(arithmetic.name, {}), COMPUTE_ACTIONS)
    energy = arithmetic.energy if energy is None else energy
    return (energy, False) if energy is not None else ((arithmetic.word_bits / 16) ** 2, True)


def built_in_storage_energy(level: StorageLevel) -> float:
    """Timeloop's energy, pJ of a vector access and instance, where no table gives one, see `SRAM_PJ_PER_KIB`.

    Instances of a cluster share one memory of all their words, and the energy of its access; 0 without capacity.
    """
    if level.is_dram:
        return DRAM_PJ_PER_16_BITS * level.word_bits * level.block_size / 16
    if not level.size:
        return 0.0
    width = level.word_bits * level.block_size * level.cluster_size
    rows = -(-level.size // level.block_size)
    kib = width * rows / BITS_PER_KIB
    return (1 + SRAM_PJ_PER_KIB * (kib - SRAM_LEAST_KIB)) * width / 16 / level.cluster_size


def energy_sources(arch: Architecture, tables: Tables) -> dict[str, str]:
    """Where the energies of every component come from, in words, by its name, outermost first.

    Levels that only add a fan-out have no energies and no entry.
    """
    by_name: dict[str, dict[str, None]] = {}  # the sources of all tables of a component
    for table in tables.ert:
        by_name.setdefault(component_name(table.component), {})[table.source] = None
    in_tables = {name: "; ".join(found) for name, found in by_name.items()}
    sources = {}
    for level in (level for level in reversed(arch.levels) if not level.is_dummy):
        missing = sorted(storage_energy(level, tables).built_in)
        sources[level.name] = (
            "vector_access_energy in the architecture" if level.vector_access_energy is not None else
            BUILT_IN if len(missing) == 3 else
            in_tables[level.name] + (f"; {listed(missing)}: {BUILT_IN}" if missing else ""))
    unit = arch.arithmetic
    priced = first_energy(tables.actions.get(unit.name, {}), COMPUTE_ACTIONS) is not None
    sources[unit.name] = (in_tables[unit.name] if priced else
                          BUILT_IN if unit.energy is None else "energy in the architecture")
    return sources | {one.name: in_tables.get(one.name) or NO_ENERGY for one in multicasts(arch)}


def first_energy(actions: Mapping[str, float], names: Iterable[str]) -> float | None:
    """The energy of the first of these actions that is there."""
    return next((actions[name] for name in names if name in actions), None)


def unpriced(arch: Architecture, tables: Tables) -> dict[str, list[str]]:
    """The actions that no table prices, for which Timeloop takes its built-in value, by component, innermost first.

    Levels that only add a fan-out need no energies.
    """
    found = {level.name: sorted(storage_energy(level, tables).built_in) for level in arch.levels if not level.is_dummy}
    found[arch.arithmetic.name] = ["compute"] if compute_energy(arch.arithmetic, tables)[1] else []
    return {name: actions for name, actions in found.items() if actions}


def missing_actions(arch: Architecture, tables: Tables) -> list[str]:
    """Actions that the ERT does not price, also of multicasts; empty where there is no ERT.

    Returns a phrase per component, such as `"Buffer" (fill, update)`, innermost level first.
    """
    missing = unpriced(arch, tables) | {one.name: [one.action] for one in multicasts(arch)
                                        if not tables.actions.get(one.name, {})}
    return [f'"{name}" ({", ".join(actions)})' for name, actions in missing.items()] if tables.ert else []


def multicasts(arch: Architecture) -> list[NamedInterconnect]:
    """The interconnects whose energies the ERT gives."""
    return [one for one in arch.named_interconnects if one.kind == "SimpleMulticast"]
