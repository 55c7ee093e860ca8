"""The tiles of a fused group, each evaluated once as a Timeloop problem of its own.

Problem. A step of the shared loops runs one tile of every layer. Legality and cost both need Timeloop's result for
the tile: the words it keeps, the partial sums it reads back, its access counts.

Method. The tile becomes a problem with the tile's extents as bounds; its mapping keeps the intermediates at their home
levels and bypasses the levels outside them (FADiff eqs. 13 and 15 at sigma = 1: neither the producer's write-back nor
the consumer's fill crosses the home level). `model.exact` evaluates the pair as it would any mapping. Steps that differ
only in the words that earlier steps left in place share a shape, and with it one evaluation; `fused_counts` applies the
difference to the access counts afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, fields, replace
from itertools import chain, compress
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, Shape
from fadiff_mapper.fusion.groups.tile_steps import LayerSteps, StepClass, layer_steps, step_classes
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.exact.evaluate import evaluate_nest
from fadiff_mapper.model.legality import Violation, violations
from fadiff_mapper.model.loop_nest import pack, project
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.tile_boxes import tiles
from fadiff_mapper.model.usage import Usage
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem

Batch = TypeVar("Batch", Counts, Usage)
"""Results of several mappings side by side, whose arrays have the axis B last."""


def side_by_side(parts: Sequence[Batch]) -> Batch:
    """Several batches as one.

    Args:
        parts: batches of the same architecture and problem.
    """
    return type(parts[0])(*(np.concatenate([getattr(part, array.name) for part in parts], axis=-1)
                            for array in fields(parts[0])))


def _alone(batch: Batch, row: int) -> Batch:
    """One mapping of a batch as a batch of one."""
    return type(batch)(*(getattr(batch, array.name)[..., row:row + 1].copy() for array in fields(batch)))


@dataclass(frozen=True)
class EvaluatedTile:
    """Timeloop's evaluation of one tile of a layer, as it stands alone.

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


@dataclass
class TileEvaluations:
    """Tiles evaluated so far on one design, which many groups of a network have in common.

    Attributes:
        tiles: tiles by the layer below, extents and mapping.
        layers: layers prepared for evaluation, by problem and levels without reuse; tiles of one differ in their
            extents and mappings alone.
    """

    tiles: dict[TileKey, EvaluatedTile] = field(default_factory=dict)
    layers: dict[Hashable, PreparedLayer] = field(default_factory=dict)


TileKey: TypeAlias = tuple[int, Shape, Mapping]
"""A tile by the identity of its layer in `TileEvaluations.layers`, its extents and its mapping."""


@dataclass(frozen=True)
class _PlannedLayer:
    """A layer of a group whose tiles may not be evaluated yet.

    Attributes:
        steps: as of `EvaluatedLayer`.
        classes: as of `EvaluatedLayer`.
        tiles: shape of a tile that a mapping covers -> its layer as prepared for evaluation, and its mapping.
    """

    steps: LayerSteps
    classes: Counter[StepClass]
    tiles: AnyMapping[Shape, tuple[PreparedLayer, Mapping]]

    def keys(self) -> dict[Shape, TileKey]:
        """Where the tiles stand in `TileEvaluations.tiles`."""
        return {shape: (id(prepared), shape, mapping) for shape, (prepared, mapping) in self.tiles.items()}


def evaluate_tiles(hardware: Hardware, group: FusedGroup,
                   known: TileEvaluations | None = None) -> tuple[EvaluatedLayer, ...]:
    """Evaluates every tile shape of every layer once.

    Args:
        hardware: architecture and energy tables.
        group: a group whose loops, links and levels are sound (`group_legality.structure_violations` is empty).
        known: tiles of other groups on the same design; new ones are added. None: there are none.

    Returns:
        Entries per layer, first to last. A tile without a mapping, or with one that does not cover it, is left out;
        `group_legality.tile_violations` names it.
    """
    return evaluate_tiles_of(hardware, [group], known)[0]


def evaluate_tiles_of(hardware: Hardware, groups: Sequence[FusedGroup],
                      known: TileEvaluations | None = None) -> list[tuple[EvaluatedLayer, ...]]:
    """The same of many groups, whose tiles are evaluated side by side.

    Args:
        hardware: architecture and energy tables.
        groups: as for `evaluate_tiles`.
        known: as for `evaluate_tiles`.
    """
    known = TileEvaluations() if known is None else known
    planned = [[_planned(hardware, group, index, steps, known) for index, steps in enumerate(layer_steps(group))]
               for group in groups]
    missing: dict[int, tuple[PreparedLayer, dict[TileKey, None]]] = {}
    for layer in chain.from_iterable(planned):
        for shape, key in layer.keys().items():
            if key not in known.tiles:
                missing.setdefault(key[0], (layer.tiles[shape][0], {}))[1][key] = None
    for prepared, keys in missing.values():
        known.tiles |= _evaluated(prepared, list(keys))
    return [tuple(EvaluatedLayer(layer.steps, layer.classes,
                                 {shape: known.tiles[key] for shape, key in layer.keys().items()}) for layer in group)
            for group in planned]


