"""Random search: vectors of equally distributed genes."""

from __future__ import annotations

import numpy as np

from .encoded_search import LayerObjective

BATCHES = (8, 16, 32, 64, 128, 256)
"""Mappings evaluated at a time, the last number again and again: small ones first, so that early values are seen.
Nothing was measured."""


def search(objective: LayerObjective, seed: int) -> None:
    """Searches until the budget is used up."""
    rng, rounds = np.random.default_rng(seed), 0
    while not objective.spent():
        objective(rng.random((BATCHES[min(rounds, len(BATCHES) - 1)], objective.encoding.size)))
        rounds += 1
