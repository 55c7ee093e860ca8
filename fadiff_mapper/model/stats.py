"""The numbers of one mapping, named as `timeloop-model` names them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff_mapper.base.text_formats import html_table
from fadiff_mapper.model.evaluate import Evaluation
from fadiff_mapper.model.interconnects import interconnect_faults
from fadiff_mapper.model.prepared_layer import PreparedLayer

if TYPE_CHECKING:
    from fadiff_mapper.model.sparse_accesses import AccessSplit, SparseEvaluation
    from fadiff_mapper.model.sparse_design import SparseDesign

KINDS = ("actual", "gated", "skipped")
"""Kinds of accesses and computes of a sparse design, in Timeloop's order."""


@dataclass(frozen=True)
class Stats:
    """The statistics of one mapping: energies in pJ, counts in words, bandwidths in words per cycle.

    Attributes:
        cycles: Cycles of the whole run.
        computes: Multiply-accumulates.
        utilization: Computes over instances of the arithmetic and cycles, in [0, 1].
        energy_pj: Total energy, interconnects included.
        network_energy_pj: Energy of all interconnects.
        arithmetic: Fields of the arithmetic.
        levels: Fields of every storage level, innermost first; `to_dict` lists them.
        networks: Fields of every interconnect, by name; data spaces without traffic are left out.
        energy_source: Source of the energies of every component, by its name.
        areas_um2: Area of all instances of every component in um^2, by its name.
        area_source: Source of the area of every component, by its name.
        warnings: Sentences on faults of Timeloop's own that these numbers repeat.
    """

    cycles: int
    computes: int
    utilization: float
    energy_pj: float
    network_energy_pj: float
    arithmetic: dict[str, Any]
    levels: list[dict[str, Any]]
    networks: list[dict[str, Any]]
    energy_source: dict[str, str] = field(default_factory=dict)
    areas_um2: dict[str, float] = field(default_factory=dict)
    area_source: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles

    @property
    def area_mm2(self) -> float:
        """Area of all components in mm^2. Interconnects have none, and Timeloop's built-in areas are 0."""
        return sum(self.areas_um2.values()) / 1e6

    @property
    def actual_computes(self) -> int:
        """Computes that happen, all of them on a dense design."""
        return self.computes

    def of(self, metric: str) -> float:
        """The value of a metric that a search can minimise: edp, energy, delay or last_level_accesses."""
        if metric == "last_level_accesses":
            return float(sum(space["utilized_instances"] * (space["reads"] + space["fills"] + space["updates"])
                             for space in self.levels[-1]["dataspaces"].values()))
        return float({"edp": self.edp, "energy": self.energy_pj, "delay": self.cycles}[metric])

    def to_dict(self) -> dict[str, Any]:
        """All numbers under Timeloop's names.

        cycles, computes, utilization (computes / MAC instances / cycles), energy_pj, network_energy_pj, edp
        (pJ * cycles), energy_source (component to source), area_mm2, areas_um2 (component to area of all its
        instances), area_source (component to source), arithmetic, levels[...]["dataspaces"][...] with
        partition_size, utilized_capacity, reads, fills, updates and so on, networks[...]["dataspaces"][...] with
        ingresses as [multicast, scatter, words], printed (the summary, rounded as Timeloop prints it), and warnings
        where there are any.
        """
        return {
            "cycles": self.cycles, "computes": self.computes, "utilization": self.utilization,
            "energy_pj": self.energy_pj, "network_energy_pj": self.network_energy_pj, "edp": self.edp,
            "energy_source": dict(self.energy_source),
            "area_mm2": self.area_mm2, "areas_um2": dict(self.areas_um2), "area_source": dict(self.area_source),
            "arithmetic": dict(self.arithmetic), "levels": [dict(level) for level in self.levels],
            "networks": [dict(network) for network in self.networks],
            "printed": self.printed(),
        } | ({"warnings": list(self.warnings)} if self.warnings else {})

    def printed(self) -> dict[str, Any]:
        """The summary as `timeloop-model` rounds it: energy in uJ, EDP in J * cycles, fJ per compute and component.

        The area is always 0: Timeloop clears the sum before printing. `area_mm2` has it.
        """
        energies = self.component_energies()
        energies |= {"Total": sum(energies.values())}  # in Timeloop's order, which decides how a half is rounded
        return {"energy_uj": round(self.energy_pj / 1e6, 2), "utilization_percent": round(self.utilization * 100, 2),
                "edp_j_cycle": f"{self.edp / 1e12:.2e}", "area_mm2": 0.0,
                "fj_per_compute": {name: round(energy * 1000 / self.computes, 2) for name, energy in energies.items()}}

    def component_energies(self) -> dict[str, float]:
        """pJ of the arithmetic, every storage level (with leakage) and every interconnect, all instances together."""
        energies = {self.arithmetic["name"]: self.arithmetic["energy_pj"]}
        energies |= {level["name"]: level["energy_pj_total"] for level in self.levels}
        return energies | {network["name"]: network_energy(network) for network in self.networks}

    def _repr_html_(self) -> str:
        """For notebooks: the summary, and the energy of everything that takes any, outermost level first."""
        summary = (("cycles", self.cycles), ("energy (pJ)", self.energy_pj), ("EDP (pJ * cycles)", self.edp),
                   ("utilization", self.utilization), ("multiply-accumulates", self.computes),
                   ("area (mm^2)", self.area_mm2))
        energies = [(name, energy, f"{energy / self.energy_pj:.1%}")
                    for name, energy in reversed(self.component_energies().items()) if energy]
        return (html_table("statistics", ("quantity", "value"), summary)
                + html_table("energy", ("component", "energy (pJ)", "share"), energies))


