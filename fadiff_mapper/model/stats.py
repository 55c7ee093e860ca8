"""The numbers of one mapping, named as `timeloop-model` names them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fadiff_mapper.base.text_formats import html_table
from fadiff_mapper.inputs.native.tables import ComponentArea
from fadiff_mapper.inputs.spec.spec import metric_of
from fadiff_mapper.model.evaluate import Evaluation, SparseEvaluation
from fadiff_mapper.model.interconnects import interconnect_faults
from fadiff_mapper.model.prepared_layer import PreparedLayer

KINDS = ("actual", "gated", "skipped")
"""Kinds of accesses and computes of a sparse design, in Timeloop's order."""


@dataclass(frozen=True)
class Stats:
    """The statistics of one mapping: energies in pJ, counts in words, bandwidths in words per cycle.

    On a sparse design reads, fills, updates and the arithmetic's computes are each split into algorithmic (of the
    dense problem), actual, gated and skipped.

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
        warnings: Sentences on Timeloop's own faults that these numbers repeat.
        sections: On a sparse design, whether the input has a section of sparse optimizations, with which Timeloop
            prints its sparse form; None on a dense design.
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
    sections: bool | None = None

    @property
    def sparse(self) -> bool:
        """Whether the input has densities or sparse optimizations."""
        return self.sections is not None

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
        return counted(self.arithmetic["computes"], "actual")

    def of(self, metric: str) -> float:
        """The value of a metric that a search can minimise: edp, energy, delay or last_level_accesses."""
        return float(metric_of(metric, self.energy_pj, self.cycles, storage_accesses(self.levels[-1])))

    def to_dict(self) -> dict[str, Any]:
        """All numbers under Timeloop's names.

        cycles, computes, utilization (computes / MAC instances / cycles), energy_pj, network_energy_pj, edp
        (pJ * cycles), energy_source (component to source), area_mm2, areas_um2 (component to area of all its
        instances), area_source (component to source), arithmetic, levels[...]["dataspaces"][...] with
        partition_size, utilized_capacity, reads, fills, updates and so on, networks[...]["dataspaces"][...] with
        ingresses as [multicast, scatter, words], printed (the summary, rounded as Timeloop prints it), and warnings
        where there are any. On a sparse design `format` lists ranks outermost first, and lists of [metadata, payload]
        start with the innermost.
        """
        return {
            "cycles": self.cycles, "computes": self.computes, "utilization": self.utilization,
            "energy_pj": self.energy_pj, "network_energy_pj": self.network_energy_pj, "edp": self.edp,
            "energy_source": dict(self.energy_source),
            "area_mm2": self.area_mm2, "areas_um2": dict(self.areas_um2), "area_source": dict(self.area_source),
            "arithmetic": dict(self.arithmetic), "levels": [dict(level) for level in self.levels],
            "networks": [dict(network) for network in self.networks],
            "printed": self.printed(),
        } | ({"warnings": list(self.warnings)} if self.warnings or self.sparse else {})

    def printed(self) -> dict[str, Any]:
        """The summary as `timeloop-model` rounds it: energy in uJ, EDP in J * cycles, fJ per compute and component.

        The area is always 0, as Timeloop clears the sum before printing; see `area_mm2`.
        """
        energies = self.component_energies()
        energies |= {"Total": sum(energies.values())}  # in Timeloop's order, which decides how a half is rounded
        computes = {"computes": self.actual_computes}
        if self.sections:
            computes = {"algorithmic": self.computes, "actual": self.actual_computes}
        fj_per = {kind: {name: round(energy * 1000 / number, 2) if number else math.inf
                         for name, energy in energies.items()} for kind, number in computes.items()}
        # on a sparse design Timeloop holds the cycles of the EDP in single precision
        edp = float(np.float32(self.cycles)) * self.energy_pj if self.sparse else self.edp
        return {"energy_uj": round(self.energy_pj / 1e6, 2), "utilization_percent": round(self.utilization * 100, 2),
                "edp_j_cycle": f"{edp / 1e12:.2e}", "area_mm2": 0.0} | (
            {"fj_per": fj_per} if self.sparse else {"fj_per_compute": fj_per["computes"]})

    def component_energies(self) -> dict[str, float]:
        """pJ of the arithmetic, every storage level (with leakage) and every interconnect, all instances together."""
        energies = {self.arithmetic["name"]: self.arithmetic["energy_pj"]}
        energies |= {level["name"]: level["energy_pj_total"] for level in self.levels}
        return energies | {network["name"]: network_energy(network) for network in self.networks}

    def _repr_html_(self) -> str:
        """For notebooks: the summary, and the energy of all components with energy, outermost level first."""
        summary = (("cycles", self.cycles), ("energy (pJ)", self.energy_pj), ("EDP (pJ * cycles)", self.edp),
                   ("utilization", self.utilization), ("multiply-accumulates", self.computes),
                   ("area (mm^2)", self.area_mm2))
        energies = [(name, energy, f"{energy / self.energy_pj:.1%}")
                    for name, energy in reversed(self.component_energies().items()) if energy]
        return (html_table("statistics", ("quantity", "value"), summary)
                + html_table("energy", ("component", "energy (pJ)", "share"), energies))


def counted(count: Any, kind: str = "algorithmic") -> int:
    """Accesses or computes of a kind, by default of the dense problem; all of them for a count that is not split."""
    return int(count[kind] if isinstance(count, dict) else count)


def storage_accesses(level: dict[str, Any]) -> int:
    """Words read, filled and updated at one entry of `Stats.levels`, over all instances."""
    return sum(int(space["utilized_instances"] * sum(
        counted(space[access]) for access in ("reads", "fills", "updates")))
        for space in level["dataspaces"].values())


def network_energy(network: dict[str, Any]) -> float:
    """pJ of one entry of `Stats.networks`, all data spaces and instances together."""
    return float(sum(space.get("energy_pj_total", 0.0) for space in network["dataspaces"].values()))


def stats_of(layer: PreparedLayer, evaluation: Evaluation, row: int,
             energy_source: dict[str, str] | None = None, areas: Mapping[str, ComponentArea] | None = None, *,
             sections: bool = True) -> Stats:
    """The statistics of one mapping of a batch.

    `evaluation`: with `details=True`, and a legal mapping in column `row`. Sources of energies, and areas, are by
    component. `sections`: whether the input of a sparse design has a section of sparse optimizations.
    """
    assert evaluation.network is not None
    use, unit, names = evaluation.tile, layer.arch.arithmetic, layer.problem.dataspace_names()
    sparse = evaluation if isinstance(evaluation, SparseEvaluation) else None
    cycles, computes = int(evaluation.cycles[row]), int(use.computes[row])
    done = computes if sparse is None else sum(sparse.computes[:2])
    levels = []
    for number, level in enumerate(layer.arch.levels):
        leakage = float(evaluation.cost.leakage[number, row])
        # Timeloop adds up data space by data space with its share of the leakage: the order decides printed halves
        energy = sum(float(spent) + leakage / len(names) for spent in evaluation.cost.spent[number, :, row])
        levels.append({
            "name": level.name, "cycles": int(evaluation.cost.level_cycles[number, row]),
            "slowdown": float(evaluation.cost.slowdown[number, row]),
            "max_instances": (int if sparse is None else float)(use.instances[number, row]),
            "leakage_energy_pj": leakage, "energy_pj_total": energy, "dataspaces": {
                space.name: _dataspace(layer, evaluation, number, t, row, sections=sections)
                for t, space in enumerate(layer.problem.dataspaces) if evaluation.nest.keep[number, t, row]}})
    return Stats(
        cycles=cycles, computes=computes, utilization=done / unit.instances / cycles if cycles else 0.0,
        energy_pj=float(evaluation.energy[row]), network_energy_pj=float(evaluation.network.total[row]),
        arithmetic={"name": unit.name, "instances": unit.instances,
                    "utilized_instances": int(use.expansion_x[0, row] * use.expansion_y[0, row]),
                    "cycles": int(use.compute_cycles[row])} | ({"computes": computes} if sparse is None else {
            "utilized_instances_average": int(sparse.average[0].max()),
            "computes": {"algorithmic": computes, **dict(zip(KINDS, sparse.computes, strict=True))}}) | {
            "energy_pj": float(evaluation.cost.compute_energy[row])},
        levels=levels,
        networks=sorted((_network(layer, evaluation, number, row) for number in range(len(layer.interconnects))),
                        key=lambda network: str(network["name"])),
        energy_source=energy_source or {},
        areas_um2={name: area.total for name, area in (areas or {}).items()},
        area_source={name: area.source for name, area in (areas or {}).items() if area.source},
        sections=None if sparse is None else sections, warnings=tuple(_warnings(layer, evaluation, row)))


def _warnings(layer: PreparedLayer, evaluation: Evaluation, row: int) -> Iterator[str]:
    """A sentence for each of Timeloop's own faults that the numbers of a mapping repeat."""
    assert evaluation.network is not None
    nest, use = evaluation.nest, evaluation.tile
    if layer.arch.named_interconnects:
        # on a sparse design, instances as its mapping lays them out
        instances = [nest.spatial[level + 1:, :, row].prod() for level in range(len(nest.spatial))] if isinstance(
            evaluation, SparseEvaluation) else use.instances[:, row]
        yield from interconnect_faults(layer, evaluation.network, [int(used) for used in instances], row)
    if nest.residual:
        computes, real = int(use.computes[row]), layer.problem.computes
        if computes != real:
            yield (f"Timeloop counts {computes} multiply-accumulates where the problem has {real}; the energy of the "
                   "arithmetic and the utilization follow")
        if (nest.temporal_last != nest.temporal)[..., row].any():
            yield (f"Timeloop's {int(use.compute_cycles[row])} compute cycles count the last runs of temporal "
                   "loops as long as the others")
        if (nest.spatial_last != nest.spatial)[..., row].any():
            yield ("Timeloop rounds the instances in use on average down to a whole number, so that energies of levels "
                   "below a spatial loop with a residual are too low")
    if not isinstance(evaluation, SparseEvaluation):
        return
    for t, column in enumerate(evaluation.columns):
        saving = sorted(level for level, other in evaluation.savings if other == t)
        for level, tile in column.items():
            place = f'{layer.problem.dataspace_names()[t]} at "{layer.arch.levels[level].name}"'
            counts = evaluation.counts
            if evaluation.wrapped[level, t]:
                yield (f"{place}: a level further out saves a larger share of the accesses, so that "
                       "Timeloop's gated or skipped counts are negative, printed as 2^64 less")
            elif any(actual > dense[level, t, row] for actual, dense in zip(
                    evaluation.words[0, :, level, t], (counts.reads, counts.fills, counts.updates), strict=True)):
                yield (f"{place}: Timeloop counts an access more than there are, as the density of tiles "
                       "that are not empty is a last digit above 1")
            if level in saving[:-1] and tile.ranks:
                yield (f"{place}: Timeloop takes the reads of metadata from its updates, as a level further "
                       "out saves accesses, too")


