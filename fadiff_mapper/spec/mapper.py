"""The `mapper:` section as values: objectives and threads of a search."""

from __future__ import annotations

from dataclasses import dataclass

METRICS = ("edp", "energy", "delay", "last_level_accesses")
"""Timeloop's optimization metrics that a search here minimises too."""


@dataclass(frozen=True)
class MapperOptions:
    """Wishes of the input's mapper section.

    Attributes:
        metrics: Metrics to minimise, in order of priority.
        num_threads: Threads of the search; None leaves it open.
        ignored: Keys without a meaning for the search here, each with the reason.
    """

    metrics: tuple[str, ...] = ("edp",)
    num_threads: int | None = None
    ignored: tuple[tuple[str, str], ...] = ()
