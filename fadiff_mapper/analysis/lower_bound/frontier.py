"""Of many alternatives those that can be the cheapest, whatever the prices."""

from __future__ import annotations

import numpy as np

MOST_PASSES = 48
"""Alternatives that are compared with all others; what is left after them stays, dominated or not."""


def undominated(points: np.ndarray) -> np.ndarray:
    """The columns of [K, N] but for those that another one undercuts or equals in every row; [K, F].

    For every cost that does not fall in any row the cheapest of all columns is as cheap as the cheapest of these.
    """
    size = np.maximum(points.min(axis=1, keepdims=True), 1.0)
    rest, found = points, list[np.ndarray]()
    total = (points / size).sum(axis=0)
    while rest.shape[1] and len(found) < MOST_PASSES:
        best = rest[:, [int(total.argmin())]]
        found.append(best)
        left = (rest < best).any(axis=0)
        rest, total = rest[:, left], total[left]
    return np.concatenate([*found, rest], axis=1)
