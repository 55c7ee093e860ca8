"""What the parts of one run of a network share: what is known, how the plan got better, when to come to an end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.chains.segments import chains
from fadiff_mapper.network.descent.descend import DescentEnd
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, metric_value, summed
from fadiff_mapper.network.layers.options import NetworkOptions
from fadiff_mapper.network.plan import checkpoint
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.tilings.estimate import layer_base
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.workload import Workload

T = TypeVar("T")

OnProgress = Callable[[str, float], None]
"""Called with a stage and the network's value whenever it is better."""


@dataclass(frozen=True)
class PlanningClock:
    """When to come to an end: `limit` seconds after the start, or when `stopped` says so."""

    limit: float | None
    stopped: Callable[[], bool]
    start: float = field(default_factory=time.monotonic)

    def spent(self) -> float:
        return time.monotonic() - self.start

    def over(self) -> bool:
        return self.stopped() or (self.limit is not None and self.spent() > self.limit)


@dataclass
class PlanningRun:
    """What the parts of one run share.

    results    of every distinct layer by itself
    variants   of every distinct layer mappings that trade energy against cycles, if any
    """

    workload: Workload
    options: NetworkOptions
    results: tuple[MappedLayer, ...]
    variants: Sequence[Sequence[MappedLayer]]
    relaxed: tuple[RelaxedNetwork, DescentEnd] | None
    clock: PlanningClock
    saved: checkpoint.Checkpoint
    on_progress: OnProgress
    history: list[dict[str, Any]] = field(default_factory=list)
    sigma: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spec = self.results[0].spec
        self.hardware = Hardware(spec.arch, spec.tables)
        self.by_node = by_node(self.workload, self.results)
        self.bases = by_node(self.workload, [layer_base(result, others) for result, others in zip(
            self.results, self.variants, strict=True)])
        self.chains = [names for names, _ in chains(self.workload)]
        repeats = repeats_of(self.workload)
        self.alone = {name: OperatingPoint(repeats[name] * base.whole.energy_pj, repeats[name] * base.whole.cycles)
                      for name, base in self.bases.items()}
        self.total = summed(list(self.alone.values()))

    def value(self, groups: Sequence[CoverPart[Any]] = ()) -> float:
        """The network's metric with these groups, every other layer by itself."""
        fused = {name for way in groups for name in way.nodes}
        return metric_value(summed([*(point for name, point in self.alone.items() if name not in fused),
                                    *(way.point for way in groups)]), self.options.metric)

    def note(self, stage: str, groups: Sequence[CoverPart[EvaluatedGroup]] = ()) -> None:
        """Records the network's value after a stage."""
        value = self.value(groups)
        if not self.history or value < self.history[-1]["value"]:
            self.history.append({"time_s": self.clock.spent(), "value": value, "stage": stage})
            self.on_progress(stage, value)


def by_node(workload: Workload, values: Sequence[T]) -> dict[str, T]:
    """For every layer the value of its distinct problem; those of equal layers are one."""
    return {name: value for entry, value in zip(workload.distinct(), values, strict=True) for name in entry.nodes}


def repeats_of(workload: Workload) -> dict[str, int]:
    """How often every layer runs back to back."""
    return {node.name: node.layer.repeat for node in workload.layers if node.layer}
