"""The exact cost of a fused group on one of Timeloop's architectures.

Problem. Timeloop evaluates one layer; a fused group runs tiles of several layers in turn, and words that stay on the
chip between steps are neither fetched nor written back as the layer by itself would do.

Method. Every step of every layer costs what Timeloop computes for the layer's tile after corrections to its access
counts (`tile_evaluation`). Latency and energy of the corrected counts are Timeloop's (in the paper, eqs. 16 to 19).
Steps run one after the other, so cycles and energies add up. A group of one layer without loops is exactly Timeloop's
result.

Source. FADiff, section 3.2.1 (4), for the fusion-aware boundary; LoopTree and DeFiNES for steps whose halos are
retained or recomputed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.fused_group import FusedGroup, Hardware, Shape
from fadiff_mapper.fusion.group_legality import structure_violations, tile_violations
from fadiff_mapper.fusion.tile_evaluation import (
    EvaluatedLayer,
    EvaluatedTile,
    TileEvaluations,
    evaluate_tiles,
    fused_counts,
    side_by_side,
)
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.evaluate import EXACT
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
class StepCost:
    """Steps of a layer that do the same work: a tile of one shape, with the same words left in place by earlier steps.

    Attributes:
        shape: extents of the tile, in the order of the layer's dimensions.
        times: number of these steps in one run of the group.
        cycles: cycles of one step.
        energy_pj: energy of one step.
    """

    shape: Shape
    times: int
    cycles: float
    energy_pj: float


@dataclass(frozen=True)
class LayerCost:
    """A layer within its group, over all steps, before the group is repeated.

    Attributes:
        cycles: sum over the steps.
        energy_pj: sum over the steps.
        computes: multiply-accumulates that are executed.
        recomputed: multiply-accumulates beyond those of the layer, for halos that are recomputed.
        traffic: (level, data space) -> words.
        components: level or arithmetic -> pJ, and `NOC` -> pJ of all wires where these cost energy.
        steps: the parts of both sums.
    """

    cycles: float
    energy_pj: float
    computes: int
    recomputed: int
    traffic: dict[tuple[str, str], GroupTraffic]
    components: dict[str, float]
    steps: tuple[StepCost, ...] = ()


@dataclass(frozen=True)
class FusedCost:
    """Cycles and energy (pJ) of all repeats of a group; `layers` in the order in which they run, without repeats."""

    cycles: float
    energy_pj: float
    layers: tuple[LayerCost, ...]

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles


def evaluate_group(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Checks a group and computes its cycles and energy.

    Raises:
        FadiffError: the group cannot run; the message names the first violation.
    """
    broken, result = checked_costs(hardware, [group])[0]
    if result is None:
        raise FadiffError(f"the fused group cannot run: {broken[0].constraint}: {broken[0].reason}")
    return result


def checked_costs(hardware: Hardware, groups: Sequence[FusedGroup],
                  known: TileEvaluations | None = None) -> list[tuple[list[Violation], FusedCost | None]]:
    """Violations of groups and, where there are none, costs, from one evaluation of each tile.

    Args:
        hardware: architecture and energy tables.
        groups: any groups; their tiles are evaluated side by side.
        known: tiles of other groups on the same design; new ones are added. None: there are none.

    Returns:
        For each group (violations, cost) as of `group_violations` and `group_cost`; None where it cannot run.
    """
    broken = [structure_violations(hardware, group) for group in groups]
    sound = [number for number, own in enumerate(broken) if not own]
    evaluated = dict(zip(sound, evaluate_tiles(hardware, [groups[number] for number in sound], known), strict=True))
    for number, layers in evaluated.items():
        broken[number] = tile_violations(hardware, groups[number], layers)
    legal = [number for number in sound if not broken[number]]
    costs = dict(zip(legal, _total_costs(hardware, [(groups[number], evaluated[number]) for number in legal]),
                     strict=True))
    return [(own, costs.get(number)) for number, own in enumerate(broken)]


