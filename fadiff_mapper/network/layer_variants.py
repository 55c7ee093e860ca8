"""Further mappings of every layer by itself: such that trade energy against cycles, and such with padded bounds.

Problem. The search of a layer returns its best EDP; the network's EDP, a product of sums, may want less energy here and
fewer cycles there (`fusion.prices`). And factors must divide the bounds of a layer, so that 7 x 7 points or 197 tokens
fill few units side by side, where tiles of a fused group, problems of their own, would fill the array: one of 4 points
and one of the 3 that are left.

Method. From each best mapping, short refinements with other exponents of energy and cycles give variants; those that no
other one beats in both are kept, and one of each layer is chosen at the network's prices. Layers with bounds rounded up
to numbers with many divisors are mapped for speed; these mappings serve the estimates of groups alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.prices import OperatingPoint, chosen
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_nests, layers_of
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.search.map_layers import checked_task
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.result import Result, with_nest
from fadiff_mapper.search.search_many import search_all

TRADES = ((1.5, 0.5), (0.5, 1.5))
"""Exponents of energy and of cycles that the variants of a mapping minimise, besides EDP. Set by hand."""

DELAY = (0.0, 1.0)
"""Exponents of energy and cycles of mappings with padded bounds."""


def variants(results: Sequence[Result], options: SearchOptions,
             stopped: Callable[[], bool]) -> list[list[Result]]:
    """Searches mappings that favour energy or cycles, from the best mapping of each layer by itself.

    Args:
        results: These mappings.
        options: Effort of the searches.
        stopped: Asked again and again; once true, the searches end with what they have.

    Returns:
        For each layer its best mapping first, then those that no earlier one beats or equals in both.
    """
    specs = [result.spec for result in results]
    first = [mapping_task(spec, given=pack([result.mapping], spec.problem), layer=layer)
             for result, spec, layer in zip(results, specs, layers_of(specs), strict=True)]
    tasks = [replace(task, weights=trade) for task in first for trade in TRADES]
    others = iter(_searched([result for result in results for _ in TRADES], tasks, options, stopped))
    found = []
    for result in results:
        kept = [result]
        for other in [next(others) for _ in TRADES]:
            if other is not None and not any(
                    better.stats.energy_pj <= other.stats.energy_pj and better.stats.cycles <= other.stats.cycles
                    for better in kept):
                kept.append(other)
        found.append(kept)
    return found


def padded_layers(results: Sequence[Result], options: SearchOptions,
                  stopped: Callable[[], bool]) -> list[list[Result]]:
    """Maps layers with padded bounds for speed; arguments as for `variants`.

    Returns:
        For each layer mappings of its padded problems: of that with all bounds padded, and of those with one of them
        padded, as a group may cut one dimension alone. Fewer, or none, where bounds need no padding, or where the
        constraints leave a padded problem without a legal mapping.
    """
    specs = [(index, spec) for index, result in enumerate(results) for spec in _padded_specs(result.spec)]
    places: list[int] = []
    tasks: list[MappingTask] = []
    for (index, spec), layer in zip(specs, layers_of([spec for _, spec in specs]), strict=True):
        with suppress(FadiffError):  # constraints that the padded bounds cannot meet
            tasks.append(replace(checked_task(spec, layer), weights=DELAY))
            places.append(index)
    found: list[list[Result]] = [[] for _ in results]
    outcomes = _searched([results[index] for index in places], tasks, options, stopped)
    for index, mapped in zip(places, outcomes, strict=True):
        if mapped is not None:
            found[index].append(mapped)
    return found


def _padded_specs(spec: Spec) -> Iterator[Spec]:
    """A layer with all bounds padded, then, where these are several, with one of them padded."""
    bounds = spec.problem.bounds
    wider = {dim: padded(bound) for dim, bound in bounds.items() if padded(bound) != bound}
    single = [{dim: bound} for dim, bound in wider.items()] if len(wider) > 1 else []
    for chosen_bounds in [wider, *single] if wider else []:
        yield replace(spec, problem=replace(spec.problem, bounds={**bounds, **chosen_bounds}))


def padded(bound: int) -> int:
    """The least number from a bound on that is a power of two, or three times one."""
    return min(odd << max(-(-bound // odd) - 1, 0).bit_length() for odd in (1, 3))


def _searched(results: Sequence[Result], tasks: Sequence[MappingTask], options: SearchOptions,
              stopped: Callable[[], bool]) -> list[Result | None]:
    """The results with mappings that other searches find, of the problems of these; None where none is legal."""
    outcomes = search_all(tasks, options, stopped=stopped) if tasks else []
    legal = [index for index, outcome in enumerate(outcomes) if outcome.legal]
    specs = {index: replace(results[index].spec, problem=tasks[index].layer.problem) for index in legal}
    stats = evaluate_nests(list(specs.values()), [tasks[index].layer for index in legal],
                           [outcomes[index].nest for index in legal])
    found = {index: with_nest(replace(results[index], spec=specs[index]), outcomes[index].nest, own)
             for index, own in zip(legal, stats, strict=True)}
    return [found.get(index) for index in range(len(results))]


def best_together(mappings: Sequence[Sequence[Result]], times: Sequence[int], metric: str) -> list[Result]:
    """Chooses one mapping for each layer, so that the whole network is best.

    Args:
        mappings: For each distinct layer the mappings to choose from, the best by itself first.
        times: How often each layer runs.
        metric: "edp", "energy" or "delay" of the network.
    """
    points = [[OperatingPoint(mapped.stats.energy_pj, mapped.stats.cycles).times(count) for mapped in own]
              for own, count in zip(mappings, times, strict=True)]
    return [own[pick] for own, pick in zip(mappings, chosen(points, metric), strict=True)]
