"""What the search of a network is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed

MODELS = ("refined", "paper")
METRICS = ("edp", "energy", "delay")


@dataclass(frozen=True)
class NetworkOptions:
    """metric      of the whole network: "edp", "energy" or "delay"
    model       the relaxed model: "refined", or "paper" for the paper's equations as printed
    longest     layers of a group at most
    kept        candidates of a segment that are evaluated exactly
    gradient, enumeration   whether groups are proposed by the descent, and whether short ones are enumerated
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
    threads: int = 2

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
