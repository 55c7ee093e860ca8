"""The exact cost of a fused group on one of Timeloop's architectures.

Every step of every layer is Timeloop's cost of the layer's tile, with what fusion changes in its access counts: an
intermediate is not kept outside its level (eqs. 13 and 15 of the paper), it is copied there from the level where it
was summed up (eq. 14), operands that stay are fetched only where they are new, and sums that go on in a later step
stay where they are or, where they are spilled, come back from outside. Steps run one after the other, so cycles and
energies add up. A group of one layer without loops is exactly Timeloop's result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, Hardware
from fadiff_mapper.fusion.groups.group_legality import group_violations
from fadiff_mapper.fusion.groups.link_equations import copied
from fadiff_mapper.fusion.groups.step_evaluation import EvaluatedStep, evaluate_step, kept_levels, tensor_index
from fadiff_mapper.fusion.groups.tile_steps import LayerSteps, StepClass, layer_steps, step_classes
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.exact.evaluate import EXACT

NETWORKS = "networks"
"""Among the components of a layer: the wires between all levels."""


@dataclass(frozen=True)
class GroupTraffic:
    """Words over all instances and the whole run."""

    reads: float = 0.0
    fills: float = 0.0
    updates: float = 0.0

    def plus(self, other: GroupTraffic) -> GroupTraffic:
        return GroupTraffic(self.reads + other.reads, self.fills + other.fills, self.updates + other.updates)


@dataclass(frozen=True)
class LayerCost:
    """One layer within its group: over all steps, before the group is repeated.

    recomputed: multiply-accumulates beyond those of the layer. traffic: (level, data space) -> words. components:
    level or arithmetic -> pJ, and `NETWORKS` -> pJ of all wires.
    """

    cycles: float
    energy_pj: float
    computes: int
    recomputed: int
    traffic: dict[tuple[str, str], GroupTraffic]
    components: dict[str, float]


@dataclass(frozen=True)
class FusedCost:
    """Cycles and energy in pJ of a group, or of several one after the other."""

    cycles: float
    energy_pj: float
    layers: tuple[LayerCost, ...]

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles


def evaluate_group(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Cycles and energy of a group. Raises FadiffError with the first violation where it cannot run."""
    broken = group_violations(hardware, group)
    if broken:
        raise FadiffError(f"the fused group cannot run: {broken[0].constraint}: {broken[0].reason}")
    return group_cost(hardware, group)


