"""The result of a search of designs: every evaluated design, the best ones, and the best design's mappings."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from math import inf, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fadiff_mapper.base.atomic_files import lock
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.base.extras import require
from fadiff_mapper.design.space import Value
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.network.result import NetworkResult, plans_among
from fadiff_mapper.search.lower_bound.assemble import gap_above, percent_above

if TYPE_CHECKING:
    from pandas import DataFrame

    from fadiff_mapper.design.question import DesignQuestion
    from fadiff_mapper.timeloop.verify import Verdict

EXPONENTS = {name: (*powers, 0) for name, powers in METRIC_EXPONENTS.items()} | {"area": (0, 0, 1), "edap": (1, 1, 1)}
"""Metrics of a design by name: exponents of energy in pJ, cycles and area in mm2, whose product is minimised."""


def metric_exponents(metric: str) -> tuple[int, int, int]:
    """The exponents of energy, cycles and area in a metric: a name of `EXPONENTS`, or several names joined by `*`.

    Raises FadiffError for an unknown name.
    """
    parts = [part.strip() for part in metric.split("*")] if isinstance(metric, str) else []
    unknown = [part for part in parts if part not in EXPONENTS]
    if unknown or not parts:
        raise FadiffError(f"metric: found {metric!r}; accepted: {listed(EXPONENTS)}, or a product such as energy*area")
    energy, cycles, area = (sum(EXPONENTS[part][i] for part in parts) for i in range(3))
    return energy, cycles, area


@dataclass(frozen=True, slots=True)
class LeastFigures:
    """Lower bounds on a sum over layers: energy in pJ, cycles, and the root of the energy-delay product.

    Every layer by itself has a proven bound on energy, cycles and EDP (`search.lower_bound`). Sums of bounds bound the
    sums. By the Cauchy-Schwarz inequality the EDP of the sums is at least the square of the sum of the roots of the
    layers' bounds on EDP; this bound is sharper if layers trade energy for cycles.
    """

    energy_pj: float = 0.0
    cycles: float = 0.0
    root_edp: float = 0.0

    def times(self, count: float) -> LeastFigures:
        """The bound of `count` runs."""
        return LeastFigures(self.energy_pj * count, self.cycles * count, self.root_edp * count)

    def __add__(self, other: LeastFigures) -> LeastFigures:
        return LeastFigures(self.energy_pj + other.energy_pj, self.cycles + other.cycles,
                            self.root_edp + other.root_edp)

    def of(self, metric: str, area_mm2: float) -> float:
        """The bound on a metric of a design with this area, see `metric_exponents`."""
        energy, cycles, area = metric_exponents(metric)
        return float(self.product(energy, cycles) * area_mm2 ** area)

    def product(self, energy: float, cycles: float) -> float:
        """The bound on energy and cycles to these exponents, multiplied; the common part of the exponents is that of
        the EDP."""
        both = min(energy, cycles)
        edp = max(self.energy_pj * self.cycles, self.root_edp ** 2)
        return float(edp ** both * self.energy_pj ** (energy - both) * self.cycles ** (cycles - both))


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """The figures of one run of a network on a design: energy in pJ and cycles, with fusion and without."""

    name: str
    weight: float  # how often the network runs
    energy_pj: float  # with fused groups if these are better
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
    """One design of a space and its figures: sums over the networks, each times its weight."""

    point: tuple[int, ...]  # index into the values of every parameter, in the order of the space
    parameters: dict[str, Value]  # value of every parameter by name
    feasible: bool  # whether it is within all limits and every layer is mapped
    reason: str = ""  # why it is infeasible; else empty
    energy_pj: float = inf  # infinite if infeasible
    cycles: float = inf  # infinite if infeasible
    area_mm2: float = inf  # infinite if the design was refused before it was known
    networks: tuple[NetworkFigures, ...] = ()  # empty if infeasible
    mapped: bool = False  # whether its layers were mapped; False if refused by a limit or pruned
    bounds: LeastFigures | None = None  # lower bounds on its plans; None if unknown
    cut_short: bool = False  # whether time ended the search of its mappings

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles: the sum of energies times the sum of cycles."""
        return self.energy_pj * self.cycles

    @property
    def pruned(self) -> bool:
        """Whether the design was pruned for its lower bound."""
        return self.bounds is not None and not self.mapped

    def of(self, metric: str) -> float:
        """The value of a metric, see `metric_exponents`; infinite if the design is infeasible."""
        if not self.feasible:
            return inf
        energy, cycles, area = metric_exponents(metric)
        return float(self.energy_pj ** energy * self.cycles ** cycles * self.area_mm2 ** area)


