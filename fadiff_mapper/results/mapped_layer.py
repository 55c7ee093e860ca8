"""The result of mapping one layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.analysis.lower_bound import LowerBound
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec

if TYPE_CHECKING:
    from fadiff_mapper.analysis.sensitivity.sensitivities import Sensitivity


@dataclass(frozen=True)
class MappedLayer:
    """A mapping with its numbers and how it was found.

    `status` is a sentence on how it ended. `history` lists every improvement: time_s since the start, evaluations
    so far, the metric's value, and the stage that found it. `bound` is what no mapping within the constraints can
    undercut (None where none is known); `sensitivities` are empty unless asked for.
    """

    spec: Spec
    mapping: Mapping
    stats: Stats
    status: str
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    evaluations: int
    time_s: float
    bound: LowerBound | None = None
    sensitivities: tuple[Sensitivity, ...] = ()

    @property
    def metric(self) -> str:
        """The metric of first priority; EDP where the options name none."""
        return str(self.options.get("metrics", ("edp",))[0])

    @property
    def value(self) -> float:
        """The mapping's value of that metric; see `Stats.of`."""
        return self.stats.of(self.metric)
