"""The result of a run: from the groups of a plan to all its numbers, and the reasons why layers run by themselves."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

from fadiff_mapper.fusion import FusedGroup, Hardware
from fadiff_mapper.fusion.candidates import candidates
from fadiff_mapper.fusion.estimates import group_bases
from fadiff_mapper.fusion.prices import other_reads
from fadiff_mapper.fusion.segments import over_all_runs
from fadiff_mapper.model.evaluate_spec import evaluate_nests, layers_of
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.network.one_design import with_bounds
from fadiff_mapper.network.partition import CoverPart
from fadiff_mapper.network.planning_run import EvaluatedGroup, PlanningRun, SegmentState, by_node, repeats_of
from fadiff_mapper.network.result import GroupInNetwork, LayerAlone, LayerInNetwork, NetworkResult, TileMapping
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Operator, Totals, Workload


def network_result(workload: Workload, hardware: Hardware, results: Sequence[Result],
                   sigma: Mapping[tuple[str, str], float], groups: Sequence[CoverPart[EvaluatedGroup]],
                   history: Sequence[dict[str, Any]], options: dict[str, Any], status: str,
                   time_s: float, apart: tuple[LayerAlone, ...] = ()) -> NetworkResult:
    """Puts the result of a run together: the mapping of every distinct layer by itself, the fusion variable sigma of
    each link where a descent gave one, the groups of the plan and the layers in none; the rest is for the record."""
    entries = workload.distinct()
    alone, repeats = by_node(workload, results), repeats_of(workload)
    joined = other_reads(workload, results[0].spec)
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
    return NetworkResult(workload, hardware, layers, outcomes, stats, unfused, tuple(history), options, status, time_s,
                         Totals(joined.energy_pj, round(joined.cycles)), apart)


def _layers_alone(names: Sequence[str], alone: Mapping[str, Result], repeats: Mapping[str, int]) -> Totals:
    """Energy and cycles of some layers one by one, all repeats together."""
    return Totals(sum(repeats[name] * alone[name].stats.energy_pj for name in names),
                  sum(repeats[name] * alone[name].stats.cycles for name in names))


def _group(part: CoverPart[EvaluatedGroup], alone: Mapping[str, Result], layers: Mapping[str, Operator],
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


def _tiles(nodes: Sequence[str], group: FusedGroup, alone: Mapping[str, Result],
           layers: Mapping[str, Operator]) -> tuple[TileMapping, ...]:
    """Every tile of a group as a layer of its own, so that `timeloop-model` can repeat its numbers."""
    mappings = [(name, replace(with_bounds(whole, whole.problem.resized(shape).bounds), mapping=None), mapping)
                for name, layer in zip(nodes, group.layers, strict=True)
                for whole in [over_all_runs(alone[name].spec, layers[name], layer.problem.dimensions)]
                for shape, mapping in layer.mappings.items()]
    specs = [spec for _, spec, _ in mappings]
    found = evaluate_nests(specs, layers_of(specs), [pack([mapping], spec.problem) for _, spec, mapping in mappings])
    return tuple(TileMapping(*tile, stats) for tile, stats in zip(mappings, found, strict=True))


def layers_alone(run: PlanningRun, plan: Sequence[CoverPart[EvaluatedGroup]]) -> tuple[LayerAlone, ...]:
    """Why every layer outside of the groups of a plan is in none, in the order of the network.

    Where planning evaluated no group with a layer, its pairs with a neighbour are estimated once more, however dear:
    none fits on the chip, or none saves anything.
    """
    price = run.price
    fused = {name for part in plan for name in part.nodes}
    around: dict[str, list[tuple[tuple[str, ...], SegmentState]]] = {
        node.name: [] for node in run.workload.layers if node.name not in fused}
    for segment, state in run.every:
        for name in around.keys() & set(segment.nodes):
            around[name].append((segment.nodes, state))
    estimated: dict[Hashable, float] = {}

    def change(nodes: Sequence[str], together: float) -> float:
        """The price of some layers as a group, as a part of their price one by one, less 1."""
        return together / sum(price(run.alone[name]) for name in nodes) - 1

    def estimate(nodes: tuple[str, ...], state: SegmentState) -> tuple[float, tuple[str, ...]]:
        """The change by the best pair of tiles in any size, infinite where none fits."""
        segment = state.segment
        if segment.key not in estimated:
            found = candidates(run.hardware, segment, group_bases(segment, run.bases), price, inf)
            estimated[segment.key] = min((price(candidate.estimate) for candidate in found), default=inf)
        return change(nodes, estimated[segment.key]), nodes

    def reason(name: str) -> tuple[str, str]:
        known = [(change(nodes, price(group.point)), nodes) for nodes, state in around[name] for group in state.exact]
        if known:
            least, nodes = min(known)
            group = " + ".join(nodes)
            if least < 0:
                return "other groups save more", f"{group} would save {-least:.1%} of the cost of these layers"
            return "no gain", f"{group}, the best group with it, costs {least:.1%} more than its layers one by one"
        if any(state.tried for _, state in around[name]):
            return "no legal mapping", "tiles of the groups with it have no legal mapping"
        if not around[name]:
            links = [link for link in run.workload.links() if name in (link.producer, link.consumer)]
            obstacles = dict.fromkeys(link.obstacle.sentence for link in links if link.obstacle)
            if not links:
                return "no neighbour", "no other layer makes what it reads or reads what it makes"
            if len(obstacles) and all(link.obstacle for link in links):
                return "operators between", "; ".join(obstacles)
            if run.cut:
                return "no time", "planning ended before all groups with it were listed"
            return "not in one go", "its neighbours pass their tiles to other layers, or wait for layers in between"
        pairs = [(nodes, state) for nodes, state in around[name] if len(nodes) == 2]
        if run.over() or not pairs:
            return "no time", "planning ended before groups with it were evaluated"
        least, nodes = min(estimate(*pair) for pair in pairs)
        if least == inf:
            return "no room", "tiles of it and of a neighbour do not fit on the chip together"
        return "no gain", f"{' + '.join(nodes)}, the best pair with it, is estimated to cost {max(least, 0.0):.1%} more"

    return tuple(LayerAlone(name, *reason(name)) for name in around)
