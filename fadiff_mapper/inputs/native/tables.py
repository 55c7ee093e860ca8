"""`ERT:` and `ART:`, Accelergy's energy and area reference tables: sections -> `Tables`, and back; areas in force."""

from __future__ import annotations

from typing import Any, NamedTuple

from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.keys import ACTION, AREA, ART, ENERGIES, ERT
from fadiff_mapper.inputs.spec.tables import (
    ArguedEnergy,
    EnergyTable,
    Tables,
    built_in_storage_energy,
    component_name,
    compute_energy,
    full_name,
    multicasts,
)
from fadiff_mapper.inputs.yaml.located import Reader, mapping, plain, readers
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Where

IN_INPUT = "ERT in the input"  # the source of energies given in the user's own files
MOST_ENERGY = 1e15  # pJ of an action: a kilojoule is no energy of a chip, and unbounded ones overflow in sums
AREAS_IN_INPUT = "ART in the input"
IN_ARCHITECTURE = "area in the architecture"
NO_AREA = "none: Timeloop's built-in areas are 0"
"""Sources of areas in words."""


def read_tables(ert: Any, ert_where: Where, art: Any, art_where: Where, source: str,
                leniency: Leniency = STRICT) -> Tables:
    """Reads the tables of one input; a missing section (None) leaves them empty.

    An action that is listed several times counts with its largest energy, as in Timeloop. `source` says where energies
    and areas come from, for the report; it is `IN_INPUT` for the user's own files.
    """
    version, areas = "0.4", {}
    energy_tables: list[EnergyTable] = []
    if ert is not None:
        reader = Reader(underscored(mapping(ert, ert_where)), ERT, leniency)
        version, rows = reader.read("version"), reader.read("tables")
        reader.finish(" in the ERT")
        for row in readers(rows, ENERGIES, leniency):
            name, entries = row.read("name"), row.read("actions")
            row.finish(f' of the ERT table "{name}"')
            actions: dict[str, float] = {}
            argued: list[ArguedEnergy] = []
            for action in readers(entries, ACTION, leniency):
                key, energy = action.read("name"), action.read("energy")
                if energy > MOST_ENERGY:
                    raise action.at("energy").error(f"found {energy:g} pJ", f"at most {MOST_ENERGY:g}")
                argued.append(ArguedEnergy(key, energy, plain(action.read("arguments") or {})))
                action.finish(f' of an action of the ERT table "{name}"')
                actions[key] = max(energy, actions.get(key, energy))
            several = len(argued) > len(actions) or any(entry.arguments for entry in argued)
            energy_tables.append(EnergyTable(name, actions, source, tuple(argued) if several else ()))
        if not energy_tables:
            raise ert_where.error("the ERT has no table", "at least one table with name and actions")
    if art is not None:
        reader = Reader(underscored(mapping(art, art_where)), ART, leniency)
        rows = reader.read("tables")
        reader.finish(" in the ART")
        for area in readers(rows, AREA, STRICT):
            areas[area.read("name")] = area.read("area")
    return Tables(tuple(energy_tables), areas, version, dict.fromkeys(areas, source) if source != IN_INPUT else {})


def ert_tree(arch: Architecture, tables: Tables) -> dict[str, Any]:
    """The ERT as plain data: as given, or Timeloop's built-in values of all components where there is none."""
    rows = [{"name": table.component, "actions": [
        {"name": entry.action, "energy": entry.energy}
        | ({"arguments": dict(entry.arguments)} if entry.arguments else {}) for entry in table.entries]}
        for table in tables.ert]

    def row(name: str, energies: dict[str, float]) -> dict[str, Any]:
        return {"name": full_name(arch, name),
                "actions": [{"name": action, "energy": energy} for action, energy in energies.items()]}

    if not rows:
        rows = [row(level.name, dict.fromkeys(("read", "write", "update"), built_in_storage_energy(level))
                    | {"leak": 0.0}) for level in reversed(arch.levels)]
        rows.append(row(arch.arithmetic.name, {"compute": compute_energy(arch.arithmetic, tables)[0]}))
    rows += [row(one.name, {one.action: 0.0}) for one in multicasts(arch)
             if not tables.actions.get(one.name, {})]  # Timeloop insists on an entry
    return {"version": tables.version, "tables": rows}


def art_tree(arch: Architecture, tables: Tables) -> dict[str, Any]:
    """The ART as plain data: as given, or the areas that the architecture writes (built in: 0) where there is none."""
    rows = tables.art or {full_name(arch, name): area for name, (area, *_) in areas(arch, tables).items()}
    return {"version": tables.version, "tables": [{"name": name, "area": area} for name, area in rows.items()]}


class ComponentArea(NamedTuple):
    """The area of a component."""

    each: float  # um^2 of an instance
    total: float  # um^2 of all instances
    source: str  # where it comes from, in words; "" for a level that only adds a fan-out


def areas(arch: Architecture, tables: Tables) -> dict[str, ComponentArea]:
    """Areas as Timeloop takes them, by component name, outermost first.

    Without an entry in the ART the area of a storage level is its attribute `cluster_area` over the cluster's size,
    of the arithmetic its `area`; Timeloop's built-in area is 0. Timeloop reads an ART only together with an ERT;
    of several entries for a component the last one counts.
    """
    in_table = {component_name(name): (area, tables.area_source.get(name, AREAS_IN_INPUT))
                for name, area in (tables.art.items() if tables.ert or tables.area_source else ())}
    units: tuple[StorageLevel | Arithmetic, ...] = (*reversed(arch.levels), arch.arithmetic)
    found = {}
    for unit in units:
        area, source = in_table.get(unit.name, (unit.area, IN_ARCHITECTURE if unit.area else NO_AREA))
        fan_out = isinstance(unit, StorageLevel) and unit.is_dummy
        found[unit.name] = ComponentArea(area, area * unit.instances, "" if fan_out else source)
    return found
