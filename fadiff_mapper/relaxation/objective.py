"""What a search minimises: one metric, or several in order of priority."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.exact.evaluate import Scores
from fadiff_mapper.model.loop_nest import Array, array_namespace
from fadiff_mapper.spec.mapper import METRICS

if TYPE_CHECKING:
    from fadiff_mapper.model.smooth.evaluate import SmoothEvaluation

PRIORITY = 1e-6
"""A later metric decides between mappings whose earlier one differs by less than about this fraction."""

TINY = 1e-30
"""Keeps the logarithm of a metric finite where it is 0 (a design whose energies are all 0)."""

ILLEGAL = 1e6
"""Above the value of every legal mapping; what breaks less lies lower."""


def check_metrics(metrics: object) -> tuple[str, ...]:
    """The metrics of a list or tuple, or FadiffError for an unknown one."""
    if not isinstance(metrics, list | tuple):
        raise FadiffError(f"metric: found {metrics!r}; accepted: {listed(METRICS)}, or a list of them")
    for name in metrics:
        if name not in METRICS:
            raise FadiffError(f'unknown metric "{name}"{nearest(str(name), METRICS)}; accepted: {listed(METRICS)}')
    if not metrics:
        raise FadiffError(f"no metric is given; accepted: {listed(METRICS)}")
    return tuple(metrics)


def exact_value(scores: Scores, metrics: tuple[str, ...], weights: np.ndarray | None = None) -> np.ndarray:
    """One number per mapping to minimise, [B]: logarithms of the metrics, weighted by priority.

    `weights` [2, B], where given, are those of the logarithms of energy and of cycles, in place of the metrics.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (_weighted(scores.cycles, scores.energy, scores.last_level_accesses, metrics) if weights is None
                 else weights[0] * np.log(scores.energy + TINY) + weights[1] * np.log(scores.cycles))
    result: np.ndarray = np.where(scores.legal, np.nan_to_num(value, nan=ILLEGAL), ILLEGAL + scores.excess)
    return result


def smooth_value(found: SmoothEvaluation, metrics: tuple[str, ...]) -> Array:
    """The same on the relaxed model, [B], differentiable."""
    return _weighted(found.cost.cycles, found.cost.energy, outermost_accesses(found.counts, found.use), metrics)


def _weighted(cycles: Array, energy: Array, outermost: Array, metrics: tuple[str, ...]) -> Array:
    xp = array_namespace(cycles)
    quantities = {"edp": cycles * energy, "energy": energy, "delay": cycles, "last_level_accesses": outermost}
    return sum(PRIORITY ** i * xp.log(quantities[name] + TINY) for i, name in enumerate(metrics))
