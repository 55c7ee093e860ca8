"""An architecture as Timeloop's model sees it: a flat list of storage levels and one arithmetic level.

Timeloop flattens every tree of components in this way before it evaluates a mapping. Levels are numbered from the
innermost, next to the arithmetic, to the outermost, usually DRAM.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

FANOUT = re.compile(r"inter_.*_spatial")
"""Names by which Timeloop's v0.4 front end calls the levels, of class `dummy_storage`, that only add a fan-out."""


@dataclass(frozen=True)
class Interconnect:
    """The wires between a storage level and the next one inwards; in Timeloop attributes of the outer level."""

    word_bits: int  # bits of a word on the wires
    energy_per_hop: float | None = None  # pJ to move a word by a hop; None: from energy and length of the wires
    wire_energy: float = 0.0  # pJ to move one bit by a mm
    tile_width: float | None = None  # um of one hop; None: the width of the parts inside, from their area
    router_energy: float = 0.0  # pJ of a router for one word
    energy_per_ingress: float = 0.0  # pJ for each word that enters the interconnect
    fill_latency: float = 0.0  # cycles added to the whole run
    drain_latency: float = 0.0  # cycles added to the whole run
    # Whether the outer level adds up partial sums; else, as by default at a DRAM, they travel inwards once more.
    reduction_supported: bool = True


@dataclass(frozen=True)
class NamedInterconnect:
    """An interconnect of its own, to which levels refer by name (Timeloop's user-defined network)."""

    name: str
    kind: str  # "Legacy" (wires, as between all other levels), "ReductionTree" or "SimpleMulticast"
    inwards: int | None  # the level below which it carries words inwards; None where it carries none
    outwards: int | None  # the level below which it carries partial sums outwards; None where it carries none
    wires: Interconnect  # energies of its wires. Timeloop takes the fill latency for draining, too.
    adder_energy: float = 0.0  # pJ of an addition in a reduction tree
    action: str = ""  # the action of the ERT that prices a word of a multicast
    receivers: str = "none"  # the argument of that action that holds the number of receivers, or "none"
    per_dataspace: bool = False  # whether every data space has an action of its own, "ACTION_DATASPACE"


@dataclass(frozen=True)
class MetadataStorage:
    """The memory beside a storage level's data that holds the metadata of compressed tensors."""

    width: int = 0  # bits of an access; 0 where there is no such memory
    depth: int = 0  # capacity in accesses
    word_bits: int = 0  # bits of a unit of metadata or payload where a format gives none


@dataclass(frozen=True)
class StorageLevel:
    """One storage level; every number is per instance."""

    name: str  # name without its range of instances
    kind: str  # the class as written, such as "SRAM" or "dummy_storage"
    instances: int  # number of instances on the whole chip, mesh_x * mesh_y
    mesh_x: int  # instances along the X axis
    mesh_y: int  # instances along the Y axis
    word_bits: int  # bits of a word
    block_size: int  # words of one vector access
    cluster_size: int  # instances that share one memory: an access serves them all
    size: int | None  # words; None is unlimited
    multiple_buffering: float = 1.0  # copies of a tile that must fit at once, such as 2 for double buffering
    min_utilization: float = 0.0  # least share of the usable words that a mapping must fill
    read_bandwidth: float | None = None  # words per cycle; None is unlimited
    write_bandwidth: float | None = None  # words per cycle, fills and updates together; None is unlimited
    shared_bandwidth: float | None = None  # words per cycle, reads and writes together; None is unlimited
    bandwidth_scale: dict[str, float] = field(default_factory=dict)  # factor on bandwidth demand by data space
    vector_access_energy: float | None = None  # pJ of every vector access, in place of the level's entry in the ERT
    addr_gen_energy: float = 0.0  # pJ of generating one address
    power_gated_at: str | None = None  # the level whose instances are gated as units; None: each by itself
    interconnect: Interconnect = Interconnect(word_bits=16)  # the wires to the next level inwards
    metadata: MetadataStorage = MetadataStorage()  # the memory for metadata
    decompresses: bool = False  # whether compressed data from further out can be stored here plainly
    compresses: bool = False  # whether plain data can be sent outwards compressed
    area: float = field(default=0.0, repr=False)  # um^2 of an instance that the architecture states; 0 without

    @property
    def usable(self) -> int | None:
        """Words that the tiles of a mapping may fill: floor(size / multiple_buffering); None is unlimited."""
        return None if self.size is None else math.floor(self.size / self.multiple_buffering)

    @property
    def usable_metadata_bits(self) -> int:
        """Bits of metadata that the tiles of a mapping may fill; a level without a size has no such limit."""
        return math.floor(self.metadata.width * self.metadata.depth / self.multiple_buffering)

    @property
    def total_bandwidth(self) -> float | None:
        """Words per cycle of all instances, reads and writes together; None is unlimited."""
        ports = self.read_bandwidth + self.write_bandwidth if self.read_bandwidth and self.write_bandwidth else None
        words = self.shared_bandwidth or ports
        return words and words * self.instances

    @property
    def is_dummy(self) -> bool:
        """Whether the level only adds a fan-out, as the v0.4 front end inserts them.

        The front end also inserts constraints that keep data and temporal loops out of it. Other levels of its class,
        such as the analog parts of CiMLoop's designs, are memories.
        """
        return self.kind == "dummy_storage" and bool(FANOUT.fullmatch(self.name))

    @property
    def is_dram(self) -> bool:
        """Whether the class names a DRAM (Timeloop's rule): unlimited size, and the built-in energy of DRAM."""
        return "DRAM" in self.kind


