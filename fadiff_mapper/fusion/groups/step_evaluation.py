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
from collections.abc import Hashable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, Shape
from fadiff_mapper.fusion.groups.tile_steps import LayerSteps, StepClass, layer_steps, step_classes
from fadiff_mapper.model.exact.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, pack, project
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.tile_boxes import tiles
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem


@dataclass(frozen=True)
class EvaluatedTile:
    """Timeloop's evaluation of one tile of a layer, as it stands alone.

    Attributes:
        layer: the tile as a problem on the group's architecture.
        evaluation: its result, a batch of one mapping (B = 1).
    """

    layer: PreparedLayer
    evaluation: Evaluation


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
        tiles: tiles by problem, bounds and mapping, the latter as text.
        layers: layers prepared for evaluation, by problem and levels without reuse.
    """

    tiles: dict[Hashable, EvaluatedTile] = field(default_factory=dict)
    layers: dict[Hashable, PreparedLayer] = field(default_factory=dict)


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
    layers, known = [], known or TileEvaluations()
    for index, (layer, steps) in enumerate(zip(group.layers, layer_steps(group), strict=True)):
        classes = step_classes(group, layer, steps)
        mappings = {shape: fused_mapping(hardware, group, index, layer.mappings[shape])
                    for shape in dict.fromkeys(step.shape for step in classes) if covered_shape(layer, shape) == shape}
        layers.append(EvaluatedLayer(steps, classes, _evaluated_tiles(hardware, layer, mappings, known)))
    return tuple(layers)


def _evaluated_tiles(hardware: Hardware, layer: FusedLayer, mappings: AnyMapping[Shape, Mapping],
                     known: TileEvaluations) -> dict[Shape, EvaluatedTile]:
    """Evaluates the tiles of a layer; tiles whose mappings reuse alike differ in their bounds alone."""
    evaluated = {}
    for shape, mapping in mappings.items():
        own = (layer.problem.name, layer.problem.dimensions, layer.problem.dataspaces)
        key = (own, shape, repr(mapping))
        if key not in known.tiles:
            problem = _tile_problem(layer, shape)
            alike = (own, tuple((level.no_temporal_reuse, level.no_multicast) for level in mapping.levels))
            if alike not in known.layers:
                known.layers[alike] = prepare_layer(hardware.arch, problem, hardware.tables,
                                                    reuse_of(mapping, problem.dataspace_names()))
            tile = known.layers[alike].resized(problem)
            known.tiles[key] = EvaluatedTile(tile, evaluate_nest(tile, pack([mapping], problem)))
        evaluated[shape] = known.tiles[key]
    return evaluated


def covered_shape(layer: FusedLayer, shape: Shape) -> Shape | None:
    """Extents that the mapping for a tile covers, the product of its factors per dimension; None without a mapping."""
    mapping = layer.mappings.get(shape)
    if mapping is None:
        return None
    return tuple(prod(level.temporal[dim] * level.spatial[dim] for level in mapping.levels)
                 for dim in layer.problem.dimensions)


def _tile_problem(layer: FusedLayer, shape: Shape) -> Problem:
    """The layer's problem with the tile's extents as bounds."""
    return replace(layer.problem, bounds=dict(zip(layer.problem.dimensions, shape, strict=True)))


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
    return _kept(tile.layer.problem, tile.evaluation.nest, tile.evaluation.tile.size)


def mapped_words(hardware: Hardware, group: FusedGroup, index: int, shape: Shape) -> list[dict[str, float]]:
    """The same words as `kept_words` from the tile's mapping alone, without evaluating its traffic.

    Args:
        hardware: the architecture, whose level names the links use.
        group: the group.
        index: position of the layer in the group.
        shape: extents of the tile, one of the layer's `mappings`.
    """
    layer = group.layers[index]
    problem = _tile_problem(layer, shape)
    nest = pack([fused_mapping(hardware, group, index, layer.mappings[shape])], problem)
    return _kept(problem, nest, tiles(nest, project(problem)).size)


def _kept(problem: Problem, nest: Nest, size: np.ndarray) -> list[dict[str, float]]:
    """Words per level and kept data space of a batch of one, from tile sizes [L, T, 1]."""
    return [{name: float(words[t, 0]) for t, name in enumerate(problem.dataspace_names()) if keep[t, 0]}
            for words, keep in zip(size, nest.keep, strict=True)]


def kept_levels(tile: EvaluatedTile, name: str) -> list[int]:
    """The levels that keep a data space, innermost first."""
    return [int(level) for level in np.flatnonzero(tile.evaluation.nest.keep[:, dataspace_index(tile, name), 0])]


def dataspace_index(tile: EvaluatedTile, name: str) -> int:
    """Position of a data space on the axis T of the tile's arrays."""
    return tile.layer.problem.dataspace_names().index(name)