def dense_count(count: Any) -> int:
    """Accesses or computes of the dense problem, from a number or from one that is split (see `SparseStats`)."""
    return int(count["algorithmic"] if isinstance(count, dict) else count)


def actual_count(count: Any) -> int:
    """The accesses or computes of these that happen."""
    return int(count["actual"] if isinstance(count, dict) else count)


def network_energy(network: dict[str, Any]) -> float:
    """pJ of one entry of `Stats.networks`, all data spaces and instances together."""
    return float(sum(space.get("energy_pj_total", 0.0) for space in network["dataspaces"].values()))


def stats_of(layer: PreparedLayer, evaluation: Evaluation, row: int,
             energy_source: dict[str, str] | None = None, areas_um2: dict[str, float] | None = None,
             area_source: dict[str, str] | None = None) -> Stats:
    """The statistics of one mapping of a batch.

    Args:
        layer: The prepared layer.
        evaluation: Its evaluation with `details=True`.
        row: Column of a legal mapping in the batch.
        energy_source: Source of the energies of every component, by its name.
        areas_um2: Area of all instances of every component in um^2, by its name.
        area_source: Source of the area of every component, by its name.

    Returns:
        Statistics under the names that `timeloop-model` prints.
    """
    assert evaluation.network is not None
    cycles, computes = int(evaluation.cycles[row]), int(evaluation.use.computes[row])
    return Stats(
        cycles=cycles, computes=computes, utilization=computes / layer.arch.arithmetic.instances / cycles,
        energy_pj=float(evaluation.energy[row]), network_energy_pj=float(evaluation.network.total[row]),
        arithmetic={
            "name": layer.arch.arithmetic.name, "instances": layer.arch.arithmetic.instances,
            "utilized_instances": int(evaluation.use.expansion_x[0, row] * evaluation.use.expansion_y[0, row]),
            "cycles": int(evaluation.use.compute_cycles[row]), "computes": computes,
            "energy_pj": float(evaluation.cost.compute_energy[row])},
        levels=[_level(layer, evaluation, level, row) for level in range(len(layer.arch.levels))],
        networks=networks_of(layer, evaluation, row),
        energy_source=energy_source or {}, areas_um2=areas_um2 or {}, area_source=area_source or {},
        warnings=(*network_warnings(layer, evaluation, row), *_residual_warnings(layer, evaluation, row)))


