"""Whether a model ranks mappings as Timeloop does: Kendall's tau-b and Spearman's rho, as in FADiff's section 4.2.

SciPy gives the coefficients. Their confidence intervals come from resampled mappings, and there both coefficients of
all resamples are computed at once by matrix products: on the bundled recording the summary takes 7 s of CPU that way
and 33 s with a call of SciPy per resample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

DIGITS = 9
"""Values that agree to so many digits are ties: beyond that only the order of additions differs."""

RESAMPLES = 100
"""Bootstrap samples of each interval by default: enough for two digits of its ends; nothing was measured."""

CONFIDENCE = 0.95
"""Share of the resampled coefficients inside an interval."""

PAIRWISE = 512
"""Up to so many mappings all pairs of all resamples are compared at once, beyond it each resample is sorted.

Pairs grow with the square of the mappings. The limit bounds their memory (1 MB a matrix); nothing was measured.
"""


@dataclass(frozen=True)
class Ranking:
    """Rank correlations of B mappings.

    Attributes:
        mappings: B.
        tau: Kendall's tau-b.
        tau_interval: Its bootstrap confidence interval.
        rho: Spearman's rank correlation.
        rho_interval: Its bootstrap confidence interval.
        ties: Pairs of mappings with equal values in Timeloop.
    """

    mappings: int
    tau: float
    tau_interval: tuple[float, float]
    rho: float
    rho_interval: tuple[float, float]
    ties: int


def ranking(measured: np.ndarray, predicted: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> Ranking:
    """Compares two rankings of the same mappings.

    A coefficient that is not defined, because all values of one side are equal, is 1 where those of the other side are
    equal, too, and 0 otherwise.

    Args:
        measured: Timeloop's values [B], all greater than 0.
        predicted: The model's values [B], all greater than 0.
        resamples: Bootstrap samples of the mappings; intervals are percentiles over these.
        seed: Of the samples.
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
    """The number of pairs of equal values."""
    _, counts = np.unique(ranks, return_counts=True)
    return int((counts * (counts - 1) // 2).sum())


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks in ascending order, [B], from 0; values that agree to `DIGITS` share a rank."""
    order = np.argsort(values, kind="stable")
    steps = np.diff(values[order]) > values[order][1:] * 10.0 ** -DIGITS
    ranks = np.zeros(len(values), dtype=np.int64)
    ranks[order[1:]] = np.cumsum(steps)
    return ranks


def _coefficients(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """(tau-b, rho) of two rankings."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        same = float(np.ptp(first) == np.ptp(second))
        return same, same
    tau = stats.kendalltau(first, second, method="asymptotic").statistic  # the exact method is for its p-value only
    return float(tau), float(stats.spearmanr(first, second).statistic)


def _resampled(first: np.ndarray, second: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """(tau-b, rho) of R resamples at once, [2, R].

    Let s and t [B, B] be the signs of all differences within either ranking, and w how often each mapping was drawn, a
    row of `drawn` [R, B]. Then tau-b is w'(s t)w over the root of w'(s s)w w'(t t)w, products of s and t elementwise.
    The rank of a mapping in its resample is half of s w, up to a constant, and rho is the correlation of both ranks.
    """
    s, t = (np.sign(values[:, None] - values).astype(np.float32) for values in (first, second))
    x, y = drawn @ s, drawn @ t
    pairs = (((drawn @ signs) * drawn).sum(axis=1) for signs in (s * t, s * s, t * t))
    ranks = ((products * drawn).sum(axis=1) for products in (x * y, x * x, y * y))
    return np.stack([_ratio(*pairs), _ratio(*ranks)])


def _ratio(both: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """both / sqrt(first * second); where that is not defined, 1 if both are 0 and 0 otherwise, [R]."""
    root = np.sqrt(first * second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: np.ndarray = np.where(root > 0, both / root, (first == second).astype(np.float64))
    return ratio
