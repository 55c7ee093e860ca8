"""Metrics by name, and the value that parts legal mappings from others: no arrays, so that options load at once."""

from __future__ import annotations

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.spec.mapper import METRICS

ILLEGAL = 1e6
"""Value above that of every legal mapping (a logarithm), to which illegal ones add their excess."""

SAME = 1e-9
"""Values, in natural logarithms of a metric, that differ by less are those of equally good mappings; equal to SAME of
`kernel/chains.cpp`. Nothing was measured."""


def check_metrics(metrics: object) -> tuple[str, ...]:
    """The metrics of a list or tuple.

    Args:
        metrics: Names of metrics in order of priority.

    Returns:
        The same as a tuple.

    Raises:
        FadiffError: The value is no list or tuple, is empty, or has an unknown metric.
    """
    if not isinstance(metrics, list | tuple):
        raise FadiffError(f"metric: found {metrics!r}; accepted: {listed(METRICS)}, or a list of them")
    for name in metrics:
        if name not in METRICS:
            raise FadiffError(f'unknown metric "{name}"{nearest(str(name), METRICS)}; accepted: {listed(METRICS)}')
    if not metrics:
        raise FadiffError(f"no metric is given; accepted: {listed(METRICS)}")
    return tuple(metrics)
