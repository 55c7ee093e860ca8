"""The state of one run of a network: results, estimates, candidates and groups, and when to come to an end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, TypeAlias, TypeVar

from fadiff_mapper.fusion import FusedCost, FusedGroup, Hardware
from fadiff_mapper.fusion.estimates import Candidate, LayerBase, layer_base
from fadiff_mapper.fusion.prices import (
    NOTHING,
    NetworkPrice,
    OperatingPoint,
    metric_value,
    other_reads,
    word_costs,
)
from fadiff_mapper.fusion.segments import Segment, chains
from fadiff_mapper.network.checkpoint import Checkpoint
from fadiff_mapper.network.options import NetworkOptions
from fadiff_mapper.network.partition import CoverPart, covered_total
from fadiff_mapper.network.planning_clock import TILES_PER_LAYER, PlanningClock, tiles_to_write
from fadiff_mapper.network.tile_mappings import TileMemory
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload

T = TypeVar("T")

TRIED = 8
"""Candidates of a segment that are evaluated exactly: estimates rank them well. Set by hand."""

OnProgress = Callable[[str, float], None]
"""Called with a stage and the network's metric whenever the plan is better."""


@dataclass(frozen=True)
class DescendedNetwork:
    """What a descent on the relaxed network found (see `gradient.network_descent`).

    Attributes:
        mappings: For each distinct layer its own mapping first, then drawn ones that beat it in energy or in cycles.
        sigma: Fusion variable of each link in the best restart, by the names of its layers.
        candidates: Gives the candidates of some segments by the segment's key, from the design, the segments, each
            layer by itself by name, the price of parts of the network, and whether time is over.
        alone: Whether these candidates are the only ones, so that none are enumerated.
    """

    mappings: Sequence[Sequence[Result]]
    sigma: Mapping[tuple[str, str], float]
    candidates: Callable[[Hardware, Sequence[Segment], Mapping[str, LayerBase], NetworkPrice, Callable[[], bool]],
                         dict[Hashable, list[Candidate]]]
    alone: bool = False


NetworkDescent: TypeAlias = Callable[[Workload, Sequence[Result], str, int, Callable[[], bool]],
                                     "DescendedNetwork | None"]
"""Descends from the best mapping of every distinct layer by itself, given the metric, a seed and whether time is over;
None where nothing can be fused."""


@dataclass(frozen=True)
class EvaluatedGroup:
    """A legal group with its mappings.

    Attributes:
        group: The group.
        cost: Its exact cost, all repeats together.
        promised: Its estimate before it was mapped.
        left_out: Reads of residual operands from the outermost level that the network does without.
    """

    group: FusedGroup
    cost: FusedCost
    promised: OperatingPoint
    left_out: OperatingPoint = NOTHING

    @cached_property
    def point(self) -> OperatingPoint:
        """Energy and cycles, less those that the rest of the network does without."""
        return OperatingPoint(self.cost.energy_pj, self.cost.cycles).less(self.left_out)


@dataclass
class SegmentState:
    """What planning knows of one distinct segment.

    Attributes:
        segment: The segment.
        waiting: Candidates with an estimate only, the best first.
        tried: Groups that were evaluated.
        searched: Evaluated groups whose tiles were searched thoroughly.
        exact: The groups that can run, with their exact cost.
        narrowed: How many of the candidates were proposed again in smaller tiles.
        listed: Whether its candidates have been enumerated.
    """

    segment: Segment
    waiting: list[Candidate] = field(default_factory=list)
    tried: list[FusedGroup] = field(default_factory=list)
    searched: list[FusedGroup] = field(default_factory=list)
    exact: list[EvaluatedGroup] = field(default_factory=list)
    narrowed: int = 0
    listed: bool = False

    @property
    def left(self) -> int:
        """How many candidates may still be tried: one with halved tiles replaces one already paid for."""
        return max(TRIED + self.narrowed - len(self.tried), 0)

    def least(self, price: NetworkPrice) -> float:
        """The lowest price of the groups that can run; infinite where there is none."""
        return min((price(group.point) for group in self.exact), default=inf)

    def best(self, price: NetworkPrice) -> EvaluatedGroup:
        """The group with the lowest price."""
        return min(self.exact, key=lambda group: price(group.point))

    def promises(self, price: NetworkPrice, candidate: Candidate, part: float) -> bool:
        """Whether a candidate's estimate beats the groups that can run by more than a part of their price."""
        return price(candidate.estimate) < self.least(price) * (1 - part)


