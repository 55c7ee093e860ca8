"""The numbers of one mapping on a sparse design, named as `timeloop-model` names them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fadiff_mapper.model.exact.evaluate import Evaluation
from fadiff_mapper.model.exact.stats import Stats, network_warnings, networks_of
from fadiff_mapper.model.sparse.design import KINDS, SparseDesign

if TYPE_CHECKING:
    from fadiff_mapper.model.sparse.accesses import AccessSplit
    from fadiff_mapper.model.sparse.evaluate_sparse import SparseEvaluation


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
                   name: (_dataspace if t in use.tiles else _forgotten)(design, dense, row, found, number, t, sections)
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


def _dataspace(design: SparseDesign, dense: Evaluation, row: int, found: SparseEvaluation, number: int, t: int,
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
