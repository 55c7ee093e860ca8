"""The statistics of one mapping as text, in the layout of `timeloop-model.stats.txt`, of dense and sparse designs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fadiff_mapper.base.version import __version__
from fadiff_mapper.inputs.native.arch import written_components, written_number
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.sparse_optimizations import Representation
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import built_in_storage_energy, component_name, compute_energy, storage_energy
from fadiff_mapper.model.interconnects import INWARDS, OUTWARDS, priced_interconnects
from fadiff_mapper.model.stats import Stats, counted, network_energy, storage_accesses

ACCESSES = ("reads", "fills", "updates")

KINDS = {"Actual": "actual", "Gated": "gated", "Skipped": "skipped"}
"""Fates of an access on a sparse design: Timeloop's label, and the key of its count."""

Rows = list[tuple[str, Any]]  # labels and values

WRAP = 2 ** 64  # Timeloop counts in 64 bits without sign: a negative count wraps around

SPECS, STATS = ["", "    SPECS", "    -----"], ["", "    STATS", "    -----"]
"""Headings of a component's attributes, and of its numbers."""


def fixed(value: float | None) -> str:
    """The value with two decimals, "-" if unspecified (None); 0 / 0 as the C++ library prints it, "-nan"."""
    return "-" if value is None else "-nan" if math.isnan(value) else f"{value:.2f}"


def single_ratio(above: int, below: int) -> float:
    """above / below, computed in single precision; infinite over zero."""
    return float(np.float32(above) / np.float32(below)) if below else math.inf


def _lines(rows: Rows, width: int, indent: str = "    ") -> list[str]:
    """A line for each label and value, with aligned values."""
    return [f"{indent}{label:<{width}}: {value}" for label, value in rows]


def level_lines(spec: Spec, index: int, stats: Stats) -> list[str]:
    """The paragraph on one storage level: its attributes, and accesses of every data space that it keeps.

    Timeloop names some attributes differently for a sparse design. A vector access of a dense design has the price of
    its most expensive action, per member of a cluster.
    """
    level, found, sparse = spec.arch.levels[index], stats.levels[index], bool(stats.sections)
    data = ("Data storage size", "Data word bits", "Data block size", "Effective data storage size")
    names = data if sparse else ("Size", "Word bits", "Block size", "Effective size")
    rows: Rows = [
        ("Technology", "DRAM" if level.is_dram else "SRAM"), (names[0], "-" if level.size is None else level.size),
        (names[1], level.word_bits), (names[2], level.block_size)]
    if sparse:
        rows += [("Metadata storage width(bits)", level.metadata.width),
                 ("Metadata storage depth", level.metadata.depth or "-")]
    rows += [
        ("Cluster size", level.cluster_size), ("Instances", f"{level.instances} ({level.mesh_x}*{level.mesh_y})"),
        ("Shared bandwidth", fixed(level.shared_bandwidth)), ("Read bandwidth", fixed(level.read_bandwidth)),
        ("Write bandwidth", fixed(level.write_bandwidth)), ("Multiple buffering", fixed(level.multiple_buffering)),
        (names[3], "-" if level.usable is None else level.usable), ("Min utilization", fixed(level.min_utilization))]
    if sparse:
        from fadiff_mapper.model.sparse_design import storage_energies  # dense designs do not load it
        ((data, *_), (metadata, *_)), (decompression, _) = storage_energies(level, spec.tables)
        rows += [(label, f"{fixed(value)} pJ") for label, value in (
            ("Vector read energy", data[0]), ("Vector write energy", data[1]),
            ("Vector metadata read energy", metadata[0]), ("Vector metadata write energy", metadata[1]),
            ("(De)compression energy", decompression))]
    else:
        actions = [energy for table in spec.tables.ert if component_name(table.component) == level.name
                   for energy in table.actions.values()]
        energy, source = ((level.vector_access_energy, "user") if level.vector_access_energy is not None else
                          (max(0.0, *actions) / level.cluster_size, "ERT") if actions else
                          (built_in_storage_energy(level), "PAT"))
        rows += [("Vector access energy", f"{fixed(energy)} pJ"), ("Vector access energy source", source)]
    used, sharing, utilization = found["max_instances"], 1.0, 1.0
    if level.power_gated_at is not None:    # instances that share a power gate with an instance in use leak, too
        gate = spec.arch.level_names().index(level.power_gated_at)
        sharing = max(1.0, level.instances / spec.arch.levels[gate].instances)
        utilization = used / (sharing * stats.levels[gate]["max_instances"]) if sharing > 1 else 1.0
    rows += [("Per-instance-cycle leakage", f"{fixed(storage_energy(level, spec.tables).leak)} pJ"),
             ("Instances sharing power gating", fixed(sharing)),
             ("Non-power-gated utilization", f"{fixed(utilization * 100)}%"),
             ("Leakage energy (total)", f"{fixed(found['leakage_energy_pj'])} pJ"),
             ("Area", f"{fixed(float(np.float32(areas(spec.arch, spec.tables)[level.name].each)))} um^2")]
    lines = [f"=== {level.name} ===", *SPECS, *_lines(rows, 32, " " * 8), *STATS,
             f"    Cycles               : {found['cycles']}",
             f"    Bandwidth throttling : {fixed(found['slowdown'])}"]
    for name, space in found["dataspaces"].items():
        formats = spec.sparse.levels[index].formats if spec.sparse else {}
        lines += [f"    {name}:", *(_sparse_dataspace(level, name, space, formats.get(name)) if sparse else
                                    _lines(_dataspace(level, name, space), 41, " " * 8))]
    return [*lines, ""]