def _planned(hardware: Hardware, group: FusedGroup, index: int, steps: LayerSteps,
             known: TileEvaluations) -> _PlannedLayer:
    """The tiles of one layer of a group, and in `known` the layers that evaluate them."""
    layer, covered = group.layers[index], {}
    classes, problem = step_classes(group, layer, steps), layer.problem
    for shape in dict.fromkeys(step.shape for step in classes):
        if covered_shape(layer, shape) == shape:
            mapping = fused_mapping(hardware, group, index, layer.mappings[shape])
            alike = (problem.name, problem.dimensions, problem.dataspaces,
                     tuple((level.no_temporal_reuse, level.no_multicast) for level in mapping.levels))
            if alike not in known.layers:
                known.layers[alike] = prepare_layer(hardware.arch, problem, hardware.tables,
                                                    reuse_of(mapping, problem.dataspace_names()))
            covered[shape] = known.layers[alike], mapping
    return _PlannedLayer(steps, classes, covered)


def _evaluated(layer: PreparedLayer, keys: Sequence[TileKey]) -> dict[TileKey, EvaluatedTile]:
    """Evaluates tiles of one layer in one batch."""
    result = evaluate_nest(layer, pack([mapping for _, _, mapping in keys], layer.problem))
    return {key: EvaluatedTile(
        layer.resized(layer.problem.resized(key[1])), result.nest.keep[..., row].copy(),
        result.tile.size[..., row].copy(), _alone(result.use, row), _alone(result.counts, row),
        0.0 if result.network is None else float(result.network.total[row]),
        tuple(violations(result.checks, row))) for row, key in enumerate(keys)}


def covered_shape(layer: FusedLayer, shape: Shape) -> Shape | None:
    """Extents that the mapping for a tile covers, the product of its factors per dimension; None without a mapping."""
    mapping = layer.mappings.get(shape)
    if mapping is None:
        return None
    return tuple(prod(level.temporal[dim] * level.spatial[dim] for level in mapping.levels)
                 for dim in layer.problem.dimensions)


def fused_mapping(hardware: Hardware, group: FusedGroup, index: int, mapping: Mapping) -> Mapping:
    """The mapping of a tile with its intermediates kept at their home levels and at no level outside them.

    Args:
        hardware: the architecture, whose level names the links use.
        group: the group, for its links.
        index: position of the layer in the group.
        mapping: a mapping of one of the layer's tiles.

    Returns:
        The same loops. A level outside the home keeps the output only where all of it is also written there for a
        consumer outside the group (`FusedLink.written_whole`).
    """
    levels = list(mapping.levels)
    output = group.layers[index].problem.output.name
    for link, dataspace, outside in _links_of(group, index, output):
        home = hardware.level(link.stay.level)
        levels = [_keeping(level, dataspace, k, home, outside) for k, level in enumerate(levels)]
    return Mapping(tuple(levels))


def _links_of(group: FusedGroup, index: int, output: str) -> list[tuple[FusedLink, str, bool]]:
    """(link, data space of this layer, whether it also goes outside) for the layers before and after."""
    before = [(group.links[index - 1], group.links[index - 1].tensor, False)] if index else []
    after = [(group.links[index], output, group.links[index].written_whole)] if index < len(group.links) else []
    return before + after


def _keeping(level: LevelMapping, dataspace: str, index: int, home: int, outside: bool) -> LevelMapping:
    """The level of that index in a mapping whose data space has its home at level `home`."""
    if index == home:
        return replace(level, keep=level.keep | {dataspace})
    return level if index < home or outside else replace(level, keep=level.keep - {dataspace})


def kept_words(tile: EvaluatedTile) -> list[dict[str, float]]:
    """For every level, innermost first, the data spaces that an evaluated tile keeps there and their words."""
    return _kept(tile.layer.problem, tile.keep, tile.size)


def mapped_words(hardware: Hardware, group: FusedGroup, index: int, shape: Shape) -> list[dict[str, float]]:
    """The same words as `kept_words` from the tile's mapping alone, without evaluating its traffic.

    Args:
        hardware: the architecture, whose level names the links use.
        group: the group.
        index: position of the layer in the group.
        shape: extents of the tile, one of the layer's `mappings`.
    """
    layer = group.layers[index]
    problem = layer.problem.resized(shape)
    nest = pack([fused_mapping(hardware, group, index, layer.mappings[shape])], problem)
    return _kept(problem, nest.keep[..., 0], tiles(nest, project(problem)).size[..., 0])


def _kept(problem: Problem, keep: np.ndarray, size: np.ndarray) -> list[dict[str, float]]:
    """Words per level and kept data space, from whether each is kept and the sizes of tiles, [L, T] each."""
    names = problem.dataspace_names()
    return [dict(compress(zip(names, words, strict=True), kept))
            for words, kept in zip(size.tolist(), keep.tolist(), strict=True)]


def kept_levels(tile: EvaluatedTile, name: str) -> list[int]:
    """The levels that keep a data space, innermost first."""
    levels: list[int] = np.flatnonzero(tile.keep[:, dataspace_index(tile, name)]).tolist()
    return levels


def dataspace_index(tile: EvaluatedTile, name: str) -> int:
    """Position of a data space on the axis T of the tile's arrays."""
    return tile.layer.problem.dataspace_names().index(name)