def group_cost(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """The same for a group that is known to be legal."""
    layers = tuple(_layer_cost(hardware, group, index, steps) for index, steps in enumerate(layer_steps(group)))
    return FusedCost(group.repeat * sum(layer.cycles for layer in layers),
                     group.repeat * sum(layer.energy_pj for layer in layers), layers)


def evaluate_groups(hardware: Hardware, groups: Sequence[FusedGroup]) -> FusedCost:
    """The groups of a network one after the other; the EDP is the product of the sums. Raises FadiffError."""
    costs = [evaluate_group(hardware, group) for group in groups]
    return FusedCost(sum(one.cycles for one in costs), sum(one.energy_pj for one in costs),
                     tuple(layer for one in costs for layer in one.layers))


def _layer_cost(hardware: Hardware, group: FusedGroup, index: int, steps: LayerSteps) -> LayerCost:
    layer = group.layers[index]
    cycles = energy = 0.0
    computes = 0
    traffic: dict[tuple[str, str], GroupTraffic] = {}
    components: Counter[str] = Counter()
    for kind, count in step_classes(group, layer, steps).items():
        step = evaluate_step(hardware, group, index, kind)
        counts = fused_counts(hardware, group, index, kind, step)
        one = cost(counts, step.found.use, step.layer.machine, float(step.layer.problem.computes), EXACT)
        network = 0.0 if step.found.network is None else float(step.found.network.total[0])
        cycles += count * float(one.cycles[0])
        energy += count * (float(one.energy[0]) + network)
        computes += count * step.layer.problem.computes
        components.update(_components(step, one, network, count))
        for place, words in _traffic(step, counts, count).items():
            traffic[place] = traffic.get(place, GroupTraffic()).plus(words)
    return LayerCost(cycles, energy, computes, computes - layer.problem.computes, traffic, dict(components))


def _components(step: EvaluatedStep, one: Cost, network: float, count: int) -> dict[str, float]:
    """pJ of each component in `count` steps; levels that stand only for a fan-out have none."""
    levels = {level.name: count * float(one.level_energy[k, 0]) for k, level in enumerate(step.layer.arch.levels)
              if not level.is_dummy}
    arithmetic = {step.layer.arch.arithmetic.name: count * float(one.compute_energy[0])}
    return arithmetic | levels | ({NETWORKS: count * network} if network else {})


def _traffic(step: EvaluatedStep, counts: Counts, count: int) -> dict[tuple[str, str], GroupTraffic]:
    names, spaces = step.layer.arch.level_names(), step.layer.problem.dataspace_names()
    scale = count * step.found.use.instances[:, 0]
    return {(names[level], spaces[tensor]): GroupTraffic(*(float(values[level, tensor, 0] * scale[level])
                                                           for values in (counts.reads, counts.fills, counts.updates)))
            for level, tensor in np.argwhere(step.found.nest.keep[:, :, 0] | (counts.updates[:, :, 0] > 0))}


def fused_counts(hardware: Hardware, group: FusedGroup, index: int, kind: StepClass, step: EvaluatedStep) -> Counts:
    """The access counts of one step with what the steps before left in place."""
    layer = group.layers[index]
    counts = step.found.counts
    for (name, stay), fresh in zip(layer.operands.items(), kind.fresh, strict=True):
        counts = _fetched_only(counts, step, name, hardware.level(stay.level), fresh)
    if index and group.links[index - 1].written_pooled:
        counts = _written_out(counts, step, group.links[index - 1].tensor, kind.pooled_out)
    if index < len(group.links):
        counts = _copied(counts, step, hardware.level(group.links[index].stay.level))
    if group.spilled:
        return counts if kind.first_sum else _come_back(counts, step)
    return counts if kind.first_sum and kind.last_sum else _summed_on(counts, step, kind)


def _changed(counts: Counts, level: int, tensor: int, reads: float = 0.0, fills: float = 0.0,
             updates: float = 0.0) -> Counts:
    """The counts with words per instance added at one place (negative: left out)."""
    def plus(values: np.ndarray, words: float) -> np.ndarray:
        result = values.copy()
        result[level, tensor] += words
        return result

    return replace(counts, reads=plus(counts.reads, reads), fills=plus(counts.fills, fills),
                   updates=plus(counts.updates, updates),
                   address_generations=plus(counts.address_generations, reads + fills + updates))


def _fetched_only(counts: Counts, step: EvaluatedStep, name: str, home: int, fresh: int) -> Counts:
    """An operand that stays: only `fresh` words come from the level outside its home."""
    tensor, levels = tensor_index(step, name), kept_levels(step, name)
    parent = next(level for level in levels if level > home)
    saved = float(counts.fills[home, tensor, 0]) - fresh
    return _changed(_changed(counts, home, tensor, fills=-saved), parent, tensor, reads=-saved)


def _written_out(counts: Counts, step: EvaluatedStep, name: str, fresh: int) -> Counts:
    """What pools made and others read, too: words that are new are read where they lie, and written outside."""
    tensor = tensor_index(step, name)
    outside = _changed(counts, len(step.layer.arch.levels) - 1, tensor, updates=fresh)
    return _changed(outside, kept_levels(step, name)[-1], tensor, reads=fresh)


def _copied(counts: Counts, step: EvaluatedStep, home: int) -> Counts:
    """The output's final words are read where they were summed up, and written to their home (counted already)."""
    name = step.layer.problem.output.name
    tensor, levels = tensor_index(step, name), kept_levels(step, name)
    inside = [level for level in levels if level < home]
    if not inside:
        return counts
    instances = step.found.use.instances[:, 0]
    words = copied(1.0, counts.updates[home, tensor, 0], instances[home])
    return _changed(counts, inside[-1], tensor, reads=float(words / instances[inside[-1]]))


def _summed_on(counts: Counts, step: EvaluatedStep, kind: StepClass) -> Counts:
    """Sums that go on: later steps read what is there, and all but the last step hand nothing outwards."""
    name = step.layer.problem.output.name
    tensor, levels = tensor_index(step, name), kept_levels(step, name)
    if not kind.first_sum:
        counts = _changed(counts, levels[0], tensor, reads=float(counts.partition[levels[0], tensor, 0]))
    if not kind.last_sum:
        for level in levels[1:]:
            counts = _changed(counts, level, tensor, updates=-float(counts.updates[level, tensor, 0]))
    return counts


def _come_back(counts: Counts, step: EvaluatedStep) -> Counts:
    """Sums to which earlier steps added: the first touch of a word, too, is read, and filled in from outside."""
    name = step.layer.problem.output.name
    tensor, levels = tensor_index(step, name), kept_levels(step, name)
    for level in levels:
        words = float(counts.partition[level, tensor, 0])
        counts = _changed(counts, level, tensor, reads=words, fills=words if level != levels[-1] else 0.0)
    return counts


def single(layer: FusedLayer, repeat: int = 1) -> FusedGroup:
    """A layer by itself, not fused with anything."""
    return FusedGroup((layer,), repeat=repeat)