def _energies(each: str, energy: float, instances: float, space: dict[str, Any]) -> Rows:
    """Energies of a data space; Timeloop's public tables have no energy of additions, so reductions cost nothing."""
    address = space.get("addr_gen_energy_pj_per_cluster", 0.0)
    return [(label, f"{value} pJ") for label, value in (
        ("Energy (per-scalar-access)", each), ("Energy (per-instance)", fixed(energy)),
        ("Energy (total)", fixed(energy * instances)),
        ("Temporal Reduction Energy (per-instance)", fixed(0.0)), ("Temporal Reduction Energy (total)", fixed(0.0)),
        ("Address Generation Energy (per-cluster)", fixed(address)),
        ("Address Generation Energy (total)", fixed(address * space["utilized_clusters"])))]


def _dataspace(level: StorageLevel, name: str, space: dict[str, Any]) -> Rows:
    """Every number of a data space at a level; `space` is its entry in `Stats.levels`."""
    reads, fills, updates = (counted(space[access]) for access in ACCESSES)
    accesses = reads + fills + updates
    energy, instances = space["energy_pj_per_instance"], int(space["utilized_instances"])
    return [
        ("Partition size", space["partition_size"]), ("Utilized capacity", space["utilized_capacity"]),
        ("Utilized instances (max)", instances), ("Utilized clusters (max)", space["utilized_clusters"]),
        ("Scalar reads (per-instance)", reads), ("Scalar fills (per-instance)", fills),
        ("Scalar updates (per-instance)", updates),
        ("Temporal reductions (per-instance)", space["temporal_reductions"]),
        ("Address generations (per-cluster)", space["address_generations"]),
        *_energies(fixed(energy / accesses if accesses else math.nan), energy, instances, space),
        ("Bandwidth Consumption Scale", fixed(level.bandwidth_scale.get(name, 1.0))),
        *((f"{port} Bandwidth ({scope})", f"{fixed(space[f'{port.lower()}_bandwidth'] * times)} words/cycle")
          for port in ("Shared", "Read", "Write") for scope, times in (("per-instance", 1), ("total", instances)))]


