"""Points of every layer that each step of the shared loops covers, and words of the tensors that stay between steps.

Problem. The shared loops cut dimensions of the last layer into tiles. A tile of an earlier layer is the part of its
output that the next layer's tile reads, halo included, less the words in place from an earlier step. A tensor that
stays takes room for its tile, and beyond the step for words that a later step uses again.

Points. Dimensions are independent: a shared loop over one dimension of the last layer cuts, through the links, at most
one dimension of each earlier layer (`layer_steps`, from the last layer backwards, each from its reader). A step of the
whole nest is one index per loop; the work of a layer in it is the box of the intervals at these indices. Steps in which
a layer does the same work form one class (`step_classes`). Classes are products of the classes of each loop, so their
number does not grow with the number of steps. Points that a stride leaves out between others count as needed, as in
Timeloop's tiles. A tensor with second reads is kept from the first point that any of its readers still needs.
`kernel/loop_cuts.cpp` is the compiled form, an estimate for many tile sizes at once.

Worked example. Two layers with a kernel of 3 rows, the last with 8 output rows in tiles of 3: its steps compute rows
0-2, 3-5 and 6-7, for which it reads rows 0-4, 3-7 and 6-9 of the first layer. With the halo retained the first layer
computes rows 0-4, 5-7 and 8-9; without, all rows that are read, so that rows 3-4 and 6-7 are recomputed.

Words. The words that stay depend on the shared loops that retain the tensor (`Stay.across`) and on a policy:

    whole tiles (LoopTree)      along a retained loop all words that the loops inside walk through stay in place: the
                                tile is as long as the tensor in the dimensions that those loops cut
    line buffers (DeFiNES)      `Stay.lines`: the tile and, for each retained loop, the points that its next step also
                                uses, over all that the loops inside walk through

Worked example. Rows outside columns, tiles of 2 x 4 outputs behind a 3 x 3 kernel on a tensor of 16 x 16: the tile is
4 x 6. Retained along the rows only, LoopTree's policy stores 4 x 16 words (the loop over columns is inside). Line
buffers store the tile, 24, and two rows over the columns beyond it, 2 * (16 - 6) = 20: 44 words.

A tensor needs all its words while its producer or a consumer runs (with second reads until the last one); while other
layers run, only the words for later steps (`outlasting_words`).

Source. Inference of producer tiles from consumer tiles, retention against recomputation: LoopTree; halos of overlapping
tiles: DeFiNES.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from typing import NamedTuple, TypeAlias

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, SecondRead, Shape, Stay, TileLoop
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, Term, extent_along
from fadiff_mapper.workload.window_slide import WindowSlide, composed

STATISTICS = 2
"""Words per row that a softmax in one pass keeps from tile to tile: maximum and denominator."""


@dataclass(frozen=True)
class DimSpan:
    """The points of a layer along one dimension in one step of a loop."""

    done: range  # points that the layer computes
    needed: range  # points that the next layer reads, computed now or retained from before


@dataclass(frozen=True)
class LayerSteps:
    """A layer over the steps of each shared loop."""

    cut: tuple[str | None, ...]  # per loop the dimension of the layer that the loop moves; None: no dimension
    # per loop the points in each step. For a loop without a dimension, a span is `range(1)` in steps with work, else
    # empty
    spans: tuple[tuple[DimSpan, ...], ...]
    # an operand with its residency, if new words of it go to the outermost level (`FusedLink.written_pooled`) or come
    # from there (`FusedLink.elsewhere`)
    counted: tuple[str, Stay] | None = None


@dataclass(frozen=True)
class StepClass:
    """Steps in which one layer does the same work."""

    shape: Shape  # extents of its tile
    # words that each resident operand gets from outside the home, in the order of `FusedLayer.operands`
    fresh: tuple[int, ...]
    first_sum: bool  # no earlier step adds to the same output tile
    last_sum: bool  # no later step adds to the same output tile
    counted: int = 0  # new words of `LayerSteps.counted`

    @property
    def shares_sums(self) -> bool:
        """Whether other steps add to the same sums."""
        return not (self.first_sum and self.last_sum)


LoopColumn: TypeAlias = tuple[str | None, tuple[DimSpan, ...]]
"""A shared loop at one layer: the dimension that the loop moves, and the layer's points in each step."""


