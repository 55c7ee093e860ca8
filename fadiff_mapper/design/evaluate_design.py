"""One design from its point in the space to its figures: read, bounded and mapped, the task of a worker."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime, SpecError
from fadiff_mapper.base.version import __version__
from fadiff_mapper.design.layer_entries import (
    OUT_OF_TIME,
    LayerEntry,
    arithmetic_bound,
    design_digest,
    digest_of,
    layer_bounds,
    layer_entries,
    layer_key,
    least_edp_entries,
    least_layer,
    mapped_layer,
    mapping_of,
)
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, LeastFigures, NetworkFigures, metric_exponents
from fadiff_mapper.design.result_store import ResultStore, as_stored
from fadiff_mapper.design.space import Point, broken_limit, design_area_mm2, design_document, parameter_values
from fadiff_mapper.fusion import hardware_of
from fadiff_mapper.fusion.prices import other_reads, summed
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.inputs.load import find_energies, read_spec, with_problem
from fadiff_mapper.inputs.native.arch import read_architecture
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS, Spec
from fadiff_mapper.inputs.v04.document import translated_architecture
from fadiff_mapper.inputs.yaml.place import Leniency
from fadiff_mapper.model.evaluate_spec import is_sparse
from fadiff_mapper.network.network_bound import LeastLayer, NetworkLeast, least_work, network_least
from fadiff_mapper.network.one_by_one import layer_proof
from fadiff_mapper.network.options import LONGEST
from fadiff_mapper.network.result import NetworkResult, network_result
from fadiff_mapper.workload.readers.network_text import network_text, shape_id

# Designs differ in a few numbers, and layers in bounds. So for most designs only the architecture and its energies are
# read. Constraints depend on the layer and on the shape of the architecture, but not on attributes of components or the
# width of a fan-out (except with `maximize_dims`). So layers are read in full only on the first design of every shape.
# Sparse documents, and documents that depend on the layer in other ways, are read in full for each design.

MOST_SHAPES = 64  # shapes of the architecture whose constraints are kept, the latest ones: a limit on memory

BOUND_WORK = (0, 250_000)
"""Layers of parts of fused groups that are bounded for a design: at first, and if the design is still open then. A
limit of time, a third of the time of its plan."""

PROOF_WORK = 4_000_000
"""Work of the bound of a design that keeps the gap of a space open: layers of parts of groups, and parts and mappings
of the proof of a layer. Most bounds cannot rise further beyond it."""

MOST_DESIGNS = 64
"""Parsed designs that are kept, the latest ones, so that a design is read once to be judged and mapped."""

UNSEEN = ("attributes", "spatial")
"""Entries of a component on which constraints do not depend: its attributes, and its meshes as long as a fan-out
remains a fan-out. Lists of constraints named `spatial` are under `constraints` and count."""

FILLING = "maximize_dims"  # the constraint whose factors depend on the width of a fan-out
SPARSE = "sparse_optimizations"  # the key of sparse optimizations, whose densities depend on the layer


class DesignReader:
    """Reads designs of one space with all layers of a question."""

    def __init__(self, question: DesignQuestion) -> None:
        self.question = question
        self.readings: dict[Hashable, tuple[Spec, ...]] = {}  # first full reading of each shape, without energy notes
        self.specs = lru_cache(MOST_DESIGNS)(self._specs)

    def _specs(self, point: Point) -> tuple[Spec, ...]:
        """A design with every layer of the question, in the order of `DesignQuestion.layers`, as if read in full.

        Raises SpecError if the point is no valid design, or a layer's constraints do not fit it.
        """
        question, document = self.question, design_document(self.question.space, point)
        leniency = Leniency(question.space.strict)
        native = translated_architecture(with_problem(document, question.layers[0].literal), leniency)
        arch = read_architecture(native, native.where, leniency=leniency)
        seen = repr([(key, _without_attributes_and_meshes(value) if key == "architecture" else value)
                     for key, value in document.items()])

        def in_full() -> tuple[Spec, ...]:
            return tuple(read_spec(with_problem(document, layer.literal), question.space.files, question.energy,
                                   question.space.strict) for layer in question.layers)

        meshes = [arch.fanout(level) for level in range(len(arch.levels))]
        shape = (seen, arch.level_names(), tuple(meshes if FILLING in seen else [x * y > 1 for x, y in meshes]),
                 tuple(leniency.warnings))
        known = self.readings.get(shape)
        if SPARSE in seen or any("problem" in text for key, value in document.items()
                                 if key not in ("problem", "mapping") for text in _texts(value)):
            specs = in_full()
        elif known is None:
            specs = in_full()
            _, notes = find_energies(document, specs[0].arch, specs[0].literal, question.energy)
            if len(self.readings) >= MOST_SHAPES:
                del self.readings[next(iter(self.readings))]
            self.readings[shape] = tuple(replace(spec, notes=spec.notes[:len(spec.notes) - len(notes)])
                                         for spec in specs)
        else:
            literals = [spec.literal | arch.native for spec in known]
            tables, notes = find_energies(document, arch, literals[0], question.energy)
            specs = tuple(replace(spec, arch=arch, tables=tables, literal=literal, notes=(*spec.notes, *notes))
                          for spec, literal in zip(known, literals, strict=True))
        return specs


def _without_attributes_and_meshes(node: Any) -> Any:
    """The values of a document without the attributes and meshes of its components."""
    if isinstance(node, dict):
        return {key: value if "constraints" in str(key) else _without_attributes_and_meshes(value)
                for key, value in node.items() if key not in UNSEEN}
    return [_without_attributes_and_meshes(value) for value in node] if isinstance(node, list) else node


def _texts(node: Any) -> Iterator[str]:
    """All strings in a tree except keys: expressions among them may refer to the layer's problem."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _texts(value)


