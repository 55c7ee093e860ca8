"""The exact model beside Timeloop's answer to a corner: every number, or the words of a rejection."""

from __future__ import annotations

from fadiff_mapper.model.evaluate import evaluate_one
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.stats import stats_of
from fadiff_mapper.timeloop.run_model import ModelAnswer
from fadiff_mapper.timeloop.verify import compared, differences

from ..questions import Question

ASSERTION = "content_accesses + tile_nest[cur].peer_accesses) >= tile_nest[cur].partition_size' failed"
"""Timeloop's words where an output's partition has words that are never touched."""

HELD_NOWHERE = "`utilized_capacity > 0' failed"
"""Timeloop's words where no level holds a data space that some level keeps (`access_counts.holding`)."""


def mistakes(question: Question, answer: ModelAnswer) -> list[str]:
    """Differences between the exact model and Timeloop about one mapping.

    Args:
        question: The mapping.
        answer: Timeloop's numbers, or its reason for a rejection, which must be the model's to the word.

    Returns:
        A line for each number or for the verdict; empty where both agree.
    """
    spec = question.task.spec
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, question.mapping, details=True)
    if not evaluation.legal[0]:
        broken = violations(evaluation.checks, 0)
        said = ASSERTION if broken[0].constraint == "untouched" else str(rejection(broken))
        if broken[0].constraint == "nowhere" and evaluation.nest.keep.any(axis=0).all():
            said = HELD_NOWHERE
        if answer.result is not None:
            return [f"rejected, where Timeloop accepts: {said}"]
        return [] if said in answer.error else [f"rejected: {said} instead of {answer.error}"]
    if answer.result is None:
        return [f"accepted instead of {answer.error}"]
    return list(differences(answer.result, compared(stats_of(layer, evaluation, 0))))


def quantities(lines: list[str]) -> frozenset[str]:
    """The names of the numbers that differ, wherever they stand; "rejected" or "accepted" for a verdict."""
    return frozenset(line.split(":")[0].rsplit(".", 1)[-1].split("[")[0].split(" ")[0].rstrip(",") for line in lines)
