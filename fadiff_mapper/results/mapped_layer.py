"""The outcome of a search for one problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.analysis.lower_bound import LowerBound
from fadiff_mapper.model.exact.evaluate import evaluate_one
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec

if TYPE_CHECKING:
    from fadiff_mapper.analysis.sensitivity.sensitivities import Sensitivity


@dataclass(frozen=True)
class Result:
    """A mapping with its numbers and how it was found.

    `status` is a sentence on how it ended. `history` lists every improvement: time_s since the start, evaluations
    so far, the metric's value, and the stage that found it. `bound` is what no mapping within the constraints can
    undercut (None where none is known); `sensitivities` are there after `with_sensitivities`.
    """

    spec: Spec
    mapping: Mapping
    stats: Stats
    status: str
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    evaluations: int
    time_s: float
    bound: LowerBound | None = None
    sensitivities: tuple[Sensitivity, ...] = ()

    @property
    def metric(self) -> str:
        """The metric of first priority; EDP where the options name none."""
        return str(self.options.get("metrics", ("edp",))[0])

    @property
    def value(self) -> float:
        """The mapping's value of that metric; see `Stats.of`."""
        return self.stats.of(self.metric)

    def write(self, folder: str | Path) -> None:
        """Write the run's files into a folder, all or none; see `run_files`. Raises FadiffError."""
        from fadiff_mapper.base import atomic_files
        from fadiff_mapper.output.timeloop_files.run_files import run_files
        with atomic_files.lock(Path(folder)):
            atomic_files.write_files(Path(folder), run_files(self))


def with_sensitivities(result: Result) -> Result:
    """The result with what a little more of each constant of the machine would change in its metric; takes seconds."""
    from fadiff_mapper.analysis.sensitivity.sensitivities import sensitivities
    spec = result.spec
    layer, found = evaluate_one(spec.arch, spec.problem, spec.tables, result.mapping, details=True)
    return replace(result, sensitivities=sensitivities(layer, found, metric=result.metric))
