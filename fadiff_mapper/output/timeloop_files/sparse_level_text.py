"""The paragraphs of the statistics on the arithmetic and on one storage level of a sparse design."""

from __future__ import annotations

import math
from typing import Any

from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.sparse_optimizations import Representation
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import compute_energy
from fadiff_mapper.model.sparse_design import StorageEnergies, storage_energies
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output.timeloop_files.stats_txt import fixed, single, specified

NO_ADDER = fixed(0.0)
"""Timeloop's public tables give additions no energy, so reductions cost nothing."""

KINDS = {"Actual": "actual", "Gated": "gated", "Skipped": "skipped"}


def sparse_arithmetic_lines(spec: Spec, stats: dict[str, Any]) -> list[str]:
    """The paragraph on the multiply-accumulate units; `stats` is `Stats.arithmetic`."""
    unit, computes = spec.arch.arithmetic, stats["computes"]
    area = single(areas(spec.arch, spec.tables)[unit.name]) * unit.instances
    return [f"=== {unit.name} ===", "", "    SPECS", "    -----",
            f"    Word bits             : {unit.word_bits}",
            f"    Instances             : {unit.instances} ({unit.mesh_x}*{unit.mesh_y})",
            f"    Compute energy        : {fixed(compute_energy(unit, spec.tables)[0])} pJ",
            "", "    STATS", "    -----",
            f"    Utilized instances (max)     : {stats['utilized_instances']}",
            f"    Utilized instances (average) : {stats['utilized_instances_average']}",
            f"    Cycles                       : {stats['cycles']}",
            f"    Algorithmic Computes (total) : {computes['algorithmic']}",
            *(f"    {label + ' Computes (total)':<29}: {computes[kind]}" for label, kind in KINDS.items()),
            f"    Energy (total)               : {fixed(stats['energy_pj'])} pJ",
            f"    Area (total)                 : {fixed(area)} um^2", "", ""]


def sparse_level_lines(spec: Spec, index: int, stats: Stats, leakage: list[tuple[str, Any]]) -> list[str]:
    """The paragraph on one storage level: its attributes, and the accesses of every data space that it keeps.

    Args:
        spec: The input.
        index: The level, counted from 0, the innermost.
        stats: Statistics of the mapping.
        leakage: Label and value of the lines on leakage, which are those of dense designs.
    """
    level, level_stats = spec.arch.levels[index], stats.levels[index]
    area = single(areas(spec.arch, spec.tables)[level.name])
    specs = [*_specs(level, storage_energies(level, spec.tables)), *leakage, ("Area", f"{fixed(area)} um^2")]
    lines = [f"=== {level.name} ===", "", "    SPECS", "    -----",
             *(f"        {label:<32}: {value}" for label, value in specs), "", "    STATS", "    -----",
             f"    Cycles               : {level_stats['cycles']}",
             f"    Bandwidth throttling : {fixed(level_stats['slowdown'])}"]
    for name, space in level_stats["dataspaces"].items():
        formats = spec.sparse.levels[index].formats if spec.sparse else {}
        lines += [f"    {name}:", *_dataspace(level, name, space, formats.get(name))]
    return [*lines, ""]


def _specs(level: StorageLevel, energies: StorageEnergies) -> list[tuple[str, Any]]:
    """Label and value of every attribute of a level."""
    def size(words: int | None) -> str:
        return "-" if words is None else str(words)

    return [
        ("Technology", "DRAM" if level.is_dram else "SRAM"), ("Data storage size", size(level.size)),
        ("Data word bits", level.word_bits), ("Data block size", level.block_size),
        ("Metadata storage width(bits)", level.metadata.width),
        ("Metadata storage depth", level.metadata.depth or "-"), ("Cluster size", level.cluster_size),
        ("Instances", f"{level.instances} ({level.mesh_x}*{level.mesh_y})"),
        ("Shared bandwidth", specified(level.shared_bandwidth)), ("Read bandwidth", specified(level.read_bandwidth)),
        ("Write bandwidth", specified(level.write_bandwidth)), ("Multiple buffering", fixed(level.multiple_buffering)),
        ("Effective data storage size", size(level.usable)), ("Min utilization", fixed(level.min_utilization)),
        ("Vector read energy", f"{fixed(energies.data['actual', 'read'])} pJ"),
        ("Vector write energy", f"{fixed(energies.data['actual', 'fill'])} pJ"),
        ("Vector metadata read energy", f"{fixed(energies.metadata['actual', 'read'])} pJ"),
        ("Vector metadata write energy", f"{fixed(energies.metadata['actual', 'fill'])} pJ"),
        ("(De)compression energy", f"{fixed(energies.decompression)} pJ")]


