"""Energies of all actions of a component: actual, gated and skipped, of data and of metadata."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.spec.tables import COMPUTE_ACTIONS, Tables, component_actions, compute_energy, storage_energy

KINDS = {"actual": ("random_", ""), "gated": ("gated_",), "skipped": ("skipped_", "gated_")}
"""Kind of access -> the prefixes under which Timeloop looks its actions up; the first one in the ERT counts."""


@dataclass(frozen=True)
class StorageEnergies:
    """pJ of the actions of a storage level; 0 where the ERT has none.

    Attributes:
        data: By (kind, access): kinds are those of `KINDS`, accesses read, fill and update; per vector access.
        metadata: The same for the metadata, per access of its memory.
        decompression: Per word that is decompressed.
        compression: Per word that is compressed.
        leak: Per cycle and instance.
    """

    data: dict[tuple[str, str], float]
    metadata: dict[tuple[str, str], float]
    decompression: float
    compression: float
    leak: float


@dataclass(frozen=True)
class ComputeEnergies:
    """pJ of a compute that happens, is gated, or is skipped; without entries of their own the last two cost as much
    as the first."""

    actual: float
    gated: float
    skipped: float


def storage_energies(level: StorageLevel, tables: Tables) -> StorageEnergies:
    """The energies of a level.

    Args:
        level: The level. Its own `vector_access_energy` replaces the ERT and leaves only actual accesses of data.
        tables: The tables in force.
    """
    actions = {} if level.vector_access_energy is not None else component_actions(level.name, tables)
    plain = storage_energy(level, tables)

    def first(names: list[str]) -> float:
        return next((actions[name] for name in names if name in actions), 0.0)

    data = {("actual", "read"): plain.read, ("actual", "fill"): plain.fill, ("actual", "update"): plain.update}
    metadata = {}
    for kind, prefixes in KINDS.items():
        for access in ("read", "fill", "update"):
            if kind != "actual":
                data[kind, access] = first(_names(kind, prefixes, "", access))
            metadata[kind, access] = first(_names(kind, prefixes, "metadata_", access))
    return StorageEnergies(data, metadata, first(["decompression_count"]), first(["compression_count"]), plain.leak)


def _names(kind: str, prefixes: tuple[str, ...], middle: str, access: str) -> list[str]:
    """Names of an action, those of writes behind those of fills and updates.

    Timeloop tries "random_fill", "random_write", "fill", "write" in this order, and so on.
    """
    accesses = [access] if access == "read" else [access, "write"]
    return [f"{prefix}{middle}{name}" for prefix in prefixes for name in accesses]


def compute_energies(arithmetic: Arithmetic, tables: Tables) -> ComputeEnergies:
    """The energies of the arithmetic.

    Timeloop looks for "mac_gated", "mult_gated" and "compute_gated"; where there is none of them it takes the energy
    of a compute that happens. Without an ERT gated and skipped computes cost nothing.
    """
    actions = component_actions(arithmetic.name, tables)
    gated = ("mac_gated", "mult_gated", "compute_gated")
    skipped = ("mac_skipped", "mult_skipped", "compute_skipped")
    plain = COMPUTE_ACTIONS[2:]

    def first(names: tuple[str, ...]) -> float:
        return next((actions[name] for name in names if name in actions), 0.0)

    return ComputeEnergies(compute_energy(arithmetic, tables)[0], first(gated + plain),
                           first(skipped + gated + plain))
