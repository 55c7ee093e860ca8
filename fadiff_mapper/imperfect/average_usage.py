"""Instances that mappings with residuals use on average, as Timeloop counts them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.imperfect.residual_nest import ResidualNest
from fadiff_mapper.model.usage import Usage, usage


@dataclass(frozen=True)
class AverageUsage(Usage):
    """How much of the machine a nest with residuals uses.

    Expansions are those of whole runs, which limits hold for, and cycles count a last run as long as the others.

    Attributes:
        exact: [L, B]. Instances in use on average.
        units: [B]. Units of the arithmetic in use on average.
        average: [L, B]. `exact`, rounded down, as Timeloop does.
        done: [B]. Multiply-accumulates that Timeloop counts: those of one unit times average units, both rounded down.
    """

    exact: np.ndarray
    units: np.ndarray
    average: np.ndarray
    done: np.ndarray

    @property
    def instances(self) -> np.ndarray:
        """Used instances of every storage level on average, [L, B]."""
        return self.average

    @property
    def computes(self) -> np.ndarray:
        """Multiply-accumulates that Timeloop counts, [B]."""
        return self.done


def average_usage(batch: ResidualNest, iterations: np.ndarray) -> AverageUsage:
    """Instances and computes of a batch.

    A spatial loop with bound n and residual r that runs m times uses (r + n (m - 1)) / m receivers on average. The
    order of operations is Timeloop's: products are rounded down at the end.

    Args:
        batch: The mappings.
        iterations: [B]. Computes of one unit of the arithmetic.

    Returns:
        Expansions, cycles, average instances and computes.
    """
    nest = batch.nest
    whole = usage(nest)
    rows = np.arange(nest.batch)
    runs = np.ones(nest.temporal.shape[1:])  # [D, B]; iterations of all loops so far, the last ones counted as they are
    used, averages = np.ones(nest.batch), np.empty((len(nest.temporal), nest.batch))
    for level in reversed(range(len(nest.temporal))):
        averages[level] = used
        runs = batch.temporal_last[level] + nest.temporal[level] * (runs - 1)
        before = used
        for on_y in (True, False):
            for position in reversed(range(nest.order.shape[1])):
                d = nest.spatial_order[level, position]
                here = nest.on_y[level, d, rows] == on_y
                bound = np.where(here, nest.spatial[level, d, rows], 1)
                last = np.where(here, batch.spatial_last[level, d, rows], 1)
                times = runs[d, rows]
                used = np.where(bound == last, used * bound, used * (last + bound * (times - 1)) / times)
        runs = batch.spatial_last[level] + nest.spatial[level] * (runs - 1)
    units = np.trunc(before * nest.spatial[0].prod(axis=0))
    return AverageUsage(whole.expansion_x, whole.expansion_y, whole.compute_cycles, averages, used, np.trunc(averages),
                        np.trunc(iterations * units))