def _residual_warnings(layer: PreparedLayer, evaluation: Evaluation, row: int) -> Iterator[str]:
    """A sentence for each fault of `timeloop-model` that the numbers of a mapping with residuals repeat."""
    nest = evaluation.nest
    if not nest.residual:
        return
    computes, real = int(evaluation.use.computes[row]), layer.problem.computes
    if computes != real:
        yield (f"Timeloop counts {computes} multiply-accumulates where the problem has {real}; the energy of the "
               "arithmetic and the utilization follow")
    if (nest.temporal_last != nest.temporal)[..., row].any():
        yield (f"Timeloop's {int(evaluation.use.compute_cycles[row])} compute cycles count the last runs of temporal "
               "loops as long as the others")
    if (nest.spatial_last != nest.spatial)[..., row].any():
        yield ("Timeloop rounds the instances in use on average down to a whole number, so that energies of levels "
               "below a spatial loop with a residual are too low")


def network_warnings(layer: PreparedLayer, evaluation: Evaluation, row: int) -> tuple[str, ...]:
    """Sentences on Timeloop's faults about networks that the numbers of a mapping repeat; see `stats_of`."""
    assert evaluation.network is not None
    instances = [int(used) for used in evaluation.use.instances[:, row]]
    return tuple(interconnect_faults(layer, evaluation.network, instances, row))


def networks_of(layer: PreparedLayer, evaluation: Evaluation, row: int) -> list[dict[str, Any]]:
    """The interconnects of one mapping of a batch that was evaluated with details, by name."""
    return sorted((_network(layer, evaluation, number, row) for number in range(len(layer.interconnects))),
                  key=lambda network: str(network["name"]))


def _level(layer: PreparedLayer, evaluation: Evaluation, level: int, row: int) -> dict[str, Any]:
    """The fields of one storage level, with those of the data spaces that it keeps."""
    cost = evaluation.cost
    spaces = {name: _dataspace(layer, evaluation, level, t, row)
              for t, name in enumerate(layer.problem.dataspace_names()) if evaluation.nest.keep[level, t, row]}
    leakage = float(cost.leakage[level, row])
    names = layer.problem.dataspace_names()
    # Timeloop adds up data space by data space with its share of the leakage; the order decides how a half is printed.
    energy = sum((spaces[name]["energy_pj_total"] if name in spaces else 0.0) + leakage / len(names) for name in names)
    return {
        "name": layer.arch.levels[level].name, "cycles": int(cost.level_cycles[level, row]),
        "slowdown": float(cost.bandwidth.slowdown[level, row]),
        "max_instances": int(evaluation.use.instances[level, row]), "leakage_energy_pj": leakage,
        "energy_pj_total": energy, "dataspaces": spaces}


def _dataspace(layer: PreparedLayer, evaluation: Evaluation, level: int, t: int, row: int) -> dict[str, Any]:
    """The fields of one data space at one level; bandwidths are those after throttling."""
    at = level, t, row
    counts, cost = evaluation.counts, evaluation.cost
    instances = int(evaluation.use.instances[level, row])
    slowdown = float(cost.bandwidth.slowdown[level, row])
    read, write = float(cost.bandwidth.read[at]) * slowdown, float(cost.bandwidth.write[at]) * slowdown
    energy, address = float(cost.access_energy[at]), float(cost.address_energy[at])
    clusters = int(cost.clusters[level, row])
    held = int(evaluation.held[at])
    result = {
        "partition_size": held * int(counts.partition[at]), "utilized_capacity": held * int(evaluation.tile.size[at]),
        "utilized_instances": instances, "utilized_clusters": clusters,
        "reads": int(counts.reads[at]), "fills": int(counts.fills[at]), "updates": int(counts.updates[at]),
        "temporal_reductions": int(counts.reads[at]) if layer.projection.read_write[t] else 0,
        "address_generations": int(counts.address_generations[at]),
        "energy_pj_per_instance": energy, "energy_pj_total": energy * instances + address,
        "read_bandwidth": read, "write_bandwidth": write, "shared_bandwidth": read + write}
    return result | ({"addr_gen_energy_pj_per_cluster": address / clusters} if address else {})


