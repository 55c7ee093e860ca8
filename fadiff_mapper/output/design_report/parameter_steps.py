"""The worth of each parameter at the best design: its neighbouring values, with the EDP and area that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff_mapper.output.network_report.rounded_units import change

if TYPE_CHECKING:
    from fadiff_mapper.design.evaluation.design_result import DesignOutcome, DesignResult


@dataclass(frozen=True)
class ParameterStep:
    """The best design with one parameter at a neighbouring value.

    Attributes:
        value: The neighbouring value.
        outcome: The design with it.
        edp: Its EDP against the best design's in percent, as text; empty where it is not feasible.
        area: Its area likewise; empty where it is not known.
    """

    value: int | float | str
    outcome: DesignOutcome
    edp: str
    area: str


@dataclass(frozen=True)
class ParameterWorth:
    """One parameter at the best design.

    Attributes:
        name: Its name.
        value: Its value in the best design.
        below: The design with the value before it; None at the end of the values, or where it was not evaluated.
        above: The design with the value after it, likewise.
    """

    name: str
    value: int | float | str
    below: ParameterStep | None
    above: ParameterStep | None


def parameter_worths(result: DesignResult) -> tuple[ParameterWorth, ...]:
    """Every parameter of the best design with its neighbouring values.

    Args:
        result: The end of a search with a feasible design.
    """
    known = {outcome.point: outcome for outcome in (*result.outcomes, *result.neighbours)}
    best = result.best
    return tuple(ParameterWorth(name, value, *(_step(best, known.get(_moved(best.point, axis, by)), name)
                                               for by in (-1, 1)))
                 for axis, (name, value) in enumerate(best.parameters.items()))


def better_neighbour(result: DesignResult) -> DesignOutcome | None:
    """The best of the neighbours of the best design that are better than it, as after too short a search; else None.

    Args:
        result: The end of a search. For several metrics there is none: such a neighbour may still be off the front.
    """
    if not result.front or len(result.metrics) > 1:
        return None
    metric = result.metrics[0]
    better = [each for each in result.neighbours if each.of(metric) < result.best.of(metric)]
    return min(better, key=lambda each: each.of(metric), default=None)


def _moved(point: Sequence[int], axis: int, by: int) -> tuple[int, ...]:
    """The point with one index moved."""
    return (*point[:axis], point[axis] + by, *point[axis + 1:])


def _step(best: DesignOutcome, outcome: DesignOutcome | None, name: str) -> ParameterStep | None:
    """The neighbour beside the best design; None where it was not evaluated, be it for its lower bound."""
    if outcome is None or outcome.pruned:
        return None
    edp = change(outcome.edp, best.edp) if outcome.feasible else ""
    area = change(outcome.area_mm2, best.area_mm2) if outcome.area_mm2 < float("inf") else ""
    return ParameterStep(outcome.parameters[name], outcome, edp, area)