@dataclass
class PlanningRun:
    """The state of one run, shared by its parts.

    Attributes:
        workload: The network.
        options: Options of the run.
        results: Mapping of every distinct layer by itself, chosen for the network.
        variants: For every distinct layer mappings that trade energy against cycles.
        padded: For every distinct layer mappings of it with padded bounds.
        descended: What a descent found, if there was one.
        clock: When to come to an end.
        saved: Checkpoint.
        on_progress: Called whenever the plan is better.
        history: Seconds, metric and stage of every improvement.
        strategies: The best strategies for tiles, as far as they are known.
        tiles: Mappings of tiles to write for the best plan so far, see `planning_clock.tiles_to_write`.
        cut: Whether there was no time to list all segments.
        memory: Searches of tiles made so far.
        every: Every segment of the network with its state; equal segments share one.
        known: The state of every distinct segment, by its key.
        hardware: The design.
        by_node: Mapping of each layer by itself, by name.
        bases: Each layer by itself, as estimates need it, by name; planning corrects them.
        alone: Energy and cycles of each layer by itself, all repeats together, by name.
        joined: Energy and cycles of reading the other inputs of element-wise operators; groups that read some of them
            on the chip have less.
        word_costs: Costs of words.
        total: Energy and cycles of the network, by which parts are priced: layer by layer, later those of a plan.
    """

    workload: Workload
    options: NetworkOptions
    results: tuple[Result, ...]
    variants: Sequence[Sequence[Result]]
    padded: Sequence[Sequence[Result]]
    descended: DescendedNetwork | None
    clock: PlanningClock
    saved: Checkpoint
    on_progress: OnProgress
    history: list[dict[str, Any]] = field(default_factory=list)
    strategies: dict[str, str] = field(default_factory=dict)
    tiles: float = 0.0
    cut: bool = False
    memory: TileMemory = field(default_factory=TileMemory)
    every: Sequence[tuple[Segment, SegmentState]] = ()
    known: Mapping[Any, SegmentState] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = self.results[0].spec
        self.hardware = Hardware(spec.arch, spec.tables)
        self.by_node = by_node(self.workload, self.results)
        self.bases = by_node(self.workload, [layer_base(*known) for known in zip(
            self.results, self.variants, self.padded, strict=True)])
        repeats = repeats_of(self.workload)
        self.alone = {name: base.whole.times(repeats[name]) for name, base in self.bases.items()}
        self.joined, self.word_costs = other_reads(self.workload, spec), word_costs(spec)
        self.total = covered_total(self.alone, (), self.joined)

    def take_segments(self, segments: Sequence[Segment]) -> None:
        """Takes up the segments of the network, none of them with candidates."""
        self.known = {segment.key: SegmentState(segment) for segment in reversed(segments)}
        self.every = [(segment, self.known[segment.key]) for segment in segments]

    @property
    def segments(self) -> list[Segment]:
        """All segments."""
        return [segment for segment, _ in self.every]

    @property
    def price(self) -> NetworkPrice:
        """The price of parts of the network at present."""
        return NetworkPrice(self.total, self.options.metric)

    @property
    def enumerates(self) -> bool:
        """Whether candidates are enumerated."""
        return self.descended is None or not self.descended.alone

    @cached_property
    def chains(self) -> list[tuple[str, ...]]:
        """Names of the layers of every chain; found once, and not at all where nothing is fused."""
        return [names for names, _ in chains(self.workload)]

    def over(self) -> bool:
        """Whether the search has to come to an end, as the plan so far takes its time to be written."""
        return self.clock.over(self.tiles)

    def over_in(self, part: float) -> Callable[[], bool]:
        """Tells when a stage has to come to an end that may take a part, in (0, 1], of the time that is left."""
        reserved = (1 - part) * max(self.clock.left(self.tiles), 0.0)
        return lambda: self.clock.stopped() or self.clock.left(self.tiles) < reserved

    def sums(self, groups: Sequence[CoverPart[Any]] = ()) -> OperatingPoint:
        """Energy and cycles of the network with groups that do not overlap and every other layer by itself."""
        return covered_total(self.alone, groups, self.joined)

    def value(self, groups: Sequence[CoverPart[Any]] = ()) -> float:
        """The network's metric with some groups, as for `sums`."""
        return metric_value(self.sums(groups), self.options.metric)

    def note(self, stage: str, groups: Sequence[CoverPart[EvaluatedGroup]] = ()) -> None:
        """Records the network's metric with the groups of a plan after a stage, if it is better than before."""
        value = self.value(groups)
        if not self.history or value < self.history[-1]["value"]:
            self.history.append({"time_s": self.clock.spent(), "value": value, "stage": stage})
            self.tiles = planned_tiles(groups)
            self.on_progress(stage, value)


def planned_tiles(groups: Sequence[CoverPart[Any]]) -> float:
    """Mappings of tiles to write for a plan, of groups that are not mapped yet as many as is usual."""
    return tiles_to_write((id(part.plan), sum(len(layer.mappings) or TILES_PER_LAYER
                                              for layer in part.plan.group.layers)) for part in groups)


def by_node(workload: Workload, values: Sequence[T]) -> dict[str, T]:
    """Every layer with the value of its distinct problem (in the order of `workload.distinct()`), by name."""
    return {name: value for entry, value in zip(workload.distinct(), values, strict=True) for name in entry.nodes}


def repeats_of(workload: Workload) -> dict[str, int]:
    """How often every layer runs back to back, by name."""
    return {node.name: node.layer.repeat for node in workload.layers if node.layer}
