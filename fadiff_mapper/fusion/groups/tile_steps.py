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
from dataclasses import dataclass, replace
from itertools import product

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Shape, Stay, TileLoop
from fadiff_mapper.spec.problem import DataSpace, Problem, Term
from fadiff_mapper.workload.axis_algebra import WindowSlide, composed


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
            wanted = read_points(after, link, dim, span.done, problem.bounds[own])
            done = range(max(wanted.start, end), max(wanted.stop, end)) if retained else wanted
            end = max(end, wanted.stop)
        result.append(DimSpan(done, wanted))
    return own, tuple(result)


def read_points(after: Problem, link: FusedLink, dim: str, points: range, extent: int) -> range:
    """The points of an intermediate's axis that `points` of the next layer's dimension read, padding left out."""
    if not len(points):
        return range(0)
    slide = read_slide(after, link, dim)
    start = points.start * slide.stride - slide.pad
    return range(min(max(start, 0), extent), min(max(start + slide.reach(len(points)), 0), extent))


def read_slide(after: Problem, link: FusedLink, dim: str) -> WindowSlide:
    """The window through which points of the next layer's dimension read an intermediate: its own, over those of
    pools."""
    rank = moved_rank(space_of(after, link.tensor), dim)[1]
    one, two = (len(touched_points(rank, after, dim, range(points))) for points in (1, 2))
    own = WindowSlide(one, two - one, pad=link.padding.get(dim, 0))
    return composed((link.pooled[dim], own)) if dim in link.pooled else own


def moved_rank(space: DataSpace, dim: str) -> tuple[int, tuple[Term, ...]]:
    """The rank of a data space that a dimension moves, with its position."""
    return next((k, rank) for k, rank in enumerate(space.ranks) if any(term.dimension == dim for term in rank))


def touched_points(rank: tuple[Term, ...], problem: Problem, dim: str, points: range) -> range:
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
        touched = touched_points(rank, problem, cut, span.done)
        result.append((index, max(0, touched.stop - max(touched.start, end)) if retained else len(touched)))
        end = max(end, touched.stop)
    return result


def space_of(problem: Problem, name: str) -> DataSpace:
    """A data space by its name."""
    return next(space for space in problem.dataspaces if space.name == name)
