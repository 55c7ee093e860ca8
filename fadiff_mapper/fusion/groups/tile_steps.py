"""Points of every layer's dimensions that each step of the shared loops covers.

Problem. The shared loops cut dimensions of the last layer into tiles. A tile of an earlier layer is whatever the next
layer's tile reads of it, halo included, less what an earlier step left in place.

Method. Each dimension goes its own way: a shared loop over one dimension of the last layer cuts, through the links, at
most one dimension of each earlier layer (`layer_steps`, from the last layer backwards). A step of the whole nest is a
choice of one index per loop, and a layer's work in it is the box of the intervals that the indices stand for. Steps in
which a layer does the same work form one class (`step_classes`); the classes are the products of the classes of each
loop, so that their number does not grow with the number of steps. Points that a stride leaves out between others count
as needed, as in Timeloop's tiles.

Worked example. Two layers with a kernel of 3 rows, the last with 8 output rows in tiles of 3: its steps compute rows
0-2, 3-5 and 6-7, for which it reads rows 0-4, 3-7 and 6-9 of the first layer. With the halo retained the first layer
computes rows 0-4, 5-7 and 8-9; without, all that is read, recomputing rows 3-4 and 6-7.

Source. Inference of producer tiles from consumer tiles, retention against recomputation: LoopTree; halos of overlapping
tiles: DeFiNES.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from fadiff_mapper.fusion.groups.fused_group import (
    FusedGroup,
    FusedLayer,
    FusedLink,
    SecondRead,
    Shape,
    Stay,
    TileLoop,
)
from fadiff_mapper.fusion.groups.second_reads import needed_by_all, points_again
from fadiff_mapper.spec.problem import DataSpace, Problem, Term, extent_along
from fadiff_mapper.workload.window_slide import WindowSlide, composed


@dataclass(frozen=True)
class DimSpan:
    """Part of one layer along one dimension in one step of a loop.

    Attributes:
        done: points that the layer computes.
        needed: points that the next layer reads, computed now or kept from before.
    """

    done: range
    needed: range


@dataclass(frozen=True)
class LayerSteps:
    """A layer over the steps of each shared loop.

    Attributes:
        cut: per loop, the layer's dimension that the loop moves; None where it moves none.
        spans: per loop, the layer's part in each step. Where a loop moves nothing, a span is `range(1)` for work to do
            and empty for none.
        counted: an operand whose new words go to the outermost level (`FusedLink.written_pooled`) or come from it
            (`FusedLink.elsewhere`), if any, and how it stays.
    """

    cut: tuple[str | None, ...]
    spans: tuple[tuple[DimSpan, ...], ...]
    counted: tuple[str, Stay] | None = None


def layer_steps(group: FusedGroup) -> tuple[LayerSteps, ...]:
    """The steps of every layer of a group.

    Args:
        group: a group whose loops cut dimensions of the last layer and whose links name data spaces of the next layer.

    Returns:
        The steps, first layer to last.
    """
    last = group.layers[-1].problem
    columns: list[list[tuple[str | None, tuple[DimSpan, ...]]]] = [[_cut_last(last, loop)] for loop in group.loops]
    for index in reversed(range(len(group.links))):
        before, after, link = group.layers[index].problem, group.layers[index + 1].problem, group.links[index]
        again = [read for read in group.second_reads if read.first == index + 1]
        for column, loop in zip(columns, group.loops, strict=True):
            column.insert(0, _cut_before(before, after, link, loop, column[0],
                                         [(read, column[read.behind - index - 1]) for read in again]))
    counted = [None, *(_counted(group, link) for link in group.links)]
    return tuple(LayerSteps(tuple(column[i][0] for column in columns), tuple(column[i][1] for column in columns),
                            counted[i]) for i in range(len(group.layers)))


def _counted(group: FusedGroup, link: FusedLink) -> tuple[str, Stay] | None:
    """An intermediate of which words cross the outermost level's boundary, and along which loops each does so once."""
    if link.written_pooled:  # written once: as if it stayed along every loop, at no level in particular
        return link.tensor, Stay("", frozenset(loop.dim for loop in group.loops))
    if not link.elsewhere:
        return None
    return link.tensor, Stay("") if link.beside else link.stay  # beside an intermediate, words do not outlast a step


