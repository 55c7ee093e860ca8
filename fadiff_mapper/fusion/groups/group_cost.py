"""The exact cost of a fused group on one of Timeloop's architectures.

Problem. Timeloop evaluates one layer; a fused group runs tiles of several layers in turn, and words that stay on the
chip between steps are neither fetched nor written back as the layer alone would do.

Method. Every step of every layer costs what Timeloop computes for the layer's tile, after corrections to its access
counts. With sigma = 1 for each link of the group and 0 for all others:

    eqs. 13, 15   no write-back of the intermediate beyond its home level, no fill of it from there: the tile's mapping
                  keeps it at no level outside its home (`step_evaluation.fused_mapping`)
    eq. 14        the copy into the home level: a read where the words were summed up (`_copied`); Timeloop already
                  counts the update at the home, but charges a drain no read (SEMANTICS.md, section 6)
    -             operands that stay are filled only with words that no earlier step left there (`_fetched_only`)
    -             sums that later steps continue stay where they are added up (`_summed_on`), or with `spilled` come
                  back from the outermost level (`_returned`)

Latency and energy of the corrected counts are Timeloop's (in the paper, eqs. 16 to 19). Steps run one after the other,
so cycles and energies add up. A group of one layer without loops is exactly Timeloop's result.

Source. FADiff, section 3.2.1 (4), for the fusion-aware boundary; LoopTree and DeFiNES for steps whose halos are
retained or computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, Hardware
from fadiff_mapper.fusion.groups.group_legality import structure_violations, tile_violations
from fadiff_mapper.fusion.groups.step_evaluation import (
    EvaluatedLayer,
    EvaluatedTile,
    dataspace_index,
    evaluate_tiles,
    home_level,
    kept_levels,
)
from fadiff_mapper.fusion.groups.tile_steps import StepClass
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.exact.evaluate import EXACT
from fadiff_mapper.model.legality import Violation

NOC = "networks"
"""Among the components of a layer: the wires between all levels."""


@dataclass(frozen=True)
class GroupTraffic:
    """Words of one data space at one level, over all instances and the whole run.

    Attributes:
        reads: words read from the level.
        fills: words that arrive from the next level outside that keeps the data space.
        updates: words of an output that arrive from inside.
    """

    reads: float = 0.0
    fills: float = 0.0
    updates: float = 0.0

    def plus(self, other: GroupTraffic) -> GroupTraffic:
        """The sum of both, count by count."""
        return GroupTraffic(self.reads + other.reads, self.fills + other.fills, self.updates + other.updates)


@dataclass(frozen=True)
class LayerCost:
    """One layer within its group, over all steps, before the group is repeated.

    Attributes:
        cycles: sum over the steps.
        energy_pj: sum over the steps.
        computes: multiply-accumulates that are executed.
        recomputed: multiply-accumulates beyond those of the layer, for halos that are computed again.
        traffic: (level, data space) -> words.
        components: level or arithmetic -> pJ, and `NOC` -> pJ of all wires where these cost energy.
    """

    cycles: float
    energy_pj: float
    computes: int
    recomputed: int
    traffic: dict[tuple[str, str], GroupTraffic]
    components: dict[str, float]


@dataclass(frozen=True)
class FusedCost:
    """Cost of a group with its repeats, or of several groups one after the other.

    Attributes:
        cycles: cycles of all repeats.
        energy_pj: energy of all repeats.
        layers: the layers in the order in which they run, each without the group's repeats.
    """

    cycles: float
    energy_pj: float
    layers: tuple[LayerCost, ...]

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles


def evaluate_group(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Checks a group and computes its cycles and energy.

    Args:
        hardware: architecture and energy tables.
        group: layers with a mapping for every tile, links, shared loops.

    Returns:
        The cost of all repeats, layer by layer.

    Raises:
        FadiffError: the group cannot run; the message names the first violation.
    """
    broken, result = checked_cost(hardware, group)
    if result is None:
        raise FadiffError(f"the fused group cannot run: {broken[0].constraint}: {broken[0].reason}")
    return result


def checked_cost(hardware: Hardware, group: FusedGroup) -> tuple[list[Violation], FusedCost | None]:
    """Violations of a group and, where there are none, its cost, from one evaluation of each tile.

    Args:
        hardware: architecture and energy tables.
        group: any group.

    Returns:
        What `group_violations` and `group_cost` return; the cost is None where the group cannot run.
    """
    broken = structure_violations(hardware, group)
    if broken:
        return broken, None
    layers = evaluate_tiles(hardware, group)
    broken = tile_violations(hardware, group, layers)
    return broken, None if broken else _total_cost(hardware, group, layers)


