"""Candidates for a fused group: shared loops over a segment's tiles, their sizes, and the operands that stay.

Problem. A segment can be tiled by every order of a few loops in any sizes, with every combination of resident
operands and of retained or recomputed halos (the design spaces of DeFiNES and LoopTree): far more than can be mapped
exactly.

Method. Each nest of loops (`tile_nests`) is estimated on a grid of tile sizes at once (`estimate_sheet`), in two steps
of rising accuracy: first with every passing operand brought in once per step, a lower estimate; then, nest by nest in
the order of these and only as long as one can still compete, with refetches where tiles do not fit. Around
the best sizes a finer grid follows. Only candidates that survive are mapped and evaluated exactly (`network.plan`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import product
from math import inf

import numpy as np

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import NetworkPrice
from fadiff_mapper.network.tilings.compiled_segment import CompiledSegment, Translated, compiled_segment
from fadiff_mapper.network.tilings.estimate_sheet import Candidate, Sheet, SizedNest, sheet_of
from fadiff_mapper.network.tilings.layer_estimate import LayerBase
from fadiff_mapper.network.tilings.tile_nests import TileNest, cuts_whole, nests_of, tile_nests

SIZES = {1: 40, 2: 20, 3: 10}
"""Tile sizes that are tried of each loop of a nest, by the number of its loops; `_finer` tries more around the best.

With 6 instead of 10 for three loops MobileNetV2 saves 33.6 % of its EDP on `gemmini_small` instead of 36.0 (seed 1:
35.1 and 36.1) and 55.1 instead of 55.3 on `eyeriss_like`; on `simba_like` and `gemmini_large`, and for YOLOv8n and
EfficientNet-B0, the same, and planning takes 5 to 15 % less time (23 November 2026). 14 give 35.8 % on `gemmini_small`.
14 instead of 20 for two loops made one segment of 182 1.2 % dearer and saved nothing (22 November 2026).
"""

MOST_STEPS, MOST_ALONG = 2 ** 17, 2 ** 11
"""Steps of a group, and of one of its loops, at most: a limit of time for the exact evaluation, not measured."""

KEPT = 16
"""Candidates of a segment, each with another nest or other resident operands.

At most `planning_board.TRIED` are evaluated exactly. MobileNetV2 saves 36.9 % of its EDP on `gemmini_small` with
16 and with 32, 36.0 % with 8, and on `eyeriss_like` 56.4 instead of 55.3 % where 8 are evaluated at most, too; of 20
other pairs of network and design none saves less or takes noticeably longer (23 November 2026).
"""

REMEMBERED = 1 << 10
"""Grids of tile sizes that are remembered, some hundred of a network; 16 KB each at most. Not measured."""

FINER = 16
"""Parts into which `_finer` divides a tile size, to try ten to twenty-three of them. Set by hand, not measured."""


def candidates(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], price: NetworkPrice,
               limit: float, known: Translated | None = None) -> list[Candidate]:
    """Finds the most promising candidates of a segment below a price.

    Args:
        hardware: The design.
        segment: The segment.
        bases: Each layer by itself, as estimates need it.
        price: The price of parts of the network.
        limit: Price of the segment's layers one by one; candidates must be cheaper.
        known: As for `compiled_segment`.

    Returns:
        At most `KEPT` different candidates, the best estimate first, then fewer loops.
    """
    compiled = compiled_segment(hardware, segment, bases, known)
    rough: list[tuple[float, int, Sheet, int]] = []
    for nest in tile_nests(hardware, segment):
        sheet = sheet_of(compiled, nest, _grid(segment, bases, nest.dims))
        rough += [(least, number, sheet, choice)
                  for number, (choice, least) in enumerate(enumerate(sheet.lower_prices(price)), len(rough))
                  if least < limit]
    best: list[tuple[float, int, SizedNest]] = []
    for least, number, sheet, choice in sorted(rough, key=lambda item: item[:2]):
        bar = best[-1][0] if len(best) == KEPT else limit
        if least >= bar:    # lower prices only rise from here on: nothing that follows can compete
            break
        sized = sheet.best_tile_sizes(choice, price, bar)
        if sized is not None:
            best = sorted([*best, (sized.price, number, sized)], key=lambda item: item[:2])[:KEPT]
    finer = sorted((_finer(compiled, sized, price) for _, _, sized in best),
                   key=lambda sized: (round(price(sized.estimate), 9), len(sized.sheet.nest.dims)))
    return distinct([sized.candidate() for sized in finer])


def distinct(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each group, in the given order."""
    return [candidate for index, candidate in enumerate(ranked)
            if all(candidate.group != other.group for other in ranked[:index])]


