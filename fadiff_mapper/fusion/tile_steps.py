"""Points of every layer's dimensions that each step of the shared loops covers.

Problem. The shared loops cut dimensions of the last layer into tiles. A tile of an earlier layer is whatever the next
layer's tile reads of it, halo included, less what an earlier step left in place.

Method. Each dimension goes its own way: a shared loop over one dimension of the last layer cuts, through the links, at
most one dimension of each earlier layer (`layer_steps`, from the last layer backwards). A step of the whole nest is a
choice of one index per loop, and a layer's work in it is the box of the intervals that the indices stand for. Steps in
which a layer does the same work form one class (`step_classes`); the classes are the products of the classes of each
loop, so that their number does not grow with the number of steps. Points that a stride leaves out between others count
as needed, as in Timeloop's tiles. `kernel/loop_cuts.cpp` is the compiled form, an estimate for many tile sizes at once.

Worked example. Two layers with a kernel of 3 rows, the last with 8 output rows in tiles of 3: its steps compute rows
0-2, 3-5 and 6-7, for which it reads rows 0-4, 3-7 and 6-9 of the first layer. With the halo retained the first layer
computes rows 0-4, 5-7 and 8-9; without, all that is read, recomputing rows 3-4 and 6-7.

A tensor with second reads is there from the first point that any of its readers still needs.

Source. Inference of producer tiles from consumer tiles, retention against recomputation: LoopTree; halos of overlapping
tiles: DeFiNES.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, TypeAlias

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, SecondRead, Shape, Stay, TileLoop
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, Term, extent_along
from fadiff_mapper.workload.window_slide import WindowSlide, composed


@dataclass(frozen=True)
class DimSpan:
    """Part of one layer along one dimension in one step of a loop.

    Attributes:
        done: points that the layer computes.
        needed: points that the next layer reads, computed now or retained from before.
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

    def sums_stay(self, group: FusedGroup) -> bool:
        """Whether partial sums lie on the chip before or after the step."""
        return not (group.spilled or (self.first_sum and self.last_sum))


LoopColumn: TypeAlias = tuple[str | None, tuple[DimSpan, ...]]
"""A loop as a layer sees it: the dimension that it moves, and the layer's part in each step."""


def layer_steps(group: FusedGroup) -> tuple[LayerSteps, ...]:
    """The steps of every layer, first to last, of a group whose loops and links name dimensions that exist."""
    last = group.layers[-1].problem
    columns: list[list[LoopColumn]] = []
    for loop in group.loops:
        extent = last.bounds[loop.dim]
        tiles = [range(start, min(start + loop.tile, extent)) for start in range(0, extent, loop.tile)]
        columns.append([(loop.dim, tuple(DimSpan(tile, tile) for tile in tiles))])
    for index in reversed(range(len(group.links))):
        before, after, link = group.layers[index].problem, group.layers[index + 1].problem, group.links[index]
        again = [read for read in group.second_reads if read.first == index + 1]
        for column, loop in zip(columns, group.loops, strict=True):
            column.insert(0, _cut_before(before, after, link, loop, column[0],
                                         [(read, column[read.behind - index - 1]) for read in again]))
    counted: list[tuple[str, Stay] | None] = [None]
    for link in group.links:
        if link.written_pooled:  # written once: as if it stayed along every loop, at no level in particular
            counted.append((link.tensor, Stay("", frozenset(loop.dim for loop in group.loops))))
        elif link.elsewhere:  # words beside an intermediate do not outlast a step
            counted.append((link.tensor, Stay("") if link.beside else link.stay))
        else:
            counted.append(None)
    return tuple(LayerSteps(tuple(column[i][0] for column in columns), tuple(column[i][1] for column in columns),
                            counted[i]) for i in range(len(group.layers)))