@dataclass(frozen=True)
class DesignResult:
    """The result of a search of designs; all numbers are exact."""

    question: DesignQuestion  # as searched
    name: str  # name of the space
    space_size: int  # number of its designs
    limits: dict[str, float]  # largest accepted values by name, such as `area_mm2`
    metrics: tuple[str, ...]  # to be minimised; several give a front
    outcomes: Sequence[DesignOutcome]  # every proposed design once, in order
    front: tuple[DesignOutcome, ...]
    """The best design; for several metrics all undominated feasible designs, the best in the first metric first. Empty
    if no design is feasible."""
    documents: tuple[Map, ...]  # of each design of the front, in order, as `design.space.design_document` makes it
    mapped_networks: tuple[NetworkResult, ...]  # the best design's mappings, network by network
    neighbours: tuple[DesignOutcome, ...]  # the designs one value away from the best in one parameter
    final: tuple[DesignOutcome, ...]  # the front evaluated again with the best available source of energies, in order
    final_source: str  # name of that source, in words
    hypervolume: float | None  # share of the box from 0 to `reference` that the front dominates; None for one metric
    reference: tuple[float, ...]  # the worst value of each metric among the feasible designs; empty for one metric
    history: tuple[dict[str, Any], ...]
    """Every improvement in order: `time_s`, `evaluations` so far, `value` of the first metric, for several metrics also
    `hypervolume`."""
    options: dict[str, Any]  # options that determine the result, by name
    status: str  # how the search ended, in words
    time_s: float  # seconds of the search
    warnings: tuple[str, ...] = ()  # on steps skipped for lack of time, and on changed store entries
    bound: float | None = None
    """A lower bound on the metric over all plans on all designs of the space; None for several metrics, with a
    calibration, and if some design was neither bounded nor refused."""
    confirmed: bool = True  # False if the best design, evaluated again, differed from the store

    @property
    def best(self) -> DesignOutcome:
        """The best design in the first metric."""
        return self.front[0]

    @property
    def priced_anew(self) -> bool:
        """Whether the front has other figures with the best available source of energies than in the search."""
        return bool(self.final) and self.final != self.front

    @property
    def gap(self) -> float | None:
        """Share by which the best design may be above the best plan on the best design of the space; 0: proved best.

        None if no bound on the whole space is known.
        """
        return None if self.bound is None or not self.front else gap_above(self.best.of(self.metrics[0]), self.bound)

    @property
    def pruned_gap(self) -> float | None:
        """Share by which the best design may be above the best plan on any pruned design; 0: no such plan is better.

        None if `gap` is None.
        """
        if self.gap is None:
            return None
        metric = self.metrics[0]
        return gap_above(self.best.of(metric), min(
            (outcome.bounds.of(metric, outcome.area_mm2) for outcome in self.outcomes
             if outcome.bounds and outcome.pruned), default=inf))

    @property
    def proven(self) -> str:
        """A sentence on the gap."""
        metric, left = self.metrics[0], self.space_size - len(self.outcomes)
        if self.gap == 0:
            return (f"proved: no plan on any of all {self.space_size:,} designs has a lower {metric}, of "
                    f"{plans_among(self.options['fuse'])}")
        if self.gap is not None:
            others = f"; no plan on the {self.pruned:,} designs pruned for their bounds is better"
            return (f"{metric} is at most {percent_above(self.gap)} above that of the best plan on the best of all "
                    f"{self.space_size:,} designs, of {plans_among(self.options['fuse'])}"
                    + (others if self.pruned and self.pruned_gap == 0 else ""))
        return f"no gap is known: {left:,} designs were not looked at" if left else "no gap is known"

    @property
    def evaluations(self) -> int:
        """Designs whose layers were mapped."""
        return sum(outcome.mapped for outcome in self.outcomes)

    @property
    def pruned(self) -> int:
        """Designs pruned for their lower bounds."""
        return sum(outcome.pruned for outcome in self.outcomes)

    @property
    def refused(self) -> int:
        """Invalid designs, or designs that break a limit before mapping."""
        return sum(not (outcome.mapped or outcome.pruned) for outcome in self.outcomes)

    def write(self, folder: str | Path) -> None:
        """Writes the best design with its mappings and plans, the front, every design evaluated, and a page.

        The folder is made where it does not exist. Raises FadiffError where a file cannot be written.
        """
        from fadiff_mapper.output.design_files import write_open_folder
        with lock(folder):
            write_open_folder(self, folder)

    def to_dataframe(self) -> DataFrame:
        """A pandas table: a row for each design that was proposed. Raises FadiffError without pandas."""
        require("pandas", "pandas", "to_dataframe()")
        from fadiff_mapper.output.frames import design_frame
        return design_frame(self)

    def certificate(self) -> dict[str, Any]:
        """The proof of the bound on all designs, for `fadiff-validate certificate`; FadiffError without a bound."""
        from fadiff_mapper.design.space_certificate import space_certificate
        return space_certificate(self)

    def verify(self) -> dict[str, dict[str, Verdict]]:
        """`NetworkResult.verify` of every network's plan on the best design, by name."""
        from fadiff_mapper.timeloop.verify import real_model, verify_plan
        return {network.workload.name: dict(verify_plan(network, real_model())) for network in self.mapped_networks}


