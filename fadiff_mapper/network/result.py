"""The result of mapping a network: its layers one by one, its fused groups, and their sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.atomic_files import lock
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.extras import require
from fadiff_mapper.fusion import FusedCost, FusedGroup, Hardware
from fadiff_mapper.fusion.estimates import Candidate
from fadiff_mapper.fusion.prices import NOTHING, CoverPart, on_best_unit, other_reads, summed
from fadiff_mapper.fusion.segments import links_within, over_all_runs
from fadiff_mapper.inputs.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec, metric_of
from fadiff_mapper.model.evaluate_spec import evaluate_nests, layers_of
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.model.vector_cost import VectorCost, vector_costs
from fadiff_mapper.network.one_design import by_node, resized_spec
from fadiff_mapper.search.lower_bound.assemble import METRIC_NAMES, gap_above, percent_above
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import OperatingPoint, Operator, Workload

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from fadiff_mapper.timeloop.verify import Verdict


@dataclass(frozen=True)
class LayerInNetwork:
    """One distinct problem of a network, mapped by itself.

    Attributes:
        nodes: The names of all layers with this problem, including layers in fused groups.
        count: The runs of all these layers, repeats included.
        result: The mapping of one run.
    """

    nodes: tuple[str, ...]
    count: int
    result: Result

    @property
    def spec(self) -> Spec:
        """The input of the search."""
        return self.result.spec

    @property
    def problem(self) -> Problem:
        """The problem of one run."""
        return self.result.spec.problem

    @property
    def mapping(self) -> LayerMapping:
        """The mapping of one run."""
        return self.result.mapping

    @property
    def stats(self) -> Stats:
        """The numbers of one run."""
        return self.result.stats


@dataclass(frozen=True)
class TileMapping:
    """The mapping of one tile of one layer of a fused group: a problem of its own, as `timeloop-model` runs it.

    Attributes:
        node: The name of the layer.
        spec: The input, with the tile as its problem.
        mapping: The mapping of the tile.
        stats: The numbers of one run of the tile by itself.
    """

    node: str
    spec: Spec
    mapping: LayerMapping
    stats: Stats



def plans_among(fuse: bool) -> str:
    """The class of plans for which a gap is proven, with fused groups or without, in words; `network_bound` defines it
    exactly."""
    groups = (" and fused groups of consecutive layers, in any shared loops and tile sizes, with halos and weights "
              "kept or brought in again, and tensors that stay on the chip from one to another") if fuse else ""
    return f"layers by themselves{groups}, within the design's constraints"


@dataclass(frozen=True)
class GroupInNetwork:
    """A fused group of a network's plan.

    Attributes:
        nodes: The names of its layers in the order in which they run; `group.layers[i]` is `nodes[i]`.
        group: The group: its links, its shared loops, the mappings of its tiles.
        cost: Energy and cycles of the group, all its repeats together.
        unfused: Energy and cycles of its layers one by one and, with compute units, of the operators between them.
        sigma: The relaxed decision to fuse each link (FADiff, section 3.1.2), in [0, 1], before decoding.
        tiles: The mapping of every tile.
        left_out: Energy and cycles that the plan saves outside of `cost`: reads of residual operands from the outermost
            level, which the group reads on the chip, or, with compute units, operators between its layers run by
            themselves. They are part of `NetworkResult.joined`.
    """

    nodes: tuple[str, ...]
    group: FusedGroup
    cost: FusedCost
    unfused: OperatingPoint
    sigma: tuple[float, ...]
    tiles: tuple[TileMapping, ...] = ()
    left_out: OperatingPoint = NOTHING


@dataclass(frozen=True)
class OperatorInNetwork:
    """An operator without multiply-accumulates, on the compute unit that runs it.

    Attributes:
        node: Its name.
        op: Its operation.
        group: The number of the fused group, from 1, in which it runs; None where it runs by itself.
        unit: The unit.
        bound: The bottleneck of its cycles: the unit or a memory.
        energy_pj: Its energy in the plan, all runs together.
        cycles: Its cycles, all runs together; in a group that works side by side they overlap with other cycles.
    """

    node: str
    op: str
    group: int | None
    unit: str
    bound: str
    energy_pj: float
    cycles: float


@dataclass(frozen=True)
class LayerAlone:
    """A layer that is in no fused group.

    Attributes:
        node: The name of the layer.
        reason: Why: "no gain", "no room", "operators between", "other groups save more", "not in one go",
            "no neighbour", "no legal mapping" or "no time".
        detail: The reason with figures and names.
    """

    node: str
    reason: str
    detail: str


@dataclass(frozen=True)
class NetworkResult:
    """A plan for a network; all numbers are exact.

    Attributes:
        workload: The network.
        hardware: Architecture and energies.
        layers: Every distinct problem, mapped by itself; layers outside of groups run with this mapping.
        groups: The fused groups.
        stats: Energy in pJ, cycles and EDP (sum of energies times sum of cycles) of the plan, `planned_joined`
            included.
        unfused_stats: Energy, cycles and EDP of all layers one by one, `joined` included.
        history: Every improvement in order: `time_s` since the start, `value` of the network, `stage` that found it.
        options: The options of the search, by name.
        status: How the search ended, in words.
        time_s: Seconds that the search took.
        joined: Energy and cycles of reads of the other operands of sums, products and the like, such as residual
            operands, from the outermost level, layer by layer. On a design with compute units: of all operators
            without multiply-accumulates, including these reads.
        operators: The operators without multiply-accumulates, on a design with compute units; else they cost nothing.
        alone: The layers that are in no group; empty if groups were not searched, see `status` and `options`.
        bound: A lower bound on the metric of all plans (in the class `plans_among`), in pJ * cycles, pJ or cycles. None
            where none is proven.
    """

    workload: Workload
    hardware: Hardware
    layers: tuple[LayerInNetwork, ...]
    groups: tuple[GroupInNetwork, ...]
    stats: OperatingPoint
    unfused_stats: OperatingPoint
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    status: str
    time_s: float
    joined: OperatingPoint = NOTHING
    alone: tuple[LayerAlone, ...] = ()
    bound: float | None = None
    operators: tuple[OperatorInNetwork, ...] = ()

    @property
    def gap(self) -> float | None:
        """The share by which the plan's metric may exceed that of the best plan; 0: proved best; None: unknown."""
        if not self.bound:
            return None
        return gap_above(float(metric_of(self.options["metric"], self.stats.energy_pj, self.stats.cycles)), self.bound)

    @property
    def proven(self) -> str:
        """The gap as a sentence, rounded up to a hundredth of a percent."""
        if self.gap is None:
            return "no lower bound on plans of this network is known"
        metric, plans = METRIC_NAMES[self.options["metric"]], plans_among(self.options["fuse"])
        return (f"{metric} is at most {percent_above(self.gap)} above that of the best plan, of {plans}" if self.gap
                else f"proved: no plan has a lower {metric}, of {plans}")

    @property
    def planned_joined(self) -> OperatingPoint:
        """`joined` in the plan, whose groups read some of these operands on the chip."""
        return self.joined.less(summed([group.left_out for group in self.groups]))

    @property
    def gain(self) -> float:
        """The share of the unfused EDP that fusion saves."""
        return 1 - self.stats.edp / self.unfused_stats.edp

    def units(self) -> dict[str, OperatingPoint]:
        """Energy and cycles of each compute unit in the plan; none on a design without units."""
        return {unit: OperatingPoint(sum(own.energy_pj for own in self.operators if own.unit == unit),
                                     round(sum(own.cycles for own in self.operators if own.unit == unit)))
                for unit in dict.fromkeys(own.unit for own in self.operators)}

    @property
    def corrected_cycles(self) -> float | None:
        """Cycles of all layers on measured hardware, one by one; None without a calibration."""
        if any(layer.result.corrected is None for layer in self.layers):
            return None
        return sum(layer.count * layer.result.corrected.cycles for layer in self.layers
                   if layer.result.corrected) + self.joined.cycles

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of a lenient reading of the design, each once; some concern one layer only."""
        return tuple(dict.fromkeys(text for outcome in self.layers for text in outcome.spec.warnings))

    @property
    def design(self) -> str:
        """The name of the design's first file, or of its outermost node if the design is no file."""
        files = self.layers[0].spec.files if self.layers else ()
        return Path(files[0]).stem if files else self.hardware.arch.name

    def share(self, energy_pj: float, cycles: float) -> float:
        """The given energy as a share of the unfused network's energy, plus the same share for cycles."""
        return energy_pj / (self.unfused_stats.energy_pj or 1.0) + cycles / (self.unfused_stats.cycles or 1.0)

    def weightiest_groups(self, most: int) -> list[tuple[int, GroupInNetwork]]:
        """The groups, at most `most`, that save most energy and cycles, each with its number in the plan, from 1."""
        saved = [self.share(group.unfused.energy_pj, group.unfused.cycles)
                 - self.share(group.cost.energy_pj, group.cost.cycles) for group in self.groups]
        numbers = sorted(range(len(saved)), key=lambda index: -saved[index])[:most]
        return [(index + 1, self.groups[index]) for index in sorted(numbers)]

    def layer_of(self, node: str) -> LayerInNetwork:
        """A layer of the network by its name. Raises KeyError for an unknown name."""
        for outcome in self.layers:
            if node in outcome.nodes:
                return outcome
        raise KeyError(node)

    def write(self, folder: str | Path) -> None:
        """Writes the plan, its page and the files of every layer.

        Args:
            folder: The folder; made where it does not exist.

        Raises:
            FadiffError: A file cannot be written.
        """
        from fadiff_mapper.output.network_files import write_held
        with lock(folder):
            write_held(self, Path(folder))

    def to_looptree(self, group: GroupInNetwork | int) -> dict[str, Any]:
        """One run of a group as an input of LoopTree (`v4fused`).

        Args:
            group: A group of the plan, or its number in the plan from 1.

        Returns:
            The sections of the input, as plain values for YAML.

        Raises:
            FadiffError: There is no such group, or LoopTree cannot express it.
        """
        from fadiff_mapper.output.looptree import to_looptree
        if isinstance(group, int):
            if not 1 <= group <= len(self.groups):
                raise FadiffError(f"group: found {group}; accepted: 1 to {len(self.groups)}, the groups of the plan")
            group = self.groups[group - 1]
        return to_looptree(group.group, self.hardware, alike=False)

    def certificate(self) -> dict[str, Any]:
        """The proof of the bound on all plans, for `fadiff-validate certificate`; FadiffError without a bound."""
        from fadiff_mapper.network.plan_certificate import plan_certificate
        return plan_certificate(self)

    def verify(self) -> dict[str, Verdict]:
        """The comparison of every layer and tile with the real `timeloop-model`, by name; FadiffError without one."""
        from fadiff_mapper.timeloop.verify import real_model, verify_plan
        return dict(verify_plan(self, real_model()))

    def plot(self) -> Figure:
        """A matplotlib figure: every layer with and without fusion, and the network's metric over time.

        Raises:
            FadiffError: matplotlib is not installed.
        """
        require("matplotlib", "plot", "plot()")
        from fadiff_mapper.output.notebook import network_figure
        return network_figure(self)

    def to_dataframe(self) -> DataFrame:
        """A pandas table: a row for each layer, mapped by itself, and its fused group. FadiffError without pandas."""
        require("pandas", "pandas", "to_dataframe()")
        from fadiff_mapper.output.frames import network_frame
        return network_frame(self)

    def _repr_html_(self) -> str:
        """For notebooks: totals, fused groups, and the page of the plan with its drawings."""
        from fadiff_mapper.output.notebook import plan_html
        return plan_html(self)


