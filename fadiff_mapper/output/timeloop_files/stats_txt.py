"""The statistics of one mapping as text, in the layout of `timeloop-model.stats.txt`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fadiff_mapper.base.version import __version__
from fadiff_mapper.inputs.native.arch import Attributes, written_attributes, written_number
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.arch import NamedInterconnect, StorageLevel
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import (
    Tables,
    built_in_storage_energy,
    component_name,
    compute_energy,
    storage_energy,
)
from fadiff_mapper.model.interconnects import INWARDS, OUTWARDS, PricedInterconnect, priced_interconnects
from fadiff_mapper.model.stats import Stats, actual_count, dense_count, network_energy


def fixed(value: float) -> str:
    """The value with two decimals; 0 / 0 as the C++ library prints it, "-nan"."""
    return "-nan" if math.isnan(value) else f"{value:.2f}"


def specified(value: float | None) -> str:
    """The value with two decimals, or "-" where the specification leaves it open (None)."""
    return "-" if value is None else fixed(value)


def single(value: float) -> float:
    """The value rounded to single precision."""
    return float(np.float32(value))


def single_ratio(above: int, below: int) -> float:
    """above / below, computed in single precision; infinite over zero."""
    return float(np.float32(above) / np.float32(below)) if below else math.inf


def unsigned(value: int) -> int:
    """The value of an unsigned 64-bit counter after `value` steps: a negative count wraps around, as in Timeloop."""
    return value % 2**64


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


# Timeloop calls such an interconnect a network, and so do its files: their texts keep the word.

Rows = list[tuple[str, Any]]
"""Labels and values."""


def network_lines(spec: Spec, stats: Stats, network: dict[str, Any]) -> list[str]:
    """The paragraph of one interconnect: attributes of its wires, and the traffic of every data space.

    Args:
        spec: The input; attributes that it does not state are printed as "-".
        stats: Statistics of the mapping.
        network: The entry of `Stats.networks` to print.
    """
    priced = next(noc for noc in priced_interconnects(spec.arch, spec.problem, spec.tables)
                  if noc.name == network["name"])
    level = spec.arch.levels[priced.level]
    named = next((noc for noc in spec.arch.named_interconnects if noc.name == priced.name), None)
    instances = stats.levels[priced.level]["max_instances"]
    written = written_attributes(spec.arch)[named.name if named else level.name]
    lines = [network["name"], "", "    SPECS", "    -----"]
    lines += [f"        {label:<16}: {value}" for label, value in _wire_specs(priced, named, level, written)]
    lines += ["", "    STATS", "    -----"]
    for name in spec.problem.dataspace_names():
        rows = _STATS[priced.kind](network["dataspaces"].get(name, {}), instances, priced)
        lines += [f"    {name}:", *(f"        {row}" for row in rows)] if rows else []
    return [*lines, ""]


def _wire_specs(priced: PricedInterconnect, named: NamedInterconnect | None, level: StorageLevel,
           written: Attributes) -> Rows:
    """Label and value of every attribute; `written` are those that the input states."""
    wires = named.wires if named else level.interconnect
    energy = {key: f"{specified(written_number(written, key))} pJ"
              for key in ("router_energy", "wire_energy", "energy-per-ingress")}
    drained = named.wires.fill_latency if named and named.outwards is not None else level.interconnect.drain_latency
    latencies: Rows = [("Fill latency", int(wires.fill_latency) if priced.ways & INWARDS else 0),
                       ("Drain latency", int(drained) if priced.ways & OUTWARDS else 0)]
    rows: Rows = [("Type", priced.kind), ("ConnectionType", priced.ways), ("Word bits", wires.word_bits)]
    if priced.kind == "SimpleMulticast":
        return [*rows, ("Action Name       ", named.action if named else "")]
    if priced.kind == "ReductionTree":
        adder: Rows = [("Adder energy", f"{fixed(priced.adder)} pJ")] if priced.adder else []
        wire: Rows = [("Wire energy", f"{energy['wire_energy']}/b/mm")] if wires.wire_energy else []
        return [*rows, *adder, *wire, *((f"{label}     ", cycles) for label, cycles in latencies)]
    rows.insert(1, ("Legacy sub-type", str(written.get("network_type", "")).replace(":", "_")))
    return [*rows, ("Router energy", energy["router_energy"]), ("Wire energy", f"{energy['wire_energy']}/b/mm"),
            ("Ingress energy", energy["energy-per-ingress"]), *latencies]


def _wires(traffic: dict[str, Any], instances: int, priced: PricedInterconnect) -> list[str]:
    """The lines of one data space; `traffic` is empty where nothing moves. Energies of `traffic` are per instance."""
    kinds = [f"    @multicast {multicast} @scatter {scatter}: {fixed(words)}"
             for multicast, scatter, words in sorted(traffic.get("ingresses", []))]
    moves = [("Link transfers", int(traffic.get("link_transfers", 0))), *_wire_reductions(traffic, priced)]
    return [*_titled(_counts(traffic)), *kinds, *_titled(moves), *_wire_energies(instances, [
        ("Energy", traffic.get("energy_pj_per_instance", 0.0)),
        ("Link transfer energy", traffic.get("link_transfer_energy_pj_per_instance", 0.0)),
        ("Spatial Reduction Energy", 0)])]


def _multicast(traffic: dict[str, Any], instances: int, priced: PricedInterconnect) -> list[str]:
    """The lines of one data space of a multicast; none where nothing moves."""
    rows = _counts(traffic)
    return [*_titled(rows), *_wire_energies(instances, [("Energy", traffic.get("energy_pj_per_instance", 0.0))])
            ] if traffic.get("ingresses") else []


def _tree(traffic: dict[str, Any], instances: int, priced: PricedInterconnect) -> list[str]:
    """The lines of one data space of a reduction tree; none where nothing is added."""
    adders = traffic.get("spatial_reduction_energy_pj_per_instance", 0.0)
    return [*_titled(_wire_reductions(traffic, priced)), *_wire_energies(instances, [
        ("Energy", traffic.get("energy_pj_per_instance", 0.0)), ("Spatial Reduction Energy", adders)])
        ] if traffic.get("spatial_reductions") else []


_STATS = {"Legacy": _wires, "SimpleMulticast": _multicast, "ReductionTree": _tree}


def _counts(traffic: dict[str, Any]) -> Rows:
    return [("Fanout", traffic.get("fanout", 0)), ("Multicast factor", traffic.get("multicast_factor", 0)),
            ("Ingresses", fixed(sum(words for _, _, words in traffic.get("ingresses", []))))]


def _wire_reductions(traffic: dict[str, Any], priced: PricedInterconnect) -> Rows:
    return [("Spatial reductions", int(traffic.get("spatial_reductions", 0))),
            ("Average number of hops", fixed(traffic.get("hops", 0.0))),
            ("Energy (per-hop)", f"{fixed(priced.hop * 1000)} fJ")]


def _wire_energies(instances: int, energies: Rows) -> list[str]:
    """Each energy of one instance and of all together, as Timeloop prints it."""
    return _titled([(f"{label} ({scope})", f"{fixed(value * times)} pJ") for label, value in energies
                      for scope, times in (("per-instance", 1), ("total", instances))])


def _titled(rows: Rows) -> list[str]:
    return [f"{label:<40}: {value}" for label, value in rows]


LABEL = 40
"""Characters of a label of the operational intensity, as in Timeloop's text."""


