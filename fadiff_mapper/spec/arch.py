"""An architecture as Timeloop's model sees it: a flat list of storage levels and one arithmetic level."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Interconnect:
    """The wires between a storage level and the next one inwards (attributes of the outer level). Energies in pJ."""

    word_bits: int
    energy_per_hop: float = 0.0
    router_energy: float = 0.0
    energy_per_ingress: float = 0.0
    fill_latency: float = 0.0
    drain_latency: float = 0.0
    reduction_supported: bool = True


@dataclass(frozen=True)
class StorageLevel:
    """One storage level. Sizes in words per instance, bandwidths in words per cycle and instance."""

    name: str
    kind: str
    """The class as written, such as "SRAM" or "dummy_storage"."""
    instances: int
    mesh_x: int
    mesh_y: int
    word_bits: int
    block_size: int
    cluster_size: int
    size: int | None
    """Words per instance; None is unlimited."""
    multiple_buffering: float = 1.0
    min_utilization: float = 0.0
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    shared_bandwidth: float | None = None
    bandwidth_scale: dict[str, float] = field(default_factory=dict)
    """Factor on the bandwidth demand of each data space named here."""
    vector_access_energy: float | None = None
    addr_gen_energy: float = 0.0
    power_gated_at: str | None = None
    """The level whose instances are the units of power gating; None gates every instance by itself."""
    interconnect: Interconnect = Interconnect(word_bits=16)

    @property
    def usable(self) -> int | None:
        """Words that a mapping may fill: floor(size / multiple_buffering)."""
        return None if self.size is None else math.floor(self.size / self.multiple_buffering)

    @property
    def is_dummy(self) -> bool:
        """A level that stands only for a fan-out, as the v0.4 front end inserts them."""
        return self.kind == "dummy_storage"

    @property
    def is_dram(self) -> bool:
        return "DRAM" in self.kind


@dataclass(frozen=True)
class Arithmetic:
    """The multiply-accumulate units."""

    name: str
    kind: str
    instances: int
    mesh_x: int
    mesh_y: int
    word_bits: int
    energy: float | None = None
    """pJ per operation where no ERT says otherwise; None is Timeloop's built-in value."""


@dataclass(frozen=True)
class Architecture:
    """Storage levels from the innermost (next to the arithmetic) to the outermost."""

    name: str
    levels: tuple[StorageLevel, ...]
    arithmetic: Arithmetic
    native: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)
    """The tree as `timeloop-model` reads it, under its top-level key, for writing it out again."""

    def fanout(self, level: int) -> tuple[int, int]:
        """Fan-out (X, Y) from storage level `level` to the next one inwards (to the arithmetic for level 0)."""
        outer = self.levels[level]
        inner = self.levels[level - 1] if level else self.arithmetic
        return inner.mesh_x // outer.mesh_x, inner.mesh_y // outer.mesh_y

    def level_names(self) -> tuple[str, ...]:
        return tuple(level.name for level in self.levels)
