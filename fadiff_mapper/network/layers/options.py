"""Options of the search of a network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.search.options import MODELS

METRICS = ("edp", "energy", "delay")


@dataclass(frozen=True)
class NetworkOptions:
    """Effort and parts of the search of a network.

    Attributes:
        metric: Of the whole network: "edp" (sum of energies times sum of cycles), "energy" or "delay".
        fuse: False maps every layer by itself.
        seed: The same seed gives the same plan unless time runs out.
        time_limit: Seconds after which the search returns its best plan; None is no limit.
        model: The relaxed model: "refined", or "paper" for FADiff's equations as printed.
        longest: Layers of a group at most.
        kept: Candidates of each group of the plan that are evaluated exactly.
        gradient: False leaves out the groups that the descent proposes.
        enumeration: False leaves out the groups of up to three layers that are enumerated.
        threads: Threads at work; None: all cores. The answer does not depend on it.
    """

    metric: str = "edp"
    fuse: bool = True
    seed: int = 0
    time_limit: float | None = None
    model: str = "refined"
    longest: int = 16
    kept: int = 4
    gradient: bool = True
    enumeration: bool = True
    threads: int | None = None

    @property
    def workers(self) -> int:
        """Threads at work."""
        return self.threads or os.cpu_count() or 1

    def as_dict(self) -> dict[str, Any]:
        """All options that bear on the result, for the record."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "threads"}


def check(options: NetworkOptions) -> None:
    """FadiffError for an option that is none of the accepted ones."""
    for name, accepted in (("metric", METRICS), ("model", MODELS)):
        if getattr(options, name) not in accepted:
            raise FadiffError(f"{name}: found {getattr(options, name)!r}; accepted: {listed(accepted)}")
    for name, least, most in (("longest", 2, 16), ("kept", 1, 64)):
        value = getattr(options, name)
        if not isinstance(value, int) or not least <= value <= most:
            raise FadiffError(f"{name}: found {value!r}; accepted: a whole number from {least} to {most}")