def group_cost(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Cycles and energy of a group that is known to be legal.

    Args:
        hardware: architecture and energy tables.
        group: a group without violations, which are not looked for again.
    """
    return _total_cost(hardware, group, evaluate_tiles(hardware, group))


def evaluate_groups(hardware: Hardware, groups: Sequence[FusedGroup]) -> FusedCost:
    """Cost of the groups of a network, one after the other.

    Args:
        hardware: architecture and energy tables.
        groups: the groups in any order; layers that are not fused are groups of one (`single`).

    Returns:
        Sums of cycles and energies, so that the EDP is the product of the sums, as in the paper.

    Raises:
        FadiffError: a group cannot run.
    """
    costs = [evaluate_group(hardware, group) for group in groups]
    return FusedCost(sum(cost.cycles for cost in costs), sum(cost.energy_pj for cost in costs),
                     tuple(layer for cost in costs for layer in cost.layers))


def _total_cost(hardware: Hardware, group: FusedGroup, evaluated: Sequence[EvaluatedLayer]) -> FusedCost:
    layers = tuple(_layer_cost(hardware, group, index, layer) for index, layer in enumerate(evaluated))
    return FusedCost(group.repeat * sum(layer.cycles for layer in layers),
                     group.repeat * sum(layer.energy_pj for layer in layers), layers)


def _layer_cost(hardware: Hardware, group: FusedGroup, index: int, evaluated: EvaluatedLayer) -> LayerCost:
    """Sums over the steps of one layer, each class of equal steps priced once."""
    cycles = energy = 0.0
    computes = 0
    traffic: dict[tuple[str, str], GroupTraffic] = {}
    components: Counter[str] = Counter()
    for step, times in evaluated.classes.items():
        tile = evaluated.tiles[step.shape]
        counts = fused_counts(hardware, group, index, step, tile)
        price = cost(counts, tile.evaluation.use, tile.layer.machine, float(tile.layer.problem.computes), EXACT)
        wires = 0.0 if tile.evaluation.network is None else float(tile.evaluation.network.total[0])
        cycles += times * float(price.cycles[0])
        energy += times * (float(price.energy[0]) + wires)
        computes += times * tile.layer.problem.computes
        components.update(_components(tile, price, wires, times))
        for key, words in _traffic(tile, counts, times).items():
            traffic[key] = traffic.get(key, GroupTraffic()).plus(words)
    whole = group.layers[index].problem.computes
    return LayerCost(cycles, energy, computes, computes - whole, traffic, dict(components))


def _components(tile: EvaluatedTile, price: Cost, wires: float, times: int) -> dict[str, float]:
    """pJ of each component in `times` steps; levels that stand only for a fan-out have none."""
    levels = {level.name: times * float(price.level_energy[k, 0]) for k, level in enumerate(tile.layer.arch.levels)
              if not level.is_dummy}
    arithmetic = {tile.layer.arch.arithmetic.name: times * float(price.compute_energy[0])}
    return arithmetic | levels | ({NOC: times * wires} if wires else {})


def _traffic(tile: EvaluatedTile, counts: Counts, times: int) -> dict[tuple[str, str], GroupTraffic]:
    """Words per level and data space in `times` steps, where the level keeps the data space or is updated with it."""
    names, spaces = tile.layer.arch.level_names(), tile.layer.problem.dataspace_names()
    scale = times * tile.evaluation.use.instances[:, 0]     # counts are per instance
    return {(names[level], spaces[t]): GroupTraffic(*(float(values[level, t, 0] * scale[level])
                                                      for values in (counts.reads, counts.fills, counts.updates)))
            for level, t in np.argwhere(tile.evaluation.nest.keep[:, :, 0] | (counts.updates[:, :, 0] > 0))}


def fused_counts(hardware: Hardware, group: FusedGroup, index: int, step: StepClass, tile: EvaluatedTile) -> Counts:
    """The access counts of one step, corrected for words that other steps leave in place (see the module's head).

    Args:
        hardware: the architecture, whose level names the stays use.
        group: the group.
        index: position of the layer in the group.
        step: the class of the step, with the new words of each operand that stays.
        tile: the evaluation of the step's tile.

    Returns:
        Words per instance, [L, T, 1], as `model.access_counts` counts them.
    """
    layer = group.layers[index]
    counts = tile.evaluation.counts
    for (name, stay), fresh in zip(layer.operands.items(), step.fresh, strict=True):
        counts = _fetched_only(counts, tile, name, home_level(hardware, stay.level), fresh)
    if index and group.links[index - 1].written_pooled:
        counts = _written_out(counts, tile, group.links[index - 1].tensor, step.pooled_out)
    if index < len(group.links):
        counts = _copied(counts, tile, home_level(hardware, group.links[index].stay.level))
    if group.spilled:
        return counts if step.first_sum else _returned(counts, tile)
    return counts if step.first_sum and step.last_sum else _summed_on(counts, tile, step)


def _changed(counts: Counts, level: int, dataspace: int, reads: float = 0.0, fills: float = 0.0,
             updates: float = 0.0) -> Counts:
    """The counts with words per instance added for one data space of a level (negative: taken away)."""
    def plus(values: np.ndarray, words: float) -> np.ndarray:
        result = values.copy()
        result[level, dataspace] += words
        return result

    return replace(counts, reads=plus(counts.reads, reads), fills=plus(counts.fills, fills),
                   updates=plus(counts.updates, updates),
                   address_generations=plus(counts.address_generations, reads + fills + updates))


def _fetched_only(counts: Counts, tile: EvaluatedTile, name: str, home: int, fresh: int) -> Counts:
    """An operand that stays: only `fresh` words come from the next level outside its home that keeps it.

    Legality has made sure that the home has one instance and is filled with the whole tile once, so words per instance
    are words, and the parent's reads fall by as many as the home's fills.
    """
    t, levels = dataspace_index(tile, name), kept_levels(tile, name)
    parent = next(level for level in levels if level > home)
    saved = float(counts.fills[home, t, 0]) - fresh
    return _changed(_changed(counts, home, t, fills=-saved), parent, t, reads=-saved)


def _written_out(counts: Counts, tile: EvaluatedTile, name: str, fresh: int) -> Counts:
    """A pooled tensor with a reader outside the group: new words are read at the home level and written outside."""
    t = dataspace_index(tile, name)
    outside = _changed(counts, len(tile.layer.arch.levels) - 1, t, updates=fresh)
    return _changed(outside, kept_levels(tile, name)[-1], t, reads=fresh)


def _copied(counts: Counts, tile: EvaluatedTile, home: int) -> Counts:
    """FADiff eq. (14): final words of the output are read where they were summed up, for their home level.

    The update at the home is counted already. Where the home itself adds them up nothing is copied.
    """
    name = tile.layer.problem.output.name
    t = dataspace_index(tile, name)
    inside = [level for level in kept_levels(tile, name) if level < home]
    if not inside:
        return counts
    instances = tile.evaluation.use.instances[:, 0]
    words = float(counts.updates[home, t, 0] * instances[home] / instances[inside[-1]])
    return _changed(counts, inside[-1], t, reads=words)


def _summed_on(counts: Counts, tile: EvaluatedTile, step: StepClass) -> Counts:
    """Sums that go on in place: later steps read the earlier sums, and all but the last step hand nothing outwards.

    A later step has no first touch of a word (Timeloop's first-read elision left out `partition` words).
    """
    name = tile.layer.problem.output.name
    t, levels = dataspace_index(tile, name), kept_levels(tile, name)
    if not step.first_sum:
        counts = _changed(counts, levels[0], t, reads=float(counts.partition[levels[0], t, 0]))
    if not step.last_sum:
        for level in levels[1:]:
            counts = _changed(counts, level, t, updates=-float(counts.updates[level, t, 0]))
    return counts


def _returned(counts: Counts, tile: EvaluatedTile) -> Counts:
    """Spilled sums: the first touch of a word, too, is a read, and a fill at all levels but the outermost."""
    name = tile.layer.problem.output.name
    t, levels = dataspace_index(tile, name), kept_levels(tile, name)
    for level in levels:
        words = float(counts.partition[level, t, 0])
        counts = _changed(counts, level, t, reads=words, fills=words if level != levels[-1] else 0.0)
    return counts


def single(layer: FusedLayer, repeat: int = 1) -> FusedGroup:
    """A group of one layer, not fused with anything.

    Args:
        layer: the layer, with one mapping of its whole problem.
        repeat: runs of the layer, such as one per attention head.
    """
    return FusedGroup((layer,), repeat=repeat)
