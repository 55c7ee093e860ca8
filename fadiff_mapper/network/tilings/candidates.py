"""Ways to run a segment as a fused group: tile sizes for its loops (`tile_nests`), and what stays on the chip.

Every order of loops is estimated for a whole grid of tile sizes at once. The estimate with every operand brought in
once per step is a lower one; orders whose lower estimate cannot compete are not looked at closer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from math import inf, prod

import numpy as np

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.tilings.estimate import LayerBase
from fadiff_mapper.network.tilings.estimate_sheet import (
    Candidate,
    Price,
    Sheet,
    Way,
    closer,
    lower_prices,
    sheet_of,
    ways_of,
)
from fadiff_mapper.network.tilings.tile_nests import TileNest, cuts_whole, nests_of, tile_nests

SIZES = {1: 40, 2: 20, 3: 10}
"""Tile sizes that are tried of each loop of a nest, by the number of its loops."""

MOST_STEPS, MOST_ALONG = 2 ** 17, 2 ** 11
"""Steps of a group, and of one of its loops."""

KEPT = 8
"""Candidates of a segment, each with another nest or other operands that stay."""

FINER = 16
"""Steps in which a tile size of the grid is varied, as parts of it."""


def candidates(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], price: Price,
               limit: float) -> list[Candidate]:
    """The most promising ways to run a segment below a price, the best estimate first."""
    rough: list[tuple[float, int, Sheet, Way, np.ndarray]] = []
    for nest in tile_nests(hardware, segment):
        sheet = sheet_of(hardware, segment, bases, nest, _grid(segment, bases, nest.dims))
        ways = ways_of(sheet)
        prices = lower_prices(sheet, ways, price)
        rough += [(least, place, sheet, ways[row], prices[row])
                  for place, (row, least) in enumerate(enumerate(prices.min(axis=1, initial=inf)), len(rough))
                  if least < limit]
    best: list[tuple[float, int, Candidate]] = []
    for least, place, sheet, way, prices in sorted(rough, key=lambda item: item[:2]):
        bar = best[-1][0] if len(best) == KEPT else limit
        if least >= bar:
            break
        found = closer(sheet, way, prices, price, bar)
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
    return _best_of(sheet_of(hardware, segment, bases, nest, list(np.array(sizes, dtype=np.float64).T)), price)


def _best_of(sheet: Sheet, price: Price) -> list[Candidate]:
    """The best sizes and operands of a sheet; none where nothing fits."""
    best: list[Candidate] = []
    bar = inf
    ways = ways_of(sheet)
    lower = lower_prices(sheet, ways, price)
    for row in lower.min(axis=1, initial=inf).argsort(kind="stable"):
        found = closer(sheet, ways[row], lower[row], price, bar) if lower[row].min() < bar else None
        if found is not None:
            bar, best = found[0], [found[1]]
    return best


def _near(bound: int, tile: int) -> set[int]:
    steps = -(-bound // tile)
    return {-(-bound // count) for count in (steps * 3 // 4, steps - 1, steps + 1, steps * 4 // 3)
            if 1 <= count <= bound} - {tile}


def ways_along(hardware: Hardware, segment: Segment, dims: tuple[str, ...], bases: Sequence[LayerBase],
               price: Price, tiles: Collection[tuple[int, ...]] = ()) -> list[Candidate]:
    """The ways to run a segment in loops over these dimensions that could fit, each with the best tile sizes, these
    ones among them."""
    if any(cuts_whole(segment, dim) or segment.problems[-1].bounds[dim] == 1 for dim in dims):
        return []
    sizes = _grid(segment, bases, dims, tiles)
    return [one for nest in nests_of(hardware, segment, dims)
            for one in _best_of(sheet_of(hardware, segment, bases, nest, sizes), price)]


def _grid(segment: Segment, bases: Sequence[LayerBase], dims: tuple[str, ...],
          tiles: Collection[tuple[int, ...]] = ()) -> list[np.ndarray]:
    """Every combination of tile sizes for some loops, and these ones, one array for each loop."""
    last, most = segment.problems[-1], SIZES.get(len(dims), 1)
    axes = [_spread(_sizes(last.bounds[dim], bases[-1].lanes.get(dim, 1)), most) for dim in dims]
    grid = [axis.reshape(-1).astype(np.float64) for axis in np.meshgrid(*axes, indexing="ij")] if dims else []
    if tiles and dims:
        grid = [np.concatenate(pair) for pair in zip(grid, np.array(sorted(tiles), dtype=np.float64).T, strict=True)]
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