def _sparse_dataspace(level: StorageLevel, name: str, space: dict[str, Any],
                      representation: Representation | None) -> list[str]:
    """The lines on a data space of a sparse design; `space` is its entry in `Stats.levels`."""
    lines: list[str] = []

    def add(*rows: tuple[str, Any]) -> None:
        lines.extend(_lines(list(rows), 60, " " * 8))

    def add_ranks(label: str, units: list[list[int]], comma: str) -> None:
        """Units of metadata and payload of each rank, outermost first; one line if there are none."""
        if not units:
            return add((label, 0))
        lines.extend([f"        {label:<60}", *(f"            Rank {rank} (metadata, payload): ({units[rank][0]}{comma}"
                                                f"{units[rank][1]})" for rank in reversed(range(len(units))))])

    def has_bits(units: list[list[int]]) -> bool:
        """Whether accesses to metadata touch any bits: units may have no width, or the level no memory for them."""
        return level.metadata.width > 0 and representation is not None and any(
            rank.metadata_bits * metadata + rank.payload_bits * payload
            for rank, (metadata, payload) in zip(representation.ranks, units, strict=True))

    add(("Partition size", space["partition_size"]),
        ("Tile density distribution", space["tile_density_distribution"]),
        ("Data tile shape", space["data_tile_shape"]),
        ("Max utilized data storage capacity", space["utilized_capacity"]),
        ("Representation format", "".join(f"{kind} " for kind in space["format"]) or "none"))
    add_ranks("Max utilized Repr format storage capacity", space.get("format_tile_size", []), ", ")
    add(("Utilized instances (max)", space["utilized_instances_max"]),
        ("Utilized instances (average)", fixed(space["utilized_instances"])),
        ("Utilized clusters (max)", space["utilized_clusters"]),
        *((f"{kind.capitalize()} scalar {access} (per-instance)", space[access][kind])
          for access in ACCESSES for kind in ("algorithmic", *KINDS.values())))
    for access in ACCESSES if space["format"] else ():
        for label, kind in KINDS.items():
            units = space[f"format_{access}"][kind]
            add_ranks(f"{label} scalar format {access} (per-instance)", units if has_bits(units) else [], ",  ")
    accesses = sum(space[access]["actual"] for access in ACCESSES) % WRAP
    energy, instances = space["energy_pj_per_instance"], space["utilized_instances"]
    each = energy / accesses if accesses else math.inf if energy else math.nan
    add(("Temporal reductions (per-instance)", space["temporal_reductions"]),
        ("Address generations (per-cluster)", space["address_generations"]),
        *_energies(fixed(each if instances > 0 else 0.0), energy, instances, space),
        ("Bandwidth Consumption Scale", fixed(level.bandwidth_scale.get(name, 1.0))))
    for port in ("Shared", "Read", "Write"):  # Timeloop's macro: the share of the data is 1 - percent
        value, share = (space[f"{port.lower()}_bandwidth{end}"] for end in ("", "_format_share"))
        add((f"Average {port} Bandwidth (per-instance)", f"{fixed(value)} words/cycle"))
        lines.append(f"            Breakdown (Data, Format): ({fixed(1 - share * 100)}%, {fixed(share * 100)}%"
                     + ("" if port == "Shared" else ")"))
        add((f"{port} Bandwidth (total)", f"{fixed(value * space['utilized_instances_max'])} words/cycle"))
    return lines


