"""A question of design as every proposer and the evaluation see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff_mapper.results.designed_machine import metric_exponents
from fadiff_mapper.workload import Workload

if TYPE_CHECKING:
    from fadiff_mapper.design.space import DesignSpace


@dataclass(frozen=True)
class DesignQuestion:
    """Which design of a space is best for some networks.

    Attributes:
        space: The designs.
        networks: The networks.
        weights: How often each network runs; energies and cycles are summed with them.
        metrics: Metrics to minimise, see `results.designed_machine.metric_exponents`; several for a front.
        fuse: Whether layers may be fused (`network.map_network`); else every layer runs by itself.
        seed: Seed of every random number.
        energy: Where energies come from that no table in the design gives, as in `inputs.load.load`.
        strict: Whether input of the design that Timeloop ignores is an error, as in `inputs.load.load`.
    """

    space: DesignSpace
    networks: tuple[Workload, ...]
    weights: tuple[float, ...]
    metrics: tuple[str, ...] = ("edp",)
    fuse: bool = True
    seed: int = 0
    energy: str = "bundled"
    strict: bool = True

    @property
    def mapping_metric(self) -> str:
        """The metric that mappings and plans minimise: "edp", "energy" or "delay", whichever the metrics ask for."""
        exponents = [metric_exponents(metric) for metric in self.metrics]
        energy, cycles = (any(each[axis] > 0 for each in exponents) for axis in range(2))
        if energy == cycles:
            return "edp"
        return "energy" if energy else "delay"