@dataclass
class DesignBench:
    """Evaluates designs. Holds the question, its inputs, the store, and the plans of the best design mapped here."""

    question: DesignQuestion
    folder: Path | None  # folder of the store; None: nothing is kept

    def __post_init__(self) -> None:
        self.reader, self.store = DesignReader(self.question), ResultStore(self.folder)
        self.segments = cache(self._segments)
        self.planned: Point | None = None  # the best design so far with known plans, its metric, and the plans
        self.value, self.plans = math.inf, tuple[NetworkResult, ...]()
        # the last plan bound, to be continued: digest of network and layers on a design, and the bound
        self.begun: tuple[Hashable, NetworkLeast] | None = None

    @cached_property
    def content(self) -> bytes:
        """The bench as every task carries it, without parsed inputs, which each worker reads itself."""
        return pickle.dumps((self.question, self.folder))

    def __reduce__(self) -> tuple[Callable[[bytes], DesignBench], tuple[bytes]]:
        return received_bench, (self.content,)

    def _segments(self, units: bool) -> tuple[Sequence[Segment], ...]:
        """All segments of each network that could be fused groups, on any design with compute units, or without."""
        return tuple(segments(network, LONGEST, units=units) if self.question.fuse else ()
                     for network in self.question.networks)

    @cached_property
    def least_loads(self) -> tuple[float, ...]:
        """For each layer the least work in all networks together, in runs of the whole layer, times the weights."""
        runs = [0.0] * len(self.question.layers)
        for network, weight, numbers, groups in zip(self.question.networks, self.question.weights, self.question.runs,
                                                    self.segments(False), strict=True):
            work = least_work(groups)
            for entry, (layer, times) in zip(network.distinct(), numbers, strict=True):
                runs[layer] += weight * times * min(work.get(node, 1.0) for node in entry.nodes)
        return tuple(runs)

    def arithmetic(self, specs: Sequence[Spec]) -> LeastFigures:
        """The bound on all plans of a dense design by the multiply-accumulates that no plan can leave out."""
        return sum((arithmetic_bound(spec).times(count) for spec, count in zip(specs, self.least_loads, strict=True)),
                   LeastFigures())

    def keep(self, outcome: DesignOutcome, plans: tuple[NetworkResult, ...]) -> None:
        """Keeps the plans of a design if it is the best so far, and drops the others, as plans hold every mapping.
        `plans` is empty if the figures came from the store."""
        value = outcome.of(self.question.options.metrics[0])
        if plans and value < self.value:
            self.planned, self.value, self.plans = outcome.point, value, plans

    def least_at(self, point: Point, stopped: Over = never) -> LeastFigures | None:
        """The bound on all layers of a design one by one; it does not bound plans with fused groups.

        None if some layer has no proven bound, and for sparse designs.

        Raises:
            FadiffError: The point is no valid design, or the store cannot be written.
            OutOfTime: `stopped` was true before all layers were bounded.
        """
        bounds = layer_bounds(self.reader.specs(point), self.store, stopped)
        return None if bounds is None else sum(
            (bound.times(often) for bound, often in zip(bounds, self.question.loads, strict=True)), LeastFigures())

    def mappings_at(self, point: Point) -> tuple[Mapping, ...]:
        """The best unfused mapping of every layer, as in `DesignQuestion.layers`; from the store, or searched again.

        Raises FadiffError if a layer has no mapping.
        """
        specs = self.reader.specs(point)
        return tuple(mapping_of(entry, spec) for entry, spec in zip(self._required(specs), specs, strict=True))

    def networks_at(self, point: Point, stopped: Over = never, proved: bool = False) -> tuple[NetworkResult, ...]:
        """All networks on a design, with every mapping and the bound on their plans, see `plan_bound`.

        Plans that were not kept are made again; once `stopped`, these have no bound.

        Raises FadiffError if a layer has no mapping, or its stored mapping is invalid.
        """
        specs, networks = self.reader.specs(point), self.plans
        if point != self.planned:
            entries = self._required(specs)
            networks = tuple(mapped_network(self.question, number, specs, entries, stopped)
                             for number in range(len(self.question.networks)))
        with suppress(OutOfTime):
            least = [plan_bound(self, number, specs, stopped, proved=proved) for number in range(len(networks))]
            networks = tuple(replace(network, bound=one.of(self.question.mapping_metric, 1.0) if one else None)
                             for network, one in zip(networks, least, strict=True))
        return networks

    def _required(self, specs: Sequence[Spec]) -> list[LayerEntry]:
        """The entries of all layers. Raises FadiffError if a layer has no mapping."""
        entries = layer_entries(specs, self.question.layer_options, self.store)
        if reason := _missing_layer(self.question, entries):
            raise FadiffError(reason)
        return self.chosen(specs, entries)

    def chosen(self, specs: Sequence[Spec], entries: list[LayerEntry], stopped: Over = never) -> list[LayerEntry]:
        """The mapped layers of a design with the mappings that are best for all networks together.

        Raises OutOfTime, and FadiffError where the store cannot be written.
        """
        question = self.question
        if question.mapping_metric != "edp" or question.options.calibration or is_sparse(specs[0]):
            return entries
        besides = summed([other_reads(network, specs[0], metric="edp").times(weight)
                          for network, weight in zip(question.networks, question.weights, strict=True)])
        return least_edp_entries(specs, entries, question.loads, besides, question.layer_options, self.store, stopped)


