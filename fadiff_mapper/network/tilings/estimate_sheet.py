"""Estimates of one nest of shared loops: many tile sizes and all residency choices, side by side.

Problem. For one order of loops, tile sizes and resident operands trade the room in the home level against traffic to
the outermost one; thousands of combinations have to be ranked.

Method. The closed forms of `loop_cuts` and `refetch` give words moved and room taken from how the layers run by
themselves (`layer_estimate`); `residency` lists the operands that may stay. Pricing has two stages: `lower_prices`
brings every passing operand in once per step, for all residency choices and tile sizes in one array;
`best_tile_sizes` adds the refetches of tiles that do not fit, for the most promising sizes of one choice.

Arrays are [B], one entry per choice of tile sizes; N residency choices lie side by side as [N, B].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.groups.stored_words import live_intermediates
from fadiff_mapper.fusion.groups.tile_steps import space_of
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import OperatingPoint
from fadiff_mapper.network.tilings.layer_estimate import LayerBase, estimated
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
from fadiff_mapper.network.tilings.residency import OperandResidency, ResidencyChoice, residencies_of
from fadiff_mapper.network.tilings.tile_nests import TileNest
from fadiff_mapper.spec.problem import Problem

CLOSER = 64
"""Tile sizes of one nest and one residency choice that are priced with refetches. A limit of time, not measured."""

Price = Callable[[OperatingPoint], Any]
"""The share of a part in the network's metric; of an `OperatingPoint` of arrays an array."""


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet.

    Attributes:
        segment: Its layers and links.
        group: The group, without mappings.
        estimate: Estimated energy and cycles, all repeats together.
    """

    segment: Segment
    group: FusedGroup
    estimate: OperatingPoint


@dataclass(frozen=True)
class _LayerSheet:
    """A layer of a nest, apart from its residency.

    Attributes:
        base: The layer by itself.
        cuts: Its cuts by the shared loops.
        computed: How often it does its operations, [B].
        slowed: The same in cycles, with lanes that are idle, [B].
        reads: Words read from the outermost level whatever stays, [B].
        writes: Words written to it, [B].
        extra: pJ of more accesses to the home than by itself, [B].
        choices: Residencies of each operand that comes from outside, passing first, then kept along more and
            more of the innermost loops.
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
    """A nest with a grid of tile sizes.

    Attributes:
        nest: The shared loops.
        segment: The layers.
        sizes: Tile sizes of each loop, [B] each.
        rooms: For each layer, words of the home beside the live intermediates, [B] each.
        sums: For each layer, outputs that can be summed up at once, [B] each.
        layers: For each layer, operations and traffic.
    """

    nest: TileNest
    segment: Segment
    sizes: list[np.ndarray]
    rooms: list[np.ndarray]
    sums: list[np.ndarray]
    layers: list[_LayerSheet]


def sheet_of(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], nest: TileNest,
             sizes: list[np.ndarray]) -> Sheet:
    """Lays out the estimates of a segment in one nest.

    Args:
        hardware: The design.
        segment: The segment.
        bases: Each layer by itself, as estimates need it.
        nest: The shared loops.
        sizes: Tile sizes of each loop, [B] each.
    """
    level = hardware.arch.levels[hardware.level(nest.home)]
    cuts = layer_cuts(segment, nest.dims, sizes, nest.retained)
    batch = len(sizes[0]) if sizes else 1
    usable = np.full(batch, inf if level.usable is None else float(level.usable))
    links = list(zip(segment.problems, cuts, nest.retained, segment.links, strict=False))
    whole = [held(problem.output, problem, own, retained, link) for problem, own, retained, link in links]
    rest = [outlasting(problem.output, problem, own, retained, link) for problem, own, retained, link in links]
    rooms = [usable - sum(live_intermediates(whole, rest, index)) for index in range(len(segment.problems))]
    for index, link in enumerate(segment.links, 1):
        if link.beside:    # the consumer's tile lies beside the intermediate that it is pooled from, or scaled with
            rooms[index] = rooms[index] - _tile_words(segment.problems[index], link.tensor, cuts[index])
    sums = [np.full(batch, base.sums_room) for base in bases]
    if not nest.spilled and any(dim not in segment.problems[-1].output.dimensions for dim in nest.dims):
        # Sums of the last layer that go on stay there while the other layers run, and must fit at once.
        going_on = _tile_words(segment.problems[-1], segment.problems[-1].output.name, cuts[-1])
        rooms[-1] = np.where(going_on > bases[-1].sums_room, -inf, rooms[-1])
        sums[:-1] = [room - going_on for room in sums[:-1]]
    return Sheet(nest, segment, sizes, rooms, sums, [_layer_sheet(segment, nest, index, cuts[index], base, batch)
                                                     for index, base in enumerate(bases)])