@dataclass(frozen=True)
class Arithmetic:
    """The multiply-accumulate units."""

    name: str  # name without its range of instances
    kind: str  # the class as written, such as "intmac"
    instances: int  # number of units on the whole chip, mesh_x * mesh_y
    mesh_x: int  # units along the X axis
    mesh_y: int  # units along the Y axis
    word_bits: int  # bits of an operand
    energy: float | None = None  # pJ per operation where no ERT gives one; None is Timeloop's built-in value
    area: float = field(default=0.0, repr=False)  # um^2 of a unit that the architecture states; 0 without


OPERATIONS = ("mac", "add", "mul", "div", "max", "exp", "log", "sqrt", "sin", "other")
"""Operations that give one number. A comparison, a selection and a logical operation are "max" (one comparator), a
subtraction is "add", a cosine "sin"; operations without a name here are "other"."""


@dataclass(frozen=True)
class UnitOperation:
    """One operation of a unit."""

    cycles: float  # cycles that the operation takes on one lane
    energy: float  # pJ of the operation
    source: str = field(default="", compare=False)  # where the energy comes from, for the report


@dataclass(frozen=True)
class ComputeUnit:
    """A compute unit beside the multiply-accumulators, such as a vector unit; Timeloop has none."""

    name: str
    level: int  # the storage level from which it takes its operands
    instances: int  # units on the whole chip
    lanes: int  # operations that an instance runs at once
    operations: dict[str, UnitOperation]  # by their names, of `OPERATIONS`
    skips_masked: bool = False  # whether fused attention leaves out blocks of scores that a causal mask hides wholly


@dataclass(frozen=True)
class Architecture:
    """A flat architecture."""

    name: str  # name of the outermost node of the tree; "" in the old list format
    levels: tuple[StorageLevel, ...]  # storage levels, innermost first
    arithmetic: Arithmetic  # the units below the innermost level
    # Interconnects that replace the wires of some levels; unused interconnects are left out.
    named_interconnects: tuple[NamedInterconnect, ...] = ()
    # The tree as it is written, which `timeloop-model` and Accelergy read, under its top-level key; hyphenated words
    # stay, as only Timeloop rewrites them.
    native: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)
    units: tuple[ComputeUnit, ...] = ()  # compute units beside the arithmetic

    def fanout(self, level: int) -> tuple[int, int]:
        """Instances (X, Y) of the next level inwards, or arithmetic units, that one instance of a level feeds."""
        outer = self.levels[level]
        inner = self.levels[level - 1] if level else self.arithmetic
        return inner.mesh_x // outer.mesh_x, inner.mesh_y // outer.mesh_y

    @property
    def skips_masked(self) -> bool:
        """Whether fused attention leaves out blocks of scores that a causal mask hides wholly."""
        return any(unit.skips_masked for unit in self.units)

    def level_names(self) -> tuple[str, ...]:
        """Names of the storage levels, innermost first."""
        return tuple(level.name for level in self.levels)