@lru_cache(maxsize=2)
def received_bench(content: bytes) -> DesignBench:
    """The bench as a worker first received it from the run's main process, with all inputs read since."""
    return DesignBench(*pickle.loads(content))


def _missing_layer(question: DesignQuestion, entries: Sequence[LayerEntry]) -> str:
    """The first layer without a mapping, with the reason; empty if all have a mapping."""
    return next((f"{shape_id(layer)}: {entry.reason}" for layer, entry in zip(question.layers, entries, strict=True)
                 if entry.reason), "")


def network_figures(question: DesignQuestion, number: int, specs: Sequence[Spec], entries: Sequence[LayerEntry],
                    store: ResultStore, stopped: Over = never, give_up: bool = True,
                    ) -> tuple[NetworkFigures, NetworkResult | None]:
    """The figures of network `number` on a design, and its plan if one had to be made.

    `specs`: the design with every distinct layer of the question; `entries`: their mappings one by one. `give_up`:
    whether planning is given up once `stopped`; else its best plan so far is returned and not stored.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: Planning was given up.
    """
    network, weight, runs = question.networks[number], question.weights[number], question.runs[number]
    if not question.fuse:
        joined = other_reads(network, specs[0], metric=question.mapping_metric)
        energy = joined.energy_pj + sum(times * entries[layer].energy_pj for layer, times in runs)
        cycles = round(joined.cycles) + sum(times * entries[layer].cycles for layer, times in runs)
        return NetworkFigures(network.name, weight, energy, cycles, energy, cycles), None
    plan, design = None, design_digest(specs[0])
    key = digest_of(["plan", __version__, network_text(network), question.network_options.as_dict(),
                     [[layer_key(design, specs[layer], question.layer_options), entries[layer].mapping]
                      for layer, _ in runs]])
    whole = not any(entries[layer].status == OUT_OF_TIME for layer, _ in runs)
    known = as_stored(NetworkFigures, store.get(key), (
        "energy_pj", "cycles", "unfused_energy_pj", "unfused_cycles")) if whole else None
    if known is None:
        plan = mapped_network(question, number, specs, entries, stopped)
        if plan.status == OUT_OF_TIME and give_up:
            raise OutOfTime
        known = NetworkFigures(network.name, weight, plan.stats.energy_pj, float(plan.stats.cycles),
                               plan.unfused_stats.energy_pj, float(plan.unfused_stats.cycles), len(plan.groups))
        if whole and plan.status != OUT_OF_TIME:
            store.put(key, asdict(known))
    return replace(known, name=network.name, weight=weight), plan


