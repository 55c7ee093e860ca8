"""How far designs lie above their lower bounds, learned from those that were mapped.

The gap depends on the design smoothly: bounds allow each layer tiles that no single order of loops pays for, the more
the smaller the memories are. So it has a trend, which reaches beyond the designs mapped, and a part that holds near
them: a Gaussian process with a linear and a squared exponential kernel around the mean gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

TREND, NEAR, NOISE = 0.15, 0.1, 0.01
"""Standard deviations in natural logarithms: of the trend per octave, of the part that holds near a design, and of what
a search may miss. On DOSA's space with U-Net the gap falls by 0.1 to 0.17 per octave of a memory."""

REACH = 1.0
"""Octaves over which the part near a design fades. Set by hand."""


def expected_gaps(places: Sequence[np.ndarray], gaps: Sequence[float]) -> Callable[[np.ndarray], float]:
    """The gap that is expected at any place.

    Args:
        places: Coordinates of n mapped designs in octaves, [P] each.
        gaps: Logarithm of their metric less that of their bound.

    Returns:
        A function of coordinates, [P]; never below 0, and 0 everywhere where nothing is known.
    """
    if not places:
        return lambda _: 0.0
    known, values = np.stack(places), np.array(gaps)
    centre, mean = known.mean(axis=0), float(values.mean())

    def kernel(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        squares = ((left[:, None] - right[None]) ** 2).sum(axis=2)
        linear = (left - centre) @ (right - centre).T
        together: np.ndarray = TREND ** 2 * linear + NEAR ** 2 * np.exp(-squares / (2 * REACH ** 2))
        return together
    weights = np.linalg.solve(kernel(known, known) + NOISE ** 2 * np.eye(len(values)), values - mean)
    return lambda place: max(0.0, mean + float((kernel(place[None], known) @ weights)[0]))
