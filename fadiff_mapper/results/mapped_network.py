"""The result of mapping a network: its layers one by one, its fused groups, and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fadiff_mapper.fusion import FusedCost, FusedGroup, Hardware
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.search.mapped_layer import MappedLayer
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Totals, Workload


@dataclass(frozen=True)
class LayerInNetwork:
    """One distinct problem of a network, mapped by itself.

    Attributes:
        nodes: The names of the network's layers that pose this problem, the layers of fused groups included.
        count: All their runs, repeats included.
        result: The mapping of one run.
    """

    nodes: tuple[str, ...]
    count: int
    result: MappedLayer

    @property
    def spec(self) -> Spec:
        """The input of the search."""
        return self.result.spec

    @property
    def problem(self) -> Problem:
        """The problem of one run."""
        return self.result.spec.problem

    @property
    def mapping(self) -> Mapping:
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
    mapping: Mapping
    stats: Stats


NO_READS = Totals(0.0, 0)
"""Energy and cycles of no reads at all, such as those of a network that joins no tensors."""


class HasCost(Protocol):
    """Anything that has energy and cycles."""

    @property
    def energy_pj(self) -> float:
        """Energy in pJ."""

    @property
    def cycles(self) -> float:
        """Cycles."""


@dataclass(frozen=True)
class GroupInNetwork:
    """A fused group of a network's plan.

    Attributes:
        nodes: The names of its layers in the order in which they run; `group.layers[i]` is `nodes[i]`.
        group: The group: its links, its shared loops, the mappings of its tiles.
        cost: Energy and cycles of the group, all its repeats together.
        unfused: Energy and cycles of the same layers one by one.
        sigma: The relaxed decision to fuse each link (FADiff, section 3.1.2), in [0, 1], before decoding.
        tiles: Every inner mapping.
        left_out: Energy and cycles of reads of residual operands from the outermost level, which the plan does without
            as the group reads them on the chip; part of `MappedNetwork.joined`, not of `cost`.
    """

    nodes: tuple[str, ...]
    group: FusedGroup
    cost: FusedCost
    unfused: Totals
    sigma: tuple[float, ...]
    tiles: tuple[TileMapping, ...] = ()
    left_out: Totals = NO_READS


@dataclass(frozen=True)
class LayerAlone:
    """A layer that is in no fused group.

    Attributes:
        node: The name of the layer.
        reason: Why: "no gain", "no room", "operators between", "other groups save more", "not in one go",
            "no neighbour", "no legal mapping" or "no time".
        detail: The same with figures and names.
    """

    node: str
    reason: str
    detail: str


@dataclass(frozen=True)
class MappedNetwork:
    """A plan for a network, every number of it computed exactly.

    Attributes:
        workload: The network.
        hardware: Architecture and energies.
        layers: Every distinct problem, mapped by itself; layers that are in no group run so.
        groups: The fused groups.
        stats: Energy in pJ, cycles and EDP (sum of energies times sum of cycles) of the plan, `planned_joined`
            included.
        unfused_stats: The same of all layers one by one, `joined` included.
        history: Every improvement in order: `time_s` since the start, `value` of the network, `stage` that met it.
        options: The options of the search, by name.
        status: How the search ended, in words.
        time_s: Seconds that the search took.
        joined: Energy and cycles of the tensors that sums, products and the like read besides the one that flows on,
            such as residual operands: from the outermost level, layer by layer.
        alone: The layers that are in no group; empty where no groups were looked for, as `status` or `options` say.
    """

    workload: Workload
    hardware: Hardware
    layers: tuple[LayerInNetwork, ...]
    groups: tuple[GroupInNetwork, ...]
    stats: Totals
    unfused_stats: Totals
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    status: str
    time_s: float
    joined: Totals = NO_READS
    alone: tuple[LayerAlone, ...] = ()

    @property
    def planned_joined(self) -> Totals:
        """The same in the plan, whose groups read some of these tensors on the chip."""
        return Totals(self.joined.energy_pj - sum(group.left_out.energy_pj for group in self.groups),
                      self.joined.cycles - sum(group.left_out.cycles for group in self.groups))

    @property
    def gain(self) -> float:
        """The share of the unfused EDP that fusion saves."""
        return 1 - self.stats.edp / self.unfused_stats.edp

    @property
    def corrected_cycles(self) -> float | None:
        """Cycles of all layers on measured hardware, one by one; None without a calibration."""
        if any(layer.result.corrected is None for layer in self.layers):
            return None
        return sum(layer.count * layer.result.corrected.cycles for layer in self.layers
                   if layer.result.corrected) + self.joined.cycles

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of a lenient reading of the design, each once; that of a factor may speak of one layer alone."""
        return tuple(dict.fromkeys(text for outcome in self.layers for text in outcome.spec.warnings))

    @property
    def design(self) -> str:
        """The design's name: that of its first file, or of its outermost node where it is no file."""
        files = self.layers[0].spec.files if self.layers else ()
        return Path(files[0]).stem if files else self.hardware.arch.name

    def share(self, cost: HasCost) -> float:
        """The part of the unfused network's energy that some of it takes, plus its part of the cycles."""
        return (cost.energy_pj / (self.unfused_stats.energy_pj or 1.0)
                + cost.cycles / (self.unfused_stats.cycles or 1.0))

    def weightiest_groups(self, most: int) -> list[tuple[int, GroupInNetwork]]:
        """The groups that save most of the network's energy and cycles.

        Args:
            most: Groups at most.

        Returns:
            Groups with their numbers in the plan, counted from 1, in its order.
        """
        saved = [self.share(group.unfused) - self.share(group.cost) for group in self.groups]
        numbers = sorted(range(len(saved)), key=lambda index: -saved[index])[:most]
        return [(index + 1, self.groups[index]) for index in sorted(numbers)]

    def layer_of(self, node: str) -> LayerInNetwork:
        """Looks up a layer of the network by its name.

        Raises:
            KeyError: The network has no layer of this name.
        """
        for outcome in self.layers:
            if node in outcome.nodes:
                return outcome
        raise KeyError(node)
