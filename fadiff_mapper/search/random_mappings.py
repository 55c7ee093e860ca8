"""Random mappings of a map space: every factorization, order, layout and bypass that the constraints allow.

Drawn as the descent draws them (Gumbel-Softmax over the divisors of a bound, FADiff eqs. 1-3), from random parameters
instead of descended ones. Validation and the throughput benchmark take their mappings from here.
"""

from __future__ import annotations

import numpy as np
import torch

from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.relaxation.gumbel_softmax import decode, draw, gumbel, places_of
from fadiff_mapper.relaxation.layer_batch import family_of, random_decisions

UNEVEN = 3
"""Exponent of the random shares of a dimension's octaves: the greater, the more often one loop takes them all. Nothing
was measured; validation wants both even and lopsided mappings."""


def random_nests(layer: PreparedLayer, space: MapSpace, batch: int, seed: int = 0) -> Nest:
    """Random mappings within the constraints, always the same for a seed.

    Args:
        layer: The problem on its architecture.
        space: Its map space.
        batch: How many mappings.
        seed: Seed of every random number.

    Returns:
        The nests; they may still exceed a capacity or a fan-out.
    """
    places, generator = places_of([space]), torch.Generator().manual_seed(seed)
    shape = (len(places.level), places.bound.shape[1], batch)
    weight = torch.rand(shape, generator=generator, dtype=torch.float64) ** UNEVEN
    theta = weight / weight.sum(dim=0) * torch.log2(places.bound).T
    choices = random_decisions(family_of(layer, [space]), batch, np.random.default_rng(seed))
    return decode(draw(places, theta, gumbel(places, batch, generator), 1.0), choices)
