"""What a search minimises: one metric, or several in order of priority."""

from __future__ import annotations

import numpy as np
import torch

from fadiff_mapper.errors import FadiffError, listed, nearest
from fadiff_mapper.evaluate import Scores
from fadiff_mapper.smooth import SmoothEvaluation
from fadiff_mapper.spec.mapper import METRICS

PRIORITY = 1e-6
"""A later metric decides between mappings whose earlier one differs by less than about this fraction."""

ILLEGAL = 1e6
"""Above the value of every legal mapping; what breaks less lies lower."""


def check_metrics(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """The metrics, or FadiffError for an unknown one."""
    for name in metrics:
        if name not in METRICS:
            raise FadiffError(f'unknown metric "{name}"{nearest(name, METRICS)}; accepted: {listed(METRICS)}')
    if not metrics:
        raise FadiffError(f"no metric is given; accepted: {listed(METRICS)}")
    return metrics


def exact_value(scores: Scores, metrics: tuple[str, ...]) -> np.ndarray:
    """One number per mapping to minimise, [B]: logarithms of the metrics, weighted by priority."""
    quantities = {"edp": scores.cycles * scores.energy, "energy": scores.energy, "delay": scores.cycles,
                  "last_level_accesses": scores.last_level_accesses}
    with np.errstate(divide="ignore", invalid="ignore"):
        value = sum(PRIORITY ** i * np.log(quantities[name]) for i, name in enumerate(metrics))
    result: np.ndarray = np.where(scores.legal, np.nan_to_num(value, nan=ILLEGAL), ILLEGAL + scores.excess)
    return result


def smooth_value(found: SmoothEvaluation, metrics: tuple[str, ...]) -> torch.Tensor:
    """The same on the relaxed model, [B], differentiable."""
    counts = found.counts
    outermost = (counts.reads[-1] + counts.fills[-1] + counts.updates[-1]).sum(dim=0) * found.use.instances[-1]
    quantities = {"edp": found.cost.cycles * found.cost.energy, "energy": found.cost.energy,
                  "delay": found.cost.cycles, "last_level_accesses": outermost}
    return torch.stack([PRIORITY ** i * torch.log(quantities[name]) for i, name in enumerate(metrics)]).sum(dim=0)