@dataclass(frozen=True)
class EvaluatedGroup:
    """A legal group with its mappings."""

    candidate: Candidate  # the group before it was mapped, with its estimate
    group: FusedGroup
    cost: FusedCost  # its exact cost, all repeats together

    @cached_property
    def point(self) -> OperatingPoint:
        """Energy and cycles, less the cost that the rest of the network saves (`left_out`)."""
        return OperatingPoint(self.cost.energy_pj, self.cost.cycles).less(self.candidate.left_out)


def network_result(workload: Workload, hardware: Hardware, results: Sequence[Result],
                   sigma: Mapping[tuple[str, str], float], groups: Sequence[CoverPart[EvaluatedGroup]],
                   history: Sequence[dict[str, Any]], options: dict[str, Any], status: str,
                   time_s: float, apart: tuple[LayerAlone, ...] = (), bound: float | None = None) -> NetworkResult:
    """Builds the result of a run. `results`: the mapping of every distinct layer by itself; `sigma`: the fusion
    variable of each link if a descent gave one, else 1; `groups`: the groups of the plan; `apart`: the layers in no
    group; the other arguments are recorded."""
    alone = by_node(workload, results)
    operators = {node.name: node.layer for node in workload.layers if node.layer}
    joined = other_reads(workload, results[0].spec, metric=options["metric"])

    def one_by_one(names: Sequence[str]) -> OperatingPoint:
        """Energy and cycles of some layers one by one, all repeats together."""
        return OperatingPoint(sum(operators[name].repeat * alone[name].stats.energy_pj for name in names),
                              sum(operators[name].repeat * alone[name].stats.cycles for name in names))

    def apart_from(part: CoverPart[EvaluatedGroup]) -> OperatingPoint:
        """Cost of the layers of a group one by one and, with compute units, of the operators between them."""
        layers, others = one_by_one(part.nodes), part.plan.candidate.left_out
        if not part.plan.cost.operators:
            return layers
        return OperatingPoint(layers.energy_pj + others.energy_pj, layers.cycles + round(others.cycles))

    tiles: dict[int, tuple[TileMapping, ...]] = {}     # by group: equal segments share one, and its tiles
    outcomes = []
    for part in groups:
        group = part.plan.group
        if id(group) not in tiles:
            tiles[id(group)] = _tiles(part.nodes, group, alone, operators)
        names = (name for name, layer in zip(part.nodes, group.layers, strict=True) for _ in layer.mappings)
        outcomes.append(GroupInNetwork(
            part.nodes, group, part.plan.cost, apart_from(part),
            tuple(sigma.get((link.producer, link.consumer), 1.0) for link in links_within(workload, part.nodes)),
            tuple(replace(tile, node=name) for tile, name in zip(tiles[id(group)], names, strict=True)),
            OperatingPoint(part.plan.candidate.left_out.energy_pj, round(part.plan.candidate.left_out.cycles))))
    layers_alone = workload.totals([(result.stats.energy_pj, result.stats.cycles) for result in results])
    stats = unfused = OperatingPoint(layers_alone.energy_pj + joined.energy_pj,
                                     layers_alone.cycles + round(joined.cycles))
    if outcomes:
        fused = {name for outcome in outcomes for name in outcome.nodes}
        left = one_by_one([name for name in operators if name not in fused])
        stats = OperatingPoint(
            left.energy_pj + sum(outcome.cost.energy_pj - outcome.left_out.energy_pj for outcome in outcomes)
            + joined.energy_pj,
            left.cycles + round(sum(outcome.cost.cycles - outcome.left_out.cycles for outcome in outcomes))
            + round(joined.cycles))
    layers = tuple(LayerInNetwork(entry.nodes, entry.times, result)
                   for entry, result in zip(workload.distinct(), results, strict=True))
    return NetworkResult(workload, hardware, layers, tuple(outcomes), stats, unfused, tuple(history), options, status,
                         time_s, OperatingPoint(joined.energy_pj, round(joined.cycles)), apart, bound,
                         _operators(workload, hardware, outcomes, options["metric"]))