def _dataspace(layer: PreparedLayer, evaluation: Evaluation, level: int, t: int, row: int, *,
               sections: bool) -> dict[str, Any]:
    """The fields of one data space at one level; bandwidths are those after throttling."""
    at, counts, cost = (level, t, row), evaluation.counts, evaluation.cost
    sparse = evaluation if isinstance(evaluation, SparseEvaluation) else None
    held = int(evaluation.held[at])
    slowdown, read, write = float(cost.slowdown[level, row]), float(cost.read[at]), float(cost.write[at])
    clusters = int(cost.clusters[level, t if sparse else 0, row])
    words = {"reads": int(counts.reads[at]), "fills": int(counts.fills[at]), "updates": int(counts.updates[at])}
    energies = {"energy_pj_per_instance": float(cost.access_energy[at]), "energy_pj_total": float(cost.spent[at])}
    if sparse is None:
        address = float(cost.address_energy[at]) / max(clusters, 1)
        result: dict[str, Any] = {
            "partition_size": held * int(counts.partition[at]),
            "utilized_capacity": held * int(evaluation.tile.size[at]),
            "utilized_instances": int(evaluation.tile.instances[level, row]), "utilized_clusters": clusters, **words,
            "temporal_reductions": words["reads"] if layer.projection.read_write[t] else 0,
            "address_generations": int(counts.address_generations[at]), **energies,
            "read_bandwidth": read * slowdown, "write_bandwidth": write * slowdown,
            "shared_bandwidth": read * slowdown + write * slowdown}
    else:
        tile = sparse.columns[t].get(level)
        representation = tile.representation if tile else None
        shared, reading, writing = sparse.format_shares[:, level, t].tolist()
        accesses = {name: dict(zip(KINDS, sparse.words[:, number, level, t].tolist(), strict=True))
                    for number, name in enumerate(words)}
        result = {
            "partition_size": held * int(counts.partition[at]), "utilized_capacity": tile.most_words if tile else 0,
            "utilized_instances": float(sparse.average[level + 1, t]), "utilized_clusters": clusters,
            **{name: {"algorithmic": words[name], **split} for name, split in accesses.items()},
            "temporal_reductions": int(sparse.reductions[level, t]),
            "address_generations": int(sparse.addresses[level, t]),
            "decompression_counts": 0, "compression_counts": int(sparse.compressions[level, t]),
            "format": [rank.kind for rank in reversed(representation.ranks)] if representation else [], **energies,
            "shared_bandwidth": slowdown * (read + write), "shared_bandwidth_format_share": shared,
            "read_bandwidth": slowdown * read, "read_bandwidth_format_share": reading,
            "write_bandwidth": slowdown * write, "write_bandwidth_format_share": writing}
        if sections:
            density = layer.problem.density(layer.problem.dataspaces[t].name)
            result |= {"tile_density_distribution": density.name, "data_tile_shape": tile.words if tile else 0,
                       "utilized_instances_max": int(sparse.most[level + 1, t].prod())}
        elif not representation:
            result["format_tile_size"] = []
        if tile and representation:
            result["format_tile_size"] = [[math.ceil(units) for units in rank] for rank in tile.most_metadata]
            result |= {f"format_{name}": dict(zip(KINDS, sparse.units[:, number, level, t, :len(tile.ranks)].tolist(),
                                                  strict=True)) for number, name in enumerate(words)}
        address = int(sparse.addresses[level, t]) * layer.arch.levels[level].addr_gen_energy
    if address:
        result["addr_gen_energy_pj_per_cluster"] = address
    bits = layer.problem.dataspaces[t].bits
    if bits is not None and bits.scale:  # per block of elements; the numbers above include their energy
        result["scale_factors"] = {name: counted(result[name]) / bits.per
                                   for name in ("utilized_capacity", "reads", "fills", "updates")}
    return result


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
