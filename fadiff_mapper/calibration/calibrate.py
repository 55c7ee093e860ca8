"""A calibration from measured points: the fit, and its verdict on layers that were held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import spearmanr

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.calibration.correction import Calibration, FitVerdict, predict
from fadiff_mapper.calibration.features import NAMES, PROGRAMS, feature_table
from fadiff_mapper.calibration.measured_points import MeasuredLayer

PRIOR = {"tile": 120.0, "convolution": 120.0, "launch": 1000.0}
"""The prior of some coefficients, in cycles: a start takes about a hundred, a launch a thousand."""
PRIOR_ELSE, PRIOR_NORM = 0.6, 3.0
"""The prior of all other coefficients, near the one cycle per unit of an ideal machine, and of the norm p."""
PULL = 0.4
"""Weight of the squared distance to the prior, per coefficient in natural logarithms, beside one point's squared error.
A feature on which no point depends keeps its prior; smaller weights fit held-out layers no better."""
ERRORS_COUNT_FULLY = 0.1
"""Errors in natural logarithms above which they count linearly: a few measured points are off by hundreds."""
MOST_STEPS = 150
"""Steps of the least squares at most; fits to some thousand points take fewer."""


def fit(tiles: np.ndarray, table: np.ndarray, measured: np.ndarray) -> tuple[tuple[float, ...], float]:
    """Fits the correction to `measured` [B]: its coefficients, in the order of `features.NAMES`, and its norm p."""
    prior = np.log([*(PRIOR.get(name, PRIOR_ELSE) for name in NAMES), PRIOR_NORM - 1.0])
    target = np.log(measured)

    def residuals(theta: np.ndarray) -> Any:
        cycles = predict(tiles, table, np.exp(theta[:-1]), 1.0 + float(np.exp(theta[-1])))
        return np.concatenate([np.log(cycles) - target, PULL * (theta - prior)])

    with np.errstate(over="ignore"):
        found = least_squares(residuals, prior, bounds=(prior - 12.0, prior + 6.0), loss="soft_l1",
                              f_scale=ERRORS_COUNT_FULLY, max_nfev=MOST_STEPS).x
    return tuple(float(value) for value in np.exp(found[:-1])), 1.0 + float(np.exp(found[-1]))


FOLDS = 5
"""Folds of the layers: the fit uses four fifths of them, the verdict the last fifth."""
FEWEST_LAYERS = 5
"""With fewer layers no verdict on held-out layers is possible."""


@dataclass(frozen=True)
class Points:
    """The measured points of all layers side by side."""

    tiles: np.ndarray  # [B]. Tiles of the run.
    table: np.ndarray  # [F, B]. Features per tile.
    measured: np.ndarray  # [B]. Measured cycles.
    exact: np.ndarray  # [B]. Cycles of the exact model.
    layer: np.ndarray  # [B]. Number of the layer.
    searched: np.ndarray  # [B]. Whether a search proposed the point.
    # [B]. Whether the arrays of the architecture hold the point's spatial loops. Others ran on larger hardware.
    fits: np.ndarray

    @property
    def learned(self) -> np.ndarray:
        """Whether a fit may use a point, [B]: no search proposed it, and it fits, unless no such point fits."""
        own = ~self.searched & self.fits
        return own if own.any() else ~self.searched


def calibrate(layers: Sequence[MeasuredLayer], *, program: str | None = None, seed: int = 0) -> Calibration:
    """Fits a correction to the points that no search proposed and that ran on the architecture, and judges it.

    Args:
        layers: Measured points.
        program: One of `features.PROGRAMS`; None: the one with the smaller error on held-out layers.
        seed: Seed of the split into folds.

    Raises:
        FadiffError: An argument is out of range, there are too few layers, or a problem has another number of operands.
    """
    if program is not None and program not in PROGRAMS:
        raise FadiffError(f"program: found {program}; accepted: {listed(PROGRAMS)}")
    if seed < 0:
        raise FadiffError(f"seed: found {seed}; accepted: a whole number >= 0")
    word_bytes = layers[0].spec.arch.levels[-1].word_bits / 8
    folds = fold_of_layers(layers, seed)
    judged = {}
    for name in [program] if program else PROGRAMS:
        points = points_of(layers, name, word_bytes)
        own = ~points.searched
        judged[name] = points, verdict(predicted_unseen(points, folds)[own], points.exact[own], points.measured[own])
    name = min(judged, key=lambda name: judged[name][1].error)
    points, unseen = judged[name]
    learned, at = points.learned, points.searched
    coefficients, norm = fit(points.tiles[learned], points.table[:, learned], points.measured[learned])
    searched = verdict(predict(points.tiles[at], points.table[:, at], coefficients, norm), points.exact[at],
                       points.measured[at]) if at.any() else None
    return Calibration(name, layers[0].spec.arch.level_names(), word_bytes, coefficients, norm, unseen, searched)


def fold_of_layers(layers: Sequence[MeasuredLayer], seed: int) -> np.ndarray:
    """The fold of every layer, -1 for layers with only searched points. Raises FadiffError for too few layers."""
    learned = [number for number, layer in enumerate(layers) if not layer.searched.all()]
    if len(learned) < FEWEST_LAYERS:
        raise FadiffError(f"found {len(learned)} layers to learn from; accepted: at least {FEWEST_LAYERS}, so that "
                          "layers that were not learned from can be judged")
    folds = np.full(len(layers), -1)
    folds[np.random.default_rng(seed).permutation(learned)] = np.arange(len(learned)) % FOLDS
    return folds


def points_of(layers: Sequence[MeasuredLayer], program: str, word_bytes: float) -> Points:
    """The points of all layers, with their features under a program."""
    parts = []
    for number, layer in enumerate(layers):
        arch, spread = layer.spec.arch, layer.nest.spatial.prod(axis=1)
        widths = np.array([math.prod(arch.fanout(level)) for level in range(len(arch.levels))])
        parts.append((*feature_table(program, layer.spec.problem, layer.nest, word_bytes), layer.measured, layer.exact,
                      np.full(len(layer.measured), number), layer.searched, (spread <= widths[:, None]).all(axis=0)))
    return Points(*(np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)))


def predicted_unseen(points: Points, folds: np.ndarray) -> np.ndarray:
    """Cycles of every point, [B], predicted by a fit without the point's fold; 0 for searched points."""
    fold, predicted = folds[points.layer], np.zeros_like(points.measured)
    for number in range(FOLDS):
        known, unknown = points.learned & (fold != number), ~points.searched & (fold == number)
        coefficients, norm = fit(points.tiles[known], points.table[:, known], points.measured[known])
        predicted[unknown] = predict(points.tiles[unknown], points.table[:, unknown], coefficients, norm)
    return predicted


def verdict(predicted: np.ndarray, exact: np.ndarray, measured: np.ndarray) -> FitVerdict:
    """Compares corrected and exact cycles of the same points, [B] each, with the measured cycles."""
    figures = []
    for cycles in (predicted, exact):
        known = len(measured) > 1 and np.ptp(cycles) > 0 and np.ptp(measured) > 0
        figures += [float(spearmanr(cycles, measured).statistic) if known else 0.0,
                    float(np.mean(np.abs(cycles / measured - 1.0)))]
    return FitVerdict(len(measured), *figures)
