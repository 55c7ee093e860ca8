"""Options of the search of a network: its effort, and which of its parts run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS
from fadiff_mapper.search.options import (
    MODELS,
    SearchOptions,
    check_gap,
    refuse_calibration_without_cycles,
    refuse_model_without_gradient,
)

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration

METRICS = tuple(METRIC_EXPONENTS)

METHODS = ("annealing", "gradient")
"""Sources of mappings and groups. "annealing": annealed mappings and enumerated groups. "gradient": these, and a
gradient descent on the mappings and fusion of the whole network (FADiff)."""

LONGEST = 16
"""Most layers of a group. A limit of time."""


@dataclass(frozen=True)
class NetworkOptions:
    """Options of the search of a network.

    Attributes:
        metric: Of the whole network: "edp" (sum of energies times sum of cycles), "energy" or "delay".
        fuse: False maps every layer by itself.
        seed: The same seed gives the same plan unless time runs out.
        time_limit: Seconds after which the search returns its best plan; None is no limit.
        threads: Threads at work; None: all cores. The answer does not depend on it.
        method: "annealing", or "gradient" (needs PyTorch); see `METHODS`.
        model: The relaxed model that "gradient" descends on: "refined", or "paper" for FADiff's equations as printed.
        longest: Most layers of a group, 2 to 16.
        calibration: A correction to measured hardware by which every layer's mapping is chosen; nothing is fused then,
            as layers were measured by themselves. None: the exact model.
        gap: The gap at which planning ends: the bound on all plans is raised until this gap is proven, however long it
            takes; without fusion every proof runs to its end. None: the search ends by itself.
    """

    metric: str = "edp"
    fuse: bool = True
    seed: int = 0
    time_limit: float | None = None
    threads: int | None = None
    method: str = "annealing"
    model: str = "refined"
    longest: int = LONGEST
    calibration: Calibration | None = None
    gap: float | None = None

    @property
    def workers(self) -> int:
        """Threads at work."""
        return self.threads or os.cpu_count() or 1

    def as_dict(self) -> dict[str, Any]:
        """All options that influence the result, for the record."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__
                  if name not in ("threads", "calibration", *(("gap",) if self.gap is None else ()))}
        return record | (self.calibration.record() if self.calibration else {})


def check(options: NetworkOptions) -> None:
    """Checks options before a search.

    Raises:
        FadiffError: An option is out of its range, or does nothing beside another one.
    """
    for name, accepted in (("metric", METRICS), ("method", METHODS), ("model", MODELS)):
        if getattr(options, name) not in accepted:
            raise FadiffError(f"{name}: found {getattr(options, name)!r}; accepted: {listed(accepted)}")
    if not isinstance(options.longest, int) or not 2 <= options.longest <= LONGEST:
        raise FadiffError(f"longest: found {options.longest!r}; accepted: a whole number from 2 to {LONGEST}")
    refuse_model_without_gradient(options.model, options.method)
    if options.gap is not None:
        check_gap(options.gap)
    if options.calibration is not None:
        refuse_calibration_without_cycles([options.metric])
        if options.gap is not None:
            raise FadiffError("gap: found with a calibration; accepted: one of them, as bounds count the cycles of the "
                              "exact model")
    alone = "layers by themselves" if not options.fuse else "a calibration, with which nothing is fused"
    if not options.fuse or options.calibration is not None:
        if options.method == "gradient":
            raise FadiffError(f"method: found gradient with {alone}; accepted: one of them, as its descent is one of "
                              "fused layers")
        if options.longest != LONGEST:
            raise FadiffError(f"longest: found with {alone}; accepted: one of them")


def layer_search(options: NetworkOptions, effort: str = "full") -> SearchOptions:
    """Options of the search of single layers with an effort; the caller adds a deadline for all of them."""
    return SearchOptions((options.metric,), options.seed, options.time_limit, options.workers, effort=effort,
                         calibration=options.calibration)
