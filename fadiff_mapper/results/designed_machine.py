"""The result of designing a machine: every design that was looked at, the best ones, and the best one's mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.results.mapped_network import MappedNetwork
from fadiff_mapper.yaml.located import Map

ParameterValue: TypeAlias = int | float | str
"""The value of a parameter: a number, or a word such as "LPDDR4"."""

EXPONENTS = {"edp": (1, 1, 0), "energy": (1, 0, 0), "delay": (0, 1, 0), "area": (0, 0, 1), "edap": (1, 1, 1)}
"""Metrics of a design by name: exponents of energy in pJ, cycles and area in mm2, whose product is minimised."""


def metric_exponents(metric: str) -> tuple[int, int, int]:
    """The exponents of energy, cycles and area in a metric.

    Args:
        metric: One of `EXPONENTS`, or several joined by `*`, such as "energy*area".

    Raises:
        FadiffError: A name that is none.
    """
    parts = [part.strip() for part in metric.split("*")] if isinstance(metric, str) else []
    unknown = [part for part in parts if part not in EXPONENTS]
    if unknown or not parts:
        raise FadiffError(f"metric: found {metric!r}; accepted: {listed(EXPONENTS)}, or a product such as energy*area")
    energy, cycles, area = (sum(EXPONENTS[part][i] for part in parts) for i in range(3))
    return energy, cycles, area


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """The figures of one run of one network on a design.

    Attributes:
        name: The network.
        weight: How often it runs.
        energy_pj: pJ of one run, fused where fusion is better.
        cycles: Cycles of one run.
        unfused_energy_pj: pJ of one run, every layer by itself.
        unfused_cycles: Cycles likewise.
        fused_groups: Groups of fused layers in its plan.
    """

    name: str
    weight: float
    energy_pj: float
    cycles: float
    unfused_energy_pj: float
    unfused_cycles: float
    fused_groups: int = 0

    @property
    def edp(self) -> float:
        """Energy-delay product of one run in pJ * cycles."""
        return self.energy_pj * self.cycles


@dataclass(frozen=True, slots=True)
class DesignOutcome:
    """One design of a space, and what became of it.

    Attributes:
        point: Index into the values of every parameter, in the order of the space.
        parameters: The values of the parameters by name.
        feasible: Whether it keeps all limits and runs every layer; False also for a design that was not mapped.
        reason: Why it is not feasible, in words; empty where it is.
        energy_pj: pJ of all networks, each times its weight; infinite where not feasible.
        cycles: Cycles likewise.
        area_mm2: Area in mm2; infinite where it is not known, as the design was refused before.
        networks: The figures of each network; empty where not feasible.
        mapped: Whether its layers were mapped: neither refused by a limit nor left out for its lower bound.
        bounds: For a design left out for its lower bound: least energy in pJ and least cycles; else None.
        cut_short: Whether time was over before its mappings had been searched to the end.
    """

    point: tuple[int, ...]
    parameters: dict[str, ParameterValue]
    feasible: bool
    reason: str = ""
    energy_pj: float = inf
    cycles: float = inf
    area_mm2: float = inf
    networks: tuple[NetworkFigures, ...] = ()
    mapped: bool = False
    bounds: tuple[float, float] | None = None
    cut_short: bool = False

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles: the sum of energies times the sum of cycles."""
        return self.energy_pj * self.cycles

    @property
    def pruned(self) -> bool:
        """Whether its lower bound left it out."""
        return self.bounds is not None

    def of(self, metric: str) -> float:
        """The value of a metric, see `metric_exponents`; infinite where the design is not feasible."""
        if not self.feasible:
            return inf
        energy, cycles, area = metric_exponents(metric)
        return float(self.energy_pj ** energy * self.cycles ** cycles * self.area_mm2 ** area)


@dataclass(frozen=True)
class DesignedMachine:
    """The end of a search of designs; every number of it is exact.

    Attributes:
        name: Name of the space.
        space_size: Designs in the space.
        ranges: For each parameter its first and last value and the number of its values.
        limits: The limits by name, such as `area_mm2`.
        metrics: Metrics that are minimised; several give a front.
        outcomes: Every design proposed, in order, each once.
        front: The best design; for several metrics all feasible designs that no other one beats in all of them, the
            best in the first metric first. Empty where no design is feasible.
        documents: The document of each design of the front, in order, as `design.space.design_document` makes it.
        mapped_networks: The best design's mappings, network by network.
        neighbours: The designs one value away from the best one in one parameter, evaluated likewise.
        final: The designs of the front evaluated once more with the best source of energies at hand, in order.
        final_source: The best source at hand, in words.
        hypervolume: The share of the box from 0 to `reference` that the front dominates; None for one metric.
        reference: The worst value of each metric among the feasible designs; empty for one metric.
        history: Every improvement in order: `time_s`, `evaluations` so far, `value` of the first metric, for several
            metrics also `hypervolume`.
        options: The options that bear on the result, by name.
        status: How the search ended, in words.
        time_s: Seconds that it took.
        warnings: Sentences on what there was no time for, and on a store that was changed.
        confirmed: False where the best design, evaluated again, had other figures than the store.
    """

    name: str
    space_size: int
    ranges: dict[str, tuple[ParameterValue, ParameterValue, int]]
    limits: dict[str, float]
    metrics: tuple[str, ...]
    outcomes: Sequence[DesignOutcome]
    front: tuple[DesignOutcome, ...]
    documents: tuple[Map, ...]
    mapped_networks: tuple[MappedNetwork, ...]
    neighbours: tuple[DesignOutcome, ...]
    final: tuple[DesignOutcome, ...]
    final_source: str
    hypervolume: float | None
    reference: tuple[float, ...]
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    status: str
    time_s: float
    warnings: tuple[str, ...] = ()
    confirmed: bool = True

    @property
    def best(self) -> DesignOutcome:
        """The best design in the first metric."""
        return self.front[0]

    @property
    def evaluations(self) -> int:
        """Designs whose layers were mapped."""
        return sum(outcome.mapped for outcome in self.outcomes)

    @property
    def pruned(self) -> int:
        """Designs that their lower bound left out."""
        return sum(outcome.pruned for outcome in self.outcomes)

    @property
    def refused(self) -> int:
        """Designs that break a limit that needs no mapping, or are no design at all."""
        return sum(not (outcome.mapped or outcome.pruned) for outcome in self.outcomes)
