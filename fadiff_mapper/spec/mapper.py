"""What the `mapper:` section asks of a search."""

from __future__ import annotations

from dataclasses import dataclass

METRICS = ("edp", "energy", "delay", "last_level_accesses")


@dataclass(frozen=True)
class MapperOptions:
    """`metrics` in order of priority; `timeout_s` is not Timeloop's `timeout`, which counts mappings.

    `ignored` names the keys that have no meaning for a search by descent, with the reason.
    """

    metrics: tuple[str, ...] = ("edp",)
    search_size: int | None = None
    num_threads: int | None = None
    ignored: tuple[tuple[str, str], ...] = ()
