"""The Pareto front of alternatives: every alternative that can be the cheapest at some prices.

The traffic of a map space is known long before its prices are: each metric, each bandwidth weighs it anew. So the
alternatives are pruned once, and every price looks at the front alone.
"""

from __future__ import annotations

import numpy as np

MOST_PASSES = 48
"""Alternatives that are compared with all others; the alternatives after them stay, dominated or not. A limit on time
that costs no exactness; nothing was measured."""

MOST_ALTERNATIVES = 4_096
"""Alternatives of one level above which those that are much alike are merged. The bounds of the bundled layers on the
bundled designs come out the same without."""

CELL = 0.125
"""Octaves within which amounts are alike, doubled until alternatives are few enough."""


def merged(points: np.ndarray) -> np.ndarray:
    """Puts alternatives that are much alike into one, with the least amount of each row, where there are too many.

    For every cost that does not fall in any row the cheapest of the result costs at most what the cheapest of all does.

    Args:
        points: N alternatives of C amounts each, [C, N].

    Returns:
        At most `MOST_ALTERNATIVES` columns, [C, F]; the given ones if they are no more.
    """
    octaves = CELL
    while points.shape[1] > MOST_ALTERNATIVES:
        cells = np.floor(np.log2(np.maximum(points, 1.0)) / octaves).astype(np.int64)
        key = np.zeros(points.shape[1], dtype=np.int64)
        for row in cells - cells.min(axis=1, keepdims=True):  # keys that overflow merge more, which loosens, no more
            key = key * (row.max() + 1) + row
        order = key.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=key[order[0]] - 1))
        points = np.minimum.reduceat(points[:, order], starts, axis=1)
        octaves *= 2
    return points


def undominated(points: np.ndarray) -> np.ndarray:
    """Leaves out the columns that another column undercuts or equals in every row.

    For every cost that does not fall in any row the cheapest of all columns is as cheap as the cheapest of the result.

    Args:
        points: N alternatives of C amounts each, [C, N].

    Returns:
        F of the columns, [C, F]; a few dominated ones may be left.
    """
    least = points.min(axis=1, keepdims=True)
    everywhere = np.flatnonzero(points[0] == least[0])
    for row, low in zip(points[1:], least[1:], strict=True):
        everywhere = everywhere[row[everywhere] == low]
    if len(everywhere):  # one column undercuts or equals all others, as of most levels' alternatives
        return points[:, everywhere[:1]]
    size = np.maximum(least, 1.0)
    rest, front = points, list[np.ndarray]()
    total = (points / size).sum(axis=0)  # the column of the least sum is dominated by none, and dominates many
    while rest.shape[1] and len(front) < MOST_PASSES:
        best = rest[:, [int(total.argmin())]]
        front.append(best)
        left = np.flatnonzero((rest < best).any(axis=0))
        rest, total = rest.take(left, axis=1), total.take(left)
    return np.concatenate([*front, rest], axis=1)
