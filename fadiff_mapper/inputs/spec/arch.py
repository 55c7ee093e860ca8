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
"""Names by which Timeloop's v0.4 front end calls the levels, of class `dummy_storage`, that stand for a fan-out."""


@dataclass(frozen=True)
class Interconnect:
    """The wires between a storage level and the next one inwards; in Timeloop attributes of the outer level.

    Attributes:
        word_bits: Bits of a word on the wires.
        energy_per_hop: pJ to move one word by one hop; None: from the energy and the length of the wires.
        wire_energy: pJ to move one bit by a mm.
        tile_width: um of one hop; None: the width of what lies inside, from its area.
        router_energy: pJ of a router for one word.
        energy_per_ingress: pJ for each word that enters the interconnect.
        fill_latency: Cycles added to the whole run.
        drain_latency: Cycles added to the whole run.
        reduction_supported: Whether the outer level adds up partial sums. Where it cannot, they travel inwards once
            more to be added there; by default so for DRAM.
    """

    word_bits: int
    energy_per_hop: float | None = None
    wire_energy: float = 0.0
    tile_width: float | None = None
    router_energy: float = 0.0
    energy_per_ingress: float = 0.0
    fill_latency: float = 0.0
    drain_latency: float = 0.0
    reduction_supported: bool = True


@dataclass(frozen=True)
class NamedInterconnect:
    """An interconnect that is a component of its own, to which levels refer by name (Timeloop's user-defined network).

    Attributes:
        name: Its name.
        kind: "Legacy" (wires, as between all other levels; also written XY_NoC), "ReductionTree" or "SimpleMulticast".
        inwards: The level below which it carries words inwards; None where it carries none.
        outwards: The level below which it carries partial sums outwards; None where it carries none.
        wires: Energies of its wires. Timeloop takes the fill latency for draining, too.
        adder_energy: pJ of an addition in a reduction tree.
        action: The action of the ERT that prices a word of a multicast.
        receivers: The argument of that action that holds the number of receivers; "none" where there is none.
        per_dataspace: Whether every data space has an action of its own, "ACTION_DATASPACE".
    """

    name: str
    kind: str
    inwards: int | None
    outwards: int | None
    wires: Interconnect
    adder_energy: float = 0.0
    action: str = ""
    receivers: str = "none"
    per_dataspace: bool = False


@dataclass(frozen=True)
class MetadataStorage:
    """The memory beside a storage level's data that holds the metadata of compressed tensors.

    Attributes:
        width: Bits of an access; 0 where there is no such memory.
        depth: Accesses' worth of bits that it holds.
        word_bits: Bits of a unit of metadata or payload where a format gives none.
    """

    width: int = 0
    depth: int = 0
    word_bits: int = 0