def _cut_last(problem: Problem, loop: TileLoop) -> tuple[str, tuple[DimSpan, ...]]:
    """A loop on the last layer: tiles of equal size, the last one perhaps smaller."""
    extent = problem.bounds[loop.dim]
    tiles = [range(start, min(start + loop.tile, extent)) for start in range(0, extent, loop.tile)]
    return loop.dim, tuple(DimSpan(tile, tile) for tile in tiles)


LoopColumn: TypeAlias = tuple[str | None, tuple[DimSpan, ...]]
"""A loop as a layer sees it: the dimension that it moves, and the layer's part in each step."""


def _cut_before(problem: Problem, after: Problem, link: FusedLink, loop: TileLoop, column: LoopColumn,
                again: Sequence[tuple[SecondRead, LoopColumn]]) -> LoopColumn:
    """A loop, carried from a layer (`after`, with its dimension and spans) to the one before it.

    `again`: the second reads of the intermediate, each with the loop as the layer before the sum sees it.
    """
    dim, spans = column
    own = next((mine for mine, theirs in link.dims.items() if theirs == dim), None)
    slide = None if own is None or dim is None else read_slide(after, link, dim)
    retained = loop.dim in link.stay.across
    extent = 1 if own is None else problem.bounds[own]
    all_wanted = [range(1 if len(span.done) else 0) if slide is None else read_points(slide, span.done, extent)
                  for span in spans]
    if again:
        all_wanted = needed_by_all(all_wanted, [[points_again(read, own, extent, moved, span.done) for span in others]
                                                for read, (moved, others) in again], retained)
    result: list[DimSpan] = []
    end = 0     # first point that no step has computed yet
    for step, wanted in enumerate(all_wanted):
        if slide is None:   # the loop does not move the intermediate: it is there after the first step
            done = range(0) if retained and step else wanted
        else:
            done = range(max(wanted.start, end), max(wanted.stop, end)) if retained else wanted
            end = max(end, wanted.stop)
        result.append(DimSpan(done, wanted))
    return own, tuple(result)


def read_points(slide: WindowSlide, points: range, extent: int) -> range:
    """Points of an intermediate's axis that some points of the next layer's dimension read, padding left out.

    Args:
        slide: the window through which they read (`read_slide`).
        points: adjacent points of the next layer's dimension.
        extent: points of the axis.
    """
    if not len(points):
        return range(0)
    read = slide.read(points)
    return range(min(max(read.start, 0), extent), min(max(read.stop, 0), extent))


def read_slide(after: Problem, link: FusedLink, dim: str) -> WindowSlide:
    """The window through which points of the next layer's dimension read an intermediate.

    Args:
        after: the next layer.
        link: the link that leads to it.
        dim: a dimension of the next layer that moves along an axis of the intermediate.

    Returns:
        The layer's own window, composed with those in between where there are any.
    """
    rank = moved_rank(space_of(after, link.tensor), dim)[1]
    stride = sum(term.coefficient for term in rank if term.dimension == dim)
    kernel = 1 + sum(term.coefficient * (after.bounds[term.dimension] - 1) for term in rank if term.dimension != dim)
    own = WindowSlide(kernel, stride, pad=link.padding.get(dim, 0))
    passed = [slides[dim] for slides in (link.pooled, link.between) if dim in slides]
    return composed((*passed, own)) if passed else own


def moved_rank(space: DataSpace, dim: str) -> tuple[int, tuple[Term, ...]]:
    """The rank of a data space that a dimension moves: its position, and its terms."""
    return next((k, rank) for k, rank in enumerate(space.ranks) if any(term.dimension == dim for term in rank))


def touched_points(rank: tuple[Term, ...], problem: Problem, dim: str, points: range) -> range:
    """Points of a rank between the first and the last one that some points of a dimension touch.

    The rank's other dimensions run over their bounds, so that n adjacent points span 1 + sum of coefficient * (n - 1)
    over all terms: Timeloop's extent of a rank (`extent_along`).

    Args:
        rank: terms of the rank, with positive coefficients.
        problem: the layer, for the bounds of the other dimensions.
        dim: a dimension of the rank.
        points: adjacent points of that dimension.
    """
    if not len(points):
        return range(0)
    start = points.start * sum(term.coefficient for term in rank if term.dimension == dim)
    return range(start, start + extent_along(rank, problem.bounds | {dim: len(points)}))


@dataclass(frozen=True)
class StepClass:
    """Steps in which one layer does the same work.

    Attributes:
        shape: extents of its tile.
        fresh: words from outside the home level, for every operand that stays, in the order of `FusedLayer.operands`.
        first_sum: the step is the first of those that add to one output tile.
        last_sum: the step is the last of them.
        counted: new words of `LayerSteps.counted`.
    """

    shape: Shape
    fresh: tuple[int, ...]
    first_sum: bool
    last_sum: bool
    counted: int = 0


