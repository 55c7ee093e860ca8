"""Fitting a correction: least squares on the logarithm of cycles, coefficients held above 0 and near a prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import least_squares

from fadiff_mapper.calibration.correction import predict
from fadiff_mapper.calibration.features import NAMES

PRIOR = {"tile": 120.0, "convolution": 120.0, "launch": 1000.0}
"""Cycles from which the fit starts and to which it is drawn: starts take about a hundred cycles, a launch a thousand;
of the other features one unit is one cycle at best."""

PRIOR_ELSE, PRIOR_NORM = 0.6, 3.0
"""The same for the other features, and for p."""

PULL = 0.4
"""Weight of the squared distance to the prior, per coefficient and in natural logarithms, beside one point's squared
error. Points decide where there are some; a feature that no point depends on keeps its prior. Mean error on layers not
learned from, three splits: 17.4 %; with 0.1, 0.2, 0.8 and 1.6 it was 17.5, 17.5, 17.6 and 19.9 %."""

ERRORS_COUNT_FULLY = 0.1
"""Errors in natural logarithms above which they count linearly instead of squared (a few measured points are off by
hundreds, see the documentation). Mean error on layers not learned from, three splits, with a pull of 0.8: 17.6 %;
with 0.05 17.6 and with 0.2 17.8 %."""

MOST_STEPS = 150
"""Steps of the least squares at most; the fit to 1,567 points takes some 40."""


def fit(tiles: np.ndarray, table: np.ndarray, measured: np.ndarray) -> tuple[tuple[float, ...], float]:
    """Coefficients and p of the correction that is nearest to measured cycles.

    Args:
        tiles: [B]. Tiles of the run.
        table: [F, B]. Features per tile.
        measured: [B]. Measured cycles.

    Returns:
        The coefficients in the order of `features.NAMES`, and p.
    """
    prior = np.log([*(PRIOR.get(name, PRIOR_ELSE) for name in NAMES), PRIOR_NORM - 1.0])
    target = np.log(measured)

    def residuals(theta: np.ndarray) -> Any:
        cycles = predict(tiles, table, np.exp(theta[:-1]), 1.0 + float(np.exp(theta[-1])))
        return np.concatenate([np.log(cycles) - target, PULL * (theta - prior)])

    with np.errstate(over="ignore"):
        found = least_squares(residuals, prior, bounds=(prior - 12.0, prior + 6.0), loss="soft_l1",
                              f_scale=ERRORS_COUNT_FULLY, max_nfev=MOST_STEPS).x
    return tuple(float(value) for value in np.exp(found[:-1])), 1.0 + float(np.exp(found[-1]))
