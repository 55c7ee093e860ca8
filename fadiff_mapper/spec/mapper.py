"""What the `mapper:` section asks of a search."""

from __future__ import annotations

from dataclasses import dataclass

METRICS = ("edp", "energy", "delay", "last_level_accesses")


@dataclass(frozen=True)
class MapperOptions:
    """`metrics` in order of priority; `ignored` names the keys without a meaning for a descent, with the reason."""

    metrics: tuple[str, ...] = ("edp",)
    num_threads: int | None = None
    ignored: tuple[tuple[str, str], ...] = ()
