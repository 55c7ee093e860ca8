"""All that can be said about a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.analysis.count_breakdown import ACTIONS, CountExplanation, explain_counts
from fadiff_mapper.analysis.finished_run import FinishedRun
from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.model.exact.evaluate import evaluate_one

if TYPE_CHECKING:
    from fadiff_mapper.analysis.sensitivity.sensitivities import Sensitivity


@dataclass(frozen=True)
class RunExplanation:
    """`bound` as stored with the run (the constraints it rests on are not in the folder); `metric` is what the
    sensitivities are of."""

    metric: str
    bound: dict[str, Any] | None
    sensitivities: tuple[Sensitivity, ...]
    counts: tuple[CountExplanation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"metric": self.metric, "bound": self.bound,
                "sensitivities": [one.to_dict() for one in self.sensitivities],
                "counts": [one.to_dict() for one in self.counts]}


def explain_run(run: FinishedRun, count: Sequence[str] | None = None) -> RunExplanation:
    """Everything about a run; with `count` (level, data space, action) that count alone, without sensitivities.

    Raises FadiffError where there is no such count.
    """
    spec = run.spec
    layer, found = evaluate_one(spec.arch, spec.problem, spec.tables, run.mapping, details=True)
    counts = explain_counts(layer, found)
    bound = run.stored.get("bound")
    metric = bound["metric"] if bound else "edp"
    if count:
        return RunExplanation(metric, bound, (), _chosen(run, counts, count))
    from fadiff_mapper.analysis.sensitivity.sensitivities import sensitivities
    return RunExplanation(metric, bound, sensitivities(layer, found, metric=metric), counts)


def _chosen(run: FinishedRun, counts: Sequence[CountExplanation], wanted: Sequence[str]) -> tuple[CountExplanation,
                                                                                                  ...]:
    level, space, action = wanted
    for what, name, names in (("level", level, run.spec.arch.level_names()),
                              ("data space", space, run.spec.problem.dataspace_names()), ("action", action, ACTIONS)):
        if name not in names:
            raise FadiffError(f'unknown {what} "{name}"{nearest(name, names)}; accepted: {listed(names)}')
    chosen = tuple(one for one in counts if (one.level, one.dataspace, one.action) == (level, space, action))
    if not chosen:
        there = [f"{one.level} {one.dataspace} {one.action}" for one in counts]
        raise FadiffError(f"{level} has no {action} of {space} in this mapping; accepted: {listed(there)}")
    return chosen
