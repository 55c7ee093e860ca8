"""The choice of a mapping by cycles corrected to measured hardware.

The search itself minimises the exact model's metric, in compiled code. Its result, and the best of some random mappings
by the corrected metric, are then improved by steepest descent over all neighbours on the corrected metric, with the
exact model's energies and legality. So the correction ranks mappings near these starts; it does not steer the
annealing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.calibration.features import tensor_roles
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SAME
from fadiff_mapper.search.refinement import compiled_space
from fadiff_mapper.search.result import CorrectedCycles

EXPONENTS = {"edp": (1.0, 1.0), "energy": (1.0, 0.0), "delay": (0.0, 1.0)}
"""Exponents of energy and cycles in the metrics that a correction can change."""

RANDOM, STARTS, STEPS = 1024, 3, 100
"""Random mappings, the number of best ones used as starts, and steps of each descent at most; most descents need
few."""


def calibrated_choice(task: MappingTask, nest: Nest, calibration: Calibration, metric: str, seed: int,
                      over: Over = never) -> tuple[Nest, CorrectedCycles]:
    """The best mapping, and its corrected cycles, of descents by the corrected metric; no worse than the given one.

    `nest` is the result of the search on a dense design, one legal mapping; it stays if the metric of first priority
    has no cycles. Once `over` is true, the best so far is returned.
    """
    exponents, problem = EXPONENTS.get(metric, (1.0, 0.0)), task.layer.problem

    def values(nest: Nest) -> np.ndarray:
        """The logarithm of the corrected metric, [B]; infinite where illegal."""
        scores = score(task.layer, nest, room=task.room)
        with np.errstate(divide="ignore"):
            value = exponents[0] * np.log(scores.energy) + exponents[1] * np.log(calibration.cycles(problem, nest))
        return np.where(scores.legal, value, np.inf)

    best, value = nest, values(nest)[0]
    if exponents[1]:
        layer, space = task.layer.compiled, compiled_space(task.family, 0)
        drawn = Nest(*_kernel.random_points(layer, space, RANDOM, seed)[:6])
        drawn_values = values(drawn)
        rows = [row for row in np.argsort(drawn_values, kind="stable")[:STARTS] if np.isfinite(drawn_values[row])]
        for here in [nest, *(drawn.take([int(row)]) for row in rows)]:
            reached = float(values(here)[0])
            for _ in range(STEPS):
                if over():
                    break
                near = Nest(*_kernel.all_neighbours(layer, space, nest_arrays(here), seed)[:6])
                near_values = values(near) if near.batch else np.array([np.inf])
                row = int(np.argmin(near_values))
                if near_values[row] >= reached - SAME:
                    break
                here, reached = near.take([row]), float(near_values[row])
            if reached < value - SAME:
                best, value = here, reached
    exact, corrected = (float(calibration.cycles(problem, one)[0]) for one in (nest, best))
    return best, CorrectedCycles(corrected, exact, float(score(task.layer, nest).energy[0]))


def check_calibrated(tasks: Sequence[MappingTask], calibration: Calibration) -> None:
    """Raises FadiffError where a design is sparse or not the measured one, or a problem has not two operands."""
    for task in tasks:
        if task.sparse is not None:
            raise FadiffError("calibration: found sparse optimizations; accepted: dense designs")
        calibration.check_architecture(task.layer.arch)
        tensor_roles(task.layer.problem)
