"""The objective of a search: one metric, or several in order of priority, as one number to minimise.

Metrics enter by their logarithm, so that differences are relative and energies of any unit are alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.exact.evaluate import Scores
from fadiff_mapper.model.loop_nest import Array, array_namespace
from fadiff_mapper.relaxation.metrics import ILLEGAL

if TYPE_CHECKING:
    from fadiff_mapper.model.smooth.evaluate import SmoothEvaluation

PRIORITY = 1e-6
"""Weight of each metric relative to the one before: a later metric decides between mappings whose earlier one differs
by less than about this fraction. Small enough to be a tie-break, large enough to survive in float64; not measured."""

SHARE_WEIGHT = 2.0
"""Weight of the logarithm of a share in a network: at equal shares in energy and cycles, values then change with both
together as the logarithm of EDP does, for which the temperatures of the refinement were chosen."""

TINY = 1e-30
"""Keeps the logarithm of a metric finite where it is 0 (a design whose energies are all 0)."""


def exact_value(scores: Scores, metrics: tuple[str, ...], weights: np.ndarray | None = None,
                sums: np.ndarray | None = None) -> np.ndarray:
    """One number per mapping to minimise: logarithms of the metrics, weighted by priority.

    Args:
        scores: Exact scores of a batch.
        metrics: Metrics in order of priority.
        weights: [2, B]. Weights of the logarithms of energy and of cycles, in place of the metrics.
        sums: [2, B]. Energy and cycles of a network, in place of the metrics: the share of the mapping in both counts.

    Returns:
        [B]. Values; from `ILLEGAL` upwards by excess for illegal mappings.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if sums is not None:
            value = SHARE_WEIGHT * np.log(scores.energy / sums[0] + scores.cycles / sums[1] + TINY)
        elif weights is not None:
            value = weights[0] * np.log(scores.energy + TINY) + weights[1] * np.log(scores.cycles)
        else:
            value = _weighted(scores.cycles, scores.energy, scores.last_level_accesses, metrics)
    values: np.ndarray = np.where(scores.legal, np.nan_to_num(value, nan=ILLEGAL), ILLEGAL + scores.excess)
    return values


def smooth_value(evaluation: SmoothEvaluation, metrics: tuple[str, ...]) -> Array:
    """The same on the differentiable model, [B], whatever is legal; penalties are added apart (`penalty.py`)."""
    return _weighted(evaluation.cost.cycles, evaluation.cost.energy,
                     outermost_accesses(evaluation.counts, evaluation.use), metrics)


def _weighted(cycles: Array, energy: Array, outermost: Array, metrics: tuple[str, ...]) -> Array:
    """Sum of log(metric) with weights 1, PRIORITY, PRIORITY^2, ... in order, [B]."""
    xp = array_namespace(cycles)
    quantities = {"edp": cycles * energy, "energy": energy, "delay": cycles, "last_level_accesses": outermost}
    return sum(PRIORITY ** i * xp.log(quantities[name] + TINY) for i, name in enumerate(metrics))
