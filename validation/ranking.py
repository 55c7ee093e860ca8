"""Whether a model ranks mappings as Timeloop does: Kendall's tau-b and Spearman's rho."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

DIGITS = 9
"""Values that agree to so many digits are ties: beyond that only the order of additions differs."""

RESAMPLES = 100
CONFIDENCE = 0.95

PAIRWISE = 512
"""Up to so many mappings, all pairs of all resamples are compared at once; beyond, sorting each resample is cheaper."""


@dataclass(frozen=True)
class Ranking:
    """Of B mappings: tau-b and rho with bootstrap confidence intervals, and the pairs that are tied in Timeloop."""

    mappings: int
    tau: float
    tau_interval: tuple[float, float]
    rho: float
    rho_interval: tuple[float, float]
    ties: int


def ranking(measured: np.ndarray, predicted: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> Ranking:
    """Compare two rankings of the same mappings, [B]. All values must be greater than 0.

    Intervals are percentiles over resampled mappings. A coefficient that is not defined, because all values of one
    side are equal, is 1 where those of the other are, too, and 0 otherwise.
    """
    first, second = _ranks(measured), _ranks(predicted)
    if np.array_equal(first, second):  # and so in every resample
        return Ranking(len(first), 1.0, (1.0, 1.0), 1.0, (1.0, 1.0), tied_pairs(first))
    tau, rho = _coefficients(first, second)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(first), np.full(len(first), 1 / len(first)), resamples)
    if len(first) <= PAIRWISE:
        sampled = _resampled(first, second, drawn.astype(np.float32))
    else:
        rows = [np.repeat(np.arange(len(first)), times) for times in drawn]
        sampled = np.array([_coefficients(first[row], second[row]) for row in rows]).T
    low, high = np.quantile(sampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=1)
    return Ranking(len(first), tau, (float(low[0]), float(high[0])), rho, (float(low[1]), float(high[1])),
                   tied_pairs(first))


def tied_pairs(ranks: np.ndarray) -> int:
    """Pairs of equal values."""
    _, counts = np.unique(ranks, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())


def _ranks(values: np.ndarray) -> np.ndarray:
    """Places in ascending order, [B]; values that agree to `DIGITS` share one."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(values[order]) > values[order][1:] * 10.0 ** -DIGITS
    places = np.zeros(len(values), dtype=np.int64)
    places[order[1:]] = np.cumsum(steps)
    return places


def _coefficients(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        same = float(np.ptp(first) == np.ptp(second))
        return same, same
    tau = stats.kendalltau(first, second, method="asymptotic").statistic  # the exact method is for its p-value only
    return float(tau), float(stats.spearmanr(first, second).statistic)


def _resampled(first: np.ndarray, second: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """(tau-b, rho) of R resamples at once, [2, R]; `drawn` [R, B] says how often each mapping is in a resample.

    With s and t the signs of all differences and w how often a mapping was drawn, tau-b is w'(s t)w over the root of
    w'(s s)w w'(t t)w, and the rank of a mapping in its resample, up to a constant, half of s w: rho is their
    correlation.
    """
    s, t = (np.sign(values[:, None] - values).astype(np.float32) for values in (first, second))
    one, other = drawn @ s, drawn @ t
    pairs = (((drawn @ signs) * drawn).sum(axis=1) for signs in (s * t, s * s, t * t))
    ranks = ((places * drawn).sum(axis=1) for places in (one * other, one * one, other * other))
    return np.stack([_ratio(*pairs), _ratio(*ranks)])


def _ratio(both: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """both / sqrt(first * second); where that is not defined, 1 if both are 0 and 0 otherwise, [R]."""
    root = np.sqrt(first * second)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.where(root > 0, both / root, (first == second).astype(np.float64))
    return found