def mapped_network(question: DesignQuestion, number: int, specs: Sequence[Spec],
                   entries: Sequence[LayerEntry], stopped: Over = never) -> NetworkResult:
    """One network on a design with every mapping; arguments as for `network_figures`.

    Raises:
        SpecError: A stored mapping is invalid.
        InvalidMapping: A stored mapping cannot run on the design.
    """
    network, runs = question.networks[number], question.runs[number]
    own = tuple(specs[layer] for layer, _ in runs)
    mapped = tuple(mapped_layer(entries[layer], spec, question.layer_options)
                   for (layer, _), spec in zip(runs, own, strict=True))
    if question.fuse:
        # The planner loads modules that designs of single layers do not need.
        from fadiff_mapper.network.map_network import plan_network
        from fadiff_mapper.network.planning_clock import PlanningClock
        plan = plan_network(network, own, question.network_options, mapped=mapped, clock=PlanningClock(None, stopped))
        return replace(plan, status=OUT_OF_TIME) if stopped() else plan
    status = OUT_OF_TIME if any(layer.status == OUT_OF_TIME for layer in mapped) else "search ended"
    return network_result(network, hardware_of(own), mapped, {}, (), (),
                          question.network_options.as_dict(), status, 0.0)


SAME = 1e-9  # relative difference of figures due to the order of a sum over layers


def disagreement(question: DesignQuestion, outcome: DesignOutcome, plans: Sequence[NetworkResult]) -> str:
    """A sentence on differences between the figures of a feasible design, perhaps stored, and those of fresh `plans`;
    "" if equal."""
    for figures, plan in zip(outcome.networks, plans, strict=True):
        corrected = None if question.fuse else plan.corrected_cycles    # as `network_figures` counts
        pairs = [(plan.stats.energy_pj, figures.energy_pj),
                 (float(plan.stats.cycles if corrected is None else corrected), figures.cycles)]
        if not all(math.isclose(again, stored, rel_tol=SAME) for again, stored in pairs):
            return (f"the best design, evaluated again, takes {pairs[0][0]:.6g} pJ and {pairs[1][0]:.6g} cycles for "
                    f"{figures.name}, not {pairs[0][1]:.6g} pJ and {pairs[1][1]:.6g} cycles as the store has it: it "
                    "was changed, or filled by another machine; search again without it")
    return ""


SLACK = 1 - 1e-9  # factor on sums before they are compared: thousands of additions may differ in their last bits


def plan_bound(bench: DesignBench, number: int, specs: Sequence[Spec], stopped: Over = never,
               work: int = BOUND_WORK[-1], proved: bool = False) -> LeastFigures | None:
    """The bound on all plans of network `number` on a design, fused or not as the question says.

    It is stored for fused networks and with proofs; otherwise it follows at once from the bounds of layers, which are
    stored.

    None if some layer has no proven bound. `specs`: the design with every distinct layer; `stopped`: asked before every
    layer; `work`: the most layers of parts of groups that are bounded; `proved`: whether the least prices of layers are
    proved, for a design that is mapped.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: `stopped` was true before the end.
    """
    question, network = bench.question, bench.question.networks[number]
    own = [specs[layer] for layer, _ in question.runs[number]]
    if question.options.calibration or is_sparse(own[0]):
        return None
    least, key = None, ""
    design = design_digest(specs[0])
    asked = digest_of(["bound of plans", __version__, network_text(network), proved, *question.options.metrics,
                       [layer_key(design, spec, question.layer_options) for spec in own]])
    if question.fuse or proved:
        key = digest_of([asked, work])
        least = as_stored(LeastFigures, bench.store.get(key), ("energy_pj", "cycles", "root_edp"))
    if least is None:
        bounds = layer_bounds(own, bench.store, stopped)
        if bounds is None:
            return None
        if bench.begun is None or bench.begun[0] != asked:
            layers = [LeastLayer(bound.energy_pj, bound.cycles, bound.root_edp ** 2) for bound in bounds]
            if proved:
                entries = layer_entries(own, question.layer_options, bench.store, stopped)
                layers = [least_layer(layer_proof(spec, mapping_of(entry, spec), PROOF_WORK, stopped), bound)
                          for spec, entry, bound in zip(own, entries, bounds, strict=True)]
            hardware = hardware_of(own)
            bench.begun = asked, network_least(network, hardware, own, layers,
                                               bench.segments(bool(hardware.arch.units))[number], searched=proved)
        plans = bench.begun[1]
        needed = set[str]()     # the bounds whose powers some metric has
        for energy, cycles, _ in map(metric_exponents, question.options.metrics):
            powers = {"edp": min(energy, cycles), "energy": energy - cycles, "delay": cycles - energy}
            needed |= {name for name, power in powers.items() if power > 0}
        edp, least_energy, delay = (plans.bound(metric, work if metric in needed else 0, patience=math.inf)
                                    for metric in METRIC_EXPONENTS)
        least = LeastFigures(least_energy, delay, math.sqrt(edp))
        if proved and stopped():
            bench.begun = None  # its proofs were interrupted
            raise OutOfTime
        if question.fuse or proved:
            bench.store.put(key, asdict(least))
    return least