def _tile_words(problem: Problem, name: str, cuts: list[LoopCut]) -> np.ndarray:
    """Words of a data space in a layer's largest tile, [B]."""
    return np.asarray(prod(space_of(problem, name).tile_extents(largest_tile(problem, cuts)), start=1.0))


def _layer_sheet(segment: Segment, nest: TileNest, index: int, cuts: list[LoopCut], base: LayerBase,
                 batch: int) -> _LayerSheet:
    """A layer of a nest: its work and traffic, apart from the operands that come from outside."""
    problem, last = segment.problems[index], index == len(segment.links)
    every = np.ones(batch)
    made = float(problem.tensor_size(problem.output))
    # Spilled sums are written once per step along the loops that add to them, and read again but the first time.
    rounds = prod((cut.steps for cut in cuts if last and nest.spilled and cut.dim not in problem.output.dimensions),
                  start=1.0)
    handed = last or segment.links[index].written_whole
    again = sum((np.maximum(fetched(space, problem, cuts, ()) - base.home_reads.get(nest.home, {}).get(space.name, 0.0),
                            0.0) for space in problem.dataspaces if not space.read_write), np.zeros(batch))
    linked = segment.links[index - 1].tensor if index else None
    passed_on = float(problem.tensor_size(space_of(problem, linked))) if linked and segment.links[
        index - 1].written_pooled else 0.0
    joined = float(segment.links[index - 1].elsewhere) * fetched(
        space_of(problem, linked), problem, cuts,
        () if segment.links[index - 1].beside else nest.retained[index - 1]) if linked else 0.0
    times = computed(problem, cuts) * every
    return _LayerSheet(
        base, cuts, times, times / _busy_lanes(cuts, base) * every, (made * (rounds - 1) + joined) * every,
        ((made * rounds if handed else 0.0) + passed_on) * every,
        (again + (0.0 if last else made) + passed_on) * base.prices.level_read.get(nest.home, 0.0),
        {space.name: residencies_of(space, problem, nest.home, cuts, every) for space in problem.dataspaces
         if not space.read_write and space.name != linked})


def _busy_lanes(cuts: list[LoopCut], base: LayerBase) -> Any:
    """The part of the lanes that a tile keeps busy, a number or [B]."""
    return prod((_busy(cut.usual, base.lanes[cut.dim]) for cut in cuts
                 if cut.dim is not None and base.lanes.get(cut.dim, 1) > 1), start=1.0)


def _busy(extents: np.ndarray, lanes: int) -> np.ndarray:
    """The part of so many lanes in the largest divisor of an extent that they can take, [B]."""
    different, inverse = np.unique(extents, return_inverse=True)
    busy = [max(size for size in divisors(int(extent)) if size <= lanes) for extent in different]
    result: np.ndarray = np.array(busy)[inverse] / lanes
    return result


