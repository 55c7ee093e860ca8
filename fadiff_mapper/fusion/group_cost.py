"""Tiles of a fused group, each evaluated once as a Timeloop problem, and the exact cost of the group.

Problem. Timeloop evaluates one layer; a fused group runs tiles of several layers in turn, and words that stay on the
chip between steps are neither fetched nor written back as the layer by itself would do.

Method. A tile becomes a problem with the tile's extents as bounds, which `model.evaluate` evaluates like any mapping.
Steps that differ only in the words that earlier steps left in place share a shape, and with it one evaluation.
`fused_counts` then corrects the counts, which is FADiff's fusion-aware boundary with sigma = 1 for each link:

    eqs. 13, 15   no write-back of the intermediate beyond its home level, no fill of it from there: the mapping keeps
                  it at no level outside its home (`fused_mapping`)
    eq. 14        the copy into the home level: a read where the words were summed up, of each part of a sum that rests
                  in the home. Timeloop counts the update at the home, but charges a drain to the next level no read
    -             operands that stay are filled only with words that no earlier step or layer left there
    -             pooled tensors with a reader outside the group go to the outermost level
    -             words of other tensors that are put together with an intermediate come from the outermost level
    -             residual operands that stay on the chip are read at their home level
    -             partial sums to which later steps add come back from the level in which they rest (`FusedGroup.sums`)
    -             a softmax in one pass (`FusedGroup.one_pass`) corrects them once more in every step but the first

Latency and energy of the corrected counts are Timeloop's (in the paper, eqs. 16 to 19). Steps run one after the other,
so cycles and energies add up. A group of one layer without loops is exactly Timeloop's result.

Source. FADiff, section 3.2.1 (4), for the fusion-aware boundary; LoopTree and DeFiNES for steps whose halos are
retained or recomputed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce
from itertools import compress
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, Hardware, Shape
from fadiff_mapper.fusion.prices import on_best_unit
from fadiff_mapper.fusion.tile_steps import STATISTICS, LayerSteps, StepClass, layer_steps, step_classes
from fadiff_mapper.inputs.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.model.access_counts import Counts, ElementWords
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.evaluate import EXACT, evaluate_nest
from fadiff_mapper.model.legality import Violation, violations
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.tiles import Tiles
from fadiff_mapper.model.vector_cost import Stream, VectorCost, memory_cycles, unit_costs
from fadiff_mapper.workload.operations import one_pass_operations

NOC = "networks"
"""Name of the wires between all levels in `LayerCost.components`."""

Batch = TypeVar("Batch", Counts, Tiles, ElementWords)
"""Results of several mappings side by side, whose arrays have the axis B last."""


def side_by_side(parts: Sequence[Batch]) -> Batch:
    """Joins several batches of one architecture and problem along the axis B."""
    return of_arrays(parts, lambda arrays: np.concatenate(arrays, axis=-1))


def of_arrays(parts: Sequence[Batch], made: Callable[[list[np.ndarray]], np.ndarray]) -> Batch:
    """A batch whose arrays are computed by `made` from the same arrays of several batches."""
    def one(values: list[Any]) -> Any:
        if values[0] is None:
            return None
        return of_arrays(values, made) if isinstance(values[0], ElementWords) else made(values)

    return type(parts[0])(*(one([getattr(part, array.name) for part in parts]) for array in fields(parts[0])))


@dataclass(frozen=True)
class EvaluatedTile:
    """Timeloop's evaluation of one tile of a layer by itself."""

    layer: PreparedLayer  # the layer prepared for the tile as a problem of its own
    keep: np.ndarray  # [L, T]. Whether the level keeps the data space
    boxes: Tiles  # boxes, words, instances in use and compute cycles of the tile, B = 1
    counts: Counts  # access counts, B = 1
    wires: float  # pJ of all interconnects
    broken: tuple[Violation, ...]  # the limits that the mapping breaks

    def index(self, name: str) -> int:
        """Position of a data space on the axis T."""
        return self.layer.problem.dataspace_names().index(name)

    def kept_levels(self, name: str) -> list[int]:
        """The levels that keep a data space, innermost first."""
        levels: list[int] = np.flatnonzero(self.keep[:, self.index(name)]).tolist()
        return levels

    def spread(self, level: int) -> dict[str, int]:
        """Spatial factors of the fan-out below a level, by dimension."""
        factors = (self.boxes.across[level, :, 0] / self.boxes.below[level, :, 0]).astype(int).tolist()
        return dict(zip(self.layer.problem.dimensions, factors, strict=True))

    @cached_property
    def kept_words(self) -> list[dict[str, float]]:
        """For every level, innermost first, the words that each data space kept there occupies."""
        names, words = self.layer.problem.dataspace_names(), self.layer.machine.whole_words(self.boxes.size[..., 0])
        return [dict(compress(zip(names, own, strict=True), kept))
                for own, kept in zip(words.tolist(), self.keep.tolist(), strict=True)]


