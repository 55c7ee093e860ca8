"""One nest of loops over tiles with many tile sizes, all of them estimated side by side.

What a group of these sizes would cost, and what room it takes, follows in closed form (`cuts`, `refetch`) from how its
layers run by themselves (`estimate`). Arrays are [B], one entry per choice of tile sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.groups.tile_steps import live_intermediates, moved_rank, space_of
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import OperatingPoint
from fadiff_mapper.network.tilings.estimate import LayerBase, estimated
from fadiff_mapper.network.tilings.loop_cuts import (
    LoopCut,
    computed,
    fetched,
    held,
    largest_tile,
    layer_cuts,
    outlasting,
)
from fadiff_mapper.network.tilings.refetch import refetched
from fadiff_mapper.network.tilings.tile_nests import TileNest
from fadiff_mapper.spec.problem import DataSpace, Problem

MOST_WAYS = 48
"""Combinations of operands that stay, of one nest, that are looked at."""

CLOSER = 64
"""Tile sizes of one nest and one combination that are looked at closer."""

Price = Callable[[OperatingPoint], Any]
"""The share of a part in the network's metric; of a `OperatingPoint` of arrays an array."""


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet, and its estimate, all repeats together."""

    segment: Segment
    group: FusedGroup
    estimate: OperatingPoint


@dataclass(frozen=True)
class OperandResidency:
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
    cuts: list[LoopCut]
    computed: np.ndarray
    slowed: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    extra: np.ndarray
    choices: dict[str, list[OperandResidency]]


@dataclass(frozen=True)
class Sheet:
    """A nest with a grid of tile sizes. For each layer: rooms, the words left beside the intermediates, and sums, the
    outputs that can be summed up at once."""

    nest: TileNest
    segment: Segment
    sizes: list[np.ndarray]
    rooms: list[np.ndarray]
    sums: list[np.ndarray]
    layers: list[_Layer]


Way = tuple[dict[str, OperandResidency], ...]
"""For every layer the choice for each operand."""


def sheet_of(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], nest: TileNest,
             sizes: list[np.ndarray]) -> Sheet:
    """The estimates of a segment in one nest; `sizes`: for each of its loops the tile sizes, [B] each."""
    level = hardware.arch.levels[hardware.level(nest.home)]
    cuts = layer_cuts(segment, nest.dims, sizes, nest.retained)
    batch = len(sizes[0]) if sizes else 1
    usable = np.full(batch, inf if level.usable is None else float(level.usable))
    links = list(zip(segment.problems, cuts, nest.retained, segment.links, strict=False))
    whole = [held(problem.output, problem, own, retained, link) for problem, own, retained, link in links]
    rest = [outlasting(problem.output, problem, own, retained, link) for problem, own, retained, link in links]
    rooms = [usable - sum(live_intermediates(whole, rest, index)) for index in range(len(segment.problems))]
    for index, link in enumerate(segment.links, 1):
        if link.beside:
            rooms[index] = rooms[index] - _tile_words(segment.problems[index], link.tensor, cuts[index])
    sums = [np.full(batch, base.sums_room) for base in bases]
    if not nest.spilled and any(dim not in segment.problems[-1].output.dimensions for dim in nest.dims):
        going_on = _tile_words(segment.problems[-1], segment.problems[-1].output.name, cuts[-1])
        rooms[-1] = np.where(going_on > bases[-1].sums_room, -inf, rooms[-1])
        sums[:-1] = [room - going_on for room in sums[:-1]]
    return Sheet(nest, segment, sizes, rooms, sums, [_layer(segment, nest, index, cuts[index], base, batch)
                                                     for index, base in enumerate(bases)])


def _tile_words(problem: Problem, name: str, cuts: list[LoopCut]) -> np.ndarray:
    return np.asarray(prod(space_of(problem, name).tile_extents(largest_tile(problem, cuts)), start=1.0))


def _layer(segment: Segment, nest: TileNest, index: int, cuts: list[LoopCut], base: LayerBase, batch: int) -> _Layer:
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


def _busy_lanes(cuts: list[LoopCut], base: LayerBase) -> Any:
    """The part of the lanes that a tile keeps busy."""
    return prod((_busy(cut.usual, base.lanes[cut.dim]) for cut in cuts
                 if cut.dim is not None and base.lanes.get(cut.dim, 1) > 1), start=1.0)


def _busy(extents: np.ndarray, lanes: int) -> np.ndarray:
    """The part of so many lanes in the largest divisor of an extent that they can take."""
    different, place = np.unique(extents, return_inverse=True)
    busy = [max(size for size in divisors(int(extent)) if size <= lanes) for extent in different]
    result: np.ndarray = np.array(busy)[place] / lanes
    return result


def _choices(space: DataSpace, segment: Segment, nest: TileNest, index: int, cuts: list[LoopCut],
             every: np.ndarray) -> list[OperandResidency]:
    """An operand from outside: fetched in every step, or kept along the innermost loops whose steps share words."""
    problem = segment.problems[index]
    found = [OperandResidency(None, 0.0 * every, fetched(space, problem, cuts, ()) * every)]
    sharing = [cut.loop for cut in cuts if cut.dim is None or cut.dim not in space.dimensions
               or len(moved_rank(space, cut.dim)[1]) > 1]
    for start in reversed(range(len(sharing))):
        across = frozenset(sharing[start:])
        reads = fetched(space, problem, cuts, across) * every
        if (reads < found[-1].reads * (1 - 1e-9)).any():
            found.append(OperandResidency(Stay(nest.home, across), held(space, problem, cuts, across) * every, reads))
    return found


def ways_of(sheet: Sheet) -> list[Way]:
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


def _one_by_one(options: Sequence[list[OperandResidency]]) -> Iterator[tuple[int, ...]]:
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


def lower_prices(sheet: Sheet, ways: Sequence[Way], price: Price) -> np.ndarray:
    """A lower price for each of the ways and every choice of tile sizes, [W, B]; infinite where what stays does not
    fit."""
    reads = [sum((np.stack([way[index][name].reads for way in ways]) for name in layer.choices), layer.reads)
             for index, layer in enumerate(sheet.layers)]
    staying = np.stack([_staying(way) for way in ways])
    return np.where(np.min(sheet.rooms, axis=0) - staying > 0, price(_total(sheet, reads)), inf)


def _staying(way: Way) -> np.ndarray:
    """Words of the operands that stay."""
    return sum((choice.words for part in way for choice in part.values()), np.zeros(()))


def _total(sheet: Sheet, reads: Sequence[np.ndarray], rows: Any = slice(None)) -> OperatingPoint:
    """Energy and cycles of the group, some choices of tile sizes; reads: words that every layer fetches."""
    points = [estimated(layer.base, layer.computed[rows], own, layer.writes[rows], layer.extra[rows],
                        layer.slowed[rows]) for layer, own in zip(sheet.layers, reads, strict=True)]
    return OperatingPoint(sheet.segment.repeat * sum(point.energy_pj for point in points),
                          sheet.segment.repeat * sum(point.cycles for point in points))


def closer(sheet: Sheet, way: Way, prices: np.ndarray, price: Price,
           bar: float) -> tuple[float, Candidate] | None:
    """The best tile sizes with what passes brought in as often as it must be, if below the bar; prices: the lower ones
    of this way."""
    segment, staying = sheet.segment, _staying(way)
    rows = np.argsort(prices, kind="stable")[:CLOSER]
    rows = rows[prices[rows] < bar]
    if not len(rows):
        return None
    reads, fits = [], np.ones(len(rows), dtype=bool)
    for problem, layer, part, room, sums in zip(segment.problems, sheet.layers, way, sheet.rooms, sheet.sums,
                                                strict=True):
        tile = {dim: extent[rows] if isinstance(extent, np.ndarray) else extent
                for dim, extent in largest_tile(problem, layer.cuts).items()}
        passing = [name for name, choice in part.items() if choice.stay is None]
        again = refetched(problem, tile, passing, part.keys() - set(passing), (room - staying)[rows], sums[rows],
                          layer.base.lanes)
        reads.append(sum((choice.reads[rows] * again.times.get(name, 1.0) for name, choice in part.items()),
                         layer.reads[rows]))
        fits &= again.fits
    point = _total(sheet, reads, rows)
    exact = np.where(fits, price(point), inf)
    best = int(exact.argmin())
    if not exact[best] < bar:
        return None
    sizes = [int(size[rows[best]]) for size in sheet.sizes]
    return float(exact[best]), Candidate(segment, _group(segment, sheet.nest, way, sizes), OperatingPoint(
        float(np.asarray(point.energy_pj)[best]), float(np.asarray(point.cycles)[best])))


def _group(segment: Segment, nest: TileNest, way: Way, sizes: Sequence[int]) -> FusedGroup:
    layers = tuple(FusedLayer(problem, {}, {name: choice.stay for name, choice in part.items() if choice.stay})
                   for problem, part in zip(segment.problems, way, strict=True))
    links = tuple(replace(link, stay=Stay(nest.home, retained))
                  for link, retained in zip(segment.links, nest.retained, strict=True))
    return FusedGroup(layers, links, tuple(TileLoop(dim, size) for dim, size in zip(nest.dims, sizes, strict=True)),
                      segment.repeat, spilled=nest.spilled)