def _network(layer: PreparedLayer, evaluation: Evaluation, number: int, row: int) -> dict[str, Any]:
    """The fields of one interconnect; data spaces without traffic are left out."""
    network, noc = evaluation.network, layer.interconnects[number]
    assert network is not None
    spaces = {}
    for t, name in enumerate(layer.problem.dataspace_names()):
        at, below = (number, t, row), (noc.level, t, row)
        kinds = [k for k in range(len(network.words)) if network.sent[(k, *at)]]
        links = float(evaluation.tally.links[below]) if noc.kind == "Legacy" else 0.0
        if (not kinds and not links) or (noc.kind == "ReductionTree" and not network.reductions[at]):
            continue
        spaces[name] = {
            "fanout": int(evaluation.tally.fan[noc.level, 0, row]),
            "multicast_factor": max((int(evaluation.tally.multicast[(k, *below)]) for k in kinds), default=0),
            "ingresses": [[int(evaluation.tally.multicast[(k, *below)]), int(evaluation.tally.scatter[(k, *below)]),
                           float(network.words[(k, *at)])] for k in kinds],
            "link_transfers": links, "spatial_reductions": float(network.reductions[at]),
            "hops": float(network.hops[at])}
        energy, link_energy, adders = (float(energies[at]) for energies in (
            network.energy, network.link_energy, network.adder_energy))
        if energy or link_energy or adders:
            spaces[name] |= {"energy_pj_per_instance": energy, "link_transfer_energy_pj_per_instance": link_energy,
                             "energy_pj_total": float(network.spent[at])}
        if adders:
            spaces[name]["spatial_reduction_energy_pj_per_instance"] = adders
    return {"name": noc.name, "dataspaces": spaces}


@dataclass(frozen=True)
class SparseStats(Stats):
    """The statistics of one mapping on a sparse design; attributes as in `Stats`, counts split into what happens.

    Attributes:
        sections: Whether Timeloop prints its sparse form: the input has a section of sparse optimizations.
    """

    sections: bool = True

    def of(self, metric: str) -> float:
        """The value of a metric that a search can minimise: edp, energy, delay or last_level_accesses."""
        if metric == "last_level_accesses":
            return float(sum(int(space["utilized_instances"] * sum(
                space[access]["algorithmic"] for access in ("reads", "updates", "fills")))
                for space in self.levels[-1]["dataspaces"].values()))
        return super().of(metric)

    @property
    def actual_computes(self) -> int:
        """Computes that happen."""
        return int(self.arithmetic["computes"]["actual"])

    def to_dict(self) -> dict[str, Any]:
        """All numbers under Timeloop's names.

        As in `Stats`; reads, fills, updates and the arithmetic's computes are each split into algorithmic, actual,
        gated and skipped. `format` lists ranks outermost first, lists of [metadata, payload] start with the innermost.
        """
        return super().to_dict() | {"warnings": list(self.warnings)}

    def printed(self) -> dict[str, Any]:
        """The summary as `timeloop-model` rounds it, with fJ per algorithmic and per actual compute."""
        energies = self.component_energies()
        energies |= {"Total": sum(energies.values())}
        counts = self.arithmetic["computes"]
        per = {"algorithmic": counts["algorithmic"], "actual": counts["actual"]} if self.sections else {
            "computes": counts["actual"]}
        # Timeloop holds the cycles of the EDP in single precision.
        return {"energy_uj": round(self.energy_pj / 1e6, 2), "utilization_percent": round(self.utilization * 100, 2),
                "edp_j_cycle": f"{float(np.float32(self.cycles)) * self.energy_pj / 1e12:.2e}", "area_mm2": 0.0,
                "fj_per": {name: {part: round(energy * 1000 / computes, 2) if computes else math.inf
                                  for part, energy in energies.items()} for name, computes in per.items()}}


