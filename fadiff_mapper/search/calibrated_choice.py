"""The choice of a mapping by cycles corrected to measured hardware.

A search minimises the exact model's metric first. From its result, and from random mappings, chains then anneal on the
metric with corrected cycles; energies and legality stay those of the exact model.
"""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.calibration.features import tensor_roles
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.refinement import Refinement
from fadiff_mapper.search.result import CorrectedCycles


def calibrated_choice(task: MappingTask, nest: Nest, calibration: Calibration, options: SearchOptions,
                      over: Over = never) -> tuple[Nest, CorrectedCycles]:
    """The best mapping by corrected cycles, and these cycles; no worse than the given one.

    `nest`: the legal mapping that the search on a dense design found; it is returned if the metric of first priority
    does not depend on cycles. Once `over` is true, the best mapping so far is returned.
    """
    problem, best = task.layer.problem, nest
    if METRIC_EXPONENTS.get(options.priorities[0], (1, 0))[1]:
        best = Refinement(task, options, nest, stopped=over, correction=calibration.compiled(problem)).run().nest
    exact, corrected = (float(calibration.cycles(problem, one)[0]) for one in (nest, best))
    return best, CorrectedCycles(corrected, exact, float(score(task.layer, nest).energy[0]))


def check_calibrated(tasks: Sequence[MappingTask], calibration: Calibration) -> None:
    """Raises FadiffError where a design is sparse or not the measured one, or a problem has not two operands."""
    for task in tasks:
        if task.sparse is not None:
            raise FadiffError("calibration: found sparse optimizations; accepted: dense designs")
        calibration.check_architecture(task.layer.arch)
        tensor_roles(task.layer.problem)
