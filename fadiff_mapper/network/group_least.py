"""The least traffic of a layer in a fused group, by the room that the intermediates beside it take in their home.

Problem. A tile of an intermediate lies whole in the home level while the layers on both sides run. Larger tiles leave
less room for everything else; smaller ones bring the operands from outside in more often. A bound that ignores the room
takes each word from outside once, and is far below any plan on a small design.

Layers. A layer has two operands and an output, each dimension of the output in one of the operands. Of a layer that
reads an intermediate X and weights from outside:

    rows      dimensions of X and the output, which do not move the weights
    columns   dimensions of the weights and the output, which do not move X
    channels  dimensions of X that are summed up; shared loops cut them in a group's last layer only
    common    dimensions of all three, such as the channels of a depthwise layer

A link is *deep* where no loop cuts the channels and common dimensions of the next layer. Of other layers, and on
designs with several levels that could be homes, nothing but each word once is known.

Weights come in with every step along the rows (*passing*), unless one of these holds. They stay, and lie whole in the
home (*resident*). Or a loop over columns lies outside a loop over rows along which they stay. X, which columns do not
move, then stays along them, with all that the loops inside walk through: a passing operand's case with larger tiles. Or
it is made again for each block of columns (*recomputed*); so is what X is made of, and so on, up to a tensor that stays
along the columns, or to the operand from outside of the group's first layer, which comes in again.

Sums over some of the channels go out and come back for each further part of the channels (*spilled*), or the loop over
channels is innermost, and all sums of a tile lie where they are added up. Loops over columns are outside then: X is
there with all channels, as if these were not cut, or recomputed.

A first layer has two operands from outside, A and B, and shared loops never cut its sums. Let J be a tile that the home
holds between two steps of the loops outside. All summands of its results are in J, while the innermost loop outside
leaves one operand in place and moves the other; or this loop is over summands and moves both, and the sums of all
results in J lie inside the home, as unfinished ones may not come back from there. An operand that stays along shared
loops is one that is left in place: the tile then extends along the loops inside those.

Windows of A come without the points that neighbours share along one dimension only, as at most one loop is innermost,
or where these points lie there along all other dimensions.

Steps. The largest tile of a dimension that takes k steps has at least 1/k of its points, so tiles are tried for each k.
Where tiles of several shapes occur, as at the end of a dimension, each holds for a part of the work; sums over the
steps lie between the sums for single shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, prod

import numpy as np

from fadiff_mapper.fusion.fused_group import FusedLink
from fadiff_mapper.fusion.prices import WordCosts
from fadiff_mapper.fusion.tile_steps import space_of
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, extent_along
from fadiff_mapper.search.lower_bound.least_traffic import touched_words, undominated
from fadiff_mapper.workload.window_slide import WindowSlide

STEP, FINEST = 1.2, 64
"""The factor from one amount of room to the next that is told apart, and the part of a home that the least one is."""

MOST_TILES = 60_000
"""Tiles of a first layer's rows that are tried, one by one where there are no more. A limit of time."""


@dataclass(frozen=True)
class GroupRoom:
    """The room of a design for one layer of groups."""

    home: float  # words of the only level that can be a home
    kept: frozenset[str]  # data spaces that the home keeps in every mapping
    unfinished: float  # words of sums that fit inside the home, or in it where no level inside keeps sums
    last: float  # words of sums that fit in any level in which a group's results can be added up

    @cached_property
    def edges(self) -> np.ndarray:
        """The amounts of room told apart, ascending, [S + 1]."""
        number = ceil(np.log(FINEST) / np.log(STEP))
        return np.array([0.0, *(self.home / STEP ** k for k in range(number, -1, -1))])