def network_lines(spec: Spec, stats: Stats, network: dict[str, Any]) -> list[str]:
    """The paragraph of one interconnect (a network in Timeloop): attributes of its wires, traffic of every data space.

    Attributes that the input does not state are printed as "-"; `network` is the entry of `Stats.networks`. A data
    space without traffic has no lines for a multicast, and one without additions none for a reduction tree.
    """
    priced = next(noc for noc in priced_interconnects(spec.arch, spec.problem, spec.tables)
                  if noc.name == network["name"])
    level, instances = spec.arch.levels[priced.level], stats.levels[priced.level]["max_instances"]
    named = next((noc for noc in spec.arch.named_interconnects if noc.name == priced.name), None)
    written = written_components(spec.arch.native)[named.name if named else level.name].own
    wires = named.wires if named else level.interconnect
    energy = {key: f"{fixed(written_number(written, key))} pJ"
              for key in ("router_energy", "wire_energy", "energy-per-ingress")}
    drained = named.wires.fill_latency if named and named.outwards is not None else level.interconnect.drain_latency
    latencies: Rows = [("Fill latency", int(wires.fill_latency) if priced.ways & INWARDS else 0),
                       ("Drain latency", int(drained) if priced.ways & OUTWARDS else 0)]
    rows: Rows = [("Type", priced.kind), ("ConnectionType", priced.ways), ("Word bits", wires.word_bits)]
    if priced.kind == "SimpleMulticast":
        rows.append(("Action Name       ", named.action if named else ""))
    elif priced.kind == "ReductionTree":
        rows += [("Adder energy", f"{fixed(priced.adder)} pJ")] if priced.adder else []
        rows += [("Wire energy", f"{energy['wire_energy']}/b/mm")] if wires.wire_energy else []
        rows += [(f"{label}     ", cycles) for label, cycles in latencies]
    else:
        rows.insert(1, ("Legacy sub-type", str(written.get("network_type", "")).replace(":", "_")))
        rows += [("Router energy", energy["router_energy"]), ("Wire energy", f"{energy['wire_energy']}/b/mm"),
                 ("Ingress energy", energy["energy-per-ingress"]), *latencies]
    lines = [network["name"], *SPECS, *_lines(rows, 16, " " * 8), *STATS]
    for name in spec.problem.dataspace_names():
        traffic = network["dataspaces"].get(name, {})   # empty if nothing moves; energies are per instance
        ingresses = traffic.get("ingresses", [])
        shown = {"SimpleMulticast": ingresses, "ReductionTree": traffic.get("spatial_reductions")}
        if not shown.get(priced.kind, True):
            continue
        moved: Rows = [("Fanout", traffic.get("fanout", 0)), ("Multicast factor", traffic.get("multicast_factor", 0)),
                       ("Ingresses", fixed(sum(words for _, _, words in ingresses)))]
        added: Rows = [("Spatial reductions", int(traffic.get("spatial_reductions", 0))),
                       ("Average number of hops", fixed(traffic.get("hops", 0.0))),
                       ("Energy (per-hop)", f"{fixed(priced.hop * 1000)} fJ")]
        energies = [("Energy", traffic.get("energy_pj_per_instance", 0.0))]
        if priced.kind == "SimpleMulticast":
            found = _lines(moved, 40, "")
        elif priced.kind == "ReductionTree":
            found = _lines(added, 40, "")
            energies.append(("Spatial Reduction Energy", traffic.get("spatial_reduction_energy_pj_per_instance", 0.0)))
        else:
            found = [*_lines(moved, 40, ""), *(f"    @multicast {multicast} @scatter {scatter}: {fixed(words)}"
                                               for multicast, scatter, words in sorted(ingresses)),
                     *_lines([("Link transfers", int(traffic.get("link_transfers", 0))), *added], 40, "")]
            energies += [("Link transfer energy", traffic.get("link_transfer_energy_pj_per_instance", 0.0)),
                         ("Spatial Reduction Energy", 0)]
        found += _lines([(f"{label} ({scope})", f"{fixed(value * times)} pJ") for label, value in energies
                         for scope, times in (("per-instance", 1), ("total", instances))], 40, "")
        lines += [f"    {name}:", *(f"        {line}" for line in found)]
    return [*lines, ""]


