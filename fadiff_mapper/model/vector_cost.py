"""What an operator without multiply-accumulates costs on a compute unit.

Its operands stream from the outermost memory to the unit and back, each word once, through every memory between; tiles
are double-buffered, so that the slowest of unit and memories sets the time. A memory between is filled and read on the
way in, updated and read on the way out. Einsums of one operator pass their tiles on within the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.spec.arch import Architecture, ComputeUnit, StorageLevel
from fadiff_mapper.inputs.spec.problem import DataSpace
from fadiff_mapper.inputs.spec.tables import Tables, storage_energy
from fadiff_mapper.workload.operations import VectorOperator

WORD = DataSpace("Activations", ())  # a tensor whose elements are words


@dataclass(frozen=True)
class VectorCost:
    """Time and energy of one run of an operator."""

    unit: str  # the unit that does it
    cycles: float
    energy_pj: float
    bound: str  # what sets the time: the unit or a memory
    busy: Mapping[str, float]  # cycles that the unit and each memory need


def vector_cost(operator: VectorOperator, arch: Architecture, tables: Tables,
                element: DataSpace = WORD) -> VectorCost:
    """The cost of an operator on the unit that is fastest, of equally fast ones on the one that takes least energy.

    `element` has the bits of the elements that pass through the memories; by default one is a word of every memory.

    Raises FadiffError where no unit of the design can do all its operations.
    """
    able = [unit for unit in arch.units if operator.operations.keys() <= unit.operations.keys()]
    if not able:
        lacking = min((operator.operations.keys() - unit.operations.keys() for unit in arch.units), key=len)
        found = "; ".join(f"{unit.name} with {', '.join(unit.operations)}" for unit in arch.units)
        raise FadiffError(f"{operator.node} ({operator.op}): no unit of the design does {listed(sorted(lacking))} "
                          f"beside its other operations (found: {found}); accepted: a unit with "
                          f"{listed(sorted(operator.operations))}")
    costs = [_on(operator, unit, arch, tables, element) for unit in able]
    return min(costs, key=lambda cost: (cost.cycles, cost.energy_pj))


def costs_by_unit(operators: Iterable[VectorOperator], arch: Architecture,
                  tables: Tables) -> dict[str, tuple[float, float]]:
    """Unit -> cycles and pJ of all operators that it does, one behind the other; errors as for `vector_cost`."""
    found: dict[str, tuple[float, float]] = {}
    for operator in operators:
        cost = vector_cost(operator, arch, tables)
        cycles, energy = found.get(cost.unit, (0.0, 0.0))
        found[cost.unit] = cycles + cost.cycles, energy + cost.energy_pj
    return found


def _on(operator: VectorOperator, unit: ComputeUnit, arch: Architecture, tables: Tables,
        element: DataSpace) -> VectorCost:
    operations = operator.operations
    busy = {unit.name: sum(number * unit.operations[name].cycles for name, number in operations.items())
            / (unit.lanes * unit.instances)}
    energy = sum(number * unit.operations[name].energy for name, number in operations.items())
    outermost = arch.levels[-1]
    for level in arch.levels[unit.level:]:
        if not level.is_dummy:
            passes, size = level is not outermost, float(element.words(level.word_bits))
            reads, fills = size * (operator.read + passes * operator.written), size * passes * operator.read
            updates = size * operator.written
            price = storage_energy(level, tables)
            energy += (reads * price.read + fills * price.fill + updates * price.update) / level.block_size
            busy[level.name] = _cycles(level, reads, fills + updates)
    bound = max(busy, key=lambda name: busy[name])
    return VectorCost(unit.name, busy[bound], energy, bound, busy)


def _cycles(level: StorageLevel, reads: float, writes: float) -> float:
    """Cycles in which all instances of a memory read and write so many words."""
    return max((words / (bandwidth * level.instances) for words, bandwidth in (
        (reads, level.read_bandwidth), (writes, level.write_bandwidth), (reads + writes, level.shared_bandwidth))
        if bandwidth is not None), default=0.0)
