"""A space without a feasible design: which limit is to blame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.evaluation.design_result import DesignOutcome
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench
from fadiff_mapper.design.space import limit_values

MOST_LOOKED_AT = 1000
"""Designs whose limits are computed once more for the message: some seconds. Not measured."""


def blame(bench: DesignBench, outcomes: Sequence[DesignOutcome]) -> str:
    """Says why none of some designs is feasible.

    Args:
        bench: The question.
        outcomes: The designs, none of them feasible.

    Returns:
        One line for each limit that is broken, with the designs that break it and the least value met, those first
        that no design meets; and the most frequent other reasons.
    """
    met: dict[str, list[tuple[float, float]]] = {}
    for outcome in outcomes[:MOST_LOOKED_AT]:
        for name, pair in _limits(bench, outcome).items():
            met.setdefault(name, []).append(pair)
    lines = []
    for name, pairs in met.items():
        broken, least = sum(not value <= most for value, most in pairs), min(value for value, _ in pairs)
        if broken:
            lines.append((-broken, f"limit {name}: {broken} of {len(pairs)} designs are above {pairs[0][1]:g}; the "
                                   f"least value met is {least:.6g}"))
    others = Counter(outcome.reason for outcome in outcomes if not _breaks_a_limit(outcome, met))
    lines += [(-count, f"{count} of {len(outcomes)} designs: {reason}") for reason, count in others.most_common(3)]
    head = f"{bench.question.space.name}: none of the {len(outcomes)} designs evaluated is feasible"
    return "\n".join([head, *(line for _, line in sorted(lines))])


def _limits(bench: DesignBench, outcome: DesignOutcome) -> dict[str, tuple[float, float]]:
    """The quantities that limits bound, as far as they can be computed for a design."""
    space = bench.question.space
    try:
        return limit_values(space, outcome.point, bench.reader.specs(outcome.point)[0])
    except SpecError:
        return limit_values(space, outcome.point)


def _breaks_a_limit(outcome: DesignOutcome, limits: dict[str, list[tuple[float, float]]]) -> bool:
    """Whether a limit is the reason that an outcome gives."""
    return any(outcome.reason.startswith(f"{name} is ") for name in limits)