def stats_txt(spec: Spec, stats: Stats) -> str:
    """The text that `timeloop-model` prints for this mapping, below a first line with this program's name.

    As in Timeloop, levels without accesses and energy and networks without energy are left out, and the summary's area
    is 0; the first line has it. Energies are in pJ (fJ per compute in the summary), areas in um^2, bandwidths in words
    per cycle.
    """
    lines = [f"# Written by fadiff_mapper {__version__}, in the layout of timeloop-model's statistics; all components "
             f"take {stats.area_mm2:.6g} mm^2, which Timeloop's summary leaves at 0",
             "Buffer and Arithmetic Levels", "----------------------------"]
    if stats.arithmetic["energy_pj"]:
        unit, found, sparse = spec.arch.arithmetic, stats.arithmetic, bool(stats.sections)
        area = float(np.float32(areas(spec.arch, spec.tables)[unit.name].each)) * unit.instances
        if sparse:
            rows: Rows = [
                ("Utilized instances (max)", found["utilized_instances"]),
                ("Utilized instances (average)", found["utilized_instances_average"]),
                ("Cycles", found["cycles"]), ("Algorithmic Computes (total)", found["computes"]["algorithmic"]),
                *((f"{label} Computes (total)", found["computes"][kind]) for label, kind in KINDS.items())]
        else:
            rows = [("Utilized instances", found["utilized_instances"]),
                    ("Computes (total)", counted(found["computes"], "actual")), ("Cycles", found["cycles"])]
        rows += [("Energy (total)", f"{fixed(found['energy_pj'])} pJ"), ("Area (total)", f"{fixed(area)} um^2")]
        lines += ["Level 0", "-------", f"=== {unit.name} ===", *SPECS, *_lines([
            ("Word bits", unit.word_bits), ("Instances", f"{unit.instances} ({unit.mesh_x}*{unit.mesh_y})"),
            ("Compute energy", f"{fixed(compute_energy(unit, spec.tables)[0])} pJ")], 22), *STATS,
            *_lines(rows, 29 if sparse else 24), *([""] * (2 if sparse else 1))]
    for index, level in enumerate(stats.levels):
        if storage_accesses(level) or level["energy_pj_total"]:
            lines += [f"Level {index + 1}", "-------", *level_lines(spec, index, stats)]
    lines += ["Networks", "--------"]
    for number, network in enumerate(network for network in stats.networks if network_energy(network)):
        lines += [f"Network {number}", "---------", *network_lines(spec, stats, network)]
    outermost = {name: next(level["dataspaces"][name]["utilized_capacity"] for level in reversed(stats.levels)
                            if name in level["dataspaces"]) for name in spec.problem.dataspace_names()}
    outputs = sum(outermost[space.name] for space in spec.problem.dataspaces if space.read_write)
    reductions = (stats.actual_computes - outputs) % WRAP  # all computes but each output's first
    operations = (stats.actual_computes + reductions) % WRAP
    required = sum(outermost.values())
    lines += ["", "Operational Intensity Stats", "---------------------------", *_lines([
        ("Total elementwise ops", stats.actual_computes), ("Total reduction ops", reductions),
        ("Total ops", operations), ("Total memory accesses required", required),
        ("Optimal Op per Byte", fixed(single_ratio(operations, spec.arch.levels[-1].word_bits * required // 8)))],
        40), ""]
    for its_level, level in zip(spec.arch.levels, stats.levels, strict=True):
        lines.append(f"=== {its_level.name} ===")
        if accesses := storage_accesses(level):
            lines += _lines([("Total scalar accesses", accesses),
                             ("Op per Byte", fixed(single_ratio(operations, its_level.word_bits * accesses // 8)))], 40)
    edp_j_cycle = float(np.float32(stats.cycles)) * stats.energy_pj / 1e12  # cycles in single precision, as in Timeloop
    lines += ["", "", "Summary Stats", "-------------",
              f"GFLOPs (@1GHz): {fixed(single_ratio(operations, stats.cycles))}",
              f"Utilization: {fixed(stats.utilization * 100)}%",
              f"Cycles: {stats.cycles}",
              f"Energy: {fixed(stats.energy_pj / 1e6)} uJ",
              f"EDP(J*cycle): {edp_j_cycle:.2e}",
              "Area: 0.00 mm^2", ""]
    if stats.sections:
        lines += [*_per_compute(stats, stats.computes, "Algorithmic Computes", "fJ/Algorithmic-Compute"), "",
                  *_per_compute(stats, stats.actual_computes, "Actual Computes", "fJ/Compute")]
    else:
        lines += _per_compute(stats, stats.actual_computes, "Computes", "fJ/Compute")
    return "\n".join([*lines, ""]) + "\n"


def _per_compute(stats: Stats, computes: int, title: str, unit: str) -> list[str]:
    """Energy per multiply-accumulate of every component with energy, and in total."""
    units = stats.component_energies()
    width = max(map(len, units)) + 1
    shown = [(name, energy) for name, energy in units.items() if energy] + [("Total", sum(units.values()))]
    return [f"{title} = {computes}", unit,
            *(f"    {name:<{width}}= {fixed(energy * 1000 / computes if computes else math.inf)}"
              for name, energy in shown)]
