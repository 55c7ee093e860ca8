"""The geometric schedule of every temperature and weight that changes from step to step."""

from __future__ import annotations


def geometric(start: float, end: float, ratio: float) -> float:
    """start * (end / start) ** ratio: `start` at ratio 0, `end` at ratio 1, equal factors from step to step.

    Args:
        start: Value of the first step, greater than 0.
        end: Value of the last step, greater than 0.
        ratio: Part of the steps that is done, in [0, 1].

    Returns:
        The value at this part of the schedule.
    """
    value: float = start * (end / start) ** ratio
    return value
