"""The state of one run of a network: results, estimates, how the plan got better, and when to come to an end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.chains.segments import Segment, chains
from fadiff_mapper.network.layers.edp_prices import NetworkPrice, OperatingPoint, metric_value, summed
from fadiff_mapper.network.layers.joined_reads import joined_reads, word_costs
from fadiff_mapper.network.layers.options import NetworkOptions
from fadiff_mapper.network.plan import checkpoint
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.map_tiles import TileMemory
from fadiff_mapper.network.plan.planning_clock import TILES_PER_LAYER, PlanningClock, tiles_to_write
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.layer_estimate import LayerBase, layer_base
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.workload import Workload

T = TypeVar("T")

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

    mappings: Sequence[Sequence[MappedLayer]]
    sigma: Mapping[tuple[str, str], float]
    candidates: Callable[[Hardware, Sequence[Segment], Mapping[str, LayerBase], NetworkPrice, Callable[[], bool]],
                         dict[Hashable, list[Candidate]]]
    alone: bool = False


NetworkDescent: TypeAlias = Callable[[Workload, Sequence[MappedLayer], str, int, Callable[[], bool]],
                                     "DescendedNetwork | None"]
"""Descends from the best mapping of every distinct layer by itself, given the metric, a seed and whether time is over;
None where nothing can be fused."""


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
        hardware: The design.
        by_node: Mapping of each layer by itself, by name.
        bases: Each layer by itself, as estimates need it, by name; planning corrects them.
        alone: Energy and cycles of each layer by itself, all repeats together, by name.
        joined: Energy and cycles of the tensors that joins read besides those that flow on; groups that read some of
            them on the chip have less.
        word_costs: Energies and cycles of words.
        total: Energy and cycles of the network, by which parts are priced: layer by layer, later those of a plan.
    """

    workload: Workload
    options: NetworkOptions
    results: tuple[MappedLayer, ...]
    variants: Sequence[Sequence[MappedLayer]]
    padded: Sequence[Sequence[MappedLayer]]
    descended: DescendedNetwork | None
    clock: PlanningClock
    saved: checkpoint.Checkpoint
    on_progress: OnProgress
    history: list[dict[str, Any]] = field(default_factory=list)
    strategies: dict[str, str] = field(default_factory=dict)
    tiles: float = 0.0
    cut: bool = False
    memory: TileMemory = field(default_factory=TileMemory)

    def __post_init__(self) -> None:
        spec = self.results[0].spec
        self.hardware = Hardware(spec.arch, spec.tables)
        self.by_node = by_node(self.workload, self.results)
        self.bases = by_node(self.workload, [layer_base(*known) for known in zip(
            self.results, self.variants, self.padded, strict=True)])
        repeats = repeats_of(self.workload)
        self.alone = {name: OperatingPoint(repeats[name] * base.whole.energy_pj, repeats[name] * base.whole.cycles)
                      for name, base in self.bases.items()}
        self.joined, self.word_costs = joined_reads(self.workload, spec), word_costs(spec)
        self.total = summed([*self.alone.values(), self.joined])

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
        """Tells when a stage has to come to an end that may take a part of the time that is left.

        Args:
            part: The part, in (0, 1].
        """
        reserved = (1 - part) * max(self.clock.left(self.tiles), 0.0)
        return lambda: self.clock.stopped() or self.clock.left(self.tiles) < reserved

    def value(self, groups: Sequence[CoverPart[Any]] = ()) -> float:
        """The network's metric with some groups and every other layer by itself.

        Args:
            groups: Groups that do not overlap.
        """
        return metric_value(self.sums(groups), self.options.metric)

    def sums(self, groups: Sequence[CoverPart[Any]] = ()) -> OperatingPoint:
        """Energy and cycles of the network with some groups and every other layer by itself.

        Args:
            groups: Groups that do not overlap.
        """
        fused = {name for part in groups for name in part.nodes}
        return summed([*(point for name, point in self.alone.items() if name not in fused),
                       *(part.point for part in groups), self.joined])

    def note(self, stage: str, groups: Sequence[CoverPart[EvaluatedGroup]] = ()) -> None:
        """Records the network's metric after a stage, if it is better than before.

        Args:
            stage: Name of the stage, as told to the user.
            groups: Groups of the plan.
        """
        value = self.value(groups)
        if not self.history or value < self.history[-1]["value"]:
            self.history.append({"time_s": self.clock.spent(), "value": value, "stage": stage})
            self.tiles = planned_tiles(groups)
            self.on_progress(stage, value)


def planned_tiles(groups: Sequence[CoverPart[Any]]) -> float:
    """Mappings of tiles to write for a plan, of groups that are not mapped yet as many as is usual.

    Args:
        groups: Evaluated groups and candidates.
    """
    return tiles_to_write((id(part.plan), sum(len(layer.mappings) or TILES_PER_LAYER
                                              for layer in part.plan.group.layers)) for part in groups)


def by_node(workload: Workload, values: Sequence[T]) -> dict[str, T]:
    """Gives every layer the value of its distinct problem; equal layers share one object.

    Args:
        workload: The network.
        values: Values in the order of `workload.distinct()`.
    """
    return {name: value for entry, value in zip(workload.distinct(), values, strict=True) for name in entry.nodes}


def repeats_of(workload: Workload) -> dict[str, int]:
    """Tells how often every layer runs back to back, by name.

    Args:
        workload: The network.
    """
    return {node.name: node.layer.repeat for node in workload.layers if node.layer}
