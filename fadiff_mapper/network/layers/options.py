"""Options of the search of a network: its effort, and which of its parts run."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.search.options import MODELS, SearchOptions

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration

METRICS = ("edp", "energy", "delay")


@dataclass(frozen=True)
class NetworkOptions:
    """Effort and parts of the search of a network.

    Attributes:
        metric: Of the whole network: "edp" (sum of energies times sum of cycles), "energy" or "delay".
        fuse: False maps every layer by itself.
        seed: The same seed gives the same plan unless time runs out.
        time_limit: Seconds after which the search returns its best plan; None is no limit.
        model: The relaxed model: "refined", or "paper" for FADiff's equations as printed. Their plans are compared by
            `benchmarks/agatf/ablations.py`.
        longest: Layers of a group at most, 2 to 16. A limit of time, not measured.
        kept: Candidates of each segment that are evaluated exactly, 1 to 64; `tilings.candidates.KEPT` are listed at
            most, and measured there.
        gradient: True adds a descent on the relaxed network and the groups that it proposes, for which torch is
            loaded. `benchmarks/agatf/ablations.py` measures both sources of groups, each alone and together.
        enumeration: False leaves out enumerated groups.
        threads: Threads at work; None: all cores. The answer does not depend on it.
        calibration: A correction to measured hardware by which every layer's mapping is chosen; nothing is fused then,
            as layers were measured by themselves. None: the exact model alone.
    """

    metric: str = "edp"
    fuse: bool = True
    seed: int = 0
    time_limit: float | None = None
    model: str = "refined"
    longest: int = 16
    kept: int = 8
    gradient: bool = False
    enumeration: bool = True
    threads: int | None = None
    calibration: Calibration | None = None

    @property
    def workers(self) -> int:
        """Threads at work."""
        return self.threads or os.cpu_count() or 1

    def as_dict(self) -> dict[str, Any]:
        """All options that bear on the result, for the record."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__
                  if name not in ("threads", "calibration")}
        return record | (self.calibration.record() if self.calibration else {})


def check(options: NetworkOptions) -> None:
    """Checks the range of every option.

    Args:
        options: The options.

    Raises:
        FadiffError: An option that is out of its range; the message names the accepted values.
    """
    for name, accepted in (("metric", METRICS), ("model", MODELS)):
        if getattr(options, name) not in accepted:
            raise FadiffError(f"{name}: found {getattr(options, name)!r}; accepted: {listed(accepted)}")
    for name, least, most in (("longest", 2, 16), ("kept", 1, 64)):
        value = getattr(options, name)
        if not isinstance(value, int) or not least <= value <= most:
            raise FadiffError(f"{name}: found {value!r}; accepted: a whole number from {least} to {most}")


def layer_search(options: NetworkOptions, effort: SearchOptions | None = None) -> SearchOptions:
    """The search of every layer by itself.

    Args:
        options: Options of the network's search; what its time limit leaves to the layers is a deadline of theirs.
        effort: Chains and rounds; None: those of a search of layers alone.
    """
    return replace(effort or SearchOptions(), metrics=(options.metric,), seed=options.seed,
                   time_limit=options.time_limit, threads=options.workers, calibration=options.calibration)