def _line(label: str, value: Any) -> str:
    return f"        {label:<60}: {value}"


def _dataspace(level: StorageLevel, name: str, space: dict[str, Any],
               representation: Representation | None) -> list[str]:
    """The lines on a data space at a level; `space` is its entry in `Stats.levels`."""
    lines = [_line("Partition size", space["partition_size"]),
             _line("Tile density distribution", space["tile_density_distribution"]),
             _line("Data tile shape", space["data_tile_shape"]),
             _line("Max utilized data storage capacity", space["utilized_capacity"]),
             _line("Representation format", "".join(f"{kind} " for kind in space["format"]) or "none"),
             *_ranks("Max utilized Repr format storage capacity", space.get("format_tile_size", []), ", "),
             _line("Utilized instances (max)", space["utilized_instances_max"]),
             _line("Utilized instances (average)", fixed(space["utilized_instances"])),
             _line("Utilized clusters (max)", space["utilized_clusters"])]
    for access in ("reads", "fills", "updates"):
        lines += [_line(f"{kind.capitalize()} scalar {access} (per-instance)", space[access][kind])
                  for kind in ("algorithmic", *KINDS.values())]
    for access in ("reads", "fills", "updates") if space["format"] else ():
        for label, kind in KINDS.items():
            units = space[f"format_{access}"][kind]
            lines += _ranks(f"{label} scalar format {access} (per-instance)",
                            units if _has_bits(level, representation, units) else [], ",  ")
    return [*lines, _line("Temporal reductions (per-instance)", space["temporal_reductions"]),
            _line("Address generations (per-cluster)", space["address_generations"]), *_energies(space),
            _line("Bandwidth Consumption Scale", fixed(level.bandwidth_scale.get(name, 1.0))), *_bandwidths(space)]


def _has_bits(level: StorageLevel, representation: Representation | None, units: list[list[int]]) -> bool:
    """Whether accesses to metadata touch any bits: units may have no width, or the level no memory for them."""
    return level.metadata.width > 0 and representation is not None and any(
        rank.metadata_bits * metadata + rank.payload_bits * payload
        for rank, (metadata, payload) in zip(representation.ranks, units, strict=True))


def _ranks(label: str, units: list[list[int]], comma: str) -> list[str]:
    """Units of metadata and payload of each rank, outermost first; one line where there are none."""
    if not units:
        return [_line(label, 0)]
    return [f"        {label:<60}", *(f"            Rank {rank} (metadata, payload): ({units[rank][0]}{comma}"
                                      f"{units[rank][1]})" for rank in reversed(range(len(units))))]


def _energies(space: dict[str, Any]) -> list[str]:
    accesses = sum(space[access]["actual"] for access in ("reads", "fills", "updates")) % 2 ** 64
    energy, instances = space["energy_pj_per_instance"], space["utilized_instances"]
    address = space.get("addr_gen_energy_pj_per_cluster", 0.0)
    each = energy / accesses if accesses else math.inf if energy else math.nan
    return [_line(label, f"{value} pJ") for label, value in (
        ("Energy (per-scalar-access)", fixed(each) if instances > 0 else fixed(0.0)),
        ("Energy (per-instance)", fixed(energy)), ("Energy (total)", fixed(energy * instances)),
        ("Temporal Reduction Energy (per-instance)", NO_ADDER), ("Temporal Reduction Energy (total)", NO_ADDER),
        ("Address Generation Energy (per-cluster)", fixed(address)),
        ("Address Generation Energy (total)", fixed(address * space["utilized_clusters"])))]


def _bandwidths(space: dict[str, Any]) -> list[str]:
    """Bandwidths, and the shares of data and metadata in them, the former as Timeloop's macro makes it: 1 - percent."""
    lines = []
    for port in ("Shared", "Read", "Write"):
        value, share = (space[f"{port.lower()}_bandwidth{end}"] for end in ("", "_format_share"))
        end = "" if port == "Shared" else ")"
        lines += [_line(f"Average {port} Bandwidth (per-instance)", f"{fixed(value)} words/cycle"),
                  f"            Breakdown (Data, Format): ({fixed(1 - share * 100)}%, {fixed(share * 100)}%{end}",
                  _line(f"{port} Bandwidth (total)",
                        f"{fixed(value * space['utilized_instances_max'])} words/cycle")]
    return lines
