"""Compute units beside the multiply-accumulators: the section `units`, or components of a v0.4 tree.

Timeloop has one arithmetic; units are an addition of this program. Files for Timeloop do not contain them, and a
mapping of a problem of multiply-accumulates does not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.spec.arch import OPERATIONS, Architecture, ComputeUnit, UnitOperation
from fadiff_mapper.inputs.spec.keys import OPERATION, UNIT
from fadiff_mapper.inputs.spec.tables import Tables, component_name
from fadiff_mapper.inputs.yaml.located import Map, Reader, known, mapping, number, readers, sequence
from fadiff_mapper.inputs.yaml.place import Leniency, Where

FIGURES = {"mac": 17.1645, "add": 8.3395, "mul": 17.1645 - 8.3395, "max": 0.028036, "div": 36.251153, "sqrt": 36.251153}
"""pJ of an operation of 16 bits where no ERT, unit or Accelergy gives one: Nayak et al., FuseMax, MICRO 2024, the
tables of its artifact (f543beb); `mul` is `mac` less `add`, and `sqrt` costs as much as `div`."""
FIGURES_SOURCE = "bundled figures of FuseMax (MICRO 2024), 16 bits"
Figures: TypeAlias = Mapping[str, tuple[float, str]]  # pJ of an operation, and its source, by name
SERIES = {"mac": 6}  # an exponential by its series (FuseMax), without subtracting the maximum; also log, sin and cos
STEPS = {"exp": SERIES, "log": SERIES, "sin": SERIES}


def read_units(node: Any, where: Where, arch: Architecture, tables: Tables, leniency: Leniency,
               figures: Figures) -> tuple[ComputeUnit, ...]:
    """Reads the section `units`, with the energies of all operations; `figures` count before the bundled ones.

    Raises SpecError for an unknown memory or operation, and for an operation without an energy.
    """
    units: list[ComputeUnit] = []
    figures = {name: (energy, FIGURES_SOURCE) for name, energy in FIGURES.items()} | dict(figures)
    for reader in readers(sequence(node, where), UNIT, leniency):
        name, level = reader.read("name"), reader.read("level")
        instances, lanes, written = reader.read("instances"), reader.read("lanes"), reader.read("operations")
        skips = reader.read("skips_masked")
        reader.finish(f' of the unit "{name}"')
        levels = [memory.name for memory in arch.levels if not memory.is_dummy]
        known(level, reader.at("level"), levels, "memory")
        taken = [*arch.level_names(), *(unit.name for unit in units)]  # the arithmetic may do other operations, too
        if name in taken:
            raise reader.at("name").error(f'the name "{name}" is given to two components', "unique names")
        priced = tables.actions.get(name, {})
        source = "; ".join(table.source for table in tables.ert if component_name(table.component) == name)
        operations = {known(operation, written.at(operation), OPERATIONS, "operation"): _operation(
            str(operation), written, priced, source, figures) for operation in written}
        if not operations:
            raise reader.at("operations").error(f'the unit "{name}" has no operation', listed(OPERATIONS))
        units.append(ComputeUnit(name, arch.level_names().index(level), instances, lanes, operations, skips))
    return tuple(units)


def _operation(name: str, written: Map, priced: dict[str, float], source: str, figures: Figures) -> UnitOperation:
    """Cycles on one lane and energy of an operation, from its entry or from the operations that it consists of.

    The energy is from the ERT, else from the entry, else the sum over the steps, else from `figures`.
    """
    value, where = written[name], written.at(name)
    cycles: float | None = None
    energy: float | None = None
    steps: dict[str, float] = {}
    if isinstance(value, dict):
        entry = mapping(value, where)
        reader = Reader(entry, OPERATION)
        cycles, energy = reader.read("cycles"), reader.read("energy")
        steps = {part: times for part in OPERATIONS if (times := reader.read(part)) is not None}
        reader.finish(f' of the operation "{name}"')
    elif value is not None:
        cycles = number(value, where, above=0)
    if not steps and name not in figures and energy is None:
        steps = dict(STEPS.get(name, {}))

    def of_steps(part: str) -> UnitOperation:
        own = written.get(part)
        if part == name or (isinstance(own, dict) and set(own) & set(OPERATIONS)):
            raise where.error(f'"{name}" takes "{part}", which consists of others itself',
                              "operations that do not consist of others")
        return _operation(part, written if part in written else written.having({part: None}), priced, source, figures)
    parts = {part: of_steps(part) for part in steps if name not in priced or cycles is None}
    if cycles is None:
        cycles = sum(times * parts[part].cycles for part, times in steps.items()) if steps else 1.0
    if name in priced:
        return UnitOperation(cycles, priced[name], source)
    if energy is not None:
        return UnitOperation(cycles, energy, "energy in the architecture")
    if steps:
        return UnitOperation(cycles, sum(times * parts[part].energy for part, times in steps.items()),
                             "; ".join(dict.fromkeys(part.source for part in parts.values())))
    if name not in figures:
        raise where.error(f'the operation "{name}" has no energy', "energy: PJ, or an ERT with an action of this name")
    return UnitOperation(cycles, *figures[name])