def sparse_stats(design: SparseDesign, dense: Evaluation, row: int, found: SparseEvaluation, *, sections: bool,
                 energy_source: dict[str, str] | None = None, areas_um2: dict[str, float] | None = None,
                 area_source: dict[str, str] | None = None) -> SparseStats:
    """The statistics of one mapping.

    Args:
        design: The layer on its design.
        dense: The dense evaluation of the batch, with details.
        row: Column of the mapping.
        found: Its sparse evaluation.
        sections: Whether the input has a section of sparse optimizations.
        energy_source: Source of the energies of every component, by its name.
        areas_um2: Area of all instances of every component in um^2, by its name.
        area_source: Source of the area of every component, by its name.

    Returns:
        Statistics under the names that `timeloop-model` prints.
    """
    assert dense.network is not None
    arithmetic, computes = design.layer.arch.arithmetic, found.computes
    names = design.layer.problem.dataspace_names()
    levels = [{"name": level.name, "cycles": use.cycles, "slowdown": use.slowdown, "max_instances": use.instances,
               "leakage_energy_pj": use.leakage, "energy_pj_total": use.energy, "dataspaces": {
                   name: (_split_space if t in use.tiles else _forgotten)(design, dense, row, found, number, t,
                                                                          sections)
                   for t, name in enumerate(names) if dense.nest.keep[number, t, row]}}
              for number, (level, use) in enumerate(zip(design.layer.arch.levels, found.levels, strict=True))]
    return SparseStats(
        cycles=found.cycles, computes=computes.algorithmic,
        utilization=(computes.actual + computes.gated) / arithmetic.instances / found.cycles if found.cycles else 0.0,
        energy_pj=found.energy, network_energy_pj=float(dense.network.total[row]),
        arithmetic={
            "name": arithmetic.name, "instances": arithmetic.instances, "cycles": found.compute_cycles,
            "utilized_instances": found.use.arithmetic.most,
            "utilized_instances_average": int(found.use.arithmetic.average), "computes": vars(computes).copy(),
            "energy_pj": found.compute_energy},
        levels=levels, networks=networks_of(design.layer, dense, row), energy_source=energy_source or {},
        areas_um2=areas_um2 or {}, area_source=area_source or {}, sections=sections,
        warnings=(*network_warnings(design.layer, dense, row), *_warnings(design, found)))


def _forgotten(design: SparseDesign, dense: Evaluation, row: int, found: SparseEvaluation, number: int, t: int,
               sections: bool) -> dict[str, Any]:
    """The fields of a data space that a level keeps and Timeloop forgets (`model/access_counts.py:holding`)."""
    instances, none = found.use.levels[number][t], dict.fromkeys(("algorithmic", *KINDS), 0)
    zeros = dict.fromkeys(("partition_size", "utilized_capacity", "temporal_reductions", "address_generations",
                           "decompression_counts", "compression_counts"), 0)
    rates = dict.fromkeys(("energy_pj_per_instance", "energy_pj_total", *(
        f"{way}_bandwidth{share}" for way in ("shared", "read", "write") for share in ("", "_format_share"))), 0.0)
    density = design.layer.problem.density(design.layer.problem.dataspaces[t].name)
    return {**zeros, "utilized_instances": instances.average,
            "utilized_clusters": int(dense.cost.clusters[number, row]), "reads": none, "fills": none, "updates": none,
            "format": [], **rates} | (
        {"tile_density_distribution": density.name, "data_tile_shape": 0, "utilized_instances_max": instances.most}
        if sections else {"format_tile_size": []})