def design_bound(bench: DesignBench, specs: Sequence[Spec], stopped: Over = never,
                 work: int = BOUND_WORK[-1], proved: bool = False) -> LeastFigures | None:
    """The bound on all plans of all networks on a design, each times its weight; arguments as for `plan_bound`."""
    total = LeastFigures()
    for number, weight in enumerate(bench.question.weights):
        least = plan_bound(bench, number, specs, stopped, work, proved)
        if least is None:
            return None
        total += least.times(weight)
    return total


def loses(question: DesignQuestion, least: LeastFigures, area_mm2: float, rivals: Sequence[tuple[float, ...]]) -> bool:
    """Whether a design with this bound is no better than one of the rivals (see `evaluate_design`)."""
    bounds = [least.of(metric, area_mm2) * SLACK for metric in question.options.metrics]
    return any(all(value <= bound for value, bound in zip(rival, bounds, strict=True)) for rival in rivals)


def evaluate_design(bench: DesignBench, point: Point, rivals: Sequence[tuple[float, ...]] = (),
                    stopped: Over = never, give_up: bool = True) -> DesignOutcome:
    """Evaluates one design exactly.

    Limits are checked first, then lower bounds; only then layers are mapped and networks planned, unless they are in
    the store.

    Args:
        bench: The question and the store.
        point: The design.
        rivals: Metrics of known designs; a design is not mapped if it is proven no better than one of them.
        stopped: Asked repeatedly while layers are mapped and networks planned.
        give_up: Whether a design is given up once `stopped` is true; else its best mappings so far count.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: The design was given up.
    """
    question, parameters = bench.question, parameter_values(bench.question.space, point)

    def refused(reason: str, area_mm2: float = math.inf, mapped: bool = False,
                bounds: LeastFigures | None = None) -> DesignOutcome:
        return DesignOutcome(point, parameters, False, reason, area_mm2=area_mm2, mapped=mapped, bounds=bounds)

    if broken := broken_limit(question.space, point):
        return refused(broken)
    try:
        specs = bench.reader.specs(point)
    except SpecError as error:
        return refused(error.problems[0])
    area = design_area_mm2(specs[0])
    if broken := broken_limit(question.space, point, specs[0], area):
        return refused(broken, area)
    least = None if question.options.calibration or is_sparse(specs[0]) else bench.arithmetic(specs)
    if least is None or not loses(question, least, area, rivals):
        try:
            for work in BOUND_WORK if question.fuse else BOUND_WORK[:1]:
                least = design_bound(bench, specs, stopped, work) or least
                if least is None or loses(question, least, area, rivals):
                    break
        except OutOfTime:
            if give_up:
                raise
    if least and loses(question, least, area, rivals):
        return refused("its lower bound is no better than a design that is known", area, bounds=least)
    entries = layer_entries(specs, question.layer_options, bench.store, stopped, give_up)
    if missing := _missing_layer(question, entries):
        return refused(missing, area, True, least)
    try:
        entries = bench.chosen(specs, entries, stopped)
    except OutOfTime:
        if give_up:
            raise
        entries = [replace(entry, status=OUT_OF_TIME) for entry in entries]
    planned = [network_figures(question, number, specs, entries, bench.store, stopped, give_up)
               for number in range(len(question.networks))]
    cut_short = OUT_OF_TIME in {entry.status for entry in entries} | {plan.status for _, plan in planned if plan}
    if cut_short:  # not stored, so these plans must be kept now
        planned = [(each, plan or mapped_network(question, number, specs, entries, stopped))
                   for number, (each, plan) in enumerate(planned)]
    figures, plans = tuple(each for each, _ in planned), tuple(plan for _, plan in planned if plan)
    outcome = DesignOutcome(point, parameters, True, "", sum(each.weight * each.energy_pj for each in figures),
                            sum(each.weight * each.cycles for each in figures), area, figures, mapped=True,
                            bounds=least, cut_short=cut_short)
    bench.keep(outcome, plans if len(plans) == len(planned) else ())
    return outcome
