"""Every layer by itself: mappings that trade energy against cycles, and the choice that is best for the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fadiff_mapper.mapspace import build_mapspace
from fadiff_mapper.model.exact.evaluate_spec import evaluate_mapping, layer_of
from fadiff_mapper.model.loop_nest import Nest, pack, unpack
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, chosen
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.spec.spec import Spec

TRADES = ((1.5, 0.5), (0.5, 1.5))
"""Exponents of energy and of cycles that the variants of a mapping minimise, besides EDP."""

VARIANTS = SearchOptions(gradient=False, rounds_least=1, chains=32, rounds=40, neighbours_tried=3, rounds_further=0)
"""A variant is near the best mapping: a short refinement finds it."""


def task_of(spec: Spec) -> MappingTask:
    """What a search needs of a spec."""
    return MappingTask(layer_of(spec), build_mapspace(spec.arch, spec.problem, spec.constraints))


def variants(results: Sequence[MappedLayer], options: SearchOptions,
             stopped: Callable[[], bool]) -> list[list[MappedLayer]]:
    """For each result itself and, where they differ in energy or cycles, mappings that favour one of the two."""
    first = [replace(task_of(one.spec), given=pack([one.mapping], one.spec.problem)) for one in results]
    tasks = [replace(task, weights=trade) for task in first for trade in TRADES]
    found = iter(search_all(tasks, options, stopped=stopped))
    return [_distinct([one, *(with_nest(one, next(found).nest) for _ in TRADES)]) for one in results]


def with_nest(result: MappedLayer, nest: Nest, column: int = 0) -> MappedLayer:
    """The result with the mapping in one column of a nest of its problem, and that one's numbers."""
    spec = result.spec
    mapping = with_reuse(unpack(nest, column, spec.problem), spec.constraints)
    return replace(result, mapping=mapping, stats=evaluate_mapping(spec, mapping))


def _distinct(results: Sequence[MappedLayer]) -> list[MappedLayer]:
    """Those that no other one undercuts in both energy and cycles, the first in front."""
    kept = [results[0]]
    for one in results[1:]:
        if not any(other.stats.energy_pj <= one.stats.energy_pj and other.stats.cycles <= one.stats.cycles
                   for other in kept):
            kept.append(one)
    return kept


def best_together(ways: Sequence[Sequence[MappedLayer]], times: Sequence[int], metric: str) -> list[MappedLayer]:
    """From each layer's mappings the one with which the whole network is best; `times`: how often each layer runs."""
    points = [[OperatingPoint(count * one.stats.energy_pj, count * one.stats.cycles) for one in part]
              for part, count in zip(ways, times, strict=True)]
    return [part[pick] for part, pick in zip(ways, chosen(points, metric), strict=True)]
