"""Words that are live at once in a level while a fused group runs: the left-hand side of its capacity constraint.

Three kinds of words share a level:

    operands that stay          there during all steps, of all layers at once
    sums that go on             an output tile to which later steps add, at the innermost level that keeps it: there
                                during all steps, too
    what one running layer needs  its tile's other data spaces (twice where the level is double buffered), the
                                intermediates that it reads and writes, and what later steps use of the others

The level must hold the first two kinds and the largest of the third over the layers. FADiff's eq. (24) adds up weights
and activations of all layers instead; LoopTree, too, takes the largest over branches that run one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, Hardware, Shape
from fadiff_mapper.fusion.groups.step_evaluation import EvaluatedLayer, kept_words, mapped_words
from fadiff_mapper.fusion.groups.stored_words import resident_words
from fadiff_mapper.fusion.groups.tile_steps import LayerSteps, StepClass, layer_steps, step_classes


@dataclass(frozen=True)
class LayerTiles:
    """A layer of a group, with the words of its tiles.

    Attributes:
        steps: the points that the layer computes in every step of each loop.
        classes: the different steps, and how often each occurs.
        words: shape of a tile -> for every level, innermost first, the data spaces kept there and their words.
    """

    steps: LayerSteps
    classes: Counter[StepClass]
    words: AnyMapping[Shape, list[dict[str, float]]]


def evaluated_layer_tiles(evaluated: Sequence[EvaluatedLayer]) -> tuple[LayerTiles, ...]:
    """The tiles of a group's layers, read off their evaluations."""
    return tuple(LayerTiles(layer.steps, layer.classes,
                            {shape: kept_words(tile) for shape, tile in layer.tiles.items()}) for layer in evaluated)


def live_words(hardware: Hardware, group: FusedGroup, level: int) -> float:
    """Words of one instance of a level that are live at once.

    Args:
        hardware: architecture and energy tables.
        group: a group with a mapping for every tile.
        level: index of the level, innermost first.

    Returns:
        The peak over the layers of all steps, in words.
    """
    layers = []
    for index, (layer, steps) in enumerate(zip(group.layers, layer_steps(group), strict=True)):
        classes = step_classes(group, layer, steps)
        shapes = dict.fromkeys(step.shape for step in classes)
        layers.append(LayerTiles(steps, classes, {shape: mapped_words(hardware, group, index, shape)
                                                  for shape in shapes}))
    return live_tile_words(hardware, group, layers, level)


def live_tile_words(hardware: Hardware, group: FusedGroup, tiles: Sequence[LayerTiles], level: int) -> float:
    """The same as `live_words` for a group whose tiles are laid out already.

    Args:
        hardware: architecture and energy tables.
        group: the group.
        tiles: one entry per layer, first to last.
        level: index of the level, innermost first.
    """
    name = hardware.arch.levels[level].name
    resident = resident_words(group, [layer.steps for layer in tiles], name)
    staying, most = 0.0, 0.0
    for index, (layer, own) in enumerate(zip(group.layers, tiles, strict=True)):
        stays = {operand for operand, stay in layer.operands.items() if stay.level == name}
        if index < len(group.links) and group.links[index].stay.level == name:
            stays.add(layer.problem.output.name)
        if index and group.links[index - 1].stay.level == name and not group.links[index - 1].beside:
            stays.add(group.links[index - 1].tensor)
        sums, passing = _tile_words(group, layer.problem.output.name, own, level, stays)
        staying += sums
        most = max(most, passing * (2 if name in group.double_buffered else 1) + resident[index])
    return staying + most


def _tile_words(group: FusedGroup, output: str, layer: LayerTiles, level: int, stays: set[str]) -> tuple[float, float]:
    """(sums that go on in the next step, the other words that pass) of a layer's largest tile in a level."""
    sums, rest = 0.0, 0.0
    for step in layer.classes:
        kept = layer.words[step.shape]
        size = {name: words for name, words in kept[level].items() if name not in stays}
        goes_on = not (group.spilled or (step.first_sum and step.last_sum))
        if goes_on and [output in words for words in kept].index(True) == level:   # innermost level that keeps them
            sums = max(sums, size.pop(output))
        rest = max(rest, sum(size.values()))
    return sums, rest