def _split_space(design: SparseDesign, dense: Evaluation, row: int, found: SparseEvaluation, number: int, t: int,
               sections: bool) -> dict[str, Any]:
    """The fields of one data space at one level; bandwidths are those after throttling."""
    use, cost = found.levels[number], found.levels[number].tiles[t]
    tile, occupancy = found.mapping.columns[t][number], found.mapping.occupancies[t][number]
    counts, accesses = found.counts[t][number], found.accesses[t][number]
    instances = found.use.levels[number][t]
    address = cost.addresses * design.layer.arch.levels[number].addr_gen_energy
    representation = tile.representation
    result: dict[str, Any] = {
        "partition_size": int(dense.counts.partition[number, t, row]), "utilized_capacity": occupancy.most_words,
        "utilized_instances": instances.average, "utilized_clusters": cost.clusters,
        "reads": {"algorithmic": counts.reads, **accesses.reads.words},
        "fills": {"algorithmic": counts.fills, **accesses.fills.words},
        "updates": {"algorithmic": counts.updates, **accesses.updates.words},
        "temporal_reductions": accesses.temporal_reductions,
        "address_generations": cost.addresses, "decompression_counts": 0,
        "compression_counts": accesses.compressions,
        "format": [rank.kind for rank in reversed(representation.ranks)] if representation else [],
        "energy_pj_per_instance": cost.energy,
        "energy_pj_total": cost.energy * instances.average + address * cost.clusters,
        "shared_bandwidth": use.slowdown * (cost.read + cost.write),
        "shared_bandwidth_format_share": cost.format_shares[0],
        "read_bandwidth": use.slowdown * cost.read, "read_bandwidth_format_share": cost.format_shares[1],
        "write_bandwidth": use.slowdown * cost.write, "write_bandwidth_format_share": cost.format_shares[2]}
    if sections:
        density = design.layer.problem.density(design.layer.problem.dataspaces[t].name)
        result |= {"tile_density_distribution": density.name, "data_tile_shape": tile.words,
                   "utilized_instances_max": instances.most}
    elif not representation:
        result["format_tile_size"] = []
    if representation:
        result |= {"format_tile_size": [[math.ceil(metadata), math.ceil(payload)]
                                        for metadata, payload in occupancy.most_metadata],
                   "format_reads": _format_split(accesses.reads),
                   "format_fills": _format_split(accesses.fills),
                   "format_updates": _format_split(accesses.updates)}
    return result | ({"addr_gen_energy_pj_per_cluster": address} if address else {})


def _format_split(split: AccessSplit) -> dict[str, list[list[int]]]:
    return {kind: [list(pair) for pair in split.metadata[kind]] for kind in KINDS}


def _warnings(design: SparseDesign, found: SparseEvaluation) -> list[str]:
    """A sentence for each fault of Timeloop's own that the numbers of this mapping repeat."""
    warnings = []
    names, levels = design.layer.problem.dataspace_names(), design.layer.arch.level_names()
    for t, by_level in enumerate(found.accesses):
        saving = sorted(level for level, other in found.savings if other == t)
        for level, accesses in by_level.items():
            place, counts = f'{names[t]} at "{levels[level]}"', found.counts[t][level]
            if accesses.wrapped:
                warnings.append(f"{place}: a level further out saves a larger share of the accesses, so that "
                                "Timeloop's gated or skipped counts are negative, printed as 2^64 less")
            elif any(split.words["actual"] > dense for split, dense in (
                    (accesses.reads, counts.reads), (accesses.fills, counts.fills),
                    (accesses.updates, counts.updates))):
                warnings.append(f"{place}: Timeloop counts an access more than there are, as the density of tiles "
                                "that are not empty is a last digit above 1")
            if level in saving[:-1] and counts.format_reads:
                warnings.append(f"{place}: Timeloop takes the reads of metadata from its updates, as a level further "
                                "out saves accesses, too")
    return warnings