@dataclass(frozen=True)
class _LoopStep:
    """A step of one loop as a layer sees it.

    Attributes:
        points: extent of the dimension that the loop moves, or 1; 0 where there is nothing to do.
        operands: for each that stays, the rank that the loop moves and its new points, or None and whether (1 or 0) the
            operand is new at all.
        first_sum: the step is the first along the loop to add to its output tile.
        last_sum: the step is the last.
    """

    points: int
    operands: tuple[tuple[int | None, int], ...]
    first_sum: bool
    last_sum: bool


def step_classes(group: FusedGroup, layer: FusedLayer, steps: LayerSteps) -> Counter[StepClass]:
    """The different steps of one layer, and how often each occurs.

    Args:
        group: the group, for its loops.
        layer: one of its layers.
        steps: the layer's steps (`layer_steps`).

    Returns:
        Class -> number of steps; steps without work are left out.
    """
    followed = dict(layer.operands)
    if steps.counted is not None:
        followed[steps.counted[0]] = steps.counted[1]
    columns = [Counter(_loop_steps(layer.problem, followed, loop, cut, spans))
               for loop, cut, spans in zip(group.loops, steps.cut, steps.spans, strict=True)]
    classes: Counter[StepClass] = Counter()
    for picked in product(*(column.items() for column in columns)):
        parts = [part for part, _ in picked]
        if all(part.points for part in parts):
            step = _combined(layer.problem, followed, parts, steps.cut)
            if steps.counted is not None:
                *fresh, new = step.fresh
                step = replace(step, fresh=tuple(fresh), counted=new)
            classes[step] += math.prod(count for _, count in picked)
    return classes


def _combined(problem: Problem, followed: AnyMapping[str, Stay], parts: list[_LoopStep],
              cuts: tuple[str | None, ...]) -> StepClass:
    """A step of the whole nest from its part in each loop: boxes are products of intervals."""
    cut = {dim: part.points for dim, part in zip(cuts, parts, strict=True) if dim is not None}
    extents = problem.bounds | cut
    fresh = []
    for k, name in enumerate(followed):
        axes = list(space_of(problem, name).tile_extents(extents))
        fetched = 1
        for rank, points in (part.operands[k] for part in parts):
            if rank is None:
                fetched *= points
            else:
                axes[rank] = points
        fresh.append(fetched * math.prod(axes))
    return StepClass(tuple(extents[dim] for dim in problem.dimensions), tuple(fresh),
                     all(part.first_sum for part in parts), all(part.last_sum for part in parts))


def _loop_steps(problem: Problem, followed: AnyMapping[str, Stay], loop: TileLoop, cut: str | None,
                spans: tuple[DimSpan, ...]) -> list[_LoopStep]:
    """Each step of one loop as a layer sees it; `followed` are the operands whose new words are counted."""
    adds = cut is not None and cut not in problem.output.dimensions
    columns = [_fetched(space_of(problem, name), stay, problem, loop, cut, spans) for name, stay in followed.items()]
    return [_LoopStep(len(span.done), tuple(column[step] for column in columns),
                      not adds or step == 0, not adds or step == len(spans) - 1) for step, span in enumerate(spans)]


def _fetched(space: DataSpace, stay: Stay, problem: Problem, loop: TileLoop, cut: str | None,
             spans: tuple[DimSpan, ...]) -> list[tuple[int | None, int]]:
    """New points of an operand in each step of a loop: (rank, points), or (None, 1 or 0) where it moves none."""
    retained = loop.dim in stay.across
    if cut is None or cut not in space.dimensions:
        working = next((step for step, span in enumerate(spans) if len(span.done)), 0)
        return [(None, int(not retained or step == working)) for step in range(len(spans))]
    index, rank = moved_rank(space, cut)
    result: list[tuple[int | None, int]] = []
    end = 0     # first point that no step has fetched yet
    for span in spans:
        touched = touched_points(rank, problem, cut, span.done)
        result.append((index, max(0, touched.stop - max(touched.start, end)) if retained else len(touched)))
        end = max(end, touched.stop)
    return result


def space_of(problem: Problem, name: str) -> DataSpace:
    """A data space by its name."""
    return next(space for space in problem.dataspaces if space.name == name)
