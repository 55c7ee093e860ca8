"""Layers with padded bounds: how fast tiles could run where the whole layer cannot.

Problem. Factors must divide the bounds of a layer, so that 7 x 7 points or 197 tokens fill few units side by side.
Tiles of a fused group are problems of their own: one of 4 points and one of the 3 that are left fill an array that the
whole layer does not, which estimates from the whole layer's mapping alone do not see.

Method. The layer is mapped for speed with its bounds rounded up to numbers with many divisors. The cycles of a group
are evaluated exactly later, as for every candidate. EDP saved without and with these mappings (23 November 2026, seed
0): MobileNetV2 on `simba_like` 55.7 and 59.7 %, `gemmini_small` 33.0 and 33.6, `gemmini_large` 69.9 and 69.7,
`eyeriss_like` 56.0 and 55.1; MobileNetV1 on `simba_like` 24.1 and 28.6; ViT-B on `gemmini_large` 6.5 and 17.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.exact.evaluate_spec import layers_of
from fadiff_mapper.network.layers.unfused import searched
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.map_layers import checked_task
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.spec.spec import Spec

ODD_PARTS = (1, 3)
"""Padded bounds are powers of two times one of these. Set by hand, not measured."""

DELAY = (0.0, 1.0)
"""Exponents of energy and cycles of the padded mappings."""


def padded_layers(results: Sequence[MappedLayer], options: SearchOptions,
                  stopped: Callable[[], bool]) -> list[list[MappedLayer]]:
    """Maps layers with padded bounds for speed.

    Args:
        results: The best mapping of each layer by itself.
        options: Effort of the searches.
        stopped: As for `variants`.

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
    found: list[list[MappedLayer]] = [[] for _ in results]
    outcomes = searched([results[index] for index in places], tasks, options, stopped)
    for index, mapped in zip(places, outcomes, strict=True):
        if mapped is not None:
            found[index].append(mapped)
    return found


def _padded_specs(spec: Spec) -> Iterator[Spec]:
    """A layer with all bounds padded, then, where these are several, with one of them padded."""
    bounds = spec.problem.bounds
    wider = {dim: padded(bound) for dim, bound in bounds.items() if padded(bound) != bound}
    alone = [{dim: bound} for dim, bound in wider.items()] if len(wider) > 1 else []
    for chosen in [wider, *alone] if wider else []:
        yield replace(spec, problem=replace(spec.problem, bounds={**bounds, **chosen}))


def padded(bound: int) -> int:
    """The least number from a bound on that is a power of two, or three times one.

    Args:
        bound: A bound, at least 1.
    """
    return min(odd << max(-(-bound // odd) - 1, 0).bit_length() for odd in ODD_PARTS)
