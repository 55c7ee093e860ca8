"""Which points of every layer's dimensions a step of the shared loops covers.

Each dimension goes its own way: a shared loop over one dimension of the last layer cuts, through the links, at most
one dimension of each earlier layer. A step of the whole nest is a choice of one index per loop, and what a layer
does in it is the box of the dimensions' intervals. Points that a stride leaves out between others count as needed,
as in Timeloop's tiles.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import TypeVar

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Shape, Stay, TileLoop
from fadiff_mapper.spec.problem import DataSpace, Problem, Term
from fadiff_mapper.workload.axis_algebra import WindowSlide, composed

Words = TypeVar("Words", int, np.ndarray)


@dataclass(frozen=True)
class DimSpan:
    """What one layer does along one dimension in one step of a loop.

    done: the points that it computes. needed: those that the next layer wants, computed now or kept from before.
    """

    done: range
    needed: range


@dataclass(frozen=True)
class LayerSteps:
    """One layer over the steps of each loop: `cut[loop]` is the dimension that it moves (None where it moves none),
    `spans[loop]` the layer's part in each of its steps. Where a loop moves nothing, the span is range(1) for work to
    do and empty for none. `pooled_out`: the operand, if any, that pools make and that also goes to the outermost level.
    """

    cut: tuple[str | None, ...]
    spans: tuple[tuple[DimSpan, ...], ...]
    pooled_out: str | None = None


def layer_steps(group: FusedGroup) -> tuple[LayerSteps, ...]:
    """The steps of every layer, first to last."""
    last = group.layers[-1].problem
    columns: list[list[tuple[str | None, tuple[DimSpan, ...]]]] = [[_cut_last(last, loop)] for loop in group.loops]
    for index in reversed(range(len(group.links))):
        before, after, link = group.layers[index].problem, group.layers[index + 1].problem, group.links[index]
        for column, loop in zip(columns, group.loops, strict=True):
            column.insert(0, _cut_before(before, after, link, loop, column[0]))
    out = [None, *(link.tensor if link.written_pooled else None for link in group.links)]
    return tuple(LayerSteps(tuple(column[i][0] for column in columns), tuple(column[i][1] for column in columns),
                            out[i]) for i in range(len(group.layers)))


def _cut_last(problem: Problem, loop: TileLoop) -> tuple[str, tuple[DimSpan, ...]]:
    extent = problem.bounds[loop.dim]
    tiles = [range(start, min(start + loop.tile, extent)) for start in range(0, extent, loop.tile)]
    return loop.dim, tuple(DimSpan(tile, tile) for tile in tiles)


def _cut_before(problem: Problem, after: Problem, link: FusedLink, loop: TileLoop,
                column: tuple[str | None, tuple[DimSpan, ...]]) -> tuple[str | None, tuple[DimSpan, ...]]:
    """One loop, carried from a layer to the one before it."""
    dim, spans = column
    own = next((mine for mine, theirs in link.dims.items() if theirs == dim), None)
    retained = loop.dim in link.stay.across
    result: list[DimSpan] = []
    end = 0
    for step, span in enumerate(spans):
        if own is None or dim is None:   # the loop does not move the intermediate: it is there after the first step
            wanted = range(1 if len(span.done) else 0)
            done = range(0) if retained and step else wanted
        else:
            wanted = window(after, link, dim, span.done, problem.bounds[own])
            done = range(max(wanted.start, end), max(wanted.stop, end)) if retained else wanted
            end = max(end, wanted.stop)
        result.append(DimSpan(done, wanted))
    return own, tuple(result)


def window(after: Problem, link: FusedLink, dim: str, points: range, extent: int) -> range:
    """The points of an intermediate's axis that `points` of the next layer's dimension read, padding left out."""
    if not len(points):
        return range(0)
    slide = reading(after, link, dim)
    start = points.start * slide.stride - slide.pad
    return range(min(max(start, 0), extent), min(max(start + slide.reach(len(points)), 0), extent))


def reading(after: Problem, link: FusedLink, dim: str) -> WindowSlide:
    """The window through which points of the next layer's dimension read an intermediate: its own, over those of
    pools."""
    rank = moved_rank(space_of(after, link.tensor), dim)[1]
    one, two = (len(axis_window(rank, after, dim, range(points))) for points in (1, 2))
    own = WindowSlide(one, two - one, pad=link.padding.get(dim, 0))
    return composed((link.pooled[dim], own)) if dim in link.pooled else own


def moved_rank(space: DataSpace, dim: str) -> tuple[int, tuple[Term, ...]]:
    """The rank of a data space that a dimension moves, with its position."""
    return next((k, rank) for k, rank in enumerate(space.ranks) if any(term.dimension == dim for term in rank))


def axis_window(rank: tuple[Term, ...], problem: Problem, dim: str, points: range) -> range:
    """What the points of one dimension touch along a rank, while its other dimensions run over their bounds."""
    if not len(points):
        return range(0)
    own = sum(term.coefficient for term in rank if term.dimension == dim)
    others = sum(term.coefficient * (problem.bounds[term.dimension] - 1) for term in rank if term.dimension != dim)
    return range(own * points.start, own * points[-1] + others + 1)


@dataclass(frozen=True)
class StepClass:
    """Steps in which one layer does the same work.

    shape: its tile. fresh: for every operand that stays, in the order of `FusedLayer.operands`, the words that come
    from outside. first_sum, last_sum: whether the step is the first, the last of those that add to one output tile.
    pooled_out: words of `LayerSteps.pooled_out` that were not there before.
    """

    shape: Shape
    fresh: tuple[int, ...]
    first_sum: bool
    last_sum: bool
    pooled_out: int = 0


@dataclass(frozen=True)
class _Kind:
    """One step of one loop as a layer sees it.

    points: extent of the dimension that the loop moves, or 1; 0 where there is nothing to do. operands: for each that
    stays, the rank that the loop moves and its new points, or None and whether the operand is new at all.
    """

    points: int
    operands: tuple[tuple[int | None, int], ...]
    first_sum: bool
    last_sum: bool


def step_classes(group: FusedGroup, layer: FusedLayer, steps: LayerSteps) -> Counter[StepClass]:
    """The different steps of one layer and how often each occurs; those without work are left out."""
    followed = dict(layer.operands)
    if steps.pooled_out is not None:
        followed[steps.pooled_out] = Stay("", frozenset(loop.dim for loop in group.loops))
    columns = [Counter(_kinds(layer.problem, followed, loop, cut, spans))
               for loop, cut, spans in zip(group.loops, steps.cut, steps.spans, strict=True)]
    found: Counter[StepClass] = Counter()
    for picked in product(*(column.items() for column in columns)):
        kinds = [kind for kind, _ in picked]
        if all(kind.points for kind in kinds):
            kind = _combined(layer.problem, followed, kinds, steps.cut)
            if steps.pooled_out is not None:
                *fresh, out = kind.fresh
                kind = replace(kind, fresh=tuple(fresh), pooled_out=out)
            found[kind] += math.prod(count for _, count in picked)
    return found


def _combined(problem: Problem, followed: AnyMapping[str, Stay], kinds: list[_Kind],
              cuts: tuple[str | None, ...]) -> StepClass:
    cut = {dim: kind.points for dim, kind in zip(cuts, kinds, strict=True) if dim is not None}
    extents = problem.bounds | cut
    fresh = []
    for k, name in enumerate(followed):
        axes = list(space_of(problem, name).tile_extents(extents))
        fetched = 1
        for rank, points in (kind.operands[k] for kind in kinds):
            if rank is None:
                fetched *= points
            else:
                axes[rank] = points
        fresh.append(fetched * math.prod(axes))
    return StepClass(tuple(extents[dim] for dim in problem.dimensions), tuple(fresh),
                     all(kind.first_sum for kind in kinds), all(kind.last_sum for kind in kinds))


def _kinds(problem: Problem, followed: AnyMapping[str, Stay], loop: TileLoop, cut: str | None,
           spans: tuple[DimSpan, ...]) -> list[_Kind]:
    """What each step of one loop is to a layer; `followed` are the operands whose new words are counted."""
    adds = cut is not None and cut not in problem.output.dimensions
    columns = [_fetched(space_of(problem, name), stay, problem, loop, cut, spans) for name, stay in followed.items()]
    return [_Kind(len(span.done), tuple(column[step] for column in columns),
                  not adds or step == 0, not adds or step == len(spans) - 1) for step, span in enumerate(spans)]


def _fetched(space: DataSpace, stay: Stay, problem: Problem, loop: TileLoop, cut: str | None,
             spans: tuple[DimSpan, ...]) -> list[tuple[int | None, int]]:
    """What each step of a loop fetches of an operand: (rank, new points), or (None, whether it is fetched)."""
    retained = loop.dim in stay.across
    if cut is None or cut not in space.dimensions:
        working = next((step for step, span in enumerate(spans) if len(span.done)), 0)
        return [(None, int(not retained or step == working)) for step in range(len(spans))]
    index, rank = moved_rank(space, cut)
    result: list[tuple[int | None, int]] = []
    end = 0
    for span in spans:
        touched = axis_window(rank, problem, cut, span.done)
        result.append((index, max(0, touched.stop - max(touched.start, end)) if retained else len(touched)))
        end = max(end, touched.stop)
    return result


def space_of(problem: Problem, name: str) -> DataSpace:
    """A data space by its name."""
    return next(space for space in problem.dataspaces if space.name == name)


def operand_words(layer: FusedLayer, name: str, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of an operand that are there at once while it stays."""
    space, stay = space_of(layer.problem, name), layer.operands[name]
    if stay.lines:
        whole, axes = space.tile_extents(layer.problem.bounds), []
        for cut, spans in zip(steps.cut, steps.spans, strict=True):
            index, rank = moved_rank(space, cut) if cut is not None and cut in space.dimensions else (None, ())
            axes.append(_axis([axis_window(rank, layer.problem, cut or "", span.done) for span in spans],
                              1 if index is None else whole[index]))
        return _lines(axes, stay, group) * math.prod(whole) // math.prod(axis.whole for axis in axes)
    largest = [max(len(span.done) for span in spans) for spans in steps.spans]
    return math.prod(space.tile_extents(_lasting(layer.problem, stay, group, steps, largest)))