def group_cost(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Cycles and energy of a group without violations, which are not looked for again."""
    return _total_costs(hardware, [(group, evaluate_tiles(hardware, [group])[0])])[0]


def _total_costs(hardware: Hardware,
                 groups: Sequence[tuple[FusedGroup, Sequence[EvaluatedLayer]]]) -> list[FusedCost]:
    """The costs of legal groups from their evaluated tiles; steps that one machine runs are priced side by side."""
    steps: dict[int, list[tuple[EvaluatedTile, Counts]]] = {}
    places = []     # of each layer, the machine and the first of its classes there
    layers = [(group, index, layer) for group, evaluated in groups for index, layer in enumerate(evaluated)]
    for group, index, layer in layers:
        own = [(layer.tiles[step.shape], step) for step in layer.classes]
        machine = id(own[0][0].layer.machine)
        before = steps.setdefault(machine, [])
        places.append((machine, len(before)))
        before += [(tile, fused_counts(hardware, group, index, step, tile)) for tile, step in own]
    priced: dict[int, tuple[Counts, Cost]] = {}
    for machine, known in steps.items():
        tiles, counts = [tile for tile, _ in known], side_by_side([counts for _, counts in known])
        computes = np.array([tile.layer.problem.computes for tile in tiles], dtype=np.float64)
        priced[machine] = counts, cost(counts, side_by_side([tile.use for tile in tiles]), tiles[0].layer.machine,
                                       computes, EXACT)
    found = iter([_layer_cost(group.layers[index].problem.computes, layer, *priced[machine], first)
                  for (group, index, layer), (machine, first) in zip(layers, places, strict=True)])
    costs = []
    for group, evaluated in groups:
        parts = tuple(next(found) for _ in evaluated)
        costs.append(FusedCost(group.repeat * sum(layer.cycles for layer in parts),
                               group.repeat * sum(layer.energy_pj for layer in parts), parts))
    return costs


def _layer_cost(needed: int, evaluated: EvaluatedLayer, counts: Counts, price: Cost, first: int) -> LayerCost:
    """Sums over the steps of one layer.

    Args:
        needed: multiply-accumulates of the layer without recomputation.
        evaluated: the layer.
        counts: access counts of steps, its own among them, with the words that earlier steps left in place.
        price: their cycles and energies.
        first: row at which its own begin.
    """
    cycles, energy, executed = 0.0, 0.0, 0
    traffic: dict[tuple[str, str], GroupTraffic] = {}
    components: Counter[str] = Counter()
    steps = []
    for row, (step, times) in enumerate(evaluated.classes.items(), first):
        tile = evaluated.tiles[step.shape]
        steps.append(StepCost(step.shape, times, float(price.cycles[row]), float(price.energy[row]) + tile.wires))
        cycles += times * steps[-1].cycles
        energy += times * steps[-1].energy_pj
        executed += times * tile.layer.problem.computes
        components.update(_components(tile, price, row, times))
        for key, words in _traffic(tile, counts, row, times).items():
            traffic[key] = traffic.get(key, GroupTraffic()).plus(words)
    return LayerCost(cycles, energy, executed, executed - needed, traffic, dict(components), tuple(steps))


def _components(tile: EvaluatedTile, price: Cost, row: int, times: int) -> dict[str, float]:
    """pJ of each component in `times` steps; levels that are there only for a fan-out have none."""
    levels = {level.name: times * float(price.level_energy[k, row]) for k, level in enumerate(tile.layer.arch.levels)
              if not level.is_dummy}
    arithmetic = {tile.layer.arch.arithmetic.name: times * float(price.compute_energy[row])}
    return arithmetic | levels | ({NOC: times * tile.wires} if tile.wires else {})


def _traffic(tile: EvaluatedTile, counts: Counts, row: int, times: int) -> dict[tuple[str, str], GroupTraffic]:
    """Words per level and data space in `times` steps, where the level keeps the data space or moves words of it."""
    names, spaces = tile.layer.arch.level_names(), tile.layer.problem.dataspace_names()
    reads, fills, updates = (values[..., row] for values in (counts.reads, counts.fills, counts.updates))
    moved = np.argwhere(tile.keep | (updates > 0) | (reads > 0)).tolist()
    scale = times * tile.use.instances     # [L, 1]; counts are per instance
    words = np.stack([reads, fills, updates], axis=-1) * scale[..., None]
    return {(names[level], spaces[t]): GroupTraffic(*words[level, t].tolist()) for level, t in moved}
