"""A first mapping of a map space, found at once: the smallest tiles that the constraints allow.

With all loops as far out as they may stand, tiles are as small as the constraints allow, so that capacities hold most
likely.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, columns
from fadiff_mapper.search.layer_family import Draws, LayerFamily, OpenChoices, decided, draws
from fadiff_mapper.search.mapspace import NONE

TRIED = 8
"""Draws of the other decisions; the first keeps every data space where it may, the second none but outermost. Nothing
was measured: a space where all of them are illegal merely has no mapping before the search."""

REMEMBERED = 256
"""Sets of draws that are kept, about 1 kB each. The 8,300 searches of tiles of a network of 200 layers draw from 22
(23 November 2026)."""


def first_of(family: LayerFamily, member: int) -> Nest | None:
    """A legal mapping that leaves all it can to the outermost loops (`FactorTables.outermost`).

    Args:
        family: Layers with the candidates of their decisions.
        member: Number of the member.

    Returns:
        A nest of one row; None where none of those tried is legal, or where the constraints ask for parallelism,
        which such a nest lacks.
    """
    tables = family.factors
    number = tables.outermost[member]
    if family.spaces[member].constraints.min_parallelism or (number == NONE).any():
        return None
    factors = tables.divisor[member, np.arange(number.shape[1]), number][..., None].repeat(TRIED, axis=-1)
    choices = decided(family, _draws(family.open_choices, TRIED * len(family.spaces)))
    own = slice(TRIED * member, TRIED * (member + 1))
    nest = Nest(np.ascontiguousarray(factors[1::2]), np.ascontiguousarray(factors[0::2]), *(
        columns(part, own) for part in (choices.order, choices.keep, choices.on_y, choices.spatial_order)))
    legal = np.flatnonzero(score(family.layer, nest).legal)
    return nest.take(legal[:1]) if len(legal) else None


@lru_cache(maxsize=REMEMBERED)
def _draws(choices: OpenChoices, batch: int) -> Draws:
    """The draws of all families with equally many candidates, which are the same ones."""
    return draws(choices, batch, np.random.default_rng(0))