@dataclass(frozen=True)
class EvaluatedLayer:
    """A layer of a group over all steps of the shared loops."""

    steps: LayerSteps  # the points that the layer computes in every step of each loop
    classes: Counter[StepClass]  # classes of steps with equal work -> number of steps
    tiles: Mapping[Shape, EvaluatedTile]  # shape of a tile -> its evaluation; absent where no mapping covers the tile


TileKey: TypeAlias = tuple[int, Shape, LayerMapping]
"""A tile: the identity of its layer in `TileEvaluations.layers`, its extents and its mapping."""


@dataclass
class TileEvaluations:
    """Tiles evaluated so far on one design, shared by all groups of a network."""

    tiles: dict[TileKey, EvaluatedTile] = field(default_factory=dict)  # evaluated tiles
    # prepared layers by problem and switched-off reuse; tiles of one such layer differ only in extents and mappings
    layers: dict[Hashable, PreparedLayer] = field(default_factory=dict)

    def prepared(self, hardware: Hardware, problem: Problem, mapping: LayerMapping) -> PreparedLayer:
        """The layer prepared for mappings with the same reuse."""
        alike = (problem.name, problem.dimensions, problem.dataspaces,
                 tuple((level.no_temporal_reuse, level.no_multicast) for level in mapping.levels))
        if alike not in self.layers:
            self.layers[alike] = prepare_layer(hardware.arch, problem, hardware.tables,
                                               reuse_of(mapping, problem.dataspace_names()))
        return self.layers[alike]


def evaluate_tiles(hardware: Hardware, groups: Sequence[FusedGroup],
                   known: TileEvaluations | None = None) -> list[tuple[EvaluatedLayer, ...]]:
    """Evaluates every tile shape of every layer of some groups once, all tiles of one layer side by side.

    The groups must have sound loops, links and levels (`group_legality.structure_violations` is empty). `known`: tiles
    of other groups on the same design; new ones are added.

    Returns:
        For every group its layers, first to last. A tile without a mapping, or with one that does not cover it, is left
        out; `group_legality.tile_violations` names it.
    """
    known = TileEvaluations() if known is None else known
    planned: list[list[tuple[LayerSteps, Counter[StepClass], dict[Shape, TileKey]]]] = []
    missing: dict[int, tuple[PreparedLayer, dict[TileKey, None]]] = {}
    for group in groups:
        planned.append([])
        for index, (layer, steps) in enumerate(zip(group.layers, layer_steps(group), strict=True)):
            classes, keys = step_classes(group, layer, steps), dict[Shape, TileKey]()
            for shape in dict.fromkeys(step.shape for step in classes):
                if covered_shape(layer, shape) != shape:
                    continue
                mapping = fused_mapping(hardware, group, index, layer.mappings[shape])
                prepared = known.prepared(hardware, layer.problem, mapping)
                keys[shape] = (id(prepared), shape, mapping)
                if keys[shape] not in known.tiles:
                    missing.setdefault(id(prepared), (prepared, {}))[1][keys[shape]] = None
            planned[-1].append((steps, classes, keys))
    for prepared, wanted in missing.values():
        result = evaluate_nest(prepared, pack([mapping for _, _, mapping in wanted], prepared.problem))

        def row_of(batch: Batch, row: int) -> Batch:
            return of_arrays([batch], lambda arrays: arrays[0][..., row:row + 1].copy())

        for row, key in enumerate(wanted):
            known.tiles[key] = EvaluatedTile(
                prepared.resized(prepared.problem.resized(key[1])), result.nest.keep[..., row].copy(),
                row_of(result.tile, row), row_of(result.counts, row),
                0.0 if result.network is None else float(result.network.total[row]),
                tuple(violations(result.checks, row)))
    return [tuple(EvaluatedLayer(steps, classes, {shape: known.tiles[key] for shape, key in keys.items()})
                  for steps, classes, keys in layers) for layers in planned]