@dataclass(frozen=True)
class LayerLink:
    """A link between two layers of groups."""

    link: FusedLink
    producer: Problem
    consumer: Problem
    slides: Mapping[str, WindowSlide]  # by dimension of the producer
    whole: frozenset[str]  # dimensions of the producer that no loop may cut

    @cached_property
    def channels(self) -> frozenset[str]:
        """Dimensions of the producer's output that are channels or common dimensions of the next layer."""
        others = [space.dimensions for space in self.consumer.dataspaces
                  if space.name not in (self.link.tensor, self.consumer.output.name)]
        rows = self.consumer.output.dimensions - frozenset().union(*others)
        return frozenset(own for own, theirs in self.link.dims.items() if theirs not in rows)

    def read(self, dim: str, points: float) -> int:
        """The least points along the producer's dimension, as they are stored, that a tile of the consumer's reads."""
        if (dim, points) not in self._read:
            found, link = self.slides[dim].read(range(int(points))), self.link
            inside = min(found.stop, self.producer.bounds[dim]) - max(found.start, 0)
            if link.dims[dim] in link.pooled and not link.lies_pooled:  # a last window may be incomplete
                inside -= link.pooled[link.dims[dim]].stride - 1
            self._read[dim, points] = max(-(-inside // link.stored_strides.get(dim, 1)), 1)
        return self._read[dim, points]

    @cached_property
    def _read(self) -> dict[tuple[str, float], int]:
        return {}

    def done(self, dim: str) -> int:
        """Points along the producer's dimension that are needed at all."""
        if dim not in self.link.dims:
            return self.producer.bounds[dim]
        found = self.slides[dim].read(range(self.consumer.bounds[self.link.dims[dim]]))
        return min(found.stop, self.producer.bounds[dim]) - max(found.start, 0)

    def least(self, dim: str, deep: bool) -> int:
        """The least points of a dimension that are stored."""
        if dim in self.whole or (deep and dim in self.channels):
            return -(-self.done(dim) // self.link.stored_strides.get(dim, 1))
        return self.read(dim, 1) if dim in self.link.dims else 1

    def least_words(self, deep: bool) -> int:
        """The least words that are stored."""
        return prod(self.least(dim, deep) for dim in self.producer.output.dimensions)


@dataclass(frozen=True)
class LeastTraffic:
    """The least of one run of a layer beyond each word from and to the outermost level once, as alternatives.

    Infinite where not all has room. Axes: of the intermediate that the layer reads, whether its link is deep, whether
    a later layer than a group's first one makes it, and its room, [4 * S], or 1 for a first layer; of that which it
    makes, whether its link is deep, and its room, [2 * S], or 1 for a last layer; alternatives.
    """

    energy: np.ndarray  # pJ of words and, where the layers before are executed again, of their arithmetic
    words: np.ndarray  # words from and to the outermost level


def _tiles(points: int, cut: bool = True) -> np.ndarray:
    """The least tile for each number of steps along a dimension, and these numbers, [2, K]."""
    if not cut:
        return np.array([[points], [1]])
    tiles = np.unique(-(-points // np.arange(1, points + 1)))
    return np.array([tiles, -(-points // tiles)])


def _grid(axes: Sequence[np.ndarray]) -> np.ndarray:
    """All combinations of the columns of D arrays, [D, 2, K]."""
    picks = np.indices([axis.shape[-1] for axis in axes]).reshape(len(axes), -1)
    return np.array([axis[:, pick] for axis, pick in zip(axes, picks, strict=True)]).reshape(len(axes), 2, -1)


def _least(values: np.ndarray, words: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The least of some values whose words fit, for each amount of room; infinite where none fits."""
    order = np.argsort(words, kind="stable")
    least = np.concatenate([[inf], np.minimum.accumulate(values[order])])
    return least[np.searchsorted(words[order], room * (1 + 1e-12), side="right")]


def _product(space: DataSpace) -> bool:
    """Whether the words of a tile are the product of its extents."""
    return all(len(rank) == 1 and abs(rank[0].coefficient) == 1 for rank in space.ranks)


def first_traffic(problem: Problem, after: LayerLink, room: GroupRoom, costs: WordCosts) -> LeastTraffic | None:
    """The least traffic of a group's first layer; None where nothing but each word once is known."""
    output = problem.output
    bounds = problem.bounds | {dim: after.done(dim) for dim in output.dimensions}
    if len(problem.dataspaces) != 3 or not _product(output) or after.link.elsewhere:
        return None
    b, a = sorted((space for space in problem.dataspaces if space is not output), key=lambda space: not _product(space))
    rows = sorted(output.dimensions - b.dimensions)
    if (not _product(b) or not output.dimensions <= a.dimensions | b.dimensions
            or any(sum(term.dimension in output.dimensions for term in rank) > 1 for rank in a.ranks)):
        return None
    wide = prod(bounds[dim] for dim in output.dimensions - a.dimensions)
    common = output.dimensions & a.dimensions & b.dimensions
    summed = set(problem.dimensions) - output.dimensions
    channels = {rank[0].dimension for rank in a.ranks if len(rank) == 1} & summed
    depth = prod(bounds[dim] for dim in channels)
    windows = any(bounds[dim] > 1 for dim in summed - channels)
    a_once, b_once = touched_words(a, bounds), touched_words(b, bounds)
    a_kept, b_kept = a.name in room.kept, b.name in room.kept
    b_one = b_kept * prod(b.tile_extents(bounds | dict.fromkeys(output.dimensions, 1)))  # with all that is summed up
    high_rows = prod(bounds[dim] for dim in rows)
    pieces = MOST_TILES if high_rows <= MOST_TILES else int(MOST_TILES ** (1 / len(rows)))
    cells = _grid([_pieces(bounds[dim], pieces) for dim in rows]) if rows else np.ones((0, 2, 1))
    if a_kept:  # others have no room for the tile, nor for its sums
        cells = cells[:, :, np.prod(cells[:, 0], axis=0) <= max(room.unfinished, room.home / depth)]
    least, most = cells[:, 0], cells[:, 1]
    few, many = np.prod(least, axis=0), np.prod(most, axis=0)
    sent, lying, lines = np.ones(few.shape), np.ones(few.shape), inf
    # of each rank with a window its points over all tiles as a multiple of all, in one tile, all, and shared ones
    slides: list[tuple[np.ndarray, np.ndarray, int, int]] = []
    for rank in a.ranks:
        moved = next((term for term in rank if term.dimension in rows), None)
        inside = [(term.coefficient, bounds[term.dimension]) for term in rank if term is not moved]
        if moved is None:
            sent = sent * touched_words(DataSpace("", (rank,)), bounds)
            lying = lying * (1 if rank[0].dimension in common else extent_along(rank, bounds))
            continue
        index, extent = rows.index(moved.dimension), bounds[moved.dimension]
        # distinct words of neighbouring windows; dilated ones may have holes, so only one more for each further point
        width = 1 + sum(points - 1 for _, points in inside)
        stride = min(moved.coefficient, width) if all(factor == 1 for factor, _ in inside) else 1
        tile = stride * (most[index] - 1) + width
        sent = sent * tile * extent / most[index]
        lying = lying * (1 + stride * (least[index] - 1) + sum(factor * (points - 1) for factor, points in inside))
        if width > stride:
            slides.append((tile * extent / most[index] / (stride * (extent - 1) + width), tile,
                           stride * (extent - 1) + width, width - stride))
            lines = min(lines, (width - stride) * prod(
                extent_along(other, bounds) for other in a.ranks
                if other is not rank and not {term.dimension for term in other} & common))
    stored = prod(after.link.stored_strides.values())
    by_rows = b_once * high_rows / many
    found = []
    for deep, (low, high) in ((deep, ends) for deep in (False, True) for ends in zip(
            room.edges[:-1], room.edges[1:], strict=True)):
        beside = prod(bounds[dim] for dim in after.channels - set(rows)) if deep else 1
        left = room.home - max(low, after.least_words(deep))
        fits = few * beside <= high * stored
        if after.least_words(deep) > high or not fits.any():
            found.append(inf)
            continue
        words = inf
        # all summands at once, while one operand stays in place
        for free in (*range(len(slides)), None):
            factor: np.ndarray | float = 1.0
            if free is not None and len(slides) == 2:   # where the window begins the next row, a corner may be there
                factor = slides[1 - free][0] * (1 - slides[1 - free][3] * slides[free][3] / (
                    slides[1 - free][1] * slides[free][2]))
            over = left - a_kept * (np.maximum(lying, lines) if slides and free is None else lying)
            at_once = np.minimum(over / b_one if b_one else np.where(over >= 0, wide, 0.0), wide)
            moving = np.minimum(np.where(over >= b_one, a_once * factor + by_rows, inf), np.where(
                at_once >= 1, a_once * factor * wide / np.maximum(at_once, 1) + b_once, inf))
            words = min(words, float(np.where(fits, moving, inf).min()))
        # some summands after the others
        results = np.minimum(min(room.unfinished, high * stored) / few, wide)
        if depth > 1:
            moving = np.where(fits & (results >= 1), sent * wide / np.maximum(results, 1) + by_rows, inf)
            words = min(words, float(moving.min()))
        if windows:
            over = left - a_kept * depth * few
            results = np.minimum(results, over / depth if b_kept else np.where(over >= 0, wide, 0.0))
            moving = np.where(fits & (results >= 1), a_once * wide / np.maximum(results, 1) + by_rows, inf)
            words = min(words, float(moving.min()))
        found.append(max(words - a_once - b_once, 0.0))
    reads = np.array(found)[None, :, None]
    return LeastTraffic(costs.read[-1] * reads, reads)


def _pieces(points: int, number: int) -> np.ndarray:
    """The least and the most points of about so many ranges of a dimension's tiles, [2, K]."""
    ends = np.unique(np.round(np.geomspace(1, points, number))) if number < points else np.arange(1.0, points + 1)
    return np.array([[1, *(ends[:-1] + 1)], ends])


def later_traffic(problem: Problem, links: Sequence[LayerLink], after: LayerLink | None, room: GroupRoom,
                  costs: WordCosts, work_before: Sequence[float]) -> LeastTraffic | None:
    """The least traffic of a layer that reads an intermediate; None where nothing but each word once is known.

    Args:
        problem: The layer.
        links: The link to it, and those to the layers before, the nearest first.
        after: The link to the next layer of the group; None for the last one.
        room: The room of the design.
        costs: Costs of words.
        work_before: pJ of the arithmetic of one run of each layer before, the nearest first.
    """
    output, before = problem.output, links[0]
    if len(problem.dataspaces) != 3 or not _product(output) or (after and after.link.elsewhere):
        return None
    tensor = space_of(problem, before.link.tensor)
    weights = next(space for space in problem.dataspaces if space.name not in (tensor.name, output.name))
    common = tensor.dimensions & weights.dimensions & output.dimensions
    rows = sorted((tensor.dimensions & output.dimensions) - common)
    columns = (weights.dimensions & output.dimensions) - common
    linked = {theirs: own for theirs, own in before.link.back.items() if problem.bounds[theirs] > 1}
    channels = [dim for dim in tensor.dimensions - output.dimensions if dim in linked]
    if not _product(weights) or output.dimensions != common | columns | set(rows) or len(channels) > 1:
        return None
    size = len(room.edges) - 1
    ways = [(False, deep) for deep in (False, True)] if after else [(cut, False) for cut in (False, True)]
    ends = 2 * size if after else 1
    energy, words = np.full((2, 2, size, ends, 2), inf), np.full((2, 2, size, ends, 2), inf)
    for cut, deep_after in ways:
        if cut and (not channels or linked[channels[0]] in before.whole):
            continue
        whole = {dim for dim in output.dimensions if after and (
            dim in after.whole or (deep_after and dim in after.channels))}
        deep = not cut and common <= whole
        found = _way(problem, links, after, room, costs, work_before, rows, columns, common, channels, linked, whole,
                     deep, cut, deep_after)
        at = slice(size * deep_after, size * (deep_after + 1)) if after else slice(0, 1)
        for target, values in zip((energy, words), found, strict=True):
            target[int(deep), :, :, at] = np.minimum(target[int(deep), :, :, at], values)
    return LeastTraffic(*(values.reshape(4 * size, ends, -1) for values in (energy, words)))


def _way(problem: Problem, links: Sequence[LayerLink], after: LayerLink | None, room: GroupRoom, costs: WordCosts,
         work_before: Sequence[float], rows: Sequence[str], columns: frozenset[str], common: frozenset[str],
         channels: Sequence[str], linked: Mapping[str, str], whole: set[str], deep: bool, cut: bool,
         deep_after: bool) -> tuple[np.ndarray, np.ndarray]:
    """Energy and words of `later_traffic` where channels are cut or not, [2, S, S or 1, 2] each.

    `whole`: dimensions of the output that no loop cuts because of the next layer.
    """
    before, bounds, output = links[0], problem.bounds, problem.output
    weights = next(space for space in problem.dataspaces if space.name not in (before.link.tensor, output.name))
    uncut = whole | {dim for dim, own in linked.items() if own in before.whole}
    needed = {dim: after.done(dim) if after else bounds[dim] for dim in output.dimensions}
    cells = _grid([_tiles(needed[dim], dim not in uncut) if dim in linked else np.ones((2, 1), int) for dim in rows]
                  ) if rows else np.ones((0, 2, 1), int)
    steps = dict(zip(rows, cells[:, 1], strict=True))
    times = np.prod(cells[:, 1], axis=0).astype(float)      # steps along the rows
    results = np.prod(cells[:, 0], axis=0).astype(float)    # points of rows in a tile
    one_channel = {linked[dim] for dim in channels if linked[dim] not in before.whole}
    lying = np.full(times.shape, float(prod(            # words of X as stored, of one channel
        before.done(own) if own in {linked.get(dim) for dim in common & whole} else before.least(own, False)
        for own in before.producer.output.dimensions - one_channel)))
    made = np.full(times.shape, float(after.least_words(deep_after) if after else 1))   # words of the output as stored
    for dim, (tiles, _) in zip(rows, cells, strict=True):
        if dim in linked and linked[dim] not in before.whole:
            lying = lying * np.array([before.read(linked[dim], tile) for tile in tiles]) / before.least(
                linked[dim], False)
        if after and dim not in whole:
            stored = -(-tiles // after.link.stored_strides.get(dim, 1))
            made = made * np.maximum(stored / after.least(dim, False), 1)
    sources = _sources(links, [dim for dim in rows if dim in linked], steps, times.size)
    low, high = room.edges[:-1], room.edges[1:]
    least = before.least_words(deep)
    least_after = after.least_words(deep_after) if after else 0
    ends = (np.maximum(low, least_after), high) if after else (np.zeros(1), np.full(1, inf))
    free = room.home - np.maximum(low, least)
    left = np.where((high >= least)[:, None] & (ends[1] >= least_after), free[:, None] - ends[0], -inf)   # [S, ends]
    block = prod(bounds[dim] for dim in weights.dimensions - common - columns - set(channels))
    all_words, results_words = touched_words(weights, bounds), float(problem.tensor_size(output))
    wide, depth = (prod(bounds[dim] for dim in dims) for dims in (columns, channels))
    narrow = wide > 1 and not columns <= uncut
    # energy and words of the alternatives, by whether layers before are executed again
    once, repeated = list[tuple[np.ndarray, np.ndarray]](), list[tuple[np.ndarray, np.ndarray]]()

    def passing(there: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Words of weights that come in with every step beyond once, [S, ends], where X takes so many words."""
        found = [_least(np.where(made <= most, steps, inf), there, high) for most in ends[1]]
        return all_words * (np.stack(found, axis=1) - 1)

    def add(reads: np.ndarray, spilled: float) -> None:
        reads = np.where(left >= 0, reads + spilled, inf)
        once.append((costs.read[-1] * reads + costs.written * spilled, reads + spilled))

    def recomputed(reads: float, spilled: float, again: np.ndarray, one: float) -> None:
        """X, of so many channels at a time, is made again so often, [S, ends]."""
        fits = np.isfinite(again)
        again = np.where(fits, again, 0.0)
        begun, on = np.full((2, *again.shape), inf)     # where the layer before is the first, or a later one
        arithmetic = np.zeros(again.shape)
        for index, work in enumerate(work_before):
            arithmetic = arithmetic + again * work
            if index == len(sources):
                begun, on = (arithmetic if index == 0 else begun), np.minimum(on, arithmetic)
                break
            source = sources[index]
            kept = _least(times, source.rows, np.maximum(free - block * one, 0) / source.depth(one))[:, None]
            stays = arithmetic + costs.read[-1] * np.maximum(all_words * (kept - 1) - reads, 0.0)
            first = arithmetic + costs.read[-1] * again * source.words
            if index == 0:
                begun = np.minimum(stays, first)
            on = np.minimum(on, stays if index == 0 else np.minimum(stays, first))
        else:
            on = np.minimum(on, arithmetic)
        energy = costs.read[-1] * (reads + spilled) + costs.written * spilled
        repeated.append((np.where(fits, energy + np.stack([begun, on]), inf), np.where(fits, reads + 2 * spilled, inf)))

    for one, parts in _tiles(depth).T if cut else [(depth, 1)]:
        if cut and parts == 1:
            continue
        spilled = results_words * (float(parts) - 1)
        add(passing(lying * prod(before.read(dim, one) for dim in one_channel), times), spilled)
        add(np.where(block * one * wide <= left, 0.0, inf), spilled)
        if narrow:
            fits = np.floor(np.maximum(left, 0.0) / (block * one))
            recomputed(0.0, spilled, np.where(fits >= 1, np.maximum(np.ceil(wide / np.maximum(fits, 1)), 2) - 1, inf),
                       float(one))
    if cut:     # sums stay where they are added up
        add(passing(lying, np.where(results * wide <= room.last, times, inf)), 0.0)
        add(np.where((block * depth * wide <= left) & (wide <= room.last), 0.0, inf), 0.0)
        fitting = (results <= room.last) & (lying <= room.home)
        for number, points, there in undominated(np.stack([times, results, lying])[:, fitting]).T if narrow and (
                fitting.any()) else ():
            here = (there <= high)[:, None] & (left >= 0)
            recomputed(all_words * (number - 1), 0.0,
                       np.where(here, max(ceil(wide / np.floor(room.last / points)), 2) - 1, inf), float(depth))
    shape = (2, *left.shape)
    together = [[np.min([np.broadcast_to(each[index], shape) for each in found], axis=0) if found else
                 np.full(shape, inf) for index in range(2)] for found in (once, repeated)]
    return (np.stack([each[0] for each in together], axis=-1), np.stack([each[1] for each in together], axis=-1))


@dataclass(frozen=True)
class _Source:
    """A tensor that X is made of."""

    words: float  # all of it
    rows: np.ndarray  # words of its tiles, of one channel, [K]
    channels: float  # channels that are summed up
    carried: bool  # whether a channel of X is one of this tensor

    def depth(self, some: float) -> float:
        """Channels of the tensor that belong to some of the channels of X."""
        return self.channels * (some if self.carried else 1.0)


def _sources(links: Sequence[LayerLink], rows: Sequence[str], steps: Mapping[str, np.ndarray],
             number: int) -> list[_Source]:
    """What X is made of, what that is made of, and so on, in tiles of as many points as a step has on average.

    As far back as is known.

    Args:
        links: The link of X, and those to the layers before, the nearest first.
        rows: Rows that X moves along.
        steps: Steps along each of them, [K].
        number: K.
    """
    found: list[_Source] = []
    carried = True
    for link, earlier in zip(links, (*links[1:], None), strict=True):
        problem = link.producer
        if link.link.elsewhere or not rows or not set(rows) <= set(link.link.back):
            break
        steps = {link.link.back[dim]: steps[dim] for dim in rows}
        rows = list(steps)
        inputs = [space for space in problem.dataspaces
                  if space is not problem.output and set(rows) <= space.dimensions]
        if len(inputs) != 1 or (earlier and (earlier.link.tensor != inputs[0].name or earlier.link.elsewhere
                                             or earlier.link.between)):
            break
        words = np.ones(number)
        for rank in inputs[0].ranks:
            for dim in [term.dimension for term in rank if term.dimension in rows][:1]:
                tile = np.ceil(link.done(dim) / steps[dim])
                words = words * ([earlier.read(earlier.link.back[dim], points) for points in tile]
                                 if earlier and dim in earlier.link.back else
                                 extent_along(rank, {**problem.bounds, dim: tile}))
        channels = prod(problem.bounds[rank[0].dimension] for rank in inputs[0].ranks
                        if len(rank) == 1 and rank[0].dimension not in problem.output.dimensions)
        carried = carried and any(dim in inputs[0].dimensions and dim not in rows for dim in link.link.dims
                                  if problem.bounds[dim] > 1)
        found.append(_Source(touched_words(inputs[0], problem.bounds), words, float(channels), carried))
    return found
