"""One design from its point in the space to its figures: the task of a worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError, OutOfTime, SpecError
from fadiff_mapper.base.version import __version__
from fadiff_mapper.design.design_reader import DesignReader
from fadiff_mapper.design.layer_entries import (
    OUT_OF_TIME,
    LayerEntry,
    LeastFigures,
    arithmetic_bound,
    design_digest,
    digest_of,
    layer_bound,
    layer_entries,
    layer_key,
    mapped_layer,
    mapping_of,
)
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, NetworkFigures
from fadiff_mapper.design.result_store import ResultStore
from fadiff_mapper.design.space import Point, broken_limit, design_area_mm2, parameter_values
from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.prices import other_reads
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import is_sparse
from fadiff_mapper.network.result import NetworkResult, network_result
from fadiff_mapper.workload.readers.network_text import network_text, shape_id


@dataclass
class KeptPlans:
    """The plans of the best design so far; others are dropped, as plans hold every mapping."""

    metric: str
    value: float = math.inf
    point: Point | None = None
    networks: tuple[NetworkResult, ...] = ()

    def offer(self, outcome: DesignOutcome, networks: tuple[NetworkResult, ...]) -> None:
        """Keeps the plans of a design if it is the best so far; no plans if the store had its figures."""
        value = outcome.of(self.metric)
        if networks and value < self.value:
            self.value, self.point, self.networks = value, outcome.point, networks


@dataclass(frozen=True)
class DesignBench:
    """Evaluates designs: the question, its parsed inputs, and the store.

    Attributes:
        question: The question.
        folder: Folder of the store; None keeps nothing.
    """

    question: DesignQuestion
    folder: Path | None

    def __reduce__(self) -> tuple[type[DesignBench], tuple[DesignQuestion, Path | None]]:
        """Without parsed inputs, as each task carries the bench and every worker reads them itself."""
        return DesignBench, (self.question, self.folder)

    @cached_property
    def reader(self) -> DesignReader:
        return DesignReader(self.question)

    @cached_property
    def store(self) -> ResultStore:
        return ResultStore(self.folder)

    @cached_property
    def plans(self) -> KeptPlans:
        """The plans of the best design that was mapped here."""
        return KeptPlans(self.question.metrics[0])

    def specs_at(self, point: Point) -> tuple[Spec, ...]:
        """A design with every distinct layer, in the order of `DesignQuestion.layers`. Raises SpecError."""
        return self.reader.specs(point)

    def least_at(self, point: Point, stopped: Callable[[], bool] = lambda: False) -> LeastFigures | None:
        """The bound on all layers of a design, unfused; no bound on plans with fused groups.

        None if some layer has no proven bound, and for sparse designs.

        Raises:
            FadiffError: The point is no valid design, or the store cannot be written.
            OutOfTime: `stopped` was true before all layers were bounded.
        """
        specs, total = self.reader.specs(point), LeastFigures(0.0, 0.0, 0.0)
        design = design_digest(specs[0])
        for spec, often in zip(specs, self.question.loads, strict=True):
            if stopped():
                raise OutOfTime
            bound = layer_bound(spec, design, self.store)
            if bound is None:
                return None
            total += bound.times(often)
        return total

    def mappings_at(self, point: Point) -> tuple[Mapping, ...]:
        """The best unfused mapping of every layer of `specs_at`; from the store, or searched again.

        Raises:
            FadiffError: A layer has no mapping.
        """
        specs = self.reader.specs(point)
        return tuple(mapping_of(entry, spec) for entry, spec in zip(self._required(specs), specs, strict=True))

    def networks_at(self, point: Point, stopped: Callable[[], bool] = lambda: False) -> tuple[NetworkResult, ...]:
        """All networks on a design, with every mapping; plans that are not kept are made again, until `stopped`.

        Raises:
            FadiffError: A layer has no mapping, or its stored mapping is invalid.
        """
        if point == self.plans.point:
            return self.plans.networks
        specs = self.reader.specs(point)
        entries = self._required(specs)
        return tuple(mapped_network(self.question, number, specs, entries, stopped)
                     for number in range(len(self.question.networks)))

    def _required(self, specs: Sequence[Spec]) -> list[LayerEntry]:
        """The entries of all layers. Raises FadiffError if a layer has no mapping."""
        entries = layer_entries(specs, self.question.layer_options, self.store)
        if reason := _missing_layer(self.question, entries):
            raise FadiffError(reason)
        return entries


def _missing_layer(question: DesignQuestion, entries: Sequence[LayerEntry]) -> str:
    """The first layer without a mapping, with the reason; empty if all have a mapping."""
    return next((f"{shape_id(layer)}: {entry.reason}" for layer, entry in zip(question.layers, entries, strict=True)
                 if entry.reason), "")


def network_figures(question: DesignQuestion, number: int, specs: Sequence[Spec], entries: Sequence[LayerEntry],
                    store: ResultStore, stopped: Callable[[], bool] = lambda: False, give_up: bool = True,
                    ) -> tuple[NetworkFigures, NetworkResult | None]:
    """The figures of one network on a design, and its plan if one had to be made.

    Args:
        question: The question.
        number: Index of the network.
        specs: The design with every distinct layer of the question.
        entries: The unfused mapping of each layer.
        store: Plans of earlier and concurrent runs.
        stopped: Asked repeatedly; once true, planning ends.
        give_up: Whether an interrupted planning is given up, or its best plan so far taken, which is not stored.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: Planning was given up.
    """
    network, weight, runs = question.networks[number], question.weights[number], question.runs[number]
    if not question.fuse:
        joined = other_reads(network, specs[0])
        energy = joined.energy_pj + sum(entry.times * entries[entry.layer].energy_pj for entry in runs)
        cycles = round(joined.cycles) + sum(entry.times * entries[entry.layer].cycles for entry in runs)
        return NetworkFigures(network.name, weight, energy, cycles, energy, cycles), None
    plan, design = None, design_digest(specs[0])
    key = digest_of(["plan", __version__, network_text(network), question.network_options.as_dict(),
                     [layer_key(design, specs[entry.layer], question.layer_options) for entry in runs]])
    whole = not any(entries[entry.layer].status == OUT_OF_TIME for entry in runs)
    known = _figures_of(store.get(key) or {}) if whole else None
    if known is None:
        plan = mapped_network(question, number, specs, entries, stopped)
        if plan.status == OUT_OF_TIME and give_up:
            raise OutOfTime
        known = NetworkFigures(network.name, weight, plan.stats.energy_pj, float(plan.stats.cycles),
                               plan.unfused_stats.energy_pj, float(plan.unfused_stats.cycles), len(plan.groups))
        if whole and plan.status != OUT_OF_TIME:
            store.put(key, asdict(known))
    return replace(known, name=network.name, weight=weight), plan


def _figures_of(content: dict[str, object]) -> NetworkFigures | None:
    """Figures as they were stored; None if invalid, so that the network is planned again."""
    try:
        figures = NetworkFigures(**content)  # type: ignore[arg-type]
    except TypeError:
        return None
    sound = all(isinstance(value, int | float) and value > 0 for value in (
        figures.energy_pj, figures.cycles, figures.unfused_energy_pj, figures.unfused_cycles))
    return figures if sound else None


def mapped_network(question: DesignQuestion, number: int, specs: Sequence[Spec],
                   entries: Sequence[LayerEntry], stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """One network on a design with every mapping; arguments as for `network_figures`.

    Raises:
        SpecError: A stored mapping is invalid.
        InvalidMapping: A stored mapping cannot run on the design.
    """
    network, runs = question.networks[number], question.runs[number]
    own = tuple(specs[entry.layer] for entry in runs)
    mapped = tuple(mapped_layer(entries[entry.layer], spec, question.layer_options)
                   for entry, spec in zip(runs, own, strict=True))
    if question.fuse:
        # The planner loads modules that designs of single layers do not need.
        from fadiff_mapper.network.map_network import plan_network
        from fadiff_mapper.network.planning_clock import PlanningClock
        plan = plan_network(network, own, question.network_options, mapped=mapped, clock=PlanningClock(None, stopped))
        return replace(plan, status=OUT_OF_TIME) if stopped() else plan
    status = OUT_OF_TIME if any(layer.status == OUT_OF_TIME for layer in mapped) else "search ended"
    return network_result(network, Hardware(own[0].arch, own[0].tables), mapped, {}, (), (),
                          question.network_options.as_dict(), status, 0.0)


def planned_figures(question: DesignQuestion, plan: NetworkResult) -> tuple[float, float]:
    """Energy in pJ and cycles of a plan, as `network_figures` counts them, from the evaluation of every mapping."""
    corrected = None if question.fuse else plan.corrected_cycles
    return plan.stats.energy_pj, float(plan.stats.cycles if corrected is None else corrected)


SAME = 1e-9
"""Relative difference of figures due to the order of a sum over layers."""


def disagreement(question: DesignQuestion, outcome: DesignOutcome, plans: Sequence[NetworkResult]) -> str:
    """A sentence on differences between a feasible design's figures, maybe stored, and its fresh `plans`; empty if
    equal."""
    for figures, plan in zip(outcome.networks, plans, strict=True):
        pairs = list(zip(planned_figures(question, plan), (figures.energy_pj, figures.cycles), strict=True))
        if not all(math.isclose(again, stored, rel_tol=SAME) for again, stored in pairs):
            return (f"the best design, evaluated again, takes {pairs[0][0]:.6g} pJ and {pairs[1][0]:.6g} cycles for "
                    f"{figures.name}, not {pairs[0][1]:.6g} pJ and {pairs[1][1]:.6g} cycles as the store has it: it "
                    "was changed, or filled by another machine; search again without it")
    return ""


SLACK = 1 - 1e-9
"""Factor on sums before they are compared: thousands of additions may differ in their last bits."""


def bound_that_loses(bench: DesignBench, specs: Sequence[Spec], area_mm2: float, rivals: Sequence[tuple[float, ...]],
                     stopped: Callable[[], bool] = lambda: False) -> LeastFigures | None:
    """The bound that proves a design to be no better than a mapped one; None without a proof.

    Bounds of layers are computed one by one, those with the most arithmetic first, until there is a proof. Fused layers
    pass tensors on without the memory of a layer's bound: a layer that could be fused is bounded only by its
    arithmetic, which no plan avoids.

    Args:
        bench: The question, and the store of bounds.
        specs: The design with every distinct layer.
        area_mm2: Its area.
        rivals: The metrics of mapped designs, in the order of the question's metrics.
        stopped: Asked before every layer.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: `stopped` was true before the end.
    """
    question = bench.question
    if not rivals or any(is_sparse(spec) for spec in specs):
        return None
    fusable = {entry.layer for network in question.runs for entry in network if question.fuse and entry.fusable}
    least = [arithmetic_bound(spec).times(count) for spec, count in zip(specs, question.loads, strict=True)]
    total, design = sum(least, LeastFigures(0.0, 0.0, 0.0)), design_digest(specs[0])

    def loses() -> bool:
        bounds = [total.of(metric, area_mm2) * SLACK for metric in question.metrics]
        return any(all(value <= bound for value, bound in zip(rival, bounds, strict=True)) for rival in rivals)

    for layer in sorted(range(len(least)), key=lambda layer: -least[layer].cycles):
        if loses():
            return total
        if stopped():
            raise OutOfTime
        bound = None if layer in fusable else layer_bound(specs[layer], design, bench.store)
        if bound is not None:
            total += bound.times(question.loads[layer]) - least[layer]
    return total if loses() else None


def evaluate_design(bench: DesignBench, point: Point, rivals: Sequence[tuple[float, ...]] = (),
                    stopped: Callable[[], bool] = lambda: False, give_up: bool = True) -> DesignOutcome:
    """Evaluates one design exactly.

    Limits are checked first, then lower bounds; only then layers are mapped and networks planned, unless they are in
    the store.

    Args:
        bench: The question and the store.
        point: The design.
        rivals: Metrics of known designs; a design proven no better than one of them is not mapped. Empty: every design
            is mapped.
        stopped: Asked repeatedly while layers are mapped and networks planned.
        give_up: Whether the design is given up once `stopped` is true, or judged by its best mappings so far.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: The design was given up.
    """
    question, parameters = bench.question, parameter_values(bench.question.space, point)

    def refused(reason: str, area_mm2: float = math.inf, mapped: bool = False) -> DesignOutcome:
        return DesignOutcome(point, parameters, False, reason, area_mm2=area_mm2, mapped=mapped)

    if broken := broken_limit(question.space, point):
        return refused(broken)
    try:
        specs = bench.reader.specs(point)
    except SpecError as error:
        return refused(error.problems[0])
    area = design_area_mm2(specs[0])
    if broken := broken_limit(question.space, point, specs[0], area):
        return refused(broken, area)
    least = None if question.calibration else bound_that_loses(bench, specs, area, rivals, stopped)
    if least is not None:
        return DesignOutcome(point, parameters, False, "its lower bound is no better than a design that is known",
                             area_mm2=area, bounds=(least.energy_pj, least.cycles))
    entries = layer_entries(specs, question.layer_options, bench.store, stopped, give_up)
    if missing := _missing_layer(question, entries):
        return refused(missing, area, mapped=True)
    planned = [network_figures(question, number, specs, entries, bench.store, stopped, give_up)
               for number in range(len(question.networks))]
    cut_short = OUT_OF_TIME in {entry.status for entry in entries} | {plan.status for _, plan in planned if plan}
    if cut_short:  # not stored, so these plans cannot be made later
        planned = [(each, plan or mapped_network(question, number, specs, entries, stopped))
                   for number, (each, plan) in enumerate(planned)]
    figures, plans = tuple(each for each, _ in planned), tuple(plan for _, plan in planned if plan)
    outcome = DesignOutcome(point, parameters, True, "", sum(each.weight * each.energy_pj for each in figures),
                            sum(each.weight * each.cycles for each in figures), area, figures, mapped=True,
                            cut_short=cut_short)
    bench.plans.offer(outcome, plans if len(plans) == len(planned) else ())
    return outcome