def layer_steps(group: FusedGroup) -> tuple[LayerSteps, ...]:
    """The steps of every layer, first to last, of a group with valid loops and links."""
    last = group.layers[-1].problem
    columns: list[list[LoopColumn]] = []
    for loop in group.loops:
        extent = last.bounds[loop.dim]
        tiles = [range(start, min(start + loop.tile, extent)) for start in range(0, extent, loop.tile)]
        columns.append([(loop.dim, tuple(DimSpan(tile, tile) for tile in tiles))])
    for index in reversed(range(len(group.links))):
        link, reader = group.links[index], group.reader(index)
        before, after = group.layers[index].problem, group.layers[reader].problem
        again = [read for read in group.second_reads if read.first == index + 1]
        for column, loop in zip(columns, group.loops, strict=True):
            column.insert(0, _cut_before(before, after, link, loop, column[reader - index - 1],
                                         [(read, column[read.behind - index - 1]) for read in again]))
    counted: list[tuple[str, Stay] | None] = [None] * len(group.layers)
    for index, link in enumerate(group.links):
        if link.written_pooled:  # each word is written once: counted as if retained along all loops, in no level
            counted[group.reader(index)] = link.tensor, Stay("", frozenset(loop.dim for loop in group.loops))
        elif link.elsewhere:  # operands beside an intermediate are not retained
            counted[group.reader(index)] = link.tensor, Stay("") if link.beside else link.stay
    return tuple(LayerSteps(tuple(column[i][0] for column in columns), tuple(column[i][1] for column in columns),
                            counted[i]) for i in range(len(group.layers)))


def _cut_before(problem: Problem, after: Problem, link: FusedLink, loop: TileLoop, column: LoopColumn,
                again: Sequence[tuple[SecondRead, LoopColumn]]) -> LoopColumn:
    """Carries a loop from a layer (`after`, with its column) back to the producer of its operand.

    `again`: the second reads of the intermediate, each with the column of the layer before the sum.
    """
    dim, spans = column
    own = next((mine for mine, theirs in link.dims.items() if theirs == dim), None)
    slide = None if own is None or dim is None else read_slide(after, link, dim)
    retained = loop.dim in link.stay.across
    extent = 1 if own is None else problem.bounds[own]

    def inside(points: range) -> range:
        """Points that a window reads, without padding."""
        return range(min(max(points.start, 0), extent), min(max(points.stop, 0), extent))

    def read_again(read: SecondRead, moved: str | None, done: range) -> range:
        """Points of the axis that a second read needs when the layer before the sum computes `done`."""
        if own is None or not len(done):    # the loop moves no axis of the tensor: the whole tensor is there
            return range(1 if len(done) else 0)
        return range(done.start, min(done.stop, extent)) if read.dims.get(own) == moved else range(extent)

    all_wanted = [range(1 if len(span.done) else 0) if slide is None else
                  inside(slide.read(span.done)) if len(span.done) else range(0) for span in spans]
    if again:
        all_wanted = needed_by_all(all_wanted, [[read_again(read, moved, span.done) for span in others]
                                                for read, (moved, others) in again], retained)
    result: list[DimSpan] = []
    end = 0     # first point not computed yet
    for step, wanted in enumerate(all_wanted):
        if slide is None:   # the loop does not move the intermediate, which is there after the first step
            done = range(0) if retained and step else wanted
        else:
            done = range(max(wanted.start, end), max(wanted.stop, end)) if retained else wanted
            end = max(end, wanted.stop)
        result.append(DimSpan(done, wanted))
    return own, tuple(result)


