"""The least traffic of a layer in a fused group, by the room that the intermediates beside it take in their home.

Problem. A tile of an intermediate lies whole in the home level while the layers on both sides run. Larger tiles leave
less room for everything else; smaller ones bring the operands from outside in more often. A bound that ignores the room
takes each word from outside once, and is far below any plan on a small design.

Class. Groups as in `network_bound`, on designs with a single level on the chip that can be a home; elsewhere, and for
layers and links other than below, each word comes in once. A layer has two operands and an output, each dimension of
the output in one of the operands. Of a layer that reads an intermediate X and weights from outside:

    rows      dimensions of X and the output, which do not move the weights
    columns   dimensions of the weights and the output, which do not move X
    channels  dimensions of X and the weights that are summed up; shared loops cut them in the last layer only
    common    dimensions of all three, such as the channels of a depthwise layer

Weights from outside come in with every step along the rows (*passing*), unless one of these holds. They stay, and lie
whole in the home (*resident*). Or a loop over columns lies outside a loop over rows along which they stay: X, which
columns do not move, then stays along them with all that the loops inside walk through, which is a passing operand's
case with larger tiles, or is made again for each block of columns (*recomputed*). So is what X is made of, in turn,
unless that stays.

Sums over some of the channels go out and come back for each further part of the channels (*spilled*), or the loop over
channels is innermost, all sums of a tile lie where they are added up, and loops over columns, if any, are outside: X is
there with all channels, as if these were not cut, or recomputed.

A first layer has two operands from outside, A and B, and never cuts its own sums by shared loops. While tile J of the
home takes turns, either all summands of its results are in J, and the innermost loop outside leaves one operand in
place, or one over summands moves both and the sums of all results in J lie inside the home, as those handed on may not
come back unfinished. Both operands are never brought in again only where one of them lies whole along some dimension.

Steps. The tile of a dimension that takes k steps has at least 1/k of its points, so tiles are tried for each k. Where
tiles of several shapes occur (at the end of a dimension), each holds for a part of the work, and sums over the steps lie
on a line between the sums for single shapes, none below the least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, inf, prod

import numpy as np

from fadiff_mapper.fusion.fused_group import FusedLink
from fadiff_mapper.fusion.tile_steps import space_of
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, extent_along
from fadiff_mapper.search.lower_bound.least_traffic import touched_words
from fadiff_mapper.workload.window_slide import WindowSlide

STEP = 1.2
"""The factor from one amount of room to the next that is told apart."""

FINEST = 64
"""The part of a home that the least amount of room told apart is."""

SINGLE, PIECES = 256, 64
"""Extents up to which every tile of a dimension is tried by itself; and pieces of longer ones, a limit of time."""


@dataclass(frozen=True)
class GroupRoom:
    """The room of a design for intermediates, and for sums."""

    home: float  # words of the only level that can be a home
    kept: frozenset[str]  # data spaces that the home keeps in every mapping
    unfinished: float  # words of sums that fit inside the home, or in it where no level inside keeps sums
    last: float  # words of sums that fit in any level in which a group's results can be added up

    @cached_property
    def edges(self) -> np.ndarray:
        """The amounts of room told apart, ascending, [S + 1]."""
        number = ceil(np.log(FINEST) / np.log(STEP))
        return np.array([0.0, *(self.home / STEP ** k for k in range(number, -1, -1))])

    @property
    def low(self) -> np.ndarray:
        """The least words of each amount, [S]."""
        return self.edges[:-1]

    @property
    def high(self) -> np.ndarray:
        """The most words of each amount, [S]."""
        return self.edges[1:]


@dataclass(frozen=True)
class LayerLink:
    """A link between two layers of groups."""

    link: FusedLink
    producer: Problem
    consumer: Problem
    slides: Mapping[str, WindowSlide]  # by dimension of the producer
    whole: frozenset[str]  # dimensions of the producer that no loop may cut

    def read(self, dim: str, points: float) -> int:
        """The least points along the producer's dimension, as they are stored, that a tile of the consumer's reads."""
        found, link = self.slides[dim].read(range(int(points))), self.link
        inside = min(found.stop, self.producer.bounds[dim]) - max(found.start, 0)
        if link.pooled and not link.lies_pooled:    # a last window may be incomplete
            inside -= link.pooled[link.dims[dim]].stride - 1 if link.dims[dim] in link.pooled else 0
        return max(-(-inside // link.stored_strides.get(dim, 1)), 1)

    def done(self, dim: str) -> int:
        """Points along the producer's dimension that are needed at all."""
        bounds, link = self.producer.bounds, self.link
        if dim not in link.dims:
            return bounds[dim]
        found = self.slides[dim].read(range(self.consumer.bounds[link.dims[dim]]))
        return min(found.stop, bounds[dim]) - max(found.start, 0)

    @cached_property
    def least(self) -> int:
        """Words that are stored in any tiles."""
        strides = self.link.stored_strides
        return prod(-(-self.producer.bounds[dim] // strides.get(dim, 1)) if dim in self.whole else
                    self.read(dim, 1) if dim in self.link.dims else 1 for dim in self.producer.output.dimensions)


@dataclass(frozen=True)
class Prices:
    """Energies in pJ, and the layers before."""

    read: float  # of a word read at the outermost level
    written: float  # of a word written there
    # of the arithmetic of one run of the layer before, and of the layer before that one
    before: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class GroupTraffic:
    """The least of one run of a layer beyond each word from and to the outermost level once, as alternatives.

    By the room of the intermediate that the layer reads, first those that a group's first layer makes, then all others,
    and of that which it makes, [2 * S or 1, S or 1, K]. Infinite where not all has room.
    """

    energy: np.ndarray  # pJ of words and, where the layers before are executed again, of their arithmetic
    words: np.ndarray  # words from and to the outermost level


def _tiles(points: int, cut: bool = True) -> np.ndarray:
    """The least tile for each number of steps along a dimension, and these numbers, [2, K]."""
    if not cut:
        return np.array([[points], [1]])
    tiles = np.unique(-(-points // np.arange(1, points + 1)))
    return np.array([tiles, -(-points // tiles)])


def _grid(axes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All combinations of columns of some arrays, each of them with an axis of combinations last."""
    picks = np.indices([axis.shape[-1] for axis in axes]).reshape(len(axes), -1) if axes else np.zeros((0, 1), int)
    return [axis[..., pick] for axis, pick in zip(axes, picks, strict=True)]


def _least(values: np.ndarray, words: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The least of some values whose words fit, for each amount of room; infinite where none fits."""
    order = np.argsort(words, kind="stable")
    least = np.concatenate([[inf], np.minimum.accumulate(values[order])])
    return least[np.searchsorted(words[order], room * (1 + 1e-12), side="right")]


def _product(space: DataSpace) -> bool:
    """Whether the words of a tile are the product of its extents."""
    return all(len(rank) == 1 and abs(rank[0].coefficient) == 1 for rank in space.ranks)


def first_traffic(problem: Problem, after: LayerLink, room: GroupRoom, prices: Prices) -> GroupTraffic | None:
    """The least traffic of a group's first layer; None where nothing but each word once is known."""
    output = problem.output
    if len(problem.dataspaces) != 3 or not _product(output) or after.link.elsewhere:
        return None
    b, a = sorted((space for space in problem.dataspaces if space is not output), key=lambda space: not _product(space))
    if not _product(b) or not output.dimensions <= a.dimensions | b.dimensions:
        return None
    bounds, ones = problem.bounds, dict.fromkeys(output.dimensions, 1)
    columns, rows = output.dimensions - a.dimensions, sorted(output.dimensions - b.dimensions)
    wide, high = prod(bounds[dim] for dim in columns), prod(bounds[dim] for dim in rows)
    mixed = [rank for rank in a.ranks if sum(term.dimension in output.dimensions for term in rank) > 1]
    if mixed:
        return None
    common_dims = output.dimensions & a.dimensions & b.dimensions
    channels = [rank[0].dimension for rank in a.ranks
                if len(rank) == 1 and rank[0].dimension not in output.dimensions and bounds[rank[0].dimension] > 1]
    sums = set(problem.dimensions) - output.dimensions
    windows = any(bounds[dim] > 1 for dim in sums - set(channels))
    a_once, b_once = touched_words(a, bounds), touched_words(b, bounds)
    a_kept, b_kept = a.name in room.kept, b.name in room.kept
    a_least, b_least = (prod(space.tile_extents(bounds | ones)) for space in (a, b))  # with all that is summed up
    a_one, b_one = a_kept * a_least, b_kept * b_least
    least, most = _pieces([bounds[dim] for dim in rows])
    few, many = (np.prod(side, axis=0) for side in (least, most))
    sent, lying = np.ones(few.shape), np.ones(few.shape)  # words of A over all tiles of rows, and in one of them
    # of each rank with a window its points over all tiles of rows as a multiple of all, in one tile, all, and shared ones
    slides: dict[str, tuple[np.ndarray, np.ndarray, int, int]] = {}
    lines = inf     # words of A that lie there if no window's words come again
    for rank in a.ranks:
        moved = [term for term in rank if term.dimension in rows]
        others = [term for term in rank if term.dimension not in rows]
        common = [term for term in others if term.dimension in output.dimensions]
        inside = [(term.coefficient, bounds[term.dimension]) for term in others]
        if not moved:
            sent = sent * touched_words(DataSpace("", (rank,)), bounds)
            lying = lying * (1 if common else extent_along(rank, bounds))
            continue
        where = rows.index(moved[0].dimension)
        # distinct words of neighbouring windows; dilated ones may have holes, so only one more for each further point
        width = 1 + sum(points - 1 for _, points in inside)
        stride = min(moved[0].coefficient, width) if all(factor == 1 for factor, _ in inside) else 1
        extent = bounds[moved[0].dimension]
        over = (stride * (most[where] - 1) + width) * extent / most[where]
        sent = sent * over
        if width > stride:
            slides[moved[0].dimension] = (over / (stride * (extent - 1) + width), stride * (most[where] - 1) + width,
                                          stride * (extent - 1) + width, width - stride)
            others_whole = prod(space_extent for other, space_extent in zip(a.ranks, a.tile_extents(bounds), strict=True)
                                if other is not rank and not any(term.dimension in common_dims for term in other))
            lines = min(lines, (width - stride) * others_whole)
        lying = lying * (1 + stride * (least[where] - 1) + sum(factor * (points - 1) for factor, points in inside))
    left = np.where(room.high >= after.least, room.home - room.low, -inf)   # [S], beside the tile that is handed on
    stored = prod(after.link.stored_strides.values())
    held = np.minimum(room.unfinished, room.high * stored)[:, None]  # results of a tile whose sums are there, at most
    beside = held / few
    by_rows = b_once * high / many
    words = []
    # all summands at once, while one operand stays in place; windows slide along one dimension, or along all where the
    # part that is used again lies there along all the others
    for free in (*slides, None) if slides else (None,):
        factor: np.ndarray | float = 1.0
        if free and len(slides) == 2:   # where the window begins the next row, a corner may be there
            (factor, tile, _, again), = (each for dim, each in slides.items() if dim != free)
            factor = factor * (1 - again * slides[free][3] / (tile * slides[free][2]))
        there = np.maximum(lying, lines) if slides and not free else lying
        words.append(_least(a_once * factor + by_rows, a_kept * there, left - b_one))
        fits = left[:, None] - a_kept * there
        at_once = np.minimum(fits / b_one if b_one else np.where(fits >= 0, wide, 0.0), wide)
        words.append(np.where(at_once >= 1, a_once * factor * wide / np.maximum(at_once, 1) + b_once, inf).min(axis=1))
    # some summands after the others
    fitting = np.where(beside >= 1, np.minimum(beside, wide), np.nan)
    if channels:
        words.append(np.nan_to_num(sent * wide / fitting + by_rows, nan=inf).min(axis=1))
    if windows:
        block = prod(bounds[dim] for dim in channels)
        both = (left[:, None] - a_kept * block * few) / block if b_kept else np.where(
            left[:, None] >= a_kept * block * few, wide, 0.0)
        fitting = np.where(both >= 1, np.minimum(fitting, both), np.nan)
        words.append(np.nan_to_num(a_once * wide / fitting + by_rows, nan=inf).min(axis=1))
    reads = np.maximum(np.min(words, axis=0) - a_once - b_once, 0.0)[None, :, None]
    return GroupTraffic(prices.read * reads, reads)


def _pieces(extents: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most points of tiles of some dimensions, [D, K] each, in every combination."""
    axes = []
    for points in extents:
        if points <= (SINGLE if len(extents) < 3 else PIECES):
            axes.append(np.array([np.arange(1, points + 1)] * 2, dtype=float))
        else:
            ends = np.unique(np.round(np.geomspace(1, points, PIECES if len(extents) < 3 else 16)))
            axes.append(np.array([[1, *(ends[1:-1] + 1)], ends[1:]]) if len(ends) > 1 else np.array([[1.0], [1.0]]))
    if not axes:
        return np.ones((1, 1)), np.ones((1, 1))
    cells = _grid(axes)
    return np.stack([cell[0] for cell in cells]), np.stack([cell[1] for cell in cells])


def later_traffic(problem: Problem, before: LayerLink, after: LayerLink | None, room: GroupRoom,
                  earlier: LayerLink | None, prices: Prices) -> GroupTraffic | None:
    """The least traffic of a layer that reads an intermediate; None where nothing but each word once is known.

    Args:
        problem: The layer.
        before: The link to it.
        after: The link to the next layer of the group; None for the last one.
        room: The room of the design.
        earlier: The link to the layer before, where that can have one.
        prices: Energies.
    """
    output, link = problem.output, before.link
    if len(problem.dataspaces) != 3 or not _product(output) or (after and after.link.elsewhere):
        return None
    tensor = space_of(problem, link.tensor)
    weights = next(space for space in problem.dataspaces if space.name not in (tensor.name, output.name))
    common = tensor.dimensions & weights.dimensions & output.dimensions
    rows = sorted((tensor.dimensions & output.dimensions) - common)
    columns = sorted((weights.dimensions & output.dimensions) - common)
    linked = {theirs: own for theirs, own in link.back.items() if problem.bounds[theirs] > 1}
    channels = [dim for dim in tensor.dimensions - output.dimensions if dim in linked]
    if not _product(weights) or output.dimensions != common | {*rows, *columns} or len(channels) > 1:
        return None
    uncut = {dim for dim, own in linked.items() if own in before.whole} | (set(after.whole) if after else set())
    needed = {dim: after.done(dim) if after else problem.bounds[dim] for dim in output.dimensions}
    cells = _grid([_tiles(needed[dim], dim not in uncut) if dim in linked else np.ones((2, 1), int) for dim in rows])
    tiles = dict(zip(rows, (cell[0] for cell in cells), strict=True))
    steps = dict(zip(rows, (cell[1] for cell in cells), strict=True))
    number = len(cells[0][0]) if cells else 1
    times = np.ones(number)         # steps along the rows
    lying = np.full(number, float(before.least))  # words of X as stored, by one channel and one point of each common dimension
    made = np.full(number, float(after.least if after else 1))  # words of the output as stored
    results = np.ones(number)       # the same as they are made, by one column and one point of each common dimension
    for dim in rows:
        times, results = times * steps[dim], results * tiles[dim]
        if dim in linked:
            at = [before.read(linked[dim], tile) for tile in tiles[dim]]
            lying = lying * at / (before.producer.bounds[linked[dim]] if linked[dim] in before.whole else
                                  before.read(linked[dim], 1))
        if after and dim not in after.whole:
            stored = -(-tiles[dim] // after.link.stored_strides.get(dim, 1))
            made = made * np.maximum(stored / (after.read(dim, 1) if dim in after.link.dims else 1), 1)
    # what X is made of: rows as many as its own tiles need on average, without their windows
    source = _source(before, earlier, rows, steps, number)
    size, free, high_in = room.low.size, room.home - room.low, room.high
    ends = (room.low, room.high) if after else (np.zeros(1), np.full(1, inf))
    roomy = (room.high >= before.least)[:, None] & (ends[1] >= (after.least if after else 0))
    block = prod(problem.bounds[dim] for dim in weights.dimensions - common - {*columns, *channels})
    all_words, results_words = touched_words(weights, problem.bounds), float(problem.tensor_size(output))
    wide = prod(problem.bounds[dim] for dim in columns)
    narrow = wide > 1 and not (set(columns) <= uncut)
    depth = prod(problem.bounds[dim] for dim in channels)
    cut = not after and bool(channels) and not set(channels) & uncut
    room_left = np.where(roomy, free[:, None] - ends[0], -inf)      # [S, ends], beside both intermediates
    # energy and words of the alternatives: without layers executed again, and with them, [2, S, ends] each
    once, repeated = list[tuple[np.ndarray, np.ndarray]](), list[tuple[np.ndarray, np.ndarray]]()

    def deep(one: float) -> np.ndarray:
        """Words of X in tiles of so many channels, [K]."""
        own = [linked[dim] for dim in channels if linked[dim] not in before.whole]
        return lying * prod(before.read(dim, one) / before.read(dim, 1) for dim in own)

    def passing(there: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """Words of weights that come in with every step beyond once, [S, ends], where X takes so many words."""
        found = [_least(np.where(made <= most, steps, inf), there, high_in) for most in ends[1]]
        return all_words * (np.stack(found, axis=1) - 1)

    def add(reads: np.ndarray, spilled: float) -> None:
        reads = np.where(room_left >= 0, reads + spilled, inf)
        once.append((prices.read * reads + prices.written * spilled, reads + spilled))

    def recomputed(reads: np.ndarray, spilled: float, again: np.ndarray, staying: np.ndarray) -> None:
        """X is made again so often; so is what it is made of, unless that stays with weights coming in `staying`."""
        reads = np.where(np.isfinite(again), reads + spilled, inf)
        again = np.where(np.isfinite(reads), again, 0.0)
        energy = prices.read * reads + prices.written * spilled + again * prices.before[0]
        fresh = again * (source.words if source else 0.0)
        other = prices.read * np.maximum(staying - np.where(np.isfinite(reads), reads, 0.0), 0.0) if source else 0.0
        repeated.append((energy + np.minimum(np.stack([prices.read * fresh, again * prices.before[1]]), other),
                         np.stack([reads + spilled] * 2)))

    for one, parts in (_tiles(depth).T if cut else [(depth, 1)]):
        spilled = results_words * (float(parts) - 1)
        add(passing(deep(one), times), spilled)
        add(np.where(block * one * wide <= room_left, 0.0, inf), spilled)
        if narrow:
            fits = np.floor(np.maximum(room_left, 0.0) / (block * one))
            again = np.where(fits >= 1, np.maximum(np.ceil(wide / np.maximum(fits, 1)), 2) - 1, inf)
            staying = all_words * (_least(times, source.rows, np.maximum(free - block * one, 0) / source.depth(
                float(one)))[:, None] - 1) if source else np.zeros((size, 1))
            recomputed(np.zeros(room_left.shape), spilled, again, staying + 2 * spilled)
    if cut:     # sums stay where they are added up
        add(passing(lying, np.where(results * wide <= room.last, times, inf)), 0.0)
        add(np.where((block * depth * wide <= room_left) & (wide <= room.last), 0.0, inf), 0.0)
        at_once = np.floor(room.last / results)
        for index in np.flatnonzero((at_once >= 1) & (lying <= room.home)) if narrow else ():
            here = (lying[index] <= high_in)[:, None] & (room_left >= 0)
            again = np.where(here, max(ceil(wide / at_once[index]), 2) - 1, inf)
            there = not source or source.rows[index] * source.depth(depth) <= room.home
            recomputed(np.full(here.shape, all_words * (times[index] - 1)), 0.0, again,
                       np.full(here.shape, 0.0 if there else inf))
    together = [[np.min([np.broadcast_to(each[index], (2, *room_left.shape)) for each in found], axis=0)
                 for index in range(2)] for found in (once, repeated) if found]
    return GroupTraffic(*(np.stack([each[index] for each in together], axis=-1).reshape(
        2 * size, -1, len(together)) for index in range(2)))


@dataclass(frozen=True)
class _Source:
    """The tensor that the layer before reads along the rows."""

    words: float  # all of it, where it comes from outside
    rows: np.ndarray  # words of the tiles, by one channel, [K]
    channels: float  # channels that the layer before sums up
    carried: bool  # whether a channel of X is one of this tensor

    def depth(self, some: float) -> float:
        """Channels of the tensor that belong to some of the channels of X."""
        return self.channels * (some if self.carried else 1.0)


def _source(before: LayerLink, earlier: LayerLink | None, rows: Sequence[str], steps: Mapping[str, np.ndarray],
            number: int) -> _Source | None:
    """The tensor that the layer before reads along the rows; None where it is not known."""
    problem = before.producer
    own = {before.link.back[dim]: dim for dim in rows if dim in before.link.back and before.consumer.bounds[dim] > 1}
    inputs = [space for space in problem.dataspaces if space is not problem.output]
    if earlier is not None:
        inputs = [space for space in inputs if space.name == earlier.link.tensor]
    found = [space for space in inputs if set(own) <= space.dimensions]
    if len(found) != 1 or not own or before.link.elsewhere or (
            earlier is not None and (earlier.link.elsewhere or earlier.link.between)):
        return None
    space = found[0]
    words = np.ones(number)
    for rank in space.ranks:
        moved = [term for term in rank if term.dimension in own]
        if len(moved) > 1:
            return None
        if moved:
            dim = moved[0].dimension
            tile = np.ceil(before.done(dim) / steps[own[dim]])
            padded = earlier.link.padding.get(dim, 0) if earlier else 0
            words = words * np.maximum(1 + moved[0].coefficient * (tile - 1) - padded, 1)
    channels = prod(problem.bounds[rank[0].dimension] for rank in space.ranks
                    if len(rank) == 1 and rank[0].dimension not in problem.output.dimensions)
    carried = any(own_dim in space.dimensions and own_dim not in own for own_dim in before.link.dims
                  if problem.bounds[own_dim] > 1)
    return _Source(touched_words(space, problem.bounds), words, float(channels), carried)
