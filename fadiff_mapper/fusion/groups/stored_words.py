"""Words of the tensors that stay in a level from step to step of a fused group.

Problem. A tensor that stays takes room for its tile, and beyond the step for words that a later step uses again. The
choice of these words depends on the shared loops along which it is retained (`Stay.across`) and on the storage policy:

    whole tiles (LoopTree)      along a retained loop everything that the loops inside walk through stays in place:
                                the tile is as long as the tensor in the dimensions that those loops cut
    line buffers (DeFiNES)      `Stay.lines`: the tile, and for each retained loop the points that its next step uses,
                                too, over everything that the loops inside walk through

Worked example. Rows outside columns, tiles of 2 x 4 outputs behind a 3 x 3 kernel on a tensor of 16 x 16: the tile is
4 x 6. Retained along the rows only, LoopTree's policy stores 4 x 16 words (the loop over columns stands inside). Line
buffers store the tile, 24, and two rows over the columns beyond it, 2 * (16 - 6) = 20: 44 words.

Counts of live words build on these: a tensor needs all its words while its producer or its consumer runs, and while
other layers run only those that outlast the use (`outlasting_words`); with second reads, it needs them until the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Stay
from fadiff_mapper.fusion.groups.second_reads import last_uses
from fadiff_mapper.fusion.groups.tile_steps import DimSpan, LayerSteps, moved_rank, space_of, touched_points
from fadiff_mapper.spec.problem import Problem

Words = TypeVar("Words", int, np.ndarray)
"""A count, or an array of counts of several candidates side by side."""


def operand_words(layer: FusedLayer, name: str, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for an operand that stays.

    Args:
        layer: the layer that reads the operand.
        name: the operand's data space, one of `layer.operands`.
        group: the group, for its loops.
        steps: the layer's steps (`tile_steps.layer_steps`).
    """
    space, stay = space_of(layer.problem, name), layer.operands[name]
    if stay.lines:
        whole, axes = space.tile_extents(layer.problem.bounds), []
        for cut, spans in zip(steps.cut, steps.spans, strict=True):
            index, rank = moved_rank(space, cut) if cut is not None and cut in space.dimensions else (None, ())
            axes.append(_use_of([touched_points(rank, layer.problem, cut or "", span.done) for span in spans],
                                1 if index is None else whole[index]))
        return _line_words(axes, stay, group) * math.prod(whole) // math.prod(axis.whole for axis in axes)
    largest = [max(len(span.done) for span in spans) for spans in steps.spans]
    return math.prod(space.tile_extents(_held_extents(layer.problem, stay, group, steps, largest)))


def intermediate_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for a layer's output while it is written or read.

    Args:
        layer: the producer.
        link: the link from it to the next layer, with the intermediate's stay.
        group: the group, for its loops.
        steps: the producer's steps.

    Returns:
        Words of the intermediate, and of other tensors that are put together with it.
    """
    return accompanied(link, _own_words(layer, link, group, steps))


def accompanied(link: FusedLink, words: Words) -> Words:
    """Words of an intermediate with those of other tensors that lie beside them (`FusedLink.company`), rounded up."""
    both = 1 + link.company
    return -(-words * both.numerator // both.denominator)


def _own_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for a layer's output alone."""
    output, bounds = layer.problem.output, layer.problem.bounds
    if link.stay.lines:
        axes = [_stored_use(link, cut, spans, bounds) for cut, spans in zip(steps.cut, steps.spans, strict=True)]
        whole = math.prod(output.tile_extents(stored_extents(link, bounds)))
        return _line_words(axes, link.stay, group) * whole // math.prod(axis.whole for axis in axes)
    largest = [max(len(span.needed) for span in spans) for spans in steps.spans]
    held = _held_extents(layer.problem, link.stay, group, steps, largest)
    return math.prod(output.tile_extents(stored_extents(link, held)))