def covered_shape(layer: FusedLayer, shape: Shape) -> Shape | None:
    """Extents that the mapping of a tile covers, the product of its factors per dimension; None without a mapping."""
    mapping = layer.mappings.get(shape)
    if mapping is None:
        return None
    return tuple(prod(level.temporal[dim] * level.spatial[dim] for level in mapping.levels)
                 for dim in layer.problem.dimensions)


def fused_mapping(hardware: Hardware, group: FusedGroup, index: int, mapping: LayerMapping) -> LayerMapping:
    """The mapping of a tile of layer `index` with its intermediates kept in their homes and in no level outside.

    Levels outside the home keep the output only if a consumer outside the group needs all of it
    (`FusedLink.written_whole`).
    """
    handed = [(link.stay.level, link.tensor, False) for link in group.into(index)]
    if at := group.output_home(index):
        handed.append((at, group.layers[index].problem.output.name,
                       any(link.written_whole for link in group.links[index:index + 1])))
    levels = list(mapping.levels)
    for level, name, outside in handed:
        home = hardware.level(level)
        levels[home] = replace(levels[home], keep=levels[home].keep | {name})
        if not outside:
            levels[home + 1:] = [replace(level, keep=level.keep - {name}) for level in levels[home + 1:]]
    return LayerMapping(tuple(levels))


def fused_counts(hardware: Hardware, group: FusedGroup, index: int, step: StepClass, tile: EvaluatedTile) -> Counts:
    """The access counts of one step of layer `index`, corrected as the head of this module lists.

    Words per instance, [L, T, 1], as in `model.access_counts`.
    """
    layer, output = group.layers[index], tile.layer.problem.output
    counts = replace(tile.counts, **{name: getattr(tile.counts, name).copy()
                                     for name in ("reads", "fills", "updates", "address_generations")})

    def changed(level: int, dataspace: int, reads: float = 0.0, fills: float = 0.0, updates: float = 0.0) -> None:
        """Adds words per instance for one data space of a level (negative: takes them away)."""
        counts.reads[level, dataspace] += reads
        counts.fills[level, dataspace] += fills
        counts.updates[level, dataspace] += updates
        counts.address_generations[level, dataspace] += reads + fills + updates

    outermost, t = len(tile.layer.arch.levels) - 1, tile.index(output.name)
    for (name, stay), fresh in zip(layer.operands.items(), step.fresh, strict=True):
        # Legal groups have one home instance, which each tile fills once: words per instance are words, and the next
        # level outside is read as much less as the home is filled less.
        home, operand = hardware.level(stay.level), tile.index(name)
        parent = next(level for level in tile.kept_levels(name) if level > home)
        saved = float(counts.fills[home, operand, 0]) - fresh
        changed(home, operand, fills=-saved)
        changed(parent, operand, reads=-saved)
    for link in group.into(index):
        operand = tile.index(link.tensor)
        if link.written_pooled:
            changed(outermost, operand, updates=step.counted)
            changed(tile.kept_levels(link.tensor)[-1], operand, reads=step.counted)
        if link.elsewhere:
            words = float(step.counted * link.elsewhere)
            changed(hardware.level(link.stay.level), operand, fills=words)
            changed(outermost, operand, reads=words)
    levels = tile.kept_levels(output.name)
    if at := group.output_home(index):  # eq. (14); no copy where the home itself adds up sums
        home = hardware.level(at)
        if inside := [level for level in levels if level < home]:
            instances = tile.boxes.instances[:, 0]
            words = counts.updates[home, t, 0] * instances[home]
            changed(inside[-1], t, reads=float(words / instances[inside[-1]]))
    for read in group.second_reads if step.last_sum else ():
        if read.behind == index:
            stay = group.links[read.first - 1].stay if read.first else group.layers[0].operands[read.tensor]
            changed(hardware.level(stay.level), t, reads=float(tile.layer.problem.tensor_size(output)))
    rest = levels.index(hardware.level(group.sums)) if group.sums and step.shares_sums else 0
    if not step.first_sum:  # sums are read back; first-read elision had left out `partition` words
        for level in levels[:rest + 1]:
            words = float(counts.partition[level, t, 0])
            changed(level, t, reads=words, fills=words if level != levels[rest] else 0.0)
        if group.one_pass and index == len(group.links):
            words = float(counts.partition[levels[0], t, 0])
            changed(levels[0], t, reads=words, updates=words)
    if not step.last_sum:   # until the last step no sums go outwards from the level in which they rest
        for level in levels[rest + 1:]:
            changed(level, t, updates=-float(counts.updates[level, t, 0]))
    table = tile.layer.machine.element_words
    if counts.words and table is not None and step.shares_sums:  # other steps add to the same sums
        stored, transferred = counts.words.stored.copy(), counts.words.transferred.copy()
        stored[:, t] = transferred[:, t] = table[1, :, t]
        counts = replace(counts, words=replace(counts.words, stored=stored, transferred=transferred))
    return counts


