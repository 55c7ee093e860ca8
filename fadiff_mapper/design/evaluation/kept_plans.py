"""The plans of the best design that a process has mapped, so that they need not be found again at the end."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from fadiff_mapper.design.evaluation.design_result import DesignOutcome
from fadiff_mapper.network.result import NetworkResult


@dataclass
class KeptPlans:
    """The plans of the best design so far; those of other designs are dropped, as each has every mapping in it.

    Attributes:
        metric: The metric by which designs are compared.
        value: Its least value so far.
        point: The design with this value whose plans are kept.
        networks: Its plans, network by network.
    """

    metric: str
    value: float = inf
    point: tuple[int, ...] | None = None
    networks: tuple[NetworkResult, ...] = ()

    def offer(self, outcome: DesignOutcome, networks: tuple[NetworkResult, ...]) -> None:
        """Keeps the plans of a design where it is the best so far.

        Args:
            outcome: The design.
            networks: Its plans; empty where they were not made, as the store had the figures.
        """
        value = outcome.of(self.metric)
        if networks and value < self.value:
            self.value, self.point, self.networks = value, outcome.point, networks
