"""The tiles of a fused group: each evaluated once as a Timeloop problem, and its counts in every step of the group.

Problem. A step of the shared loops runs one tile of every layer. Legality and cost need Timeloop's result for the tile:
the words it keeps, the partial sums it reads back, its access counts. Some of these words other steps leave in place.

Method. The tile becomes a problem with the tile's extents as bounds, which `model.evaluate` evaluates like any mapping.
Steps that differ only in the words that earlier steps left in place share a shape, and with it one evaluation.
`fused_counts` then corrects the counts, which is FADiff's fusion-aware boundary with sigma = 1 for each link:

    eqs. 13, 15   no write-back of the intermediate beyond its home level, no fill of it from there: the mapping keeps
                  it at no level outside its home (`fused_mapping`)
    eq. 14        the copy into the home level: a read where the words were summed up. Timeloop counts the update at the
                  home, but charges a drain to the next level no read
    -             operands that stay are filled only with words that no earlier step left there
    -             pooled tensors with a reader outside the group go to the outermost level
    -             words of other tensors that are put together with an intermediate come from the outermost level
    -             residual operands that stay on the chip are read at their home level
    -             partial sums to which later steps add stay where they are summed up, or with `spilled` come back from
                  the outermost level
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, fields, replace
from itertools import compress
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, Hardware, Shape
from fadiff_mapper.fusion.tile_steps import LayerSteps, StepClass, layer_steps, step_classes
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.legality import Violation, violations
from fadiff_mapper.model.loop_nest import pack, project
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.tiles import Usage, tiles

Batch = TypeVar("Batch", Counts, Usage)
"""Results of several mappings side by side, whose arrays have the axis B last."""


def side_by_side(parts: Sequence[Batch]) -> Batch:
    """Several batches of one architecture and problem as one."""
    return type(parts[0])(*(np.concatenate([getattr(part, array.name) for part in parts], axis=-1)
                            for array in fields(parts[0])))


def _row_of(batch: Batch, row: int) -> Batch:
    """One mapping of a batch as a batch of one."""
    return type(batch)(*(getattr(batch, array.name)[..., row:row + 1].copy() for array in fields(batch)))


@dataclass(frozen=True)
class EvaluatedTile:
    """Timeloop's evaluation of one tile of a layer by itself.

    Attributes:
        layer: the tile as a problem on the group's architecture.
        keep: [L, T]. Whether the level keeps the data space.
        size: [L, T]. Words of the tile of a data space, kept or not.
        use: instances in use and compute cycles, a batch of one (B = 1).
        counts: accesses, a batch of one.
        wires: pJ of all interconnects.
        broken: the limits that the mapping breaks.
    """

    layer: PreparedLayer
    keep: np.ndarray
    size: np.ndarray
    use: Usage
    counts: Counts
    wires: float
    broken: tuple[Violation, ...]

    def index(self, name: str) -> int:
        """Position of a data space on the axis T."""
        return self.layer.problem.dataspace_names().index(name)

    def kept_levels(self, name: str) -> list[int]:
        """The levels that keep a data space, innermost first."""
        levels: list[int] = np.flatnonzero(self.keep[:, self.index(name)]).tolist()
        return levels

    def kept_words(self) -> list[dict[str, float]]:
        """For every level, innermost first, the data spaces that it keeps and their words."""
        return _kept(self.layer.problem, self.keep, self.size)


@dataclass(frozen=True)
class EvaluatedLayer:
    """A layer of a group over all steps of the shared loops.

    Attributes:
        steps: the points that the layer computes in every step of each loop.
        classes: steps in which the layer does the same work -> their number.
        tiles: shape of a tile -> its evaluation; absent where no mapping covers the tile.
    """

    steps: LayerSteps
    classes: Counter[StepClass]
    tiles: AnyMapping[Shape, EvaluatedTile]


TileKey: TypeAlias = tuple[int, Shape, Mapping]
"""A tile by the identity of its layer in `TileEvaluations.layers`, its extents and its mapping."""


@dataclass
class TileEvaluations:
    """Tiles evaluated so far on one design, which many groups of a network have in common.

    Attributes:
        tiles: the tiles.
        layers: layers prepared for evaluation, by problem and levels without reuse; tiles of one differ in their
            extents and mappings alone.
    """

    tiles: dict[TileKey, EvaluatedTile] = field(default_factory=dict)
    layers: dict[Hashable, PreparedLayer] = field(default_factory=dict)

    def prepared(self, hardware: Hardware, problem: Problem, mapping: Mapping) -> PreparedLayer:
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

    Args:
        hardware: architecture and energy tables.
        groups: groups whose loops, links and levels are sound (`group_legality.structure_violations` is empty).
        known: tiles of other groups on the same design; new ones are added. None: there are none.

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
        for row, key in enumerate(wanted):
            known.tiles[key] = EvaluatedTile(
                prepared.resized(prepared.problem.resized(key[1])), result.nest.keep[..., row].copy(),
                result.tile.size[..., row].copy(), _row_of(result.use, row), _row_of(result.counts, row),
                0.0 if result.network is None else float(result.network.total[row]),
                tuple(violations(result.checks, row)))
    return [tuple(EvaluatedLayer(steps, classes, {shape: known.tiles[key] for shape, key in keys.items()})
                  for steps, classes, keys in layers) for layers in planned]


def covered_shape(layer: FusedLayer, shape: Shape) -> Shape | None:
    """Extents that the mapping for a tile covers, the product of its factors per dimension; None without a mapping."""
    mapping = layer.mappings.get(shape)
    if mapping is None:
        return None
    return tuple(prod(level.temporal[dim] * level.spatial[dim] for level in mapping.levels)
                 for dim in layer.problem.dimensions)


def fused_mapping(hardware: Hardware, group: FusedGroup, index: int, mapping: Mapping) -> Mapping:
    """A mapping of a tile of layer `index`, with its intermediates kept at their home levels and at none outside.

    A level outside the home keeps the output only where all of it is also written there for a consumer outside the
    group (`FusedLink.written_whole`).
    """
    links = [(link, link.tensor, False) for link in group.links[max(index - 1, 0):index]]
    links += [(link, group.layers[index].problem.output.name, link.written_whole)
              for link in group.links[index:index + 1]]
    levels = list(mapping.levels)
    for link, name, outside in links:
        home = hardware.level(link.stay.level)
        levels[home] = replace(levels[home], keep=levels[home].keep | {name})
        if not outside:
            levels[home + 1:] = [replace(level, keep=level.keep - {name}) for level in levels[home + 1:]]
    return Mapping(tuple(levels))


def mapped_words(hardware: Hardware, group: FusedGroup, index: int, shape: Shape) -> list[dict[str, float]]:
    """`EvaluatedTile.kept_words` from the mapping of a tile of layer `index` alone, without its traffic."""
    layer = group.layers[index]
    problem = layer.problem.resized(shape)
    nest = pack([fused_mapping(hardware, group, index, layer.mappings[shape])], problem)
    return _kept(problem, nest.keep[..., 0], tiles(nest, project(problem)).size[..., 0])


def _kept(problem: Problem, keep: np.ndarray, size: np.ndarray) -> list[dict[str, float]]:
    """Words per level and kept data space, from whether each is kept and the sizes of tiles, [L, T] each."""
    names = problem.dataspace_names()
    return [dict(compress(zip(names, words, strict=True), kept))
            for words, kept in zip(size.tolist(), keep.tolist(), strict=True)]


def fused_counts(hardware: Hardware, group: FusedGroup, index: int, step: StepClass, tile: EvaluatedTile) -> Counts:
    """The access counts of one step of layer `index`, corrected as the module's head says.

    Returns:
        Words per instance, [L, T, 1], as `model.access_counts` counts them. Every correction changes reads, fills or
        updates of one data space at one level, and address generations by as much.
    """
    layer, counts, output = group.layers[index], tile.counts, tile.layer.problem.output
    outermost, t = len(tile.layer.arch.levels) - 1, tile.index(output.name)
    for (name, stay), fresh in zip(layer.operands.items(), step.fresh, strict=True):
        # Legality has made sure that the home has one instance and is filled with the whole tile once, so words per
        # instance are words, and the reads of the next level outside fall by as many as the home's fills.
        home, operand = hardware.level(stay.level), tile.index(name)
        parent = next(level for level in tile.kept_levels(name) if level > home)
        saved = float(counts.fills[home, operand, 0]) - fresh
        counts = _changed(_changed(counts, home, operand, fills=-saved), parent, operand, reads=-saved)
    if index and group.links[index - 1].written_pooled:
        name = group.links[index - 1].tensor
        counts = _changed(_changed(counts, outermost, tile.index(name), updates=step.counted),
                          tile.kept_levels(name)[-1], tile.index(name), reads=step.counted)
    if index and group.links[index - 1].elsewhere:
        link = group.links[index - 1]
        words, operand = float(step.counted * link.elsewhere), tile.index(link.tensor)
        counts = _changed(_changed(counts, hardware.level(link.stay.level), operand, fills=words), outermost, operand,
                          reads=words)
    levels = tile.kept_levels(output.name)
    if index < len(group.links):    # eq. (14); nothing is copied where the home itself adds the sums up
        home = hardware.level(group.links[index].stay.level)
        if inside := [level for level in levels if level < home]:
            instances = tile.use.instances[:, 0]
            words = counts.updates[home, t, 0] * instances[home]
            counts = _changed(counts, inside[-1], t, reads=float(words / instances[inside[-1]]))
    for read in group.second_reads if step.last_sum else ():
        if read.behind == index:
            stay = group.links[read.first - 1].stay if read.first else group.layers[0].operands[read.tensor]
            words = float(tile.layer.problem.tensor_size(output))
            counts = _changed(counts, hardware.level(stay.level), t, reads=words)
    if not step.first_sum:  # no first touch of a word: Timeloop's first-read elision left out `partition` words
        for level in levels if group.spilled else levels[:1]:
            words = float(counts.partition[level, t, 0])
            back = group.spilled and level != levels[-1]
            counts = _changed(counts, level, t, reads=words, fills=words if back else 0.0)
    if not (step.last_sum or group.spilled):    # all but the last step hand nothing outwards
        for level in levels[1:]:
            counts = _changed(counts, level, t, updates=-float(counts.updates[level, t, 0]))
    return counts


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