def intermediate_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of a layer's output that are there at once for the next layer, `link` leading to it."""
    output, bounds = layer.problem.output, layer.problem.bounds
    if link.stay.lines:
        axes = [_lying_axis(link, cut, spans, bounds) for cut, spans in zip(steps.cut, steps.spans, strict=True)]
        return _lines(axes, link.stay, group) * math.prod(output.tile_extents(lying(link, bounds))) // math.prod(
            axis.whole for axis in axes)
    largest = [max(len(span.needed) for span in spans) for spans in steps.spans]
    return math.prod(output.tile_extents(lying(link, _lasting(layer.problem, link.stay, group, steps, largest))))


def lying(link: FusedLink, extents: AnyMapping[str, Words]) -> dict[str, Words]:
    """What lies there of so many points of each dimension of a layer's output: fewer where they are pooled before."""
    strides = {own: link.pooled[theirs].stride for own, theirs in link.dims.items()
               if link.lies_pooled and theirs in link.pooled}
    return {dim: -(-points // strides.get(dim, 1)) for dim, points in extents.items()}


def _lying_axis(link: FusedLink, cut: str | None, spans: Sequence[DimSpan], bounds: AnyMapping[str, int]) -> _Axis:
    if cut is None:
        return _Axis(1, 1, 1)
    axis = _axis([span.needed for span in spans], bounds[cut])
    return _Axis(*(lying(link, {cut: points})[cut] for points in (axis.tile, axis.shared, axis.whole)))


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
    return math.prod(layer.problem.output.tile_extents(lying(link, tile))) * axis.shared // axis.tile


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


def resident_words(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> list[int]:
    """Words of a level that are occupied beside each layer's tile while that layer runs.

    Args:
        group: The group.
        all_steps: `layer_steps` of the group.
        level: Name of the level.

    Returns:
        For every layer the operands that stay, of all layers, and the live intermediates.
    """
    operands = sum(operand_words(layer, name, group, steps)
                   for layer, steps in zip(group.layers, all_steps, strict=True)
                   for name, stay in layer.operands.items() if stay.level == level)
    whole, outlasting = intermediates(group, all_steps, level)
    return [operands + sum(live_intermediates(whole, outlasting, index)) for index in range(len(group.layers))]


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
