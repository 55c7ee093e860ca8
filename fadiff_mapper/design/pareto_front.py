"""Designs that no other one beats in every metric, and the volume that they dominate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fadiff_mapper.design.evaluation.design_result import DesignOutcome

Values = Sequence[tuple[float, ...]]
"""The metrics of designs, all to be minimised."""


def undominated(values: Values) -> list[int]:
    """The numbers of the points that no other one beats, in ascending order of the first metric.

    Args:
        values: The points. Of equal ones the first counts.
    """
    kept: list[int] = []
    for number in sorted(range(len(values)), key=lambda number: (values[number], number)):
        if not any(all(mine <= yours for mine, yours in zip(values[other], values[number], strict=True))
                   for other in kept):
            kept.append(number)
    return kept


def front_of(outcomes: Sequence[DesignOutcome], metrics: Sequence[str]) -> list[DesignOutcome]:
    """The feasible designs that no other one beats in every metric, the best in the first metric first.

    Args:
        outcomes: Designs, infeasible ones among them.
        metrics: The metrics.
    """
    feasible = [outcome for outcome in outcomes if outcome.feasible]
    return [feasible[number] for number in undominated(
        [tuple(outcome.of(metric) for metric in metrics) for outcome in feasible])]


def hypervolume(values: Values, reference: tuple[float, ...]) -> float:
    """The share of the box from 0 to a reference that points dominate.

    Args:
        values: The points, of one to three metrics.
        reference: The corner of the box, above 0; points beyond it count nothing.
    """
    points = np.array([point for point in values if all(v < r for v, r in zip(point, reference, strict=True))])
    return _volume(points / np.array(reference)) if len(points) else 0.0


def _volume(points: np.ndarray) -> float:
    """The volume [n, d] points dominate in the unit cube: slices along the last metric, each of constant area."""
    if points.shape[1] == 1:
        return float(1 - points.min())
    ordered = points[np.argsort(points[:, -1], kind="stable")]
    ends = [*ordered[1:, -1], 1.0]
    return sum((float(end - ordered[number, -1]) * _volume(ordered[:number + 1, :-1])
                for number, end in enumerate(ends) if end > ordered[number, -1]), 0.0)
