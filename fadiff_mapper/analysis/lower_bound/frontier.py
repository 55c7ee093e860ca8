"""The Pareto front of alternatives: every alternative that can be the cheapest at some prices.

The traffic of a map space is known long before its prices are: each metric, each bandwidth weighs it anew. So the
alternatives are pruned once, and every price looks at the front alone.
"""

from __future__ import annotations

import numpy as np

MOST_PASSES = 48
"""Alternatives that are compared with all others; the alternatives after them stay, dominated or not. A limit on time
that costs no exactness; nothing was measured."""


def undominated(points: np.ndarray) -> np.ndarray:
    """Leaves out the columns that another column undercuts or equals in every row.

    For every cost that does not fall in any row the cheapest of all columns is as cheap as the cheapest of the result.

    Args:
        points: N alternatives of C amounts each, [C, N].

    Returns:
        F of the columns, [C, F]; a few dominated ones may be left.
    """
    size = np.maximum(points.min(axis=1, keepdims=True), 1.0)
    rest, front = points, list[np.ndarray]()
    total = (points / size).sum(axis=0)  # the column of the least sum is dominated by none, and dominates many
    while rest.shape[1] and len(front) < MOST_PASSES:
        best = rest[:, [int(total.argmin())]]
        front.append(best)
        left = (rest < best).any(axis=0)
        rest, total = rest[:, left], total[left]
    return np.concatenate([*front, rest], axis=1)