def stats_txt(spec: Spec, stats: Stats) -> str:
    """The text that `timeloop-model` prints for this mapping, below a first line that names this program.

    As there, levels without accesses and energy and networks without energy are left out, and the summary's area is 0;
    the first line has it.
    Energies are in pJ (fJ per compute in the summary), areas in um^2, bandwidths in words per cycle.

    Args:
        spec: The input.
        stats: Statistics of the mapping.
    """
    lines = [f"# Written by fadiff_mapper {__version__}, in the layout of timeloop-model's statistics; all components "
             f"take {stats.area_mm2:.6g} mm^2, which Timeloop's summary leaves at 0"]
    lines += ["Buffer and Arithmetic Levels", "----------------------------", *_levels(spec, stats)]
    lines += ["Networks", "--------", *_networks(spec, stats)]
    lines += ["", *_operational_intensity(spec, stats), "", ""]
    lines += [*_summary(spec, stats), "", *_per_compute(stats), ""]
    return "\n".join(lines) + "\n"


def _levels(spec: Spec, stats: Stats) -> list[str]:
    """The arithmetic as level 0, and the storage levels that do anything."""
    arithmetic, storage = _paragraphs(stats)
    lines = []
    if stats.arithmetic["energy_pj"]:
        lines += ["Level 0", "-------", *arithmetic(spec, stats.arithmetic)]
    for index, level in enumerate(stats.levels):
        if storage_accesses(level) or level["energy_pj_total"]:
            lines += [f"Level {index + 1}", "-------", *storage(spec, index, stats)]
    return lines


