"""Words of tensors that lie in a level across steps."""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Stay
from fadiff_mapper.fusion.groups.tile_steps import DimSpan, LayerSteps, moved_rank, space_of, touched_points
from fadiff_mapper.spec.problem import Problem

Words = TypeVar("Words", int, np.ndarray)


def operand_words(layer: FusedLayer, name: str, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of an operand that are there at once while it stays."""
    space, stay = space_of(layer.problem, name), layer.operands[name]
    if stay.lines:
        whole, axes = space.tile_extents(layer.problem.bounds), []
        for cut, spans in zip(steps.cut, steps.spans, strict=True):
            index, rank = moved_rank(space, cut) if cut is not None and cut in space.dimensions else (None, ())
            axes.append(_axis([touched_points(rank, layer.problem, cut or "", span.done) for span in spans],
                              1 if index is None else whole[index]))
        return _lines(axes, stay, group) * math.prod(whole) // math.prod(axis.whole for axis in axes)
    largest = [max(len(span.done) for span in spans) for spans in steps.spans]
    return math.prod(space.tile_extents(_lasting(layer.problem, stay, group, steps, largest)))


def intermediate_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of a layer's output that are there at once for the next layer, `link` leading to it."""
    output, bounds = layer.problem.output, layer.problem.bounds
    if link.stay.lines:
        axes = [_lying_axis(link, cut, spans, bounds) for cut, spans in zip(steps.cut, steps.spans, strict=True)]
        return _lines(axes, link.stay, group) * math.prod(output.tile_extents(stored_extents(link, bounds))) // math.prod(
            axis.whole for axis in axes)
    largest = [max(len(span.needed) for span in spans) for spans in steps.spans]
    return math.prod(output.tile_extents(stored_extents(link, _lasting(layer.problem, link.stay, group, steps, largest))))


def stored_extents(link: FusedLink, extents: AnyMapping[str, Words]) -> dict[str, Words]:
    """What lies there of so many points of each dimension of a layer's output: fewer where they are pooled before."""
    strides = {own: link.pooled[theirs].stride for own, theirs in link.dims.items()
               if link.lies_pooled and theirs in link.pooled}
    return {dim: -(-points // strides.get(dim, 1)) for dim, points in extents.items()}


def _lying_axis(link: FusedLink, cut: str | None, spans: Sequence[DimSpan], bounds: AnyMapping[str, int]) -> _Axis:
    if cut is None:
        return _Axis(1, 1, 1)
    axis = _axis([span.needed for span in spans], bounds[cut])
    return _Axis(*(stored_extents(link, {cut: points})[cut] for points in (axis.tile, axis.shared, axis.whole)))


def outlasting_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Of these words those that are there while other layers run, for later steps: none where no loop keeps any, what
    two steps share where the innermost loop alone does, else all of them."""
    running = [place for place, spans in enumerate(steps.spans) if len(spans) > 1]
    kept = [place for place in running if group.loops[place].dim in link.stay.across]
    if not kept:
        return 0
    cut = steps.cut[kept[0]]
    if kept != running[-1:] or cut is None:
        return intermediate_words(layer, link, group, steps)
    needed = [[span.needed for span in spans] for spans in steps.spans]
    tile = layer.problem.bounds | {dim: max(map(len, wanted))
                                   for dim, wanted in zip(steps.cut, needed, strict=True) if dim}
    axis = _lying_axis(link, cut, steps.spans[kept[0]], layer.problem.bounds)
    return math.prod(layer.problem.output.tile_extents(stored_extents(link, tile))) * axis.shared // axis.tile


def intermediates(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> tuple[list[int], list[int]]:
    """(words, words that outlast their use) of every link's intermediate in a level; 0 of one that lies elsewhere."""
    links = [(layer, link, group, steps)
             for layer, link, steps in zip(group.layers, group.links, all_steps, strict=False)]
    return ([intermediate_words(*one) if one[1].stay.level == level else 0 for one in links],
            [outlasting_words(*one) if one[1].stay.level == level else 0 for one in links])


def live_intermediates(whole: Sequence[Words], outlasting: Sequence[Words], index: int) -> list[Words]:
    """Words of every link's intermediate that are there while layer `index` runs, which needs all of what it reads and
    writes."""
    return [all_of_it if place in (index - 1, index) else rest
            for place, (all_of_it, rest) in enumerate(zip(whole, outlasting, strict=True))]


def _lasting(problem: Problem, stay: Stay, group: FusedGroup, steps: LayerSteps, largest: list[int]) -> dict[str, int]:
    """Extents that are held: `largest` along each loop, or everything where words outlive the loop.

    They outlive it where they are kept along a loop outside it.
    """
    extents = dict(problem.bounds)
    for place, cut in enumerate(steps.cut):
        if cut is not None and not any(outer.dim in stay.across for outer in group.loops[:place]):
            extents[cut] = largest[place]
    return extents


@dataclass(frozen=True)
class _Axis:
    """What the steps of one loop use of a tensor's axis: the most in one step, the most that the next step uses, too,
    and all of it. All are 1 where the loop does not move the tensor."""

    tile: int
    shared: int
    whole: int


def _axis(used: Sequence[range], whole: int) -> _Axis:
    if whole == 1:
        return _Axis(1, 1, 1)
    working = [points for points in used if len(points)]    # what is kept outlasts steps in which a layer rests
    shared = (max(0, one.stop - other.start) for one, other in pairwise(working))
    return _Axis(max(map(len, used)), max(shared, default=0), whole)


def _lines(axes: Sequence[_Axis], stay: Stay, group: FusedGroup) -> int:
    """Words of the tile, and beside it, for each loop along which words are kept, those that its next step uses, too,
    over all that the loops inside it walk through."""
    held = math.prod(axis.tile for axis in axes)
    for place, loop in enumerate(group.loops):
        if loop.dim in stay.across:
            inside = axes[place + 1:]
            held += (math.prod(axis.tile for axis in axes[:place]) * axes[place].shared
                     * (math.prod(axis.whole for axis in inside) - math.prod(axis.tile for axis in inside)))
    return held