@dataclass(frozen=True)
class GroupTraffic:
    """Words of one data space at one level, over all instances and the whole run."""

    reads: float = 0.0  # words read from the level
    fills: float = 0.0  # words that arrive from the next level outside that keeps the data space
    updates: float = 0.0  # words of an output that arrive from inside


@dataclass(frozen=True)
class StepCost:
    """Steps of a layer with equal work: a tile of one shape, with the same words in place from earlier steps.
    """

    shape: Shape  # extents of the tile, in the order of the layer's dimensions
    times: int  # number of these steps in one run of the group
    cycles: float  # cycles of one step
    energy_pj: float  # energy of one step


@dataclass(frozen=True)
class LayerCost:
    """A layer within its group, over all steps of one run of the group."""

    cycles: float  # sum over the steps
    energy_pj: float  # sum over the steps
    computes: int  # multiply-accumulates that are executed
    recomputed: int  # additional multiply-accumulates for recomputed halos
    traffic: dict[tuple[str, str], GroupTraffic]  # (level, data space) -> words
    components: dict[str, float]  # level or arithmetic -> pJ, and `NOC` -> pJ of all wires, if any
    steps: tuple[StepCost, ...] = ()  # classes of steps, which add up to both sums


@dataclass(frozen=True)
class FusedCost:
    """Cycles and energy (pJ) of all repeats of a group; costs per layer, in the order in which they run, of one run."""

    cycles: float
    energy_pj: float
    layers: tuple[LayerCost, ...]
    # cost of each operator between the layers on compute units (`FusedLink.operators`), of one run
    operators: tuple[VectorCost, ...] = ()
    # cycles in use of the multiply-accumulators, each unit and each memory, of one run; empty without operators
    busy: Mapping[str, float] = field(default_factory=dict)

    @property
    def bound(self) -> str:
        """The unit or memory that needs most cycles; empty without operators."""
        return max(self.busy, key=lambda name: self.busy[name], default="")

    @property
    def edp(self) -> float:
        """Energy-delay product in pJ * cycles."""
        return self.energy_pj * self.cycles