def _finer(compiled: CompiledSegment, sized: SizedNest, price: NetworkPrice) -> SizedNest:
    """The best of the tile sizes between those of the grid."""
    bounds, nest, bases = compiled.segment.problems[-1].bounds, sized.sheet.nest, compiled.bases
    loops = list(zip(nest.dims, sized.tiles, strict=True))
    axes = [sorted({tile, *(_rounded(tile * part / FINER, bases[-1].lanes.get(dim, 1))
                            for part in range(FINER * 5 // 8, FINER * 3 // 2))}) for dim, tile in loops]
    axes = [[size for size in axis if size < bounds[dim]] for axis, dim in zip(axes, nest.dims, strict=True)]
    finer = _in_sizes(compiled, nest, price, list(product(*axes)))
    return min((sized, *finer), key=lambda sized: price(sized.estimate))


def _rounded(size: float, lanes: int) -> int:
    """A whole number near a size, a multiple of the lanes if larger than these."""
    return max(round(size / lanes), 1) * lanes if size > lanes else max(round(size), 1)


def neighbours(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase],
               price: NetworkPrice) -> list[Candidate]:
    """Finds candidates with the same loops in a few steps more or less.

    Args:
        hardware: The design.
        candidate: The candidate.
        bases: Each of its layers by itself, as estimates need it.
        price: The price of parts of the network.

    Returns:
        Candidates that differ in one tile size, sizes that divide nothing among them, the best estimate first.
    """
    compiled = compiled_segment(hardware, candidate.segment, bases)
    now = [loop.tile for loop in candidate.group.loops]
    near = [neighbour for position, loop in enumerate(candidate.group.loops)
            for size in sorted(_near(candidate.segment.problems[-1].bounds[loop.dim], loop.tile,
                                     bases[-1].lanes.get(loop.dim, 1)))
            for neighbour in _sized(compiled, candidate, price, [(*now[:position], size, *now[position + 1:])])]
    return sorted(near, key=lambda neighbour: price(neighbour.estimate))


def narrower(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase],
             price: NetworkPrice) -> list[Candidate]:
    """Finds candidates with the same loops and half of one tile, for where tiles turn out not to fit.

    Args:
        hardware: The design.
        candidate: The candidate.
        bases: Each of its layers by itself, as estimates need it.
        price: The price of parts of the network.
    """
    compiled = compiled_segment(hardware, candidate.segment, bases)
    now = [loop.tile for loop in candidate.group.loops]
    return [half for position, size in enumerate(now) if size > 1 for half in _sized(
        compiled, candidate, price, [(*now[:position], -(-size // 2), *now[position + 1:])])]


def _sized(compiled: CompiledSegment, candidate: Candidate, price: NetworkPrice,
           sizes: Sequence[tuple[int, ...]]) -> list[Candidate]:
    """The same loops in the best of these sizes; none where nothing fits."""
    group = candidate.group
    nest = TileNest(group.links[0].stay.level, tuple(loop.dim for loop in group.loops),
                    tuple(link.stay.across for link in group.links), group.spilled)
    return [sized.candidate() for sized in _in_sizes(compiled, nest, price, sizes)]


def _in_sizes(compiled: CompiledSegment, nest: TileNest, price: NetworkPrice,
              sizes: Sequence[tuple[int, ...]]) -> list[SizedNest]:
    """A nest in the best of these sizes, as a list of one; empty where nothing fits."""
    if not sizes or not sizes[0]:
        return []
    return _best_of(sheet_of(compiled, nest, np.array(sizes, dtype=np.float64).T.copy()), price)


def _best_of(sheet: Sheet, price: NetworkPrice) -> list[SizedNest]:
    """The best sizes and residency of a sheet, as a list of one; empty where nothing fits."""
    best: SizedNest | None = None
    bar = inf
    for least, choice in sorted((least, choice) for choice, least in enumerate(sheet.lower_prices(price))):
        sized = sheet.best_tile_sizes(choice, price, bar) if least < bar else None
        if sized is not None:
            bar, best = sized.price, sized
    return [best] if best else []


def _near(bound: int, tile: int, lanes: int) -> set[int]:
    """Tile sizes near one: in even steps, a quarter larger or smaller in whole lanes, and by the lanes more or less.

    Even steps are one step or a quarter of the steps less, or one step or a third more. Without the others MobileNetV2
    saves 37.0 instead of 37.1 % of its EDP on `gemmini_small`, YOLOv8n 31.8 instead of 32.3 % on `gemmini_large`
    (23 November 2026).
    """
    steps = -(-bound // tile)
    even = {-(-bound // count) for count in (steps * 3 // 4, steps - 1, steps + 1, steps * 4 // 3)
            if 1 <= count <= bound}
    filling = {_rounded(tile * part / 4, lanes) for part in (3, 5)}
    if tile % lanes == 0:
        filling |= {tile - lanes, tile + lanes}
    return {size for size in even | filling if 1 <= size < bound} - {tile}


def candidates_along(hardware: Hardware, segment: Segment, dims: tuple[str, ...], bases: Sequence[LayerBase],
                     price: NetworkPrice, tiles: Collection[tuple[int, ...]] = (),
                     known: Translated | None = None) -> list[Candidate]:
    """Finds the candidates of a segment in one order of loops.

    Args:
        hardware: The design.
        segment: The segment.
        dims: Dimensions of the last layer, outermost loop first.
        bases: Each layer by itself, as estimates need it.
        price: The price of parts of the network.
        tiles: Tile sizes to try beside those of the grid.
        known: As for `compiled_segment`.

    Returns:
        For every home, halo and treatment of sums that could fit, one candidate with the best tile sizes.
    """
    if any(cuts_whole(segment, dim) or segment.problems[-1].bounds[dim] == 1 for dim in dims):
        return []
    sizes, compiled = _grid(segment, bases, dims, tiles), compiled_segment(hardware, segment, bases, known)
    return [sized.candidate() for nest in nests_of(hardware, segment, dims)
            for sized in _best_of(sheet_of(compiled, nest, sizes), price)]


def _grid(segment: Segment, bases: Sequence[LayerBase], dims: tuple[str, ...],
          tiles: Collection[tuple[int, ...]] = ()) -> np.ndarray:
    """Every combination of tile sizes for some loops, and the given ones, [loops, B]."""
    bounds, lanes = segment.problems[-1].bounds, bases[-1].lanes
    return _grid_over(tuple((bounds[dim], lanes.get(dim, 1)) for dim in dims), tuple(sorted(tiles)))


@lru_cache(maxsize=REMEMBERED)
def _grid_over(extents: tuple[tuple[int, int], ...], tiles: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """`_grid` for loops over dimensions of these bounds and lanes; segments with the same last layer share it."""
    if not extents:
        return np.empty((0, 1))
    axes = [_spread(_sizes(bound, lanes), SIZES.get(len(extents), 1)) for bound, lanes in extents]
    grid = np.array([*product(*axes), *tiles], dtype=np.float64).reshape(-1, len(extents)).T
    steps = np.prod([np.ceil(bound / size) for (bound, _), size in zip(extents, grid, strict=True)], axis=0)
    return np.ascontiguousarray(grid[:, steps <= MOST_STEPS])


def _sizes(bound: int, lanes: int) -> list[int]:
    """Tile sizes below a bound: divisors, sizes of a few even steps, and multiples of the lanes with many divisors.

    The last tile may be smaller than the others, so sizes need not divide the bound.
    """
    smooth = {lanes * factor << shift for factor in (1, 3, 5, 7) for shift in range(bound.bit_length())}
    even = {-(-bound // steps) for steps in range(2, 9)} if lanes == 1 else set()
    sizes = {*divisors(bound), *smooth, *even}
    return sorted(size for size in sizes if size < bound <= MOST_ALONG * size)


def _spread(sizes: list[int], most: int) -> list[int]:
    """At most so many of the sizes, evenly over the small and the large ones."""
    if len(sizes) <= most:
        return sizes
    return sorted({sizes[round(k * (len(sizes) - 1) / (most - 1))] for k in range(most)})