@dataclass(frozen=True)
class StorageLevel:
    """One storage level; every number is per instance.

    Attributes:
        name: Name without its range of instances.
        kind: The class as written, such as "SRAM" or "dummy_storage".
        instances: Number of instances on the whole chip, mesh_x * mesh_y.
        mesh_x: Instances along the X axis.
        mesh_y: Instances along the Y axis.
        word_bits: Bits of a word.
        block_size: Words of one vector access.
        cluster_size: Instances that share one memory: an access serves them all.
        size: Words; None is unlimited.
        multiple_buffering: Copies of a tile that must fit at once, such as 2 for double buffering.
        min_utilization: Least share of the usable words that a mapping must fill.
        read_bandwidth: Words per cycle; None is unlimited.
        write_bandwidth: Words per cycle, fills and updates together; None is unlimited.
        shared_bandwidth: Words per cycle, reads and writes together; None is unlimited.
        bandwidth_scale: Factor on the bandwidth demand of each data space named here.
        vector_access_energy: pJ of every vector access, in place of the level's entry in the ERT.
        addr_gen_energy: pJ of generating one address.
        power_gated_at: The level whose instances are the units of power gating; None gates every instance by itself.
        interconnect: The wires to the next level inwards.
        metadata: The memory for metadata.
        decompresses: Whether compressed data from further out can be stored here plainly.
        compresses: Whether plain data can be sent outwards compressed.
    """

    name: str
    kind: str
    instances: int
    mesh_x: int
    mesh_y: int
    word_bits: int
    block_size: int
    cluster_size: int
    size: int | None
    multiple_buffering: float = 1.0
    min_utilization: float = 0.0
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    shared_bandwidth: float | None = None
    bandwidth_scale: dict[str, float] = field(default_factory=dict)
    vector_access_energy: float | None = None
    addr_gen_energy: float = 0.0
    power_gated_at: str | None = None
    interconnect: Interconnect = Interconnect(word_bits=16)
    metadata: MetadataStorage = MetadataStorage()
    decompresses: bool = False
    compresses: bool = False

    @property
    def usable(self) -> int | None:
        """Words that the tiles of a mapping may fill: floor(size / multiple_buffering); None is unlimited."""
        return None if self.size is None else math.floor(self.size / self.multiple_buffering)

    @property
    def usable_metadata_bits(self) -> int:
        """Bits of metadata that the tiles of a mapping may fill, as far as the level has a size at all."""
        return math.floor(self.metadata.width * self.metadata.depth / self.multiple_buffering)

    @property
    def is_dummy(self) -> bool:
        """Whether the level stands only for a fan-out, as the v0.4 front end inserts them.

        It inserts constraints, too, that keep all data and temporal loops out. Other levels of their class, such as the
        analog parts of CiMLoop's designs, are memories.
        """
        return self.kind == "dummy_storage" and bool(FANOUT.fullmatch(self.name))

    @property
    def is_dram(self) -> bool:
        """Whether the class names a DRAM (Timeloop's rule): unlimited size, and the built-in energy of DRAM."""
        return "DRAM" in self.kind


@dataclass(frozen=True)
class Arithmetic:
    """The multiply-accumulate units.

    Attributes:
        name: Name without its range of instances.
        kind: The class as written, such as "intmac".
        instances: Number of units on the whole chip, mesh_x * mesh_y.
        mesh_x: Units along the X axis.
        mesh_y: Units along the Y axis.
        word_bits: Bits of an operand.
        energy: pJ per operation where no ERT gives one; None is Timeloop's built-in value.
    """

    name: str
    kind: str
    instances: int
    mesh_x: int
    mesh_y: int
    word_bits: int
    energy: float | None = None


@dataclass(frozen=True)
class Architecture:
    """A flat architecture.

    Attributes:
        name: Name of the outermost node of the tree; "" in the old list format.
        levels: Storage levels, innermost first.
        arithmetic: The units below the innermost level.
        named_interconnects: Interconnects that stand in for the wires of some levels; those that no level uses are
            left out, as they take nothing.
        native: The tree as it is written, which `timeloop-model` and Accelergy read, under its top-level key;
            hyphenated words stay, as Timeloop alone rewrites them.
    """

    name: str
    levels: tuple[StorageLevel, ...]
    arithmetic: Arithmetic
    named_interconnects: tuple[NamedInterconnect, ...] = ()
    native: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)

    def fanout(self, level: int) -> tuple[int, int]:
        """Instances (X, Y) inwards of one instance of a storage level, of the arithmetic below level 0."""
        outer = self.levels[level]
        inner = self.levels[level - 1] if level else self.arithmetic
        return inner.mesh_x // outer.mesh_x, inner.mesh_y // outer.mesh_y

    def level_names(self) -> tuple[str, ...]:
        """Names of the storage levels, innermost first."""
        return tuple(level.name for level in self.levels)

    def interconnect_latency(self) -> float:
        """Cycles to fill and drain all interconnects, by the level's attributes where it refers to none by name."""
        cycles = sum(level.interconnect.fill_latency + level.interconnect.drain_latency for level in self.levels)
        for named in self.named_interconnects:
            latency = named.wires.fill_latency
            if named.inwards is not None:
                cycles += latency - self.levels[named.inwards].interconnect.fill_latency
            if named.outwards is not None:
                cycles += latency - self.levels[named.outwards].interconnect.drain_latency
        return cycles
