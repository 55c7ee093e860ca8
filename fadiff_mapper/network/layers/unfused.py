"""Every layer by itself: mappings that trade energy against cycles, and the choice that is best for the network.

Problem. The search of a layer returns its best EDP; the network's EDP, a product of sums, may want less energy here and
fewer cycles there (see `edp_prices`).

Method. From each best mapping, short refinements with other exponents of energy and cycles give variants; variants
that no other one beats in both are kept, and one of each layer is chosen at the network's prices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fadiff_mapper.model.exact.evaluate_spec import layers_of
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.model.loop_nest import Nest, pack, unpack
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, chosen
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.sparse.evaluate_sparse_spec import evaluate_mapping, evaluate_nests

TRADES = ((1.5, 0.5), (0.5, 1.5))
"""Exponents of energy and of cycles that the variants of a mapping minimise, besides EDP. Set by hand, not measured."""


def variants(results: Sequence[MappedLayer], options: SearchOptions,
             stopped: Callable[[], bool]) -> list[list[MappedLayer]]:
    """Searches mappings that favour energy or cycles, from the best mapping of each layer.

    Args:
        results: The best mapping of each layer by itself.
        options: Effort of the searches.
        stopped: Asked again and again; once true, the searches end with what they have.

    Returns:
        For each layer its best mapping first, then those that no earlier one beats in both energy and cycles.
    """
    specs = [result.spec for result in results]
    first = [mapping_task(spec, given=pack([result.mapping], spec.problem), layer=layer)
             for result, spec, layer in zip(results, specs, layers_of(specs), strict=True)]
    tasks = [replace(task, weights=trade) for task in first for trade in TRADES]
    others = iter(searched([result for result in results for _ in TRADES], tasks, options, stopped))
    return [_undominated([result, *(other for _ in TRADES if (other := next(others)) is not None)])
            for result in results]


def searched(results: Sequence[MappedLayer], tasks: Sequence[MappingTask], options: SearchOptions,
             stopped: Callable[[], bool]) -> list[MappedLayer | None]:
    """Replaces the mapping of each result by that which another search finds.

    Args:
        results: Mapped layers.
        tasks: For each of them the search problem, whose problem the new mapping is of.
        options: Effort of the searches.
        stopped: As for `variants`.

    Returns:
        The results with their new mappings; None where no legal mapping was found.
    """
    outcomes = search_all(tasks, options, stopped=stopped) if tasks else []
    legal = [index for index, outcome in enumerate(outcomes) if outcome.legal]
    specs = {index: replace(results[index].spec, problem=tasks[index].layer.problem) for index in legal}
    stats = evaluate_nests(list(specs.values()), [tasks[index].layer for index in legal],
                           [outcomes[index].nest for index in legal])
    found = {index: with_nest(replace(results[index], spec=specs[index]), outcomes[index].nest, own)
             for index, own in zip(legal, stats, strict=True)}
    return [found.get(index) for index in range(len(results))]


def with_nest(result: MappedLayer, nest: Nest, stats: Stats | None = None) -> MappedLayer:
    """Replaces the mapping of a result.

    Args:
        result: A mapped layer.
        nest: A nest of its problem, of one row.
        stats: Its statistics; None: it is evaluated here.
    """
    spec = result.spec
    mapping = with_reuse(unpack(nest, 0, spec.problem), spec.constraints)
    return replace(result, mapping=mapping, stats=stats or evaluate_mapping(spec, mapping))


def _undominated(results: Sequence[MappedLayer]) -> list[MappedLayer]:
    """The first result, and of the others those that none before them beats or equals in both energy and cycles."""
    kept = [results[0]]
    for result in results[1:]:
        if not any(other.stats.energy_pj <= result.stats.energy_pj and other.stats.cycles <= result.stats.cycles
                   for other in kept):
            kept.append(result)
    return kept


def best_together(mappings: Sequence[Sequence[MappedLayer]], times: Sequence[int], metric: str) -> list[MappedLayer]:
    """Chooses one mapping for each layer, so that the whole network is best.

    Args:
        mappings: For each distinct layer the mappings to choose from, the best by itself first.
        times: How often each layer runs.
        metric: "edp", "energy" or "delay" of the network.
    """
    points = [[OperatingPoint(count * mapped.stats.energy_pj, count * mapped.stats.cycles) for mapped in own]
              for own, count in zip(mappings, times, strict=True)]
    return [own[pick] for own, pick in zip(mappings, chosen(points, metric), strict=True)]
