"""The paragraphs of the statistics on the arithmetic and on one storage level."""

from __future__ import annotations

import math
from typing import Any

from fadiff_mapper.model.exact.stats import Stats, actual_count, dense_count
from fadiff_mapper.output.timeloop_files.printed_numbers import fixed, single, specified
from fadiff_mapper.spec.arch import StorageLevel
from fadiff_mapper.spec.native.areas import areas
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import Tables, built_in_storage_energy, component_name, compute_energy, storage_energy

NO_ADDER = fixed(0.0)
"""Timeloop's public tables give additions no energy, so reductions cost nothing."""


def storage_accesses(level: dict[str, Any]) -> int:
    """Words read, filled and updated at one level, all instances together; `level` is an entry of `Stats.levels`."""
    return sum(int(space["utilized_instances"] * sum(dense_count(space[access])
                                                     for access in ("reads", "fills", "updates")))
               for space in level["dataspaces"].values())


def arithmetic_lines(spec: Spec, stats: dict[str, Any]) -> list[str]:
    """The paragraph on the multiply-accumulate units.

    Args:
        spec: The input.
        stats: `Stats.arithmetic` of the mapping.
    """
    unit = spec.arch.arithmetic
    area = single(areas(spec.arch, spec.tables)[unit.name]) * unit.instances
    return [f"=== {unit.name} ===", "", "    SPECS", "    -----",
            f"    Word bits             : {unit.word_bits}",
            f"    Instances             : {unit.instances} ({unit.mesh_x}*{unit.mesh_y})",
            f"    Compute energy        : {fixed(compute_energy(unit, spec.tables)[0])} pJ",
            "", "    STATS", "    -----",
            f"    Utilized instances      : {stats['utilized_instances']}",
            f"    Computes (total)        : {actual_count(stats['computes'])}",
            f"    Cycles                  : {stats['cycles']}",
            f"    Energy (total)          : {fixed(stats['energy_pj'])} pJ",
            f"    Area (total)            : {fixed(area)} um^2", ""]


def level_lines(spec: Spec, index: int, stats: Stats) -> list[str]:
    """The paragraph on one storage level: its attributes, and accesses of every data space that it keeps.

    Args:
        spec: The input.
        index: The level, counted from 0, the innermost.
        stats: Statistics of the mapping.
    """
    level, level_stats = spec.arch.levels[index], stats.levels[index]
    area = single(areas(spec.arch, spec.tables)[level.name])
    specs = [*_specs(level, spec.tables), *leakage_lines(spec, index, stats), ("Area", f"{fixed(area)} um^2")]
    lines = [f"=== {level.name} ===", "", "    SPECS", "    -----",
             *(f"        {label:<32}: {value}" for label, value in specs), "", "    STATS", "    -----",
              f"    Cycles               : {level_stats['cycles']}",
              f"    Bandwidth throttling : {fixed(level_stats['slowdown'])}"]
    for name, space in level_stats["dataspaces"].items():
        lines.append(f"    {name}:")
        lines += [f"        {label:<41}: {value}" for label, value in _dataspace(level, name, space)]
    return [*lines, ""]


def _specs(level: StorageLevel, tables: Tables) -> list[tuple[str, Any]]:
    """Label and value of every attribute of a level."""
    def size(words: int | None) -> str:
        return "-" if words is None else str(words)

    energy, source = _vector_access_energy(level, tables)
    return [
        ("Technology", "DRAM" if level.is_dram else "SRAM"), ("Size", size(level.size)),
        ("Word bits", level.word_bits), ("Block size", level.block_size), ("Cluster size", level.cluster_size),
        ("Instances", f"{level.instances} ({level.mesh_x}*{level.mesh_y})"),
        ("Shared bandwidth", specified(level.shared_bandwidth)), ("Read bandwidth", specified(level.read_bandwidth)),
        ("Write bandwidth", specified(level.write_bandwidth)), ("Multiple buffering", fixed(level.multiple_buffering)),
        ("Effective size", size(level.usable)), ("Min utilization", fixed(level.min_utilization)),
        ("Vector access energy", f"{fixed(energy)} pJ"), ("Vector access energy source", source)]


def _vector_access_energy(level: StorageLevel, tables: Tables) -> tuple[float, str]:
    """Timeloop's "vector access energy" and its source: the level's most expensive action, per member of a cluster."""
    if level.vector_access_energy is not None:
        return level.vector_access_energy, "user"
    actions = [energy for table in tables.ert if component_name(table.component) == level.name
               for energy in table.actions.values()]
    return (max(0.0, *actions) / level.cluster_size, "ERT") if actions else (built_in_storage_energy(level), "PAT")


def leakage_lines(spec: Spec, index: int, stats: Stats) -> list[tuple[str, Any]]:
    """Label and value of leakage, and the number of instances that share a power gate with an instance in use."""
    level, used = spec.arch.levels[index], stats.levels[index]["max_instances"]
    sharing, utilization = 1.0, 1.0
    if level.power_gated_at is not None:
        gate = spec.arch.level_names().index(level.power_gated_at)
        sharing = max(1.0, level.instances / spec.arch.levels[gate].instances)
        utilization = used / (sharing * stats.levels[gate]["max_instances"]) if sharing > 1 else 1.0
    return [("Per-instance-cycle leakage", f"{fixed(storage_energy(level, spec.tables).leak)} pJ"),
            ("Instances sharing power gating", fixed(sharing)),
            ("Non-power-gated utilization", f"{fixed(utilization * 100)}%"),
            ("Leakage energy (total)", f"{fixed(stats.levels[index]['leakage_energy_pj'])} pJ")]


def _dataspace(level: StorageLevel, name: str, space: dict[str, Any]) -> list[tuple[str, Any]]:
    """Label and value of every number of a data space at a level; `space` is its entry in `Stats.levels`."""
    reads, fills, updates = (dense_count(space[access]) for access in ("reads", "fills", "updates"))
    accesses = reads + fills + updates
    energy, instances = space["energy_pj_per_instance"], int(space["utilized_instances"])
    address = space.get("addr_gen_energy_pj_per_cluster", 0.0)
    bandwidths = [(port, space[f"{port.lower()}_bandwidth"]) for port in ("Shared", "Read", "Write")]
    return [
        ("Partition size", space["partition_size"]), ("Utilized capacity", space["utilized_capacity"]),
        ("Utilized instances (max)", instances), ("Utilized clusters (max)", space["utilized_clusters"]),
        ("Scalar reads (per-instance)", reads), ("Scalar fills (per-instance)", fills),
        ("Scalar updates (per-instance)", updates),
        ("Temporal reductions (per-instance)", space["temporal_reductions"]),
        ("Address generations (per-cluster)", space["address_generations"]),
        ("Energy (per-scalar-access)", f"{fixed(energy / accesses if accesses else math.nan)} pJ"),
        ("Energy (per-instance)", f"{fixed(energy)} pJ"), ("Energy (total)", f"{fixed(energy * instances)} pJ"),
        ("Temporal Reduction Energy (per-instance)", f"{NO_ADDER} pJ"),
        ("Temporal Reduction Energy (total)", f"{NO_ADDER} pJ"),
        ("Address Generation Energy (per-cluster)", f"{fixed(address)} pJ"),
        ("Address Generation Energy (total)", f"{fixed(address * space['utilized_clusters'])} pJ"),
        ("Bandwidth Consumption Scale", fixed(level.bandwidth_scale.get(name, 1.0))),
        *((f"{port} Bandwidth ({scope})", f"{fixed(value * times)} words/cycle")
          for port, value in bandwidths for scope, times in (("per-instance", 1), ("total", instances)))]
