"""Energy per action (Timeloop's ERT) and area per component (ART)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fadiff_mapper.base.errors import listed
from fadiff_mapper.spec.arch import Architecture, Arithmetic, StorageLevel

BUILT_IN = "Timeloop's built-in values"
"""The source of an energy that no table gives."""


@dataclass(frozen=True)
class EnergyTable:
    """Energies in pJ of one component: action name -> energy (the largest where an action is listed twice)."""

    component: str
    """Full name as in the file, such as "system.PE[0..15].spad"."""
    actions: dict[str, float] = field(default_factory=dict)
    source: str = field(default="", compare=False)
    """Where the energies come from, such as "ERT in the input"."""


@dataclass(frozen=True)
class Tables:
    """The ERT and ART in force."""

    ert: tuple[EnergyTable, ...] = ()
    art: dict[str, float] = field(default_factory=dict)
    """Area in um^2 per component name, as in the file."""
    version: str = "0.4"


@dataclass(frozen=True)
class ComponentEnergy:
    """pJ per vector access of one storage level, leakage in pJ per cycle and instance."""

    read: float
    fill: float
    update: float
    leak: float
    built_in: frozenset[str] = frozenset()
    """Which of the four are Timeloop's built-in estimates, for want of an entry in the ERT."""


READ_ACTIONS = ("random_read", "read")
FILL_ACTIONS = ("random_fill", "random_write", "fill", "write")
UPDATE_ACTIONS = ("random_update", "random_write", "update", "write")
COMPUTE_ACTIONS = ("mac_random", "mult_random", "mac", "mult", "compute")
"""The names under which Timeloop looks an action up; the first one found counts."""

UNNAMED_ROOT = "system"
"""Where tables need a parent for their components and the architecture names none."""

RANGE = re.compile(r"\[[^\]]*\]")


def component_name(full_name: str) -> str:
    """The last part of "chip.tile[0..3].L2[1..4]", without its range."""
    return RANGE.sub("", full_name).rsplit(".", 1)[-1]


def full_name(arch: Architecture, name: str) -> str:
    """The name of a component in a table that is written for this architecture."""
    return f"{arch.name or UNNAMED_ROOT}.{name}"


def storage_energy(level: StorageLevel, tables: Tables) -> ComponentEnergy:
    """The energies of a storage level: its own `vector_access_energy`, else the ERT, else the built-in values."""
    if level.vector_access_energy is not None:
        value = level.vector_access_energy
        return ComponentEnergy(value, value, value, 0.0)
    actions = _actions(level.name, tables)
    default = built_in_storage_energy(level)
    found = {what: _first(actions, names) for what, names in
             (("read", READ_ACTIONS), ("fill", FILL_ACTIONS), ("update", UPDATE_ACTIONS), ("leak", ("leak",)))}
    missing = frozenset(what for what, value in found.items() if value is None and what != "leak")
    values = {what: default if value is None else value for what, value in found.items()}
    return ComponentEnergy(values["read"], values["fill"], values["update"], found["leak"] or 0.0, missing)


def compute_energy(arithmetic: Arithmetic, tables: Tables) -> tuple[float, bool]:
    """pJ per multiply-accumulate, and whether it is Timeloop's built-in value: ERT, else its attribute, else that."""
    found = _first(_actions(arithmetic.name, tables), COMPUTE_ACTIONS)
    found = arithmetic.energy if found is None else found
    return (found, False) if found is not None else ((arithmetic.word_bits / 16) ** 2, True)


def built_in_storage_energy(level: StorageLevel) -> float:
    """Timeloop's public table (PAT): pJ per access from the size of an SRAM; 200 pJ per 16 bits of DRAM."""
    bits = level.word_bits * level.block_size * level.cluster_size
    if level.is_dram:
        return 200.0 * level.word_bits * level.block_size / 16
    if not level.size:
        return 0.0
    height = -(-level.size // level.block_size)
    return (1 + 5 / 99.5 * (bits * height / 8192 - 0.5)) * bits / 16 / level.cluster_size


def energy_sources(arch: Architecture, tables: Tables) -> dict[str, str]:
    """Where the energies of every component come from, by its name, outermost first.

    Levels that stand only for a fan-out have none.
    """
    found = {level.name: _storage_source(level, tables) for level in reversed(arch.levels) if not level.is_dummy}
    return found | {arch.arithmetic.name: _compute_source(arch.arithmetic, tables)}


def _storage_source(level: StorageLevel, tables: Tables) -> str:
    if level.vector_access_energy is not None:
        return "vector_access_energy in the architecture"
    missing = sorted(storage_energy(level, tables).built_in)
    if len(missing) == 3:
        return BUILT_IN
    return _table_source(level.name, tables) + (f"; {listed(missing)}: {BUILT_IN}" if missing else "")


def _compute_source(arithmetic: Arithmetic, tables: Tables) -> str:
    if _first(_actions(arithmetic.name, tables), COMPUTE_ACTIONS) is not None:
        return _table_source(arithmetic.name, tables)
    return BUILT_IN if arithmetic.energy is None else "energy in the architecture"


def _table_source(name: str, tables: Tables) -> str:
    rows = [table.source for table in tables.ert if component_name(table.component) == name]
    return "; ".join(dict.fromkeys(rows))


def _actions(name: str, tables: Tables) -> dict[str, float]:
    actions: dict[str, float] = {}
    for table in tables.ert:
        if component_name(table.component) == name:
            for action, energy in table.actions.items():
                actions[action] = max(energy, actions.get(action, energy))
    return actions


def _first(actions: dict[str, float], names: tuple[str, ...]) -> float | None:
    return next((actions[name] for name in names if name in actions), None)


def missing_actions(arch: Architecture, tables: Tables) -> list[str]:
    """What the ERT does not price, a phrase per component; empty where there is no ERT.

    Timeloop takes its built-in value there. Levels that stand only for a fan-out are not expected in an ERT.
    """
    if not tables.ert:
        return []
    missing = []
    for level in arch.levels:
        lacking = [] if level.is_dummy else sorted(storage_energy(level, tables).built_in)
        if lacking:
            missing.append(f'"{level.name}" ({", ".join(lacking)})')
    if compute_energy(arch.arithmetic, tables)[1]:
        missing.append(f'"{arch.arithmetic.name}" (compute)')
    return missing