def _cut_before(problem: Problem, after: Problem, link: FusedLink, loop: TileLoop, column: LoopColumn,
                again: Sequence[tuple[SecondRead, LoopColumn]]) -> LoopColumn:
    """A loop, carried from a layer (`after`, with its column) to the one before it.

    `again`: the second reads of the intermediate, each with the loop as the layer before the sum sees it.
    """
    dim, spans = column
    own = next((mine for mine, theirs in link.dims.items() if theirs == dim), None)
    slide = None if own is None or dim is None else read_slide(after, link, dim)
    retained = loop.dim in link.stay.across
    extent = 1 if own is None else problem.bounds[own]
    all_wanted = [range(1 if len(span.done) else 0) if slide is None else _read_points(slide, span.done, extent)
                  for span in spans]
    if again:
        all_wanted = needed_by_all(all_wanted, [[_points_again(read, own, extent, moved, span.done) for span in others]
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


def _read_points(slide: WindowSlide, points: range, extent: int) -> range:
    """Points of an intermediate's axis that adjacent points of the next layer's dimension read, padding left out."""
    if not len(points):
        return range(0)
    read = slide.read(points)
    return range(min(max(read.start, 0), extent), min(max(read.stop, 0), extent))


def _points_again(read: SecondRead, own: str | None, extent: int, moved: str | None, done: range) -> range:
    """Points of the axis `own` of a tensor that a second read takes, as the layer before the sum computes `done`."""
    if not len(done):
        return range(0)
    if own is None:     # the loop moves none of its axes: all is there at once
        return range(1)
    return range(done.start, min(done.stop, extent)) if read.dims.get(own) == moved else range(extent)


def needed_by_all(first: Sequence[range], again: Sequence[Sequence[range]], retained: bool) -> list[range]:
    """Points of a tensor's axis that are there in every step of a loop.

    Args:
        first: points that the next layer reads, step by step.
        again: the same for every second read.
        retained: whether words stay from step to step.

    Returns:
        In each step the hull of all that is read; where words are retained, from the oldest point that this step or a
        later one reads up to the last one that any step so far has read.
    """
    hulls = []
    for parts in zip(first, *again, strict=True):
        full = [part for part in parts if len(part)]
        hulls.append(range(min(part.start for part in full), max(part.stop for part in full)) if full else parts[0])
    if not retained:
        return hulls
    stops, stop = [], 0
    for points in hulls:
        stop = max(stop, points.stop)
        stops.append(stop)
    result, start = [], math.inf
    for points, stop in zip(reversed(hulls), reversed(stops), strict=True):
        start = min(start, points.start) if len(points) else start
        result.append(range(int(min(start, stop)), stop))
    return result[::-1]


def read_slide(after: Problem, link: FusedLink, dim: str) -> WindowSlide:
    """The window through which points of the next layer's dimension `dim` read an intermediate, pools included."""
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
    """Points of a rank from the first to the last one that adjacent points of a dimension touch.

    The rank's other dimensions run over their bounds: Timeloop's extent of a rank (`extent_along`).
    """
    if not len(points):
        return range(0)
    start = points.start * sum(term.coefficient for term in rank if term.dimension == dim)
    return range(start, start + extent_along(rank, problem.bounds | {dim: len(points)}))


class _LoopStep(NamedTuple):
    """A step of one loop as a layer sees it: `points` of the dimension that it moves (1 for none), 0 for no work.

    `operands`: for each that is followed the rank that the loop moves and its new points, or None and whether (1 or 0)
    the operand is new at all.
    """

    points: int
    operands: tuple[tuple[int | None, int], ...]
    first_sum: bool
    last_sum: bool


def step_classes(group: FusedGroup, layer: FusedLayer, steps: LayerSteps) -> Counter[StepClass]:
    """The different steps of a layer of a group and how often each occurs; steps without work are left out."""
    problem, followed = layer.problem, dict(layer.operands)
    if steps.counted is not None:
        followed[steps.counted[0]] = steps.counted[1]
    spaces = [space_of(problem, name) for name in followed]
    columns = []
    for loop, cut, spans in zip(group.loops, steps.cut, steps.spans, strict=True):
        adds = cut is not None and cut not in problem.output.dimensions
        fetched = [_fetched(space, loop.dim in stay.across, problem, cut, spans)
                   for space, stay in zip(spaces, followed.values(), strict=True)]
        columns.append(Counter(
            _LoopStep(len(span.done), tuple(points[step] for points in fetched), not adds or step == 0,
                      not adds or step == len(spans) - 1) for step, span in enumerate(spans)))
    classes: Counter[StepClass] = Counter()
    for picked in product(*(column.items() for column in columns)):
        parts = [part for part, _ in picked]
        if not all(part.points for part in parts):
            continue
        extents = problem.bounds | {dim: part.points for dim, part in zip(steps.cut, parts, strict=True)
                                    if dim is not None}
        fresh = []
        for k, space in enumerate(spaces):
            axes, times = list(space.tile_extents(extents)), 1
            for rank, points in (part.operands[k] for part in parts):
                if rank is None:
                    times *= points
                else:
                    axes[rank] = points
            fresh.append(times * math.prod(axes))
        counted = 0 if steps.counted is None else fresh.pop()
        step = StepClass(tuple(extents[dim] for dim in problem.dimensions), tuple(fresh),
                         all(part.first_sum for part in parts), all(part.last_sum for part in parts), counted)
        classes[step] += math.prod(count for _, count in picked)
    return classes


def _fetched(space: DataSpace, retained: bool, problem: Problem, cut: str | None,
             spans: tuple[DimSpan, ...]) -> list[tuple[int | None, int]]:
    """New points of an operand in each step of a loop, as in `_LoopStep.operands`."""
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