def stored_extents(link: FusedLink, extents: AnyMapping[str, Words]) -> dict[str, Words]:
    """Extents of an intermediate as it is stored: divided by the pool's stride where the pooled tensor is stored.

    Args:
        link: the link, with the pools in between.
        extents: points along each dimension of the producer's output, numbers or arrays.

    Returns:
        The same dimensions, rounded up.
    """
    strides = {own: link.pooled[theirs].stride for own, theirs in link.dims.items()
               if link.lies_pooled and theirs in link.pooled}
    return {dim: -(-points // strides.get(dim, 1)) for dim, points in extents.items()}


def outlasting_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of an intermediate that stay live while the other layers run.

    Args:
        layer: the producer.
        link: the link from it to the next layer, with the intermediate's stay.
        group: the group, for its loops.
        steps: the producer's steps.

    Returns:
        0 if no shared loop retains the tensor; the halo of consecutive steps if only the innermost running loop does;
        otherwise the whole stored tile.
    """
    running = [index for index, spans in enumerate(steps.spans) if len(spans) > 1]
    retaining = [index for index in running if group.loops[index].dim in link.stay.across]
    if not retaining:
        return 0
    cut = steps.cut[retaining[0]]
    if retaining != running[-1:] or cut is None:
        return intermediate_words(layer, link, group, steps)
    needed = [[span.needed for span in spans] for spans in steps.spans]
    tile = layer.problem.bounds | {dim: max(map(len, wanted))
                                   for dim, wanted in zip(steps.cut, needed, strict=True) if dim}
    axis = _stored_use(link, cut, steps.spans[retaining[0]], layer.problem.bounds)
    words = math.prod(layer.problem.output.tile_extents(stored_extents(link, tile))) * axis.shared // axis.tile
    return accompanied(link, words)


def intermediates(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> tuple[list[int], list[int]]:
    """Words of every link's intermediate in a level, 0 where it has its home elsewhere.

    Args:
        group: the group.
        all_steps: the steps of every layer, first to last.
        level: name of the level.

    Returns:
        (`intermediate_words`, `outlasting_words`), one entry per link each.
    """
    links = [(layer, link, group, steps)
             for layer, link, steps in zip(group.layers, group.links, all_steps, strict=False)]
    return ([intermediate_words(*link) if link[1].stay.level == level else 0 for link in links],
            [outlasting_words(*link) if link[1].stay.level == level else 0 for link in links])


def live_intermediates(whole: Sequence[Words], outlasting: Sequence[Words], last: Sequence[int],
                       index: int) -> list[Words]:
    """Words of every link's intermediate that are live while one layer runs.

    Args:
        whole: words of each link's intermediate while it is in use.
        outlasting: words of each that stay live in between.
        last: the last layer that runs before each is read for the last time (`second_reads.last_uses`).
        index: position of the running layer, which needs all of its input and its output.

    Returns:
        Words, link by link.
    """
    return [in_use if link <= index <= until else rest
            for link, (in_use, rest, until) in enumerate(zip(whole, outlasting, last, strict=True))]


def resident_words(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> list[int]:
    """Words of a level that are occupied beside each layer's tile while that layer runs.

    Args:
        group: the group.
        all_steps: the steps of every layer, first to last.
        level: name of the level.

    Returns:
        For every layer the operands that stay, of all layers, and the live intermediates.
    """
    operands = sum(operand_words(layer, name, group, steps)
                   for layer, steps in zip(group.layers, all_steps, strict=True)
                   for name, stay in layer.operands.items() if stay.level == level)
    whole, outlasting = intermediates(group, all_steps, level)
    last = last_uses(group)
    return [operands + sum(live_intermediates(whole, outlasting, last, index)) for index in range(len(group.layers))]


def _held_extents(problem: Problem, stay: Stay, group: FusedGroup, steps: LayerSteps,
                  largest: list[int]) -> dict[str, int]:
    """Extents that whole-tile storage holds: `largest` along the dimension that a loop cuts, or the whole dimension
    where a retaining loop stands outside that loop, since its next step walks through all tiles again."""
    extents = dict(problem.bounds)
    for index, cut in enumerate(steps.cut):
        if cut is not None and not any(outer.dim in stay.across for outer in group.loops[:index]):
            extents[cut] = largest[index]
    return extents


@dataclass(frozen=True)
class _AxisUse:
    """Points of a tensor's axis that the steps of one loop use; all are 1 where the loop does not move the tensor.

    Attributes:
        tile: the most in one step.
        shared: the most that one step has in common with the next.
        whole: the axis.
    """

    tile: int
    shared: int
    whole: int


def _use_of(used: Sequence[range], whole: int) -> _AxisUse:
    """The use of an axis of `whole` points from the points of every step."""
    if whole == 1:
        return _AxisUse(1, 1, 1)
    working = [points for points in used if len(points)]    # words that stay outlast steps in which a layer rests
    shared = (max(0, earlier.stop - later.start) for earlier, later in pairwise(working))
    return _AxisUse(max(map(len, used)), max(shared, default=0), whole)


def _stored_use(link: FusedLink, cut: str | None, spans: Sequence[DimSpan],
                bounds: AnyMapping[str, int]) -> _AxisUse:
    """The use of an intermediate's axis in stored points, behind the pool where the pooled tensor is stored."""
    if cut is None:
        return _AxisUse(1, 1, 1)
    axis = _use_of([span.needed for span in spans], bounds[cut])
    return _AxisUse(*(stored_extents(link, {cut: points})[cut] for points in (axis.tile, axis.shared, axis.whole)))


def _line_words(axes: Sequence[_AxisUse], stay: Stay, group: FusedGroup) -> int:
    """Words of the tile and of its line buffers, counted over the axes that the loops cut.

    For each retained loop: the points shared with its next step, over everything that the loops inside walk through,
    less the part inside the tile, which is counted already.
    """
    held = math.prod(axis.tile for axis in axes)
    for index, loop in enumerate(group.loops):
        if loop.dim in stay.across:
            inside = axes[index + 1:]
            held += (math.prod(axis.tile for axis in axes[:index]) * axes[index].shared
                     * (math.prod(axis.whole for axis in inside) - math.prod(axis.tile for axis in inside)))
    return held
