"""The energy and area tables in force, in the layout of Accelergy's reference tables ERT and ART."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.spec.arch import Architecture, StorageLevel
from fadiff_mapper.spec.native.areas import areas
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import (
    EnergyTable,
    Tables,
    built_in_storage_energy,
    component_actions,
    compute_energy,
    full_name,
    multicasts,
)
from fadiff_mapper.yaml.load import dump


def ert_yaml(spec: Spec) -> str:
    """The ERT as YAML: pJ per action of every component, see `ert_tree`."""
    return dump({"ERT": ert_tree(spec.arch, spec.tables)})


def art_yaml(spec: Spec) -> str:
    """The ART as YAML: um^2 per component, see `art_tree`."""
    return dump({"ART": art_tree(spec.arch, spec.tables)})


def ert_tree(arch: Architecture, tables: Tables) -> dict[str, Any]:
    """The ERT as plain data: as given, or Timeloop's built-in values of all components where there is none.

    Args:
        arch: The architecture.
        tables: The tables in force.
    """
    rows = ([{"name": table.component, "actions": _actions(table)} for table in tables.ert]
            or [{"name": full_name(arch, name), "actions": _actions(EnergyTable(name, actions))}
                for name, actions in _built_in_energies(arch, tables).items()])
    idle = [{"name": full_name(arch, one.name), "actions": [{"name": one.action, "energy": 0.0}]}
            for one in multicasts(arch) if not component_actions(one.name, tables)]  # Timeloop insists on an entry
    return {"version": tables.version, "tables": rows + idle}


def art_tree(arch: Architecture, tables: Tables) -> dict[str, Any]:
    """The ART as plain data: as given, or the areas that the architecture writes (built in: 0) where there is none.

    Args:
        arch: The architecture.
        tables: The tables in force.
    """
    rows = tables.art or {full_name(arch, name): area for name, area in areas(arch, tables).items()}
    return {"version": tables.version, "tables": [{"name": name, "area": area} for name, area in rows.items()]}


def _actions(table: EnergyTable) -> list[dict[str, Any]]:
    """The entries of a table, with arguments where it has any."""
    return [{"name": entry.action, "energy": entry.energy}
            | ({"arguments": dict(entry.arguments)} if entry.arguments else {}) for entry in table.entries]


def _built_in_energies(arch: Architecture, tables: Tables) -> dict[str, dict[str, float]]:
    """pJ by action and component, outermost first."""
    return ({level.name: _built_in(level) for level in reversed(arch.levels)}
            | {arch.arithmetic.name: {"compute": compute_energy(arch.arithmetic, tables)[0]}})


def _built_in(level: StorageLevel) -> dict[str, float]:
    energy = built_in_storage_energy(level)
    return {"read": energy, "write": energy, "update": energy, "leak": 0.0}