def group_cost(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Cycles and energy of a legal group; violations are not checked."""
    return total_costs(hardware, [(group, evaluate_tiles(hardware, [group])[0])])[0]


def total_costs(hardware: Hardware,
                groups: Sequence[tuple[FusedGroup, Sequence[EvaluatedLayer]]]) -> list[FusedCost]:
    """The costs of legal groups from their evaluated tiles; steps on equal machines are priced in one batch."""
    steps: dict[int, list[tuple[EvaluatedTile, Counts]]] = {}
    places = []     # for each layer its machine and the row of its first class
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
        laid = replace(side_by_side([tile.boxes for tile in tiles]), computes=computes)
        priced[machine] = counts, cost(counts, laid, tiles[0].layer.machine, EXACT)
    found = iter([_layer_cost(group.layers[index].problem.computes, layer, *priced[machine], first)
                  for (group, index, layer), (machine, first) in zip(layers, places, strict=True)])
    costs = []
    for group, evaluated in groups:
        parts = tuple(next(found) for _ in evaluated)
        operators = operator_costs(group, operator_choices(hardware, group, [layer.classes for layer in evaluated]))
        cycles, energy = sum(layer.cycles for layer in parts), sum(layer.energy_pj for layer in parts)
        busy: dict[str, float] = {}
        if operators:
            memories = memories_busy(hardware, parts)
            cycles, busy = cycles_with_operators(hardware, group, cycles, operators, memories)
            energy += sum(each.energy_pj for each in operators)
        costs.append(FusedCost(group.repeat * cycles, group.repeat * energy, parts, operators, busy))
    return costs


def memories_busy(hardware: Hardware, layers: Iterable[LayerCost]) -> dict[str, float]:
    """Cycles that each memory needs for the words of layers in one run of their group; 0 without a bandwidth limit."""
    found, traffic = {}, [moved for layer in layers for moved in layer.traffic.items()]
    for level in hardware.arch.levels:
        words = [moved for (name, _), moved in traffic if name == level.name]
        found[level.name] = memory_cycles(level, sum(moved.reads for moved in words) / level.instances,
                                          sum(moved.fills + moved.updates for moved in words) / level.instances)
    return found


def cycles_with_operators(hardware: Hardware, group: FusedGroup, layers: float, operators: Sequence[VectorCost],
                          memories: Mapping[str, float]) -> tuple[float, dict[str, float]]:
    """Cycles of one run of a group, and cycles in use of the multiply-accumulators, each unit and each memory.

    Side by side, the busiest of these sets the time; in turn, times add up. `layers`: cycles of the layers;
    `operators`: costs of the operators between them; `memories`: cycles that each memory needs for words of the layers.
    """
    busy: defaultdict[str, float] = defaultdict(float, memories)
    for each in operators:
        for name, cycles in each.busy.items():
            busy[name] += cycles
    busy[hardware.arch.arithmetic.name] += layers  # a unit of the same name is the same array
    return max(busy.values()) if group.side_by_side else layers + sum(each.cycles for each in operators), dict(busy)


OperatorChoices: TypeAlias = Sequence[Sequence[Sequence[VectorCost]]]
"""For each operator between layers and each of its parts, the cost of the part on every unit that can do it."""


def operator_costs(group: FusedGroup, choices: OperatorChoices) -> tuple[VectorCost, ...]:
    """The cost of each operator on the units `FusedGroup.units`, by default on those with the least EDP.

    Raises FadiffError if the number of units is not the number of parts of all operators, or a unit cannot do its part.
    """
    parts = [part for operator in choices for part in operator]
    names = group.units or [on_best_unit(part, "edp").unit for part in parts]
    if len(names) != len(parts):
        raise FadiffError(f"units: found {len(names)}; accepted: one for each of {len(parts)} parts of operators")
    found = []
    for name, part in zip(names, parts, strict=True):
        able = {cost.unit: cost for cost in part}
        if name not in able:
            raise FadiffError(f"units: found {name!r}; accepted: {listed(able)}")
        found.append(able[name])
    each = iter(found)
    return tuple(reduce(VectorCost.plus, [next(each) for _ in operator]) for operator in choices)


def operator_choices(hardware: Hardware, group: FusedGroup,
                     classes: Sequence[Counter[StepClass]]) -> OperatorChoices:
    """The costs of each operator between the layers on every compute unit that can do it, over all steps of one run.

    An operator reads all computed points of the intermediate from the home and writes them back; operands that it joins
    come from the outermost level, or from the chip as a second read. A softmax in one pass has parts, each with its own
    unit: scores, rows, sums and results. `classes`: the steps of each layer.

    Raises FadiffError where no unit can do an operator from the home.
    """
    found, outermost = [], len(hardware.arch.levels) - 1

    def points(index: int, dims: Iterable[str], corrected: bool = False) -> int:
        """Computed points of some dimensions; `corrected`: only of steps that add to earlier ones."""
        position = [group.layers[index].problem.dimensions.index(dim) for dim in dims]
        return sum(times * prod(step.shape[place] for place in position) for step, times in classes[index].items()
                   if not (corrected and step.first_sum))

    for index, link in enumerate(group.links):
        output, home = group.layers[index].problem.output.dimensions, hardware.level(link.stay.level)
        made = points(index, output)
        part = made / (prod(group.layers[index].problem.bounds[dim] for dim in output) * group.repeat)
        again = sum(read.behind == index for read in group.second_reads)
        for each in link.operators:
            own, joined = each.operator, part * each.joined
            if again and each.joined == own.written:
                again, joined = again - 1, 0.0
            parts: list[tuple[Mapping[str, float], list[Stream]]] = [
                ({kind: part * number for kind, number in own.operations.items()},
                 [Stream(home, part * (own.read - each.joined), part * own.written), Stream(outermost, joined)])]
            if own.op == "softmax" and group.one_pass and index == len(group.links) - 1:
                results = group.layers[-1].problem.output.dimensions
                rows = points(index + 1, results & set(link.dims.values()), corrected=True)
                on_scores, on_rows, *on_sums = one_pass_operations(
                    made, rows, points(index + 1, results, corrected=True),
                    prod(group.layers[-1].problem.bounds[dim] for dim in results))
                rest = hardware.level(group.statistics_at)
                parts = [(on_scores, parts[0][1]), (on_rows, [Stream(rest, STATISTICS * rows, STATISTICS * rows)]),
                         *((operations, [Stream(rest, 0)]) for operations in on_sums)]
            found.append([unit_costs(own, *one, hardware.arch, hardware.tables) for one in parts])
    return found


def _layer_cost(needed: int, evaluated: EvaluatedLayer, counts: Counts, price: Cost, first: int) -> LayerCost:
    """Sums over the steps of one layer, whose counts and prices begin at row `first`.

    `needed`: multiply-accumulates without recomputation, including those that a mask hides. `counts`: corrected for the
    words in place from earlier steps.
    """
    tiles = [evaluated.tiles[step.shape] for step in evaluated.classes]
    arch, names = tiles[0].layer.arch, tiles[0].layer.problem.dataspace_names()
    steps, executed, cycles, energy, arithmetic, wires = list[StepCost](), 0, 0.0, 0.0, 0.0, 0.0
    levels, words = np.zeros(len(arch.levels)), np.zeros((3, *tiles[0].keep.shape))
    moved = np.zeros(tiles[0].keep.shape, dtype=bool)   # levels that keep a data space or move words of it
    for row, (tile, (step, times)) in enumerate(zip(tiles, evaluated.classes.items(), strict=True), first):
        steps.append(StepCost(step.shape, times, float(price.cycles[row]), float(price.energy[row]) + tile.wires))
        cycles += times * steps[-1].cycles
        energy += times * steps[-1].energy_pj
        executed += times * tile.layer.problem.computes
        arithmetic += times * float(price.compute_energy[row])
        levels += times * price.level_energy[:, row]
        wires += times * tile.wires
        own = np.stack([counts.reads[..., row], counts.fills[..., row], counts.updates[..., row]])
        words += own * (times * tile.boxes.instances)   # [L, 1]; counts are per instance
        moved |= tile.keep | (own[0] > 0) | (own[2] > 0)
    components = {arch.arithmetic.name: arithmetic} | {
        level.name: pj for level, pj in zip(arch.levels, levels.tolist(), strict=True)
        if not level.is_dummy} | ({NOC: wires} if wires else {})    # levels that only make a fan-out have no energy
    traffic = {(arch.levels[level].name, names[t]): GroupTraffic(*words[:, level, t].tolist())
               for level, t in np.argwhere(moved).tolist()}
    return LayerCost(cycles, energy, executed, max(executed - needed, 0), traffic, components, tuple(steps))