def better_neighbour(result: DesignResult) -> DesignOutcome | None:
    """The best neighbour if it beats the best design, as after a short search; else, or for several metrics, None."""
    if not result.front or len(result.metrics) > 1:
        return None
    metric = result.metrics[0]
    better = [each for each in result.neighbours if each.of(metric) < result.best.of(metric)]
    return min(better, key=lambda each: each.of(metric), default=None)


OWN = 6  # figures of a design: energy, cycles, area, and its three bounds
EACH = 5  # figures of a network on a design: energy, cycles, the same two unfused, fused groups
UNKNOWN = LeastFigures(nan, nan, nan)


class OutcomeTable(Sequence[DesignOutcome]):
    """Outcomes in order as columns of numbers, in a tenth of the memory of objects; reading an entry makes an object.

    Args:
        values: The values of every parameter of the space by name.
        networks: Name and weight of every network.
    """

    def __init__(self, values: Mapping[str, Sequence[Value]], networks: Sequence[tuple[str, float]]) -> None:
        self.values, self.networks = values, networks
        self.points, self.figures = array("I"), array("d")  # indices and figures of every design; nan: no figure
        self.flags, self.reasons = bytearray(), array("I")
        self.words, self.numbers = list[str](), dict[str, int]()  # every reason once, and its number

    def append(self, outcome: DesignOutcome) -> None:
        """Adds an outcome of a design of the space, with the figures of all networks or of none."""
        self.points.extend(outcome.point)
        self.figures.extend((outcome.energy_pj, outcome.cycles, outcome.area_mm2, *astuple(outcome.bounds or UNKNOWN)))
        for each in outcome.networks:
            self.figures.extend((each.energy_pj, each.cycles, each.unfused_energy_pj, each.unfused_cycles,
                                 each.fused_groups))
        if not outcome.networks:
            self.figures.extend([nan] * (EACH * len(self.networks)))
        self.flags.append(outcome.feasible | outcome.mapped << 1 | outcome.cut_short << 2)
        number = self.numbers.setdefault(outcome.reason, len(self.words))
        self.words += [outcome.reason] if number == len(self.words) else []
        self.reasons.append(number)

    def set_bounds(self, place: int, bounds: LeastFigures) -> None:
        """Changes the bounds of an outcome."""
        end = place * (OWN + EACH * len(self.networks)) + OWN
        self.figures[end - 3:end] = array("d", astuple(bounds))

    def __len__(self) -> int:
        return len(self.flags)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(
            mine == yours for mine, yours in zip(self, other, strict=True))

    @overload
    def __getitem__(self, place: int) -> DesignOutcome: ...

    @overload
    def __getitem__(self, place: slice) -> list[DesignOutcome]: ...

    def __getitem__(self, place: int | slice) -> DesignOutcome | list[DesignOutcome]:
        if isinstance(place, slice):
            return [self[number] for number in range(len(self))[place]]
        number = range(len(self))[place]
        size, width = len(self.values), OWN + EACH * len(self.networks)
        point = tuple(self.points[number * size:(number + 1) * size])
        energy, cycles, area, *bounds = self.figures[number * width:number * width + OWN]
        rows = [self.figures[start:start + EACH] for start in range(number * width + OWN, (number + 1) * width, EACH)]
        return DesignOutcome(
            point, {name: values[index] for (name, values), index in zip(self.values.items(), point, strict=True)},
            bool(self.flags[number] & 1), self.words[self.reasons[number]], energy, cycles, area,
            tuple(NetworkFigures(name, weight, row[0], row[1], row[2], row[3], int(row[4]))
                  for (name, weight), row in zip(self.networks, rows, strict=True) if not isnan(row[0])),
            bool(self.flags[number] & 2), None if isnan(bounds[0]) else LeastFigures(*bounds),
            bool(self.flags[number] & 4))


def undominated(values: Sequence[tuple[float, ...]]) -> list[int]:
    """The numbers of the undominated points for minimised metrics, ascending in the first metric; equal points count
    once."""
    kept: list[int] = []
    for number in sorted(range(len(values)), key=lambda number: (values[number], number)):
        if not any(all(mine <= yours for mine, yours in zip(values[other], values[number], strict=True))
                   for other in kept):
            kept.append(number)
    return kept


def hypervolume(values: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    """The share of the box from 0 to a reference, above 0, that points of one to three minimised metrics dominate.

    Points beyond the reference do not count.
    """
    points = np.array([point for point in values if all(v < r for v, r in zip(point, reference, strict=True))])
    return _volume(points / np.array(reference)) if len(points) else 0.0


def _volume(points: np.ndarray) -> float:
    """The volume [n, d] points dominate in the unit cube: slices along the last metric, each of constant area."""
    if points.shape[1] == 1:
        return float(1 - points.min())
    ordered = points[np.argsort(points[:, -1], kind="stable")]
    ends = [*ordered[1:, -1], 1.0]
    return sum((float(end - ordered[number, -1]) * _volume(ordered[:number + 1, :-1])
                for number, end in enumerate(ends) if end > ordered[number, -1]), 0.0)