def needed_by_all(first: Sequence[range], again: Sequence[Sequence[range]], retained: bool) -> list[range]:
    """Points of a tensor's axis that must be in place in every step of a loop; the next layer reads `first`, other
    readers read `again`.

    In each step this is the hull of all reads. If words are retained from step to step, it reaches from the oldest
    point that this step or a later one reads to the newest point that any step so far has read.
    """
    hulls = []
    for parts in zip(first, *again, strict=True):
        full = [part for part in parts if len(part)]
        hulls.append(range(min(part.start for part in full), max(part.stop for part in full)) if full else parts[0])
    if not retained:
        return hulls
    stops = list(accumulate((points.stop for points in hulls), max, initial=0))[1:]
    result, start = [], math.inf
    for points, stop in zip(reversed(hulls), reversed(stops), strict=True):
        start = min(start, points.start) if len(points) else start
        result.append(range(int(min(start, stop)), stop))
    return result[::-1]


def read_slide(after: Problem, link: FusedLink, dim: str) -> WindowSlide:
    """The window through which points of the next layer's dimension `dim` read an intermediate, pools included."""
    rank = moved_rank(space_of(after, link.tensor), dim)[1]
    stride = sum(term.coefficient for term in rank if term.dimension == dim)
    kernel = extent_along(rank, after.bounds | {dim: 1})
    own = WindowSlide(kernel, stride, pad=link.padding.get(dim, 0))
    passed = [slides[dim] for slides in (link.pooled, link.between) if dim in slides]
    return composed((*passed, own)) if passed else own


def moved_rank(space: DataSpace, dim: str) -> tuple[int, tuple[Term, ...]]:
    """The position of the rank of a data space that a dimension moves, and its terms."""
    return next((k, rank) for k, rank in enumerate(space.ranks) if any(term.dimension == dim for term in rank))


def touched_points(rank: tuple[Term, ...], problem: Problem, dim: str, points: range) -> range:
    """The points of a rank, from first to last, that adjacent points of a dimension touch.

    Other dimensions of the rank run over their bounds: Timeloop's extent of a rank (`extent_along`).
    """
    if not len(points):
        return range(0)
    start = points.start * sum(term.coefficient for term in rank if term.dimension == dim)
    return range(start, start + extent_along(rank, problem.bounds | {dim: len(points)}))


class _LoopStep(NamedTuple):
    """A step of one loop at one layer: `points` of its dimension `cut` (1 if the loop moves none); 0 points: no work.

    `operands`: for each followed operand the rank that the loop moves and its new points; if the loop moves no rank,
    None and 1 for a new operand, else 0.
    """

    cut: str | None
    points: int
    operands: tuple[tuple[int | None, int], ...]
    first_sum: bool
    last_sum: bool


def all_step_classes(group: FusedGroup) -> list[Counter[StepClass]]:
    """The step classes of each layer of a group."""
    return [step_classes(group, layer, steps) for layer, steps in zip(group.layers, layer_steps(group), strict=True)]


def step_classes(group: FusedGroup, layer: FusedLayer, steps: LayerSteps) -> Counter[StepClass]:
    """The classes of steps of a layer and the number of steps in each; steps without work are left out."""
    problem, followed = layer.problem, dict(layer.operands)
    if steps.counted is not None:
        followed[steps.counted[0]] = steps.counted[1]
    spaces = [space_of(problem, name) for name in followed]
    columns: list[list[_LoopStep]] = []
    for loop, cut, spans in zip(group.loops, steps.cut, steps.spans, strict=True):
        adds = cut is not None and cut not in problem.output.dimensions
        fetched = [_fetched(space, loop.dim in stay.across, problem, cut, spans)
                   for space, stay in zip(spaces, followed.values(), strict=True)]
        columns.append([
            _LoopStep(cut, len(span.done), tuple(points[step] for points in fetched), not adds or step == 0,
                      not adds or step == len(spans) - 1) for step, span in enumerate(spans)])
    mask = unmasked_steps(group)
    both: tuple[int, ...] = ()  # loops over queries and keys, if the layer has work in several steps of each
    if mask and all(sum(part.points > 0 for part in columns[loop]) > 1 for loop in mask[:2]):
        both = mask[:2]
    counted_columns: list[Counter[tuple[_LoopStep, ...]]] = [
        Counter((part,) for part in column) for loop, column in enumerate(columns) if loop not in both]
    if mask and both:
        counted_columns.append(_unmasked_pairs(columns[mask[0]], columns[mask[1]], mask[2]))
    classes: Counter[StepClass] = Counter()
    for picked in product(*(column.items() for column in counted_columns)):
        parts = [part for some, _ in picked for part in some]
        if not all(part.points for part in parts):
            continue
        extents = problem.bounds | {part.cut: part.points for part in parts if part.cut is not None}
        fresh = []
        for k, space in enumerate(spaces):
            if space.name in layer.shared or layer.lasting.get(space.name):    # an earlier layer has fetched it
                fresh.append(0)
                continue
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


