"""The result of mapping a network: its layers one by one, its fused groups, and their sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fadiff_mapper.fusion import FusedCost, FusedGroup, Hardware
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Totals, Workload


@dataclass(frozen=True)
class LayerInNetwork:
    """One distinct problem, mapped by itself.

    `nodes` are the layers of the network that it is, `count` all their runs, repeats included; those that a group
    runs are among them.
    """

    nodes: tuple[str, ...]
    count: int
    result: MappedLayer

    @property
    def spec(self) -> Spec:
        return self.result.spec

    @property
    def problem(self) -> Problem:
        return self.result.spec.problem

    @property
    def mapping(self) -> Mapping:
        return self.result.mapping

    @property
    def stats(self) -> Stats:
        """Of one run."""
        return self.result.stats


@dataclass(frozen=True)
class TileMapping:
    """The mapping of one tile of one layer of a group: a problem of its own, as `timeloop-model` runs it."""

    node: str
    spec: Spec
    mapping: Mapping
    stats: Stats


@dataclass(frozen=True)
class GroupInNetwork:
    """Layers that are fused.

    nodes     in the order in which they run; `group.layers[i]` is `nodes[i]`
    cost      of the fused group, all its repeats
    unfused   of the same layers one by one
    sigma     of every link, in [0, 1], before decoding
    tiles     every inner mapping
    """

    nodes: tuple[str, ...]
    group: FusedGroup
    cost: FusedCost
    unfused: Totals
    sigma: tuple[float, ...]
    tiles: tuple[TileMapping, ...] = ()


@dataclass(frozen=True)
class MappedNetwork:
    """A plan for a network, every number of it computed exactly.

    Layers that are in no group run by themselves as `layers` says. `stats` and `unfused_stats` are energy, cycles and
    EDP (sum of energies times sum of cycles) of the plan and of the same layers without fusion. `history` lists every
    improvement: time_s since the start, the network's value, and the stage that found it.
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

    @property
    def gain(self) -> float:
        """The part of the unfused EDP that fusion saves."""
        return 1 - self.stats.edp / self.unfused_stats.edp

    def layer_of(self, node: str) -> LayerInNetwork:
        """How a node of the network runs by itself. Raises KeyError for a name that is no layer."""
        for outcome in self.layers:
            if node in outcome.nodes:
                return outcome
        raise KeyError(node)