def lower_prices(sheet: Sheet, choices: Sequence[ResidencyChoice], price: Price) -> np.ndarray:
    """Prices every residency choice and tile size with passing operands brought in once per step: a lower price.

    Args:
        sheet: The nest with its tile sizes.
        choices: Residency choices, N of them.
        price: Price of an operating point in the network's metric.

    Returns:
        Prices, [N, B]; infinite where the resident operands do not fit.
    """
    reads = [sum((np.stack([choice[index][name].reads for choice in choices]) for name in layer.choices), layer.reads)
             for index, layer in enumerate(sheet.layers)]
    staying = np.stack([_staying_words(choice) for choice in choices])
    return np.where(np.min(sheet.rooms, axis=0) - staying > 0, price(_total(sheet, reads)), inf)


def _staying_words(choice: ResidencyChoice) -> np.ndarray:
    """Words of the operands that stay, of all layers together: they lie there all the time, [B]."""
    return sum((residency.words for own in choice for residency in own.values()), np.zeros(()))


def _total(sheet: Sheet, reads: Sequence[np.ndarray], rows: Any = slice(None)) -> OperatingPoint:
    """Energy and cycles of the group in some tile sizes, `rows`; `reads`: words that every layer fetches."""
    points = [estimated(layer.base, layer.computed[rows], own, layer.writes[rows], layer.extra[rows],
                        layer.slowed[rows]) for layer, own in zip(sheet.layers, reads, strict=True)]
    return OperatingPoint(sheet.segment.repeat * sum(point.energy_pj for point in points),
                          sheet.segment.repeat * sum(point.cycles for point in points))


def best_tile_sizes(sheet: Sheet, choice: ResidencyChoice, prices: np.ndarray, price: Price,
                    bar: float) -> tuple[float, Candidate] | None:
    """Finds the best tile sizes of one residency choice, with passing operands brought in as often as they must be.

    Args:
        sheet: The nest with its tile sizes.
        choice: The residency of each operand.
        prices: Lower prices of this choice, [B].
        price: Price of an operating point in the network's metric.
        bar: Price to beat.

    Returns:
        Price and candidate, or None where none is below the bar.
    """
    segment, staying = sheet.segment, _staying_words(choice)
    rows = np.argsort(prices, kind="stable")[:CLOSER]
    rows = rows[prices[rows] < bar]
    if not len(rows):
        return None
    reads, fits = [], np.ones(len(rows), dtype=bool)
    for problem, layer, own, room, sums in zip(segment.problems, sheet.layers, choice, sheet.rooms, sheet.sums,
                                               strict=True):
        tile = {dim: extent[rows] if isinstance(extent, np.ndarray) else extent
                for dim, extent in largest_tile(problem, layer.cuts).items()}
        passing = [name for name, residency in own.items() if residency.stay is None]
        again = refetched(problem, tile, passing, own.keys() - set(passing), (room - staying)[rows], sums[rows],
                          layer.base.lanes)
        reads.append(sum((residency.reads[rows] * again.times.get(name, 1.0) for name, residency in own.items()),
                         layer.reads[rows]))
        fits &= again.fits
    point = _total(sheet, reads, rows)
    exact = np.where(fits, price(point), inf)
    best = int(exact.argmin())
    if not exact[best] < bar:
        return None
    sizes = [int(size[rows[best]]) for size in sheet.sizes]
    return float(exact[best]), Candidate(segment, _group(segment, sheet.nest, choice, sizes), OperatingPoint(
        float(np.asarray(point.energy_pj)[best]), float(np.asarray(point.cycles)[best])))


def _group(segment: Segment, nest: TileNest, choice: ResidencyChoice, sizes: Sequence[int]) -> FusedGroup:
    """The group of a nest in given tile sizes, without mappings."""
    layers = tuple(FusedLayer(problem, {}, {name: residency.stay for name, residency in own.items() if residency.stay})
                   for problem, own in zip(segment.problems, choice, strict=True))
    links = tuple(replace(link, stay=Stay(nest.home, retained))
                  for link, retained in zip(segment.links, nest.retained, strict=True))
    return FusedGroup(layers, links, tuple(TileLoop(dim, size) for dim, size in zip(nest.dims, sizes, strict=True)),
                      segment.repeat, spilled=nest.spilled)
