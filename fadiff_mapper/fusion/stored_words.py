"""Words of the tensors that stay in a level from step to step of a fused group.

Problem. A tensor that stays takes room for its tile, and beyond the step for words that a later step uses again. The
choice of these words depends on the shared loops along which it is retained (`Stay.across`) and on the storage policy:

    whole tiles (LoopTree)      along a retained loop everything that the loops inside walk through stays in place:
                                the tile is as long as the tensor in the dimensions that those loops cut
    line buffers (DeFiNES)      `Stay.lines`: the tile, and for each retained loop the points that its next step uses,
                                too, over everything that the loops inside walk through

Worked example. Rows outside columns, tiles of 2 x 4 outputs behind a 3 x 3 kernel on a tensor of 16 x 16: the tile is
4 x 6. Retained along the rows only, LoopTree's policy stores 4 x 16 words (the loop over columns is inside). Line
buffers store the tile, 24, and two rows over the columns beyond it, 2 * (16 - 6) = 20: 44 words.

A tensor needs all its words while its producer or its consumer runs (with second reads until the last), and while other
layers run only those that outlast the use (`outlasting_words`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Stay
from fadiff_mapper.fusion.tile_steps import LayerSteps, moved_rank, space_of, touched_points
from fadiff_mapper.inputs.spec.problem import Problem


class _AxisUse(NamedTuple):
    """Points of an axis of a tensor: the most in one step of a loop, the most that a step shares with the next, all."""

    tile: int
    shared: int
    whole: int


def operand_words(layer: FusedLayer, name: str, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for an operand that stays, one of `layer.operands`; `steps` are the layer's."""
    space, stay = space_of(layer.problem, name), layer.operands[name]
    if not stay.lines:
        largest = [max(len(span.done) for span in spans) for spans in steps.spans]
        return math.prod(space.tile_extents(_held_extents(layer.problem, stay, group, steps, largest)))
    whole, axes = space.tile_extents(layer.problem.bounds), []
    for cut, spans in zip(steps.cut, steps.spans, strict=True):
        if cut is None or cut not in space.dimensions:
            axes.append(_AxisUse(1, 1, 1))
        else:
            index, rank = moved_rank(space, cut)
            axes.append(_use_of([touched_points(rank, layer.problem, cut, span.done) for span in spans], whole[index]))
    return _line_words(axes, stay, group) * math.prod(whole) // math.prod(axis.whole for axis in axes)


def intermediate_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for a layer's output while it is written or read, with tensors that are put together with it.

    Args:
        layer: the producer.
        link: the link from it to the next layer.
        group: the group, for its loops.
        steps: the producer's steps.
    """
    output, bounds = layer.problem.output, layer.problem.bounds
    if link.stay.lines:
        axes = [_stored_use(link, cut, [span.needed for span in spans], bounds)
                for cut, spans in zip(steps.cut, steps.spans, strict=True)]
        whole = math.prod(output.tile_extents(_stored_extents(link, bounds)))
        words = _line_words(axes, link.stay, group) * whole // math.prod(axis.whole for axis in axes)
    else:
        largest = [max(len(span.needed) for span in spans) for spans in steps.spans]
        held = _held_extents(layer.problem, link.stay, group, steps, largest)
        words = math.prod(output.tile_extents(_stored_extents(link, held)))
    return _with_company(link, words)


def outlasting_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of an intermediate that stay live while the other layers run; arguments as of `intermediate_words`.

    Returns:
        0 if no shared loop retains the tensor; the halo of consecutive steps if only the innermost running loop does;
        otherwise the whole stored tile.
    """
    running = [index for index, spans in enumerate(steps.spans) if len(spans) > 1]
    retaining = [index for index in running if group.loops[index].dim in link.stay.across]
    if not retaining:
        return 0
    cut, bounds = steps.cut[retaining[0]], layer.problem.bounds
    if retaining != running[-1:] or cut is None:
        return intermediate_words(layer, link, group, steps)
    needed = [[span.needed for span in spans] for spans in steps.spans]
    tile = bounds | {dim: max(map(len, wanted)) for dim, wanted in zip(steps.cut, needed, strict=True) if dim}
    axis = _stored_use(link, cut, needed[retaining[0]], bounds)
    words = math.prod(layer.problem.output.tile_extents(_stored_extents(link, tile)))
    return _with_company(link, words * axis.shared // axis.tile)


def intermediates(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> tuple[list[int], list[int]]:
    """(`intermediate_words`, `outlasting_words`) of every link in a level, 0 where its home is elsewhere."""
    links = [(layer, link, group, steps)
             for layer, link, steps in zip(group.layers, group.links, all_steps, strict=False)]
    return ([intermediate_words(*link) if link[1].stay.level == level else 0 for link in links],
            [outlasting_words(*link) if link[1].stay.level == level else 0 for link in links])


def resident_words(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> list[int]:
    """Words of a level that are occupied beside each layer's tile while that layer runs.

    For every layer: the operands that stay, of all layers, and the live intermediates. `all_steps` are those of the
    layers, first to last.
    """
    operands = sum(operand_words(layer, name, group, steps)
                   for layer, steps in zip(group.layers, all_steps, strict=True)
                   for name, stay in layer.operands.items() if stay.level == level)
    links = list(zip(*intermediates(group, all_steps, level), group.last_uses(), strict=True))
    return [operands + sum(in_use if link <= index <= last else outlasting
                           for link, (in_use, outlasting, last) in enumerate(links)) for index in range(len(all_steps))]


def _with_company(link: FusedLink, words: int) -> int:
    """Words of an intermediate with those of other tensors that lie beside them, rounded up."""
    both = 1 + link.company
    return -(-words * both.numerator // both.denominator)


def _stored_extents(link: FusedLink, extents: AnyMapping[str, int]) -> dict[str, int]:
    """Extents of an intermediate as it is stored: divided by the pool's stride, rounded up, where it lies pooled."""
    strides = link.stored_strides
    return {dim: -(-points // strides.get(dim, 1)) for dim, points in extents.items()}


def _held_extents(problem: Problem, stay: Stay, group: FusedGroup, steps: LayerSteps,
                  largest: list[int]) -> dict[str, int]:
    """Extents that whole-tile storage holds: `largest` along the dimension that a loop cuts, or the whole dimension
    where a retaining loop is outside that loop, since its next step walks through all tiles again."""
    extents = dict(problem.bounds)
    for index, cut in enumerate(steps.cut):
        if cut is not None and not any(outer.dim in stay.across for outer in group.loops[:index]):
            extents[cut] = largest[index]
    return extents


def _use_of(used: Sequence[range], whole: int) -> _AxisUse:
    """The use of an axis of `whole` points from the points of every step."""
    if whole == 1:
        return _AxisUse(1, 1, 1)
    working = [points for points in used if len(points)]    # words that stay outlast steps in which a layer rests
    shared = (max(0, earlier.stop - later.start) for earlier, later in pairwise(working))
    return _AxisUse(max(map(len, used)), max(shared, default=0), whole)


def _stored_use(link: FusedLink, cut: str | None, needed: Sequence[range], bounds: AnyMapping[str, int]) -> _AxisUse:
    """The use of an intermediate's axis in stored points, behind the pool where the pooled tensor is stored."""
    if cut is None:
        return _AxisUse(1, 1, 1)
    return _AxisUse(*(_stored_extents(link, {cut: points})[cut] for points in _use_of(needed, bounds[cut])))


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
