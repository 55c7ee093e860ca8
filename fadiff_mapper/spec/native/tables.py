"""Reads `ERT:` and `ART:`, Accelergy's energy and area reference tables, into `Tables`."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.spec.native.hyphens import underscored
from fadiff_mapper.spec.tables import ArguedEnergy, EnergyTable, Tables
from fadiff_mapper.yaml.leniency import STRICT, Leniency
from fadiff_mapper.yaml.located import Reader, anything, mapping, number, plain, sequence, text
from fadiff_mapper.yaml.place import Where

IN_INPUT = "ERT in the input"
"""The source of energies that stand in the user's own files."""
MOST_ENERGY = 1e15
"""pJ per action, a plain safety limit: a kilojoule is no energy of a chip; unbounded ones overflow in sums."""


def read_tables(ert: Any, ert_where: Where, art: Any, art_where: Where, source: str,
                leniency: Leniency = STRICT) -> Tables:
    """Reads the tables of one input.

    An action that is listed several times counts with its largest energy, as in Timeloop.

    Args:
        ert: The ERT section, or None.
        ert_where: Its place.
        art: The ART section, or None.
        art_where: Its place.
        source: Where energies and areas come from, for the report; `IN_INPUT` for the user's own files.
        leniency: Decides about unknown keys.

    Returns:
        The tables; a missing section leaves them empty.

    Raises:
        SpecError: A table without name or actions, or an energy that is no number or above `MOST_ENERGY`.
    """
    ert_reader = Reader(underscored(mapping(ert, ert_where)), leniency) if ert is not None else None
    version = "0.4"
    energy_tables = []
    if ert_reader is not None:
        version = ert_reader.take("version", text, "0.4")
        rows = ert_reader.take("tables", sequence)
        ert_reader.finish(" in the ERT")
        energy_tables = [_energy_table(row, rows.at(i), source, leniency) for i, row in enumerate(rows)]
        if not energy_tables:
            raise ert_where.error("the ERT has no table", "at least one table with name and actions")
    areas = {}
    if art is not None:
        art_reader = Reader(underscored(mapping(art, art_where)), leniency)
        art_reader.take("version", anything, None)
        rows = art_reader.take("tables", sequence)
        art_reader.finish(" in the ART")
        for i, row in enumerate(rows):
            reader = Reader(mapping(row, rows.at(i)))
            areas[reader.take("name", text)] = reader.take("area", number(0))
    sources = dict.fromkeys(areas, source) if source != IN_INPUT else {}
    return Tables(tuple(energy_tables), areas, version, sources)


def _energy_table(node: Any, where: Where, source: str, leniency: Leniency) -> EnergyTable:
    reader = Reader(mapping(node, where), leniency)
    name = reader.take("name", text)
    rows = reader.take("actions", sequence)
    reader.finish(f' of the ERT table "{name}"')
    actions: dict[str, float] = {}
    argued: list[ArguedEnergy] = []
    for i, row in enumerate(rows):
        action = Reader(mapping(row, rows.at(i)), leniency)
        key = action.take("name", text)
        energy = action.take("energy", number(0))
        if energy > MOST_ENERGY:
            raise action.at("energy").error(f"found {energy:g} pJ", f"at most {MOST_ENERGY:g}")
        arguments = action.take("arguments", mapping, None)
        argued.append(ArguedEnergy(key, energy, plain(arguments) if arguments else {}))
        action.finish(f' of an action of the ERT table "{name}"')
        actions[key] = max(energy, actions.get(key, energy))
    several = len(argued) > len(actions) or any(entry.arguments for entry in argued)
    return EnergyTable(name, actions, source, tuple(argued) if several else ())
