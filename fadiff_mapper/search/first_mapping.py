"""A first mapping of a map space, found at once and without torch: the smallest tiles that the constraints allow.

With all loops as far out as they may stand, tiles are as small as the constraints allow, so that capacities hold most
likely.
"""

from __future__ import annotations

import numpy as np

from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, columns
from fadiff_mapper.relaxation.layer_batch import LayerFamily, random_decisions

TRIED = 8
"""Draws of the other decisions; the first keeps every data space where it may, the second none but outermost. Nothing
was measured: a space where all of them are illegal merely has no mapping before the search."""


def first_of(family: LayerFamily, member: int) -> Nest | None:
    """A legal mapping that leaves all it can to the outermost loops.

    Place by place from the innermost outwards, each dimension takes the smallest divisor that the places further out
    can complete to the bound.

    Args:
        family: Layers with the candidates of their decisions.
        member: Number of the member.

    Returns:
        A nest of one row; None where none of those tried is legal, or where the constraints ask for parallelism,
        which such a nest lacks.
    """
    if family.spaces[member].constraints.min_parallelism:
        return None
    tables = family.factors
    places, dims = tables.allowed.shape[1:3]
    rest, number, every = tables.bound[member], np.zeros((places, dims), dtype=np.int64), np.arange(dims)
    for p in range(places):
        number[p] = tables.completable[member, p, every, rest].argmax(axis=-1)  # the first that can be completed
        rest = tables.quotient[member, every, rest, number[p]]
    if rest.any():  # a number above 0: no factors of some dimension multiply to its bound
        return None
    factors = tables.divisor[member, every, number][..., None].repeat(TRIED, axis=-1)
    choices = random_decisions(family, TRIED * len(family.spaces), np.random.default_rng(0))
    own = slice(TRIED * member, TRIED * (member + 1))
    nest = Nest(np.ascontiguousarray(factors[1::2]), np.ascontiguousarray(factors[0::2]), *(
        columns(part, own) for part in (choices.order, choices.keep, choices.on_y, choices.spatial_order)))
    legal = np.flatnonzero(score(family.layer, nest).legal)
    return nest.take(legal[:1]) if len(legal) else None
