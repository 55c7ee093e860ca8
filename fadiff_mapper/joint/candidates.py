"""Ways to run a segment as a fused group: tile sizes for its loops (`tile_nests`), and what stays on the chip.

Every order of loops is estimated for a whole grid of tile sizes at once. The estimate with every operand brought in
once per step is a lower one; orders whose lower estimate cannot compete are not looked at closer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.steps import live_intermediates, moved_rank, space_of
from fadiff_mapper.joint.cuts import Cut, computed, fetched, held, largest_tile, layer_cuts, outlasting
from fadiff_mapper.joint.estimate import LayerBase, estimated
from fadiff_mapper.joint.prices import Point
from fadiff_mapper.joint.refetch import refetched
from fadiff_mapper.joint.segments import Segment
from fadiff_mapper.joint.tile_nests import TileNest, cuts_whole, nests_of, tile_nests
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.spec.problem import DataSpace, Problem

SIZES = {1: 40, 2: 20, 3: 10}
"""Tile sizes that are tried of each loop of a nest, by the number of its loops."""

MOST_STEPS, MOST_ALONG = 2 ** 17, 2 ** 11
"""Steps of a group, and of one of its loops."""

MOST_WAYS = 48
"""Combinations of operands that stay, of one nest, that are looked at."""

KEPT = 8
"""Candidates of a segment, each with another nest or other operands that stay."""

FINER = 16
"""Steps in which a tile size of the grid is varied, as parts of it."""

CLOSER = 64
"""Tile sizes of one nest and one combination that are looked at closer."""

Price = Callable[[Point], Any]
"""The share of a part in the network's metric; of a `Point` of arrays an array."""


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet, and its estimate, all repeats together."""

    segment: Segment
    group: FusedGroup
    estimate: Point


def candidates(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], price: Price,
               limit: float) -> list[Candidate]:
    """The most promising ways to run a segment below a price, the best estimate first."""
    rough: list[tuple[float, int, _Sheet, Way, np.ndarray]] = []
    for nest in tile_nests(hardware, segment):
        sheet = _sheet(hardware, segment, bases, nest, _grid(segment, bases, nest.dims))
        for way in _ways(sheet):
            prices = _lower_prices(sheet, way, price)
            prices[prices >= limit] = inf
            if np.isfinite(prices).any():
                rough.append((float(prices.min()), len(rough), sheet, way, prices))
    best: list[tuple[float, int, Candidate]] = []
    for least, place, sheet, way, prices in sorted(rough, key=lambda item: item[:2]):
        bar = best[-1][0] if len(best) == KEPT else limit
        if least >= bar:
            break
        found = _closer(sheet, way, prices, price, bar)
        if found is not None:
            best = sorted([*best, (found[0], place, found[1])], key=lambda item: item[:2])[:KEPT]
    finer = sorted((_finer(hardware, one, bases, price) for _, _, one in best),
                   key=lambda one: (round(float(price(one.estimate)), 9), len(one.group.loops)))
    return distinct(finer)


def distinct(found: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each group."""
    return [one for place, one in enumerate(found) if all(one.group != other.group for other in found[:place])]


