"""A question of design as every proposer and the evaluation see it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.design.evaluation.design_result import OutcomeTable, metric_exponents
from fadiff_mapper.design.space import DesignSpace
from fadiff_mapper.network.options import NetworkOptions, layer_search
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.workload import Operator, Workload


@dataclass(frozen=True)
class NetworkLayer:
    """One distinct layer of one network.

    Attributes:
        layer: Its number in `DesignQuestion.layers`.
        times: How often one run of the network runs it.
        fusable: Whether it could run fused with a neighbour.
    """

    layer: int
    times: int
    fusable: bool


@dataclass(frozen=True)
class DesignQuestion:
    """The question for the best design of a space for some networks.

    Attributes:
        space: The designs.
        networks: The networks.
        weights: How often each network runs; energies and cycles are summed with them.
        metrics: Metrics to minimise, see `design_result.metric_exponents`; several for a front.
        fuse: Whether layers may be fused (`network.map_network`); else every layer runs by itself.
        seed: Seed of every random number.
        energy: Where energies come from that no table in the design gives, as in `inputs.load.load`.
        strict: Whether input of the design that Timeloop ignores is an error, as in `inputs.load.load`.
        calibration: A correction to measured hardware; all cycles of designs are corrected ones then, and nothing is
            fused or left out for its lower bound. None: the exact model.
    """

    space: DesignSpace
    networks: tuple[Workload, ...]
    weights: tuple[float, ...]
    metrics: tuple[str, ...] = ("edp",)
    fuse: bool = True
    seed: int = 0
    energy: str = "estimate"
    strict: bool = True
    calibration: Calibration | None = None

    @cached_property
    def layers(self) -> tuple[Operator, ...]:
        """The distinct layers of all networks in the order of their first appearance; equal ones are mapped once."""
        found: dict[Hashable, Operator] = {}
        for network in self.networks:
            for entry in network.distinct():
                found.setdefault(entry.layer.key, entry.layer)
        return tuple(found.values())

    @cached_property
    def runs(self) -> tuple[tuple[NetworkLayer, ...], ...]:
        """For each network its distinct layers, in the order of `Workload.distinct`."""
        number = {layer.key: index for index, layer in enumerate(self.layers)}
        return tuple(tuple(NetworkLayer(number[entry.layer.key], entry.times, bool(fusable & {*entry.nodes}))
                           for entry in network.distinct())
                     for network, fusable in ((network, _fusable(network)) for network in self.networks))

    @cached_property
    def loads(self) -> tuple[float, ...]:
        """How often each of `layers` runs in all networks together, times their weights."""
        runs = [0.0] * len(self.layers)
        for network, weight in zip(self.runs, self.weights, strict=True):
            for entry in network:
                runs[entry.layer] += weight * entry.times
        return tuple(runs)

    @property
    def mapping_metric(self) -> str:
        """The metric that mappings and plans minimise: "edp", "energy" or "delay", whichever the metrics ask for."""
        exponents = [metric_exponents(metric) for metric in self.metrics]
        energy, cycles = (any(each[axis] > 0 for each in exponents) for axis in range(2))
        if energy == cycles:
            return "edp"
        return "energy" if energy else "delay"

    @property
    def layer_options(self) -> SearchOptions:
        """The search of every layer by itself."""
        return layer_search(self.network_options)

    @property
    def network_options(self) -> NetworkOptions:
        """The search of every network, as `map_network` has it; designs run side by side, so each takes one thread.

        Lighter searches (fewer candidates of a segment, shorter groups) took as long on MobileNetV1 and
        `gemmini_large`: 5.1 to 6.7 s of processor time.
        """
        return NetworkOptions(self.mapping_metric, self.fuse, self.seed, threads=1,
                              calibration=self.calibration)


def empty_archive(question: DesignQuestion) -> OutcomeTable:
    """The table that takes the outcomes of a question's designs.

    Args:
        question: The question.
    """
    return OutcomeTable({parameter.name: parameter.values for parameter in question.space.parameters},
                        [(network.name, weight) for network, weight in
                         zip(question.networks, question.weights, strict=True)])


def _fusable(network: Workload) -> set[str]:
    """The names of all nodes at either end of a link that may be fused."""
    return {name for link in network.links() if link.fusable for name in (link.producer, link.consumer)}