def _paragraphs(stats: Stats) -> tuple[Callable[..., list[str]], Callable[..., list[str]]]:
    """The functions that write a paragraph on the arithmetic and on a storage level."""
    if not stats.sections:
        return arithmetic_lines, level_lines
    from fadiff_mapper.output.timeloop_files.sparse_level_text import sparse_arithmetic_lines, sparse_level_lines
    return sparse_arithmetic_lines, lambda spec, index, sparse: sparse_level_lines(
        spec, index, sparse, leakage_lines(spec, index, sparse))


def _networks(spec: Spec, stats: Stats) -> list[str]:
    """The interconnects that take energy."""
    lines = []
    for number, network in enumerate(network for network in stats.networks if network_energy(network)):
        lines += [f"Network {number}", "---------", *network_lines(spec, stats, network)]
    return lines


def _reductions(spec: Spec, stats: Stats) -> int:
    """Additions into outputs: all multiply-accumulates but the first of each output."""
    outputs = sum(_outermost_tile(stats, space.name) for space in spec.problem.dataspaces if space.read_write)
    return unsigned(stats.actual_computes - outputs)


def _operations(spec: Spec, stats: Stats) -> int:
    """Multiplications and additions."""
    return unsigned(stats.actual_computes + _reductions(spec, stats))


def _operational_intensity(spec: Spec, stats: Stats) -> list[str]:
    """Operations per byte read or written: at best, and at every level."""
    operations = _operations(spec, stats)
    required = sum(_outermost_tile(stats, name) for name in spec.problem.dataspace_names())
    lines = ["Operational Intensity Stats", "---------------------------"]
    lines += [_labelled("Total elementwise ops", stats.actual_computes),
              _labelled("Total reduction ops", _reductions(spec, stats)),
              _labelled("Total ops", operations), _labelled("Total memory accesses required", required),
              _labelled("Optimal Op per Byte", _ops_per_byte(operations, spec.arch.levels[-1].word_bits, required)), ""]
    for level, level_stats in zip(spec.arch.levels, stats.levels, strict=True):
        lines.append(f"=== {level.name} ===")
        accesses = storage_accesses(level_stats)
        if accesses:
            lines += [_labelled("Total scalar accesses", accesses),
                      _labelled("Op per Byte", _ops_per_byte(operations, level.word_bits, accesses))]
    return lines


def _outermost_tile(stats: Stats, name: str) -> int:
    """Words of the data space at the outermost level that keeps it."""
    tiles: list[int] = [level["dataspaces"][name]["utilized_capacity"]
                        for level in reversed(stats.levels) if name in level["dataspaces"]]
    return tiles[0]


def _ops_per_byte(operations: int, word_bits: int, words: int) -> str:
    return fixed(single_ratio(operations, word_bits * words // 8))


def _labelled(label: str, value: Any) -> str:
    return f"    {label:<{LABEL}}: {value}"


def _summary(spec: Spec, stats: Stats) -> list[str]:
    """The summary; Timeloop multiplies the EDP from cycles in single precision."""
    edp_j_cycle = single(stats.cycles) * stats.energy_pj / 1e12
    return ["Summary Stats", "-------------",
            f"GFLOPs (@1GHz): {fixed(single_ratio(_operations(spec, stats), stats.cycles))}",
            f"Utilization: {fixed(stats.utilization * 100)}%",
            f"Cycles: {stats.cycles}",
            f"Energy: {fixed(stats.energy_pj / 1e6)} uJ",
            f"EDP(J*cycle): {edp_j_cycle:.2e}",
            "Area: 0.00 mm^2"]


def _per_compute(stats: Stats) -> list[str]:
    """Energy per multiply-accumulate of every component that takes any, and in total.

    On a sparse design per algorithmic one, then per actual one.
    """
    lines = _per(stats, stats.actual_computes, "Actual Computes" if stats.sections else "Computes", "fJ/Compute")
    if not stats.sections:
        return lines
    return [*_per(stats, stats.computes, "Algorithmic Computes", "fJ/Algorithmic-Compute"), "", *lines]


def _per(stats: Stats, computes: int, title: str, unit: str) -> list[str]:
    units = stats.component_energies()
    width = max(map(len, units)) + 1
    shown = [(name, energy) for name, energy in units.items() if energy] + [("Total", sum(units.values()))]
    return [f"{title} = {computes}", unit,
            *(f"    {name:<{width}}= {fixed(energy * 1000 / computes if computes else math.inf)}"
              for name, energy in shown)]
