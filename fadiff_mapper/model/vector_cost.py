"""The cost of an operator without multiply-accumulates on a compute unit.

Operands stream from the outermost memory to the unit and back, each word once, through every memory in between. Tiles
are double-buffered, so that the slowest of unit and memories sets the time. A memory in between is filled and read on
the way in, updated and read on the way out. Einsums of one operator pass their tiles on within the unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.spec.arch import Architecture, ComputeUnit, StorageLevel
from fadiff_mapper.inputs.spec.problem import DataSpace
from fadiff_mapper.inputs.spec.tables import Tables, storage_energy
from fadiff_mapper.model.energy_latency import through_ports
from fadiff_mapper.workload.operations import VectorOperator

WORD = DataSpace("Activations", ())  # a tensor whose elements are words
AND = " and "  # joins the names of units if the parts of an operator run on several


@dataclass(frozen=True)
class VectorCost:
    """Time and energy of one run of an operator."""

    unit: str  # the unit that runs it
    cycles: float
    energy_pj: float
    bound: str  # the bottleneck: the unit or a memory
    busy: Mapping[str, float]  # cycles in use of the unit and of each memory
    moved: Mapping[str, float] = field(default_factory=dict)  # words of each memory, read and written

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles

    def plus(self, other: VectorCost) -> VectorCost:
        """The cost of both operators, one after the other."""
        units = dict.fromkeys([*self.unit.split(AND), other.unit])
        busy, moved = ({name: mine.get(name, 0.0) + theirs.get(name, 0.0) for name in {**mine, **theirs}}
                       for mine, theirs in ((self.busy, other.busy), (self.moved, other.moved)))
        return VectorCost(AND.join(units), self.cycles + other.cycles, self.energy_pj + other.energy_pj,
                          max(busy, key=lambda name: busy[name]), busy, moved)


@dataclass(frozen=True)
class Stream:
    """Words in a memory that pass through the unit."""

    level: int  # index of the memory, innermost first
    read: float  # words from the memory to the unit
    written: float = 0  # words from the unit to the memory


def vector_costs(operator: VectorOperator, arch: Architecture, tables: Tables,
                 element: DataSpace = WORD) -> list[VectorCost]:
    """The cost of an operator by itself on every unit that can do it; arguments and errors as for `unit_costs`."""
    return unit_costs(operator, operator.operations,
                      [Stream(len(arch.levels) - 1, operator.read, operator.written)], arch, tables, element)


def unit_costs(operator: VectorOperator, operations: Mapping[str, float], streams: Sequence[Stream],
               arch: Architecture, tables: Tables, element: DataSpace = WORD) -> list[VectorCost]:
    """The cost of some operations of an operator, accesses included, on every unit that can do them.

    A unit is able if it has all operations and takes its operands from these memories, or further in. If the network
    names a unit for the operator, only this unit counts.

    `element`: the tensor's bits, for elements in the memories; by default an element is one word of every memory.

    Raises SpecError if there is no such unit, or none with the name in the network.
    """
    name = f"{operator.node} ({operator.op})"
    if operator.unit and operator.unit not in [unit.name for unit in arch.units]:
        raise operator.where.error(f'{name}: the design has no unit "{operator.unit}"',
                                   listed([unit.name for unit in arch.units]))
    meant = [unit for unit in arch.units if operator.unit in ("", unit.name)]
    near = [unit for unit in meant if all(unit.level <= stream.level for stream in streams)]
    able = [unit for unit in near if operations.keys() <= unit.operations.keys()]
    if not able:
        lacking = min((operations.keys() - unit.operations.keys() for unit in near), key=len, default=operations)
        found = "; ".join(f"{unit.name} with {', '.join(unit.operations)}" for unit in near) or "none"
        raise operator.where.error(f"{name}: no unit of the design does {listed(sorted(lacking))} beside its other "
                                   f"operations (found: {found})", f"a unit with {listed(sorted(operations))}")
    return [_on(operations, streams, unit, arch, tables, element) for unit in able]


def _on(operations: Mapping[str, float], streams: Sequence[Stream], unit: ComputeUnit, arch: Architecture,
        tables: Tables, element: DataSpace) -> VectorCost:
    busy = {unit.name: sum(number * unit.operations[name].cycles for name, number in operations.items())
            / (unit.lanes * unit.instances)}
    energy, moved = sum(number * unit.operations[name].energy for name, number in operations.items()), {}
    for index, level in enumerate(arch.levels[unit.level:], unit.level):
        own = [stream for stream in streams if index <= stream.level]
        if own and not level.is_dummy:
            size, passing = float(element.words(level.word_bits)), [stream for stream in own if index < stream.level]
            reads = size * (sum(stream.read for stream in own) + sum(stream.written for stream in passing))
            fills = size * sum(stream.read for stream in passing)
            updates = size * sum(stream.written for stream in own)
            price = storage_energy(level, tables)
            energy += (reads * price.read + fills * price.fill + updates * price.update) / level.block_size
            busy[level.name] = memory_cycles(level, reads / level.instances, (fills + updates) / level.instances)
            moved[level.name] = reads + fills + updates
    bound = max(busy, key=lambda name: busy[name])
    return VectorCost(unit.name, busy[bound], energy, bound, busy, moved)


def memory_cycles(level: StorageLevel, reads: float, writes: float) -> float:
    """Cycles of an instance of a memory for its reads and writes in words; 0 without a bandwidth limit."""
    return max((words / bandwidth for words, bandwidth in through_ports(reads, writes, level) if bandwidth is not None),
               default=0.0)
