"""From the groups of a plan to the result of a run, with all its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from fadiff_mapper.fusion import FusedGroup, Hardware
from fadiff_mapper.model.exact.evaluate_spec import layers_of
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.network.chains.batched_runs import over_all_runs
from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.layers.joined_reads import joined_reads
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.run_state import by_node, repeats_of
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.results.mapped_network import (
    GroupInNetwork,
    LayerAlone,
    LayerInNetwork,
    MappedNetwork,
    TileMapping,
)
from fadiff_mapper.sparse.evaluate_sparse_spec import evaluate_nests
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Operator, Totals, Workload


def network_result(workload: Workload, hardware: Hardware, results: Sequence[MappedLayer],
                   sigma: Mapping[tuple[str, str], float], groups: Sequence[CoverPart[EvaluatedGroup]],
                   history: Sequence[dict[str, Any]], options: dict[str, Any], status: str,
                   time_s: float, apart: tuple[LayerAlone, ...] = ()) -> MappedNetwork:
    """Puts the result of a run together.

    Args:
        workload: The network.
        hardware: The design.
        results: Mapping of every distinct layer by itself.
        sigma: Fusion variable of each link, where a descent gave one.
        groups: The groups of the plan.
        history: Seconds, metric and stage of every improvement.
        options: Options of the run, for the record.
        status: How the run ended.
        time_s: Seconds that the run took.
        apart: The layers in no group, with reasons.
    """
    entries = workload.distinct()
    alone, repeats = by_node(workload, results), repeats_of(workload)
    joined = joined_reads(workload, results[0].spec)
    layers_alone = workload.totals([(result.stats.energy_pj, result.stats.cycles) for result in results])
    unfused = Totals(layers_alone.energy_pj + joined.energy_pj, layers_alone.cycles + round(joined.cycles))
    layers_of = {node.name: node.layer for node in workload.layers if node.layer}
    known: dict[int, tuple[TileMapping, ...]] = {}
    outcomes = tuple(_group(part, alone, layers_of, sigma, known) for part in groups)
    fused = {name for outcome in outcomes for name in outcome.nodes}
    left = _layers_alone([name for name in repeats if name not in fused], alone, repeats)
    stats = unfused if not outcomes else Totals(
        left.energy_pj + sum(outcome.cost.energy_pj - outcome.left_out.energy_pj for outcome in outcomes)
        + joined.energy_pj,
        left.cycles + round(sum(outcome.cost.cycles - outcome.left_out.cycles for outcome in outcomes))
        + round(joined.cycles))
    layers = tuple(LayerInNetwork(entry.nodes, entry.times, result)
                   for entry, result in zip(entries, results, strict=True))
    return MappedNetwork(workload, hardware, layers, outcomes, stats, unfused, tuple(history), options, status, time_s,
                         Totals(joined.energy_pj, round(joined.cycles)), apart)


def _layers_alone(names: Sequence[str], alone: Mapping[str, MappedLayer], repeats: Mapping[str, int]) -> Totals:
    """Energy and cycles of some layers one by one, all repeats together."""
    return Totals(sum(repeats[name] * alone[name].stats.energy_pj for name in names),
                  sum(repeats[name] * alone[name].stats.cycles for name in names))


def _group(part: CoverPart[EvaluatedGroup], alone: Mapping[str, MappedLayer], layers: Mapping[str, Operator],
           sigma: Mapping[tuple[str, str], float], known: dict[int, tuple[TileMapping, ...]]) -> GroupInNetwork:
    """A group of the plan; links without a descent count as decided, sigma 1.

    `known`: tiles of groups so far; equal segments share a group, and with it the evaluation of its tiles.
    """
    group = part.plan.group
    if id(group) not in known:
        known[id(group)] = _tiles(part.nodes, group, alone, layers)
    names = (name for name, layer in zip(part.nodes, group.layers, strict=True) for _ in layer.mappings)
    tiles = tuple(replace(tile, node=name) for tile, name in zip(known[id(group)], names, strict=True))
    repeats = {name: layers[name].repeat for name in part.nodes}
    return GroupInNetwork(part.nodes, group, part.plan.cost, _layers_alone(part.nodes, alone, repeats),
                          tuple(sigma.get(pair, 1.0) for pair in pairwise(part.nodes)),
                          tiles, Totals(part.plan.left_out.energy_pj, round(part.plan.left_out.cycles)))


def _tiles(nodes: Sequence[str], group: FusedGroup, alone: Mapping[str, MappedLayer],
           layers: Mapping[str, Operator]) -> tuple[TileMapping, ...]:
    """Every tile of a group as a layer of its own, so that `timeloop-model` can repeat its numbers."""
    mappings = [(name, tile_spec(whole, shape), mapping)
                for name, layer in zip(nodes, group.layers, strict=True)
                for whole in [over_all_runs(alone[name].spec, layers[name], layer.problem.dimensions)]
                for shape, mapping in layer.mappings.items()]
    specs = [spec for _, spec, _ in mappings]
    found = evaluate_nests(specs, layers_of(specs), [pack([mapping], spec.problem) for _, spec, mapping in mappings])
    return tuple(TileMapping(*tile, stats) for tile, stats in zip(mappings, found, strict=True))


def tile_spec(spec: Spec, shape: tuple[int, ...]) -> Spec:
    """Makes a tile of a layer a problem of its own, also in the literal form that is written for Timeloop.

    Args:
        spec: The layer on its design.
        shape: Extents of the tile, in the order of the layer's dimensions.
    """
    problem = spec.problem.resized(shape)
    written = spec.literal["problem"]
    literal = spec.literal | {"problem": written | {"instance": written["instance"] | problem.bounds}}
    return replace(spec, problem=problem, literal=literal, mapping=None)
