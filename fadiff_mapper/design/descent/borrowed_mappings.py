"""The worth of a design before it is mapped: the mappings of other designs, evaluated exactly on it.

A mapping found for one design is legal on every design with room for it. So the best of all mappings found so far
gives an upper bound on a design's metric, exact for the layers as they would run, at a thousandth of a search's cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.exact.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays, pack
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, chosen, summed
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec


def pooled(specs: Sequence[Spec], designs: Sequence[Sequence[Mapping]]) -> list[Nest]:
    """The mappings of some designs, one batch for each layer, equal ones once.

    Args:
        specs: Every layer on any of the designs.
        designs: For each design the mapping of every layer.
    """
    nests = [pack([mappings[layer] for mappings in designs], spec.problem) for layer, spec in enumerate(specs)]
    return [nest.take(_first_of_equals(nest)) for nest in nests]


def extended(pool: Sequence[Nest], specs: Sequence[Spec], mappings: Sequence[Mapping]) -> list[Nest]:
    """The pool with the mappings of one more design."""
    grown = [joined([own, pack([mapping], spec.problem)])
             for own, spec, mapping in zip(pool, specs, mappings, strict=True)]
    return [nest.take(_first_of_equals(nest)) for nest in grown]


def _first_of_equals(nest: Nest) -> np.ndarray:
    """The columns of a batch without repetition, in order."""
    rows = np.concatenate([array.reshape(-1, nest.batch) for array in nest_arrays(nest)])
    _, first = np.unique(rows, axis=1, return_index=True)
    ordered: np.ndarray = np.sort(first)
    return ordered


def borrowed_point(specs: Sequence[Spec], pool: Sequence[Nest], times: Sequence[float],
                   metric: str) -> OperatingPoint | None:
    """Energy and cycles of all layers with the best mappings of the pool.

    Args:
        specs: Every layer on the design.
        pool: Mappings of each layer from other designs.
        times: How often each layer runs.
        metric: "edp", "energy" or "delay" of the sums.

    Returns:
        The sums over the layers; None where no mapping of some layer is legal on the design.
    """
    choices = []
    for spec, nest, often in zip(specs, pool, times, strict=True):
        scores = score(layer_of(spec), nest)
        legal = np.flatnonzero(scores.legal)
        if not len(legal):
            return None
        best = _undominated(scores.energy[legal], scores.cycles[legal])
        choices.append([OperatingPoint(often * energy, often * cycles) for energy, cycles in best])
    return summed([part[pick] for part, pick in zip(choices, chosen(choices, metric), strict=True)])


def _undominated(energy: np.ndarray, cycles: np.ndarray) -> list[tuple[float, float]]:
    """The points that no other one beats in both, the best product first."""
    order = np.lexsort((energy, cycles))
    least = np.minimum.accumulate(energy[order])
    kept = order[np.concatenate([[True], energy[order][1:] < least[:-1]])]
    points = [(float(energy[i]), float(cycles[i])) for i in kept]
    return sorted(points, key=lambda point: point[0] * point[1])
