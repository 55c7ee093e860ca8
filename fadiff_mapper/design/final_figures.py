"""The last word on the designs of a front: their figures by the best source of energies at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fadiff_mapper.base.errors import OutOfTime, attempted
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.design_result import DesignOutcome
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.energy.find_accelergy import installed


def designs_to_map(bench: DesignBench, front: Sequence[DesignOutcome]) -> int:
    """Counts the designs that are mapped once more after a search: for their last figures, and for plans not kept.

    Args:
        bench: The question and the store.
        front: Feasible designs, the best first.
    """
    again = len(front) if installed() else 0
    return again + bool(front and bench.question.fuse and bench.plans.point != front[0].point)


def final_figures(bench: DesignBench, front: Sequence[DesignOutcome],
                  over: Callable[[], bool] = lambda: False) -> tuple[tuple[DesignOutcome, ...], str]:
    """Evaluates designs once more, with Accelergy's energies and areas where Accelergy is installed.

    Their layers are mapped anew, as other energies may want other mappings.

    Args:
        bench: The question and the store.
        front: Feasible designs.
        over: Asked again and again; once true, there is no time for this.

    Returns:
        The outcomes in order, the same where there is no better source; and the source in words.
    """
    source = bench.question.energy
    if installed() is None:
        return tuple(front), f"{source}; Accelergy is not installed"
    question: DesignQuestion = replace(bench.question, energy="accelergy")
    final = DesignBench(question, bench.folder)

    def evaluated() -> tuple[DesignOutcome, ...]:
        if over():
            raise OutOfTime
        return tuple(evaluate_design(final, outcome.point, stopped=over) for outcome in front)

    outcomes, lost = attempted("figures by Accelergy", evaluated)
    if outcomes is None:
        return tuple(front), f"{source}; {lost}"
    if any(outcome.reason and not outcome.mapped for outcome in outcomes):
        return outcomes, f"Accelergy; by its figures not every design keeps its limits (searched with {source})"
    return outcomes, f"Accelergy (searched with {source})"