def _finer(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase], price: Price) -> Candidate:
    """The best of the tile sizes between those of the grid."""
    bounds, loops = candidate.segment.problems[-1].bounds, candidate.group.loops
    axes = [sorted({loop.tile, *(_rounded(loop.tile * part / FINER, bases[-1].lanes.get(loop.dim, 1))
                                 for part in range(FINER * 5 // 8, FINER * 3 // 2))}) for loop in loops]
    axes = [[size for size in axis if size < bounds[loop.dim]] for axis, loop in zip(axes, loops, strict=True)]
    return min((candidate, *_sized(hardware, candidate, bases, price, list(product(*axes)))),
               key=lambda one: float(price(one.estimate)))


def _rounded(size: float, lanes: int) -> int:
    """A whole number near a size that fills the lanes, if it is larger than these."""
    return max(round(size / lanes), 1) * lanes if size > lanes else max(round(size), 1)


def neighbours(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase], price: Price) -> list[Candidate]:
    """The same loops with a few steps more or less, sizes that divide nothing among them; the best estimate first."""
    now = [loop.tile for loop in candidate.group.loops]
    found = [one for place, loop in enumerate(candidate.group.loops)
             for size in sorted(_near(candidate.segment.problems[-1].bounds[loop.dim], loop.tile))
             for one in _sized(hardware, candidate, bases, price, [(*now[:place], size, *now[place + 1:])])]
    return sorted(found, key=lambda one: float(price(one.estimate)))


def narrower(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase], price: Price) -> list[Candidate]:
    """The same loops with half of one tile, for where tiles turn out not to fit."""
    now = [loop.tile for loop in candidate.group.loops]
    return [one for place, size in enumerate(now) if size > 1
            for one in _sized(hardware, candidate, bases, price, [(*now[:place], -(-size // 2), *now[place + 1:])])]


def _sized(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase], price: Price,
           sizes: Sequence[tuple[int, ...]]) -> list[Candidate]:
    """The same loops in the best of these sizes; none where nothing fits."""
    if not sizes or not sizes[0]:
        return []
    segment, group = candidate.segment, candidate.group
    nest = TileNest(group.links[0].stay.level, tuple(loop.dim for loop in group.loops),
                tuple(link.stay.across for link in group.links), group.spilled)
    return _best_of(_sheet(hardware, segment, bases, nest, list(np.array(sizes, dtype=np.float64).T)), price)


def _best_of(sheet: _Sheet, price: Price) -> list[Candidate]:
    """The best sizes and operands of a sheet; none where nothing fits."""
    best: list[Candidate] = []
    bar = inf
    for prices, way in sorted(((_lower_prices(sheet, way, price), way) for way in _ways(sheet)),
                              key=lambda one: float(one[0].min())):
        found = _closer(sheet, way, prices, price, bar) if prices.min() < bar else None
        if found is not None:
            bar, best = found[0], [found[1]]
    return best


def _near(bound: int, tile: int) -> set[int]:
    steps = -(-bound // tile)
    return {-(-bound // count) for count in (steps * 3 // 4, steps - 1, steps + 1, steps * 4 // 3)
            if 1 <= count <= bound} - {tile}


def ways_to_run(hardware: Hardware, segment: Segment, loops: tuple[TileLoop, ...], bases: Sequence[LayerBase],
                price: Price) -> list[Candidate]:
    """The ways to run a segment in given loops that could fit, each with the best that can stay on the chip."""
    sizes = [np.array([float(loop.tile)]) for loop in loops]
    sheets = [_sheet(hardware, segment, bases, nest, sizes)
              for nest in nests_of(hardware, segment, tuple(loop.dim for loop in loops))]
    return [one for sheet in sheets for one in _best_of(sheet, price)]


def ways_along(hardware: Hardware, segment: Segment, dims: tuple[str, ...], bases: Sequence[LayerBase],
               price: Price) -> list[Candidate]:
    """The ways to run a segment in loops over these dimensions that could fit, each with the best tile sizes."""
    if any(cuts_whole(segment, dim) or segment.problems[-1].bounds[dim] == 1 for dim in dims):
        return []
    sizes = _grid(segment, bases, dims)
    return [one for nest in nests_of(hardware, segment, dims)
            for one in _best_of(_sheet(hardware, segment, bases, nest, sizes), price)]


def _grid(segment: Segment, bases: Sequence[LayerBase], dims: tuple[str, ...]) -> list[np.ndarray]:
    """Every combination of tile sizes for some loops, one array for each."""
    last, most = segment.problems[-1], SIZES.get(len(dims), 1)
    axes = [_spread(_sizes(last.bounds[dim], bases[-1].lanes.get(dim, 1)), most) for dim in dims]
    grid = [axis.reshape(-1).astype(np.float64) for axis in np.meshgrid(*axes, indexing="ij")] if dims else []
    steps = prod((np.ceil(last.bounds[dim] / size) for dim, size in zip(dims, grid, strict=True)), start=1.0)
    return [axis[steps <= MOST_STEPS] for axis in grid]


def _sizes(bound: int, lanes: int) -> list[int]:
    """Tile sizes below a bound: its divisors, those of a few even steps, and numbers of many divisors that fill the
    lanes."""
    smooth = {lanes * factor << shift for factor in (1, 3, 5, 7) for shift in range(bound.bit_length())}
    even = {-(-bound // steps) for steps in range(2, 9)} if lanes == 1 else set()
    found = {*divisors(bound), *smooth, *even}
    return sorted(size for size in found if size < bound <= MOST_ALONG * size)


def _spread(sizes: list[int], most: int) -> list[int]:
    """Some of the sizes, evenly over the small and the large ones."""
    if len(sizes) <= most:
        return sizes
    return sorted({sizes[round(k * (len(sizes) - 1) / (most - 1))] for k in range(most)})


@dataclass(frozen=True)
class _Choice:
    """One way to treat an operand from outside: where it stays (None: it passes), its words there, words fetched."""

    stay: Stay | None
    words: np.ndarray
    reads: np.ndarray


@dataclass(frozen=True)
class _Layer:
    """What a layer of a nest takes whatever stays: operations, slowed down by idle lanes, and other energy and words.

    choices: operand -> the ways to treat it.
    """

    base: LayerBase
    cuts: list[Cut]
    computed: np.ndarray
    slowed: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    extra: np.ndarray
    choices: dict[str, list[_Choice]]


@dataclass(frozen=True)
class _Sheet:
    """A nest with a grid of tile sizes; rooms: for each layer the words left beside the intermediates."""

    nest: TileNest
    segment: Segment
    sizes: list[np.ndarray]
    rooms: list[np.ndarray]
    layers: list[_Layer]


Way = tuple[dict[str, _Choice], ...]
"""For every layer the choice for each operand."""


def _sheet(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], nest: TileNest,
           sizes: list[np.ndarray]) -> _Sheet:
    level = hardware.arch.levels[hardware.level(nest.home) or 0]
    cuts = layer_cuts(segment, nest.dims, sizes, nest.retained)
    batch = len(sizes[0]) if sizes else 1
    usable = np.full(batch, inf if level.usable is None else float(level.usable))
    links = list(zip(segment.problems, cuts, nest.retained, strict=False))
    whole = [held(problem.output, problem, own, retained, handed=True) for problem, own, retained in links]
    rest = [outlasting(problem.output, problem, own, retained) for problem, own, retained in links]
    rooms = [usable - sum(live_intermediates(whole, rest, index)) for index in range(len(segment.problems))]
    for index, link in enumerate(segment.links, 1):
        if link.pooled:
            rooms[index] = rooms[index] - _tile_words(segment.problems[index], link.tensor, cuts[index])
    if not nest.spilled and any(dim not in segment.problems[-1].output.dimensions for dim in nest.dims):
        last = segment.problems[-1]
        rooms[-1] = np.where(_tile_words(last, last.output.name, cuts[-1]) > bases[-1].sums_room, -inf, rooms[-1])
    return _Sheet(nest, segment, sizes, rooms, [_layer(segment, nest, index, cuts[index], base, batch)
                                               for index, base in enumerate(bases)])


def _tile_words(problem: Problem, name: str, cuts: list[Cut]) -> np.ndarray:
    return np.asarray(prod(space_of(problem, name).tile_extents(largest_tile(problem, cuts)), start=1.0))


def _layer(segment: Segment, nest: TileNest, index: int, cuts: list[Cut], base: LayerBase, batch: int) -> _Layer:
    problem, last = segment.problems[index], index == len(segment.links)
    every = np.ones(batch)
    made = float(problem.tensor_size(problem.output))
    rounds = prod((cut.steps for cut in cuts if last and nest.spilled and cut.dim not in problem.output.dimensions),
                  start=1.0)
    handed = last or segment.links[index].written_whole
    again = sum((np.maximum(fetched(space, problem, cuts, ()) - base.home_reads.get(nest.home, {}).get(space.name, 0.0),
                            0.0) for space in problem.dataspaces if not space.read_write), np.zeros(batch))
    linked = segment.links[index - 1].tensor if index else None
    passed_on = float(problem.tensor_size(space_of(problem, linked))) if linked and segment.links[
        index - 1].written_pooled else 0.0
    times = computed(problem, cuts) * every
    return _Layer(
        base, cuts, times, times / _busy_lanes(cuts, base) * every, made * (rounds - 1) * every,
        ((made * rounds if handed else 0.0) + passed_on) * every,
        (again + (0.0 if last else made) + passed_on) * base.prices.level_read.get(nest.home, 0.0),
        {space.name: _choices(space, segment, nest, index, cuts, every) for space in problem.dataspaces
         if not space.read_write and space.name != linked})


def _busy_lanes(cuts: list[Cut], base: LayerBase) -> Any:
    """The part of the lanes that a tile keeps busy."""
    return prod((_busy(cut.largest, base.lanes[cut.dim]) for cut in cuts
                 if cut.dim is not None and base.lanes.get(cut.dim, 1) > 1), start=1.0)


def _busy(extents: np.ndarray, lanes: int) -> np.ndarray:
    """The part of so many lanes in the largest divisor of an extent that they can take."""
    different, place = np.unique(extents, return_inverse=True)
    busy = [max(size for size in divisors(int(extent)) if size <= lanes) for extent in different]
    result: np.ndarray = np.array(busy)[place] / lanes
    return result


def _choices(space: DataSpace, segment: Segment, nest: TileNest, index: int, cuts: list[Cut],
             every: np.ndarray) -> list[_Choice]:
    """An operand from outside: fetched in every step, or kept along the innermost loops whose steps share words."""
    problem = segment.problems[index]
    found = [_Choice(None, 0.0 * every, fetched(space, problem, cuts, ()) * every)]
    sharing = [cut.loop for cut in cuts if cut.dim is None or cut.dim not in space.dimensions
               or len(moved_rank(space, cut.dim)[1]) > 1]
    for start in reversed(range(len(sharing))):
        across = frozenset(sharing[start:])
        reads = fetched(space, problem, cuts, across) * every
        if (reads < found[-1].reads * (1 - 1e-9)).any():
            found.append(_Choice(Stay(nest.home, across), held(space, problem, cuts, across) * every, reads))
    return found


def _ways(sheet: _Sheet) -> list[Way]:
    """Combinations of what stays; where there are too many, those that come about when one operand after the other is
    to stay: what saves most for its room first, or what is smallest first."""
    options = [choices for layer in sheet.layers for choices in layer.choices.values()]
    names = [list(layer.choices) for layer in sheet.layers]
    picks = (product(*(range(len(choices)) for choices in options))
             if prod(len(choices) for choices in options) <= MOST_WAYS else _one_by_one(options))
    ways = []
    for pick in picks:
        chosen = iter([choices[at] for choices, at in zip(options, pick, strict=True)])
        ways.append(tuple({name: next(chosen) for name in own} for own in names))
    return ways


def _one_by_one(options: Sequence[list[_Choice]]) -> Iterator[tuple[int, ...]]:
    """Which choice of each operand is taken, step by step, in both orders."""
    steps = [(place, at, float(choices[at].words.mean() - choices[at - 1].words.mean()),
              float(choices[at - 1].reads.mean() - choices[at].reads.mean()))
             for place, choices in enumerate(options) for at in range(1, len(choices))]
    yield (0,) * len(options)
    for order in (sorted(steps, key=lambda step: -step[3] / max(step[2], 1.0)),
                  sorted(steps, key=lambda step: step[2])):
        taken = [0] * len(options)
        for place, at, _, _ in order:
            taken[place] = max(taken[place], at)
            yield tuple(taken)


def _left(sheet: _Sheet, way: Way) -> list[np.ndarray]:
    """For each layer the words left for what comes and goes."""
    staying = sum((choice.words for part in way for choice in part.values()), np.zeros(()))
    return [room - staying for room in sheet.rooms]


def _total(sheet: _Sheet, way: Way, times: Sequence[dict[str, np.ndarray]] = (), rows: Any = slice(None)) -> Point:
    """Energy and cycles of the group; `times`: how often what passes is brought in per step, once without."""
    energy: Any = 0.0
    cycles: Any = 0.0
    for index, (layer, part) in enumerate(zip(sheet.layers, way, strict=True)):
        reads = layer.reads[rows] + sum(choice.reads[rows] * (times[index].get(name, 1.0) if times else 1.0)
                                        for name, choice in part.items())
        one = estimated(layer.base, layer.computed[rows], reads, layer.writes[rows], layer.extra[rows],
                        layer.slowed[rows])
        energy, cycles = energy + one.energy_pj, cycles + one.cycles
    return Point(sheet.segment.repeat * energy, sheet.segment.repeat * cycles)


def _lower_prices(sheet: _Sheet, way: Way, price: Price) -> np.ndarray:
    """A lower price for every choice of tile sizes; infinite where what stays does not fit."""
    return np.where(np.min(_left(sheet, way), axis=0) > 0, price(_total(sheet, way)), inf)


def _closer(sheet: _Sheet, way: Way, prices: np.ndarray, price: Price,
            bar: float) -> tuple[float, Candidate] | None:
    """The best tile sizes with what passes brought in as often as it must be, if below the bar."""
    segment = sheet.segment
    rows = np.argsort(prices, kind="stable")[:CLOSER]
    rows = rows[prices[rows] < bar]
    if not len(rows):
        return None
    times, fits = [], np.ones(len(rows), dtype=bool)
    for problem, layer, part, left in zip(segment.problems, sheet.layers, way, _left(sheet, way), strict=True):
        tile = {dim: extent[rows] if isinstance(extent, np.ndarray) else extent
                for dim, extent in largest_tile(problem, layer.cuts).items()}
        passing = [name for name, choice in part.items() if choice.stay is None]
        again = refetched(problem, tile, passing, part.keys() - set(passing), left[rows], layer.base.sums_room,
                          layer.base.lanes)
        times.append(again.times)
        fits &= again.fits
    point = _total(sheet, way, times, rows)
    exact = np.where(fits, price(point), inf)
    best = int(exact.argmin())
    if not exact[best] < bar:
        return None
    sizes = [int(size[rows[best]]) for size in sheet.sizes]
    return float(exact[best]), Candidate(segment, _group(segment, sheet.nest, way, sizes), Point(
        float(np.asarray(point.energy_pj)[best]), float(np.asarray(point.cycles)[best])))


def _group(segment: Segment, nest: TileNest, way: Way, sizes: Sequence[int]) -> FusedGroup:
    layers = tuple(FusedLayer(problem, {}, {name: choice.stay for name, choice in part.items() if choice.stay})
                   for problem, part in zip(segment.problems, way, strict=True))
    links = tuple(replace(link, stay=Stay(nest.home, retained))
                  for link, retained in zip(segment.links, nest.retained, strict=True))
    return FusedGroup(layers, links, tuple(TileLoop(dim, size) for dim, size in zip(nest.dims, sizes, strict=True)),
                      segment.repeat, spilled=nest.spilled)