def unmasked_steps(group: FusedGroup) -> tuple[int, int, list[int]] | None:
    """The steps of attention that remain behind a causal mask, if the group skips the other steps.

    Returns:
        The positions of the loops over queries and over keys and, for each step over queries, how many first steps over
        keys any of its queries sees. None if nothing is skipped or one of the loops is missing.
    """
    link = group.links[-1] if group.links else None
    if link is None or link.causal is None or not group.skips:
        return None
    (rows, queries), (own_keys,), dims = link.causal, link.running, [loop.dim for loop in group.loops]
    if link.dims[rows] not in dims or link.dims[own_keys] not in dims:
        return None
    over_rows, over_keys = dims.index(link.dims[rows]), dims.index(link.dims[own_keys])
    extent, keys = (group.layers[-2].problem.bounds[dim] for dim in (rows, own_keys))
    seen, tile = [], group.loops[over_rows].tile
    for start in range(0, extent, tile):
        last = min(start + tile, extent) - 1
        latest = last % queries if start // queries == last // queries else queries - 1
        seen.append(-(-(keys - queries + latest + 1) // group.loops[over_keys].tile))
    return over_rows, over_keys, seen


def _unmasked_pairs(rows: Sequence[_LoopStep], keys: Sequence[_LoopStep],
                    seen: Sequence[int]) -> Counter[tuple[_LoopStep, ...]]:
    """Steps of the loops over queries and keys together: step `i` over queries has the first `seen[i]` steps over keys.

    Words that earlier queries fetched for a step over keys are in place; the last step over keys finishes the sums.
    """
    first, second = (part.operands for part in [part for part in rows if part.points][:2])
    once = [own == (None, 1) and after == (None, 0) for own, after in zip(first, second, strict=True)]
    before = [Counter[_LoopStep]()]
    for part in keys:
        before.append(before[-1] + Counter([part]))
    pairs: Counter[tuple[_LoopStep, ...]] = Counter()
    fetched = 0
    for row, stop in zip(rows, seen, strict=True):
        for start, end, new in ((0, min(fetched, stop), 0), (min(fetched, stop), stop, 1)):
            own = row._replace(operands=tuple((None, new) if single else operand
                                              for operand, single in zip(row.operands, once, strict=True)))
            last = end == stop > start
            for part, times in (before[end - last] - before[start]).items():
                pairs[own, part] += times
            if last:
                pairs[own, keys[end - 1]._replace(last_sum=True)] += 1
        fetched = max(fetched, stop)
    return pairs


def _fetched(space: DataSpace, retained: bool, problem: Problem, cut: str | None,
             spans: tuple[DimSpan, ...]) -> list[tuple[int | None, int]]:
    """New points of an operand in each step of a loop, as in `_LoopStep.operands`."""
    if cut is None or cut not in space.dimensions:
        working = next((step for step, span in enumerate(spans) if len(span.done)), 0)
        return [(None, int(not retained or step == working)) for step in range(len(spans))]
    index, rank = moved_rank(space, cut)
    result: list[tuple[int | None, int]] = []
    end = 0     # first point not fetched yet
    for span in spans:
        touched = touched_points(rank, problem, cut, span.done)
        result.append((index, max(0, touched.stop - max(touched.start, end)) if retained else len(touched)))
        end = max(end, touched.stop)
    return result


def space_of(problem: Problem, name: str) -> DataSpace:
    """A data space by its name."""
    return next(space for space in problem.dataspaces if space.name == name)


class _AxisUse(NamedTuple):
    """Numbers of points along an axis of a tensor: most in one step, most shared by a step and the next, all."""

    tile: int
    shared: int
    whole: int


def operand_words(layer: FusedLayer, name: str, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for an operand that stays (`layer.operands`); `steps`: the steps of its layer."""
    space, stay = space_of(layer.problem, name), layer.operands[name]
    if not stay.lines:
        return math.prod(space.tile_extents(_held_extents(layer.problem, stay, group, steps)))
    whole, axes = space.tile_extents(layer.problem.bounds), []
    for cut, spans in zip(steps.cut, steps.spans, strict=True):
        if cut is None or cut not in space.dimensions:
            axes.append(_AxisUse(1, 1, 1))
        else:
            index, rank = moved_rank(space, cut)
            axes.append(_use_of([touched_points(rank, layer.problem, cut, span.done) for span in spans], whole[index]))
    return _words_with_line_buffers(axes, stay, group) * math.prod(whole) // math.prod(axis.whole for axis in axes)


def intermediate_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of room for a layer's output while it is written or read, with other tensors joined to it.

    `link`: leads to its reader; `steps`: of the producer.
    """
    output, bounds = layer.problem.output, layer.problem.bounds
    if link.stay.lines:
        axes = [_stored_use(link, cut, [span.needed for span in spans], bounds)
                for cut, spans in zip(steps.cut, steps.spans, strict=True)]
        whole = math.prod(output.tile_extents(_stored_extents(link, bounds)))
        words = _words_with_line_buffers(axes, link.stay, group) * whole // math.prod(axis.whole for axis in axes)
    else:
        held = _held_extents(layer.problem, link.stay, group, steps, needed=True)
        words = math.prod(output.tile_extents(_stored_extents(link, held)))
    return _with_company(link, words)


def outlasting_words(layer: FusedLayer, link: FusedLink, group: FusedGroup, steps: LayerSteps) -> int:
    """Words of an intermediate that stay live while other layers run; arguments as for `intermediate_words`.

    0 if no shared loop retains the tensor, the halo of consecutive steps if only the innermost running loop does, else
    the whole stored tile.
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
    return _with_company(link, words * axis.shared // max(axis.tile, 1))    # 0 points where no step needs any


def intermediates(group: FusedGroup, all_steps: Sequence[LayerSteps], level: str) -> tuple[list[int], list[int]]:
    """`intermediate_words` and `outlasting_words` of every link in a level; 0 for links with another home."""
    links = [(layer, link, group, steps)
             for layer, link, steps in zip(group.layers, group.links, all_steps, strict=False)]
    return ([intermediate_words(*link) if link[1].stay.level == level else 0 for link in links],
            [outlasting_words(*link) if link[1].stay.level == level else 0 for link in links])


def resident_words(group: FusedGroup, all_steps: Sequence[LayerSteps], level: StorageLevel) -> list[int]:
    """Words of a level that are occupied, beside the running layer's tile, for each layer in turn.

    Counted are resident operands of all layers, tensors kept for other groups, partial sums that rest in the level, and
    live intermediates.
    `all_steps`: of the layers, first to last.
    """
    operands = sum(space_of(layer.problem, name).room(operand_words(layer, name, group, steps), level.word_bits)
                   for layer, steps in zip(group.layers, all_steps, strict=True)
                   for name, stay in layer.operands.items()
                   if stay.level == level.name and name not in layer.shared and name not in layer.lasting)
    operands += group.lasting_words.get(level.name, 0)
    both = ([layer.problem.output.room(elements, level.word_bits)
             for layer, elements in zip(group.layers, of_links, strict=False)]
            for of_links in intermediates(group, all_steps, level.name))
    links = list(zip(*both, group.last_uses(), strict=True))
    if group.one_pass and group.statistics_at == level.name:
        operands += statistics_words(group, all_steps[-1])
    if group.sums == level.name:
        output = group.layers[-1].problem.output
        operands += output.room(sums_words(group, all_steps[-1]), level.word_bits, partial=True)
    # an intermediate with a compute unit has room twice: the unit works on one tile, the layers on the next
    twice = [link.operators and level.name in group.double_buffered for link in group.links]
    operands += sum(2 * in_use for (in_use, *_), doubled in zip(links, twice, strict=True) if doubled)
    return [operands + sum(in_use if link <= index <= last else outlasting
                           for link, (in_use, outlasting, last) in enumerate(links) if not twice[link])
            for index in range(len(all_steps))]


def sums_words(group: FusedGroup, steps: LayerSteps) -> int:
    """Partial sums of the last layer in the level `FusedGroup.sums`: of all output tiles that the loops inside a
    reduction loop walk through. `steps`: of the last layer."""
    last = group.layers[-1].problem
    adding = frozenset(loop.dim for loop, spans in zip(group.loops, steps.spans, strict=True)
                       if len(spans) > 1 and loop.dim not in last.output.dimensions)
    if not adding:
        return 0
    return math.prod(last.output.tile_extents(_held_extents(last, Stay(group.sums, adding), group, steps)))


def statistics_words(group: FusedGroup, steps: LayerSteps) -> int:
    """Words of the maxima and denominators of a softmax in one pass; `steps`: of the last layer."""
    link, last = group.links[-1], group.layers[-1].problem
    rows = last.output.dimensions & set(link.dims.values())
    stay = Stay(link.stay.level, frozenset(link.dims[own] for own in link.running))
    held = _held_extents(last, stay, group, steps)
    return STATISTICS * math.prod(held[dim] for dim in rows)


def _with_company(link: FusedLink, words: int) -> int:
    """Words of an intermediate and of other tensors beside it (`FusedLink.company`), rounded up."""
    both = 1 + link.company
    return -(-words * both.numerator // both.denominator)


def _stored_extents(link: FusedLink, extents: Mapping[str, int]) -> dict[str, int]:
    """Extents of an intermediate as stored in an instance of its home: divided by the stride of a pool, if the home
    holds the pooled tensor, and by the number of shares, rounded up."""
    parts = link.stored_strides
    for _, dim, shares in link.stay.shares:
        parts = parts | {dim: parts.get(dim, 1) * shares}
    return {dim: -(-points // parts.get(dim, 1)) for dim, points in extents.items()}


def _held_extents(problem: Problem, stay: Stay, group: FusedGroup, steps: LayerSteps,
                  needed: bool = False) -> dict[str, int]:
    """Extents that whole-tile storage holds. Along a dimension that a loop cuts: the most points of one step, computed
    or `needed`; the whole dimension where a loop outside of it is retained, as the next step of that loop walks through
    all tiles again."""
    extents = dict(problem.bounds)
    for index, cut in enumerate(steps.cut):
        if cut is not None and not any(outer.dim in stay.across for outer in group.loops[:index]):
            extents[cut] = max(len(span.needed if needed else span.done) for span in steps.spans[index])
    return extents


def _use_of(used: Sequence[range], whole: int) -> _AxisUse:
    """The use of an axis with `whole` points, from the points of every step."""
    if whole == 1:
        return _AxisUse(1, 1, 1)
    working = [points for points in used if len(points)]    # resident words stay through steps without work
    shared = (max(0, earlier.stop - later.start) for earlier, later in pairwise(working))
    return _AxisUse(max(map(len, used)), max(shared, default=0), whole)


def _stored_use(link: FusedLink, cut: str | None, needed: Sequence[range], bounds: Mapping[str, int]) -> _AxisUse:
    """The use of an intermediate's axis, counted in stored points (`_stored_extents`)."""
    if cut is None:
        return _AxisUse(1, 1, 1)
    return _AxisUse(*(_stored_extents(link, {cut: points})[cut] for points in _use_of(needed, bounds[cut])))


def _words_with_line_buffers(axes: Sequence[_AxisUse], stay: Stay, group: FusedGroup) -> int:
    """Words of the tile and of its line buffers, counted over the axes that the loops cut.

    Each retained loop adds the points shared with its next step, over all that the loops inside walk through, less the
    part in the tile, which is counted already.
    """
    held = math.prod(axis.tile for axis in axes)
    for index, loop in enumerate(group.loops):
        if loop.dim in stay.across:
            inside = axes[index + 1:]
            held += (math.prod(axis.tile for axis in axes[:index]) * axes[index].shared
                     * (math.prod(axis.whole for axis in inside) - math.prod(axis.tile for axis in inside)))
    return held
