"""The explanation of a finished run: its lower bound, its sensitivities, and the loops behind every count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.analysis.count_breakdown import ACTIONS, CountExplanation, explain_counts
from fadiff_mapper.analysis.finished_run import FinishedRun
from fadiff_mapper.base.errors import FadiffError, attempted, listed, nearest
from fadiff_mapper.model.exact.evaluate import evaluate_one

if TYPE_CHECKING:
    from fadiff_mapper.analysis.sensitivity.sensitivities import Sensitivity


@dataclass(frozen=True)
class RunExplanation:
    """The explanation of one run.

    Attributes:
        metric: The metric of the sensitivities: the stored bound's, which the run minimised; else EDP.
        bound: The bound as stored with the run, see `lower_bound.bound_record`: the constraints that it rests on are
            not in the folder. None where none is known.
        sensitivities: The largest elasticity first; empty where one count was asked for, on sparse designs,
            and of mappings with residuals.
        counts: Every access count, or the one that was asked for.
        lost: Why there are no sensitivities, where working them out failed.
    """

    metric: str
    bound: dict[str, Any] | None
    sensitivities: tuple[Sensitivity, ...]
    counts: tuple[CountExplanation, ...]
    lost: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain values, for JSON."""
        return {"metric": self.metric, "bound": self.bound,
                "sensitivities": [sensitivity.to_dict() for sensitivity in self.sensitivities],
                "counts": [count.to_dict() for count in self.counts]}


def explain_run(run: FinishedRun, count: Sequence[str] | None = None) -> RunExplanation:
    """Explains a run.

    Args:
        run: The run, read back from its folder.
        count: Level, data space and action of one count; then that one alone is explained, without sensitivities.

    Raises:
        FadiffError: There is no such count.
    """
    spec = run.spec
    bound = run.stored.get("bound")
    metric = bound["metric"] if bound else "edp"
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, run.mapping, details=True, residuals=True)
    counts = explain_counts(layer, evaluation)
    if count:
        return RunExplanation(metric, bound, (), _chosen(run, counts, count))
    # the sensitivities are those of the dense model, without residuals
    if run.mapping.imperfect or (spec.sparse is not None and spec.sparse.applied):
        return RunExplanation(metric, bound, (), counts)
    from fadiff_mapper.analysis.sensitivity.sensitivities import sensitivities
    found, lost = attempted("sensitivities", lambda: sensitivities(layer, evaluation, metric=metric))
    return RunExplanation(metric, bound, found or (), counts, lost)


def _chosen(run: FinishedRun, counts: Sequence[CountExplanation], wanted: Sequence[str]) -> tuple[CountExplanation,
                                                                                                  ...]:
    """The one count that is asked for by level, data space and action. Raises FadiffError where there is none."""
    level, space, action = wanted
    for noun, name, names in (("level", level, run.spec.arch.level_names()),
                              ("data space", space, run.spec.problem.dataspace_names()), ("action", action, ACTIONS)):
        if name not in names:
            raise FadiffError(f'unknown {noun} "{name}"{nearest(name, names)}; accepted: {listed(names)}')
    chosen = tuple(count for count in counts if (count.level, count.dataspace, count.action) == (level, space, action))
    if not chosen:
        known = [f"{count.level} {count.dataspace} {count.action}" for count in counts]
        raise FadiffError(f"{level} has no {action} of {space} in this mapping; accepted: {listed(known)}")
    return chosen
