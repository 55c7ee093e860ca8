"""A first mapping of a map space, found at once and without torch: the smallest tiles that the constraints allow.

With all loops as far out as they may stand, tiles are as small as the constraints allow, so that capacities hold most
likely.
"""

from __future__ import annotations

import numpy as np

from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.relaxation.layer_batch import family_of, random_decisions

TRIED = 8
"""Draws of the other decisions; the first keeps every data space where it may, the second none but outermost. Nothing
was measured: a space where all of them are illegal merely has no mapping before the search."""


def first_nest(layer: PreparedLayer, space: MapSpace) -> Nest | None:
    """A legal mapping that leaves all it can to the outermost loops.

    Place by place from the innermost outwards, each dimension takes the smallest divisor that the places further out
    can complete to the bound.

    Args:
        layer: The problem on its architecture.
        space: Its map space, without contradictions.

    Returns:
        A nest of one row; None where none of those tried is legal, or where the constraints ask for parallelism,
        which such a nest lacks.
    """
    if space.constraints.min_parallelism:
        return None
    family = family_of(layer, [space])
    tables = family.factors
    places, dims = tables.allowed.shape[1:3]
    rest, number = tables.bound[0].copy(), np.zeros((places, dims), dtype=np.int64)
    for p in range(places):
        for d in range(dims):
            number[p, d] = tables.completable[0, p, d, rest[d]].argmax()  # the first that can be completed
            rest[d] = tables.quotient[0, d, rest[d], number[p, d]]
    factors = tables.divisor[0, np.arange(dims), number][..., None].repeat(TRIED, axis=-1)
    choices = random_decisions(family, TRIED, np.random.default_rng(0))
    nest = Nest(np.ascontiguousarray(factors[1::2]), np.ascontiguousarray(factors[0::2]), choices.order, choices.keep,
                choices.on_y, choices.spatial_order)
    legal = np.flatnonzero(score(layer, nest).legal)
    return nest.take(legal[:1]) if len(legal) else None