def _operators(workload: Workload, hardware: Hardware, groups: Sequence[GroupInNetwork],
               metric: str) -> tuple[OperatorInNetwork, ...]:
    """Every operator without multiply-accumulates in a plan, on a design with compute units."""
    if not hardware.arch.units:
        return ()
    vectors = {operator.node: operator for operator in workload.vector_operators()}
    inside: dict[str, tuple[int, int, VectorCost]] = {}
    for number, group in enumerate(groups, 1):
        names = [name for link in links_within(workload, group.nodes) for name in link.through if name in vectors]
        inside |= {name: (number, group.group.repeat, own)
                   for name, own in zip(names, group.cost.operators, strict=True)}
    costs = {name: inside.get(name) or (None, 1, on_best_unit(
        vector_costs(operator, hardware.arch, hardware.tables), metric))
             for name, operator in vectors.items()}
    return tuple(OperatorInNetwork(name, vectors[name].op, number, own.unit, own.bound, runs * own.energy_pj,
                                   runs * own.cycles) for name, (number, runs, own) in costs.items())


def _tiles(nodes: Sequence[str], group: FusedGroup, alone: Mapping[str, Result],
           layers: Mapping[str, Operator]) -> tuple[TileMapping, ...]:
    """Every tile of a group as a layer of its own, so that `timeloop-model` can repeat its numbers."""
    mappings = [(name, replace(resized_spec(whole, whole.problem.resized(shape).bounds), mapping=None), mapping)
                for name, layer in zip(nodes, group.layers, strict=True)
                for whole in [over_all_runs(alone[name].spec, layers[name], layer.problem.dimensions)]
                for shape, mapping in layer.mappings.items()]
    specs = [spec for _, spec, _ in mappings]
    found = evaluate_nests(specs, layers_of(specs), [pack([mapping], spec.problem) for _, spec, mapping in mappings])
    return tuple(TileMapping(*tile, stats) for tile, stats in zip(mappings, found, strict=True))
