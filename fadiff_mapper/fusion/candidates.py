"""Candidates for a fused group: shared loops over a segment's tiles, their sizes, and the operands that stay.

Problem. A segment can be tiled by every order of a few loops in any sizes, with every combination of resident operands
and of retained or recomputed halos (the design spaces of DeFiNES and LoopTree): far more than can be mapped exactly.

Nests. The shared loops run over dimensions of the last layer; links carry each loop back to the earlier layers, which
it cuts. Enumerated are, in the terms of LoopTree, inter-layer tiling, and retention or recomputation of each
intermediate per loop: up to two loops, or three where one adds up sums, and one loop in long segments; one of two equal
dimensions (rows and columns); halos retained along all loops, along all but one, or along none; as home every level on
the chip with a single instance and, for two layers, levels whose instances can divide the intermediate (`divisions`),
with tiles of whole shares; and three places for partial sums of the last layer between steps: where they are added up,
the home, or the outermost level.

Method. Each nest of loops (`tile_nests`) is estimated on a grid of tile sizes at once (`estimates`), in two steps of
rising accuracy: first a lower estimate, with every passing operand fetched once per step; then, nest by nest in this
order and as long as one can still be the best, with refetches of tiles that do not fit. Around the best sizes a finer
grid follows. Only the remaining candidates are mapped and evaluated exactly (`network.planning`).

Around a plan (`reshaped`), either end of a group is moved by a few layers, or neighbours are merged, with the
dimensions of the group's own loops carried over the links, or one loop over any dimension. `with_second_reads` turns a
candidate into one that reads residual operands on the chip, which saves their words outside if the home has room for
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, pairwise, permutations, product
from math import inf, prod

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.estimates import (
    Candidate,
    CompiledSegment,
    TileNest,
    best_candidates,
    homes,
    instances_along,
    nest_of,
)
from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, SecondRead, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import OperatorChoices, cycles_with_operators, operator_choices, operator_costs
from fadiff_mapper.fusion.group_legality import structure_violations
from fadiff_mapper.fusion.prices import NOTHING, NetworkPrice, WordCosts, on_best_unit, operators_alone, summed
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.fusion.tile_steps import (
    StepClass,
    all_step_classes,
    layer_steps,
    resident_words,
    space_of,
    unmasked_steps,
)
from fadiff_mapper.inputs.spec.constraints import Constraints, LoopConstraint
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.search.mapspace.build import divisors
from fadiff_mapper.workload import OperatingPoint
from fadiff_mapper.workload.operations import VectorOperator
from fadiff_mapper.workload.window_slide import WindowSlide

LOOPED = 6
"""Most layers of a segment that is tried in nests of several loops; longer segments have at most one loop. A limit of
time."""

SIZES = {1: 40, 2: 20, 3: 10}
"""Tile sizes tried for each loop, by the number of loops of the nest; `_finer` tries more around the best. Fewer miss
better plans on small arrays, more find none."""

MOST_STEPS, MOST_ALONG = 2 ** 20, 2 ** 11
"""Most steps of a group, and most steps of one loop: a limit of time for the exact evaluation."""

KEPT = 16
"""Most candidates of a segment, each with another nest or other resident operands. Fewer miss better plans, more find
none."""

FINER = 16
"""Parts into which `_finer` divides a tile size; it tries ten to twenty-three of them. Set by hand."""

FURTHER = 3
"""Most layers by which an end of a group is moved: a block in most networks. A limit of time."""


def tile_nests(compiled: CompiledSegment) -> Iterator[TileNest]:
    """Enumerates the nests of a segment; if it has more than `LOOPED` layers, only nests with at most one loop."""
    for dims in orders(compiled.segment, 3 if len(compiled.segment.problems) <= LOOPED else 1):
        yield from nests_of(compiled, dims)


def nests_of(compiled: CompiledSegment, dims: tuple[str, ...]) -> Iterator[TileNest]:
    """Enumerates the nests with one order of loops: every home, retention of halos, and level in which sums rest."""
    output, constraints = compiled.segment.problems[-1].output, compiled.bases[-1].constraints
    adding = [dim for dim in dims if dim not in output.dimensions]
    halos = list(_halos(compiled.segment, dims))
    for home in homes(compiled.hardware):
        in_home = constraints and output.name not in constraints.levels[compiled.hardware.level(home)].bypass
        for retained in halos:
            if not adding or dims[-len(adding):] == tuple(adding):  # sums that stay: their loop is innermost
                yield TileNest(home, dims, retained, "")
            if adding and in_home:
                yield TileNest(home, dims, retained, home)
            if adding:
                yield TileNest(home, dims, retained, compiled.hardware.arch.levels[-1].name)


def orders(segment: Segment, loops: int = 3) -> Iterator[tuple[str, ...]]:
    """Enumerates orders of up to `loops` loops: up to two, or two over linked outputs and one that adds up sums.

    Yields:
        Dimensions of the last layer, outermost loop first.
    """
    last, dims, linked = segment.problems[-1], cut_dims(segment), linked_dims(segment)
    equal = [pair for pair in combinations(last.bounds, 2) if pair[1] in dims and alike(segment, *pair)]
    yield ()
    for count in range(1, min(loops, 2) + 1):
        for order in permutations(dims, count):
            # Of two equal dimensions, such as rows and columns, the first one is used first, and outside the second.
            if all(first in order and order.index(first) < order.index(second)
                   for first, second in equal if second in order):
                yield order
    inner = [dim for dim in dims if dim in last.output.dimensions and dim in linked]
    for pair in combinations(inner, 2) if loops > 2 else ():
        yield from (order for dim in dims if dim not in last.output.dimensions
                    for order in ((*pair, dim), (dim, *pair)))


def linked_dims(segment: Segment) -> set[str]:
    """Dimensions of the last layer that move an intermediate."""
    return {dim for link in segment.into(len(segment.links)) for dim in link.dims.values()}


def cut_dims(segment: Segment) -> list[str]:
    """Dimensions of the last layer that shared loops may cut: those of its output or of its link.

    A loop over a kernel would cut neither earlier layers nor the output.
    """
    last, linked = segment.problems[-1], linked_dims(segment)
    return [dim for dim, bound in last.bounds.items() if bound > 1 and not cuts_whole(segment, dim)
            and (dim in last.output.dimensions or dim in linked)]


def alike(segment: Segment, first: str, second: str) -> bool:
    """Whether two dimensions of the last layer are interchangeable in all layers."""
    for index, (problem, one, other) in enumerate(zip(
            segment.problems, segment.cuts[first], segment.cuts[second], strict=True)):
        if one is None or other is None or problem.bounds[one] != problem.bounds[other] or problem.bounds[one] == 1:
            return False
        if problem.windows[one] != problem.windows[other]:
            return False
        if index < len(segment.links) and segment.slides[index][one] != segment.slides[index][other]:
            return False
    return True


def cuts_whole(segment: Segment, dim: str) -> bool:
    """Whether a loop over a dimension of the last layer cuts a dimension that some layer needs whole."""
    cut = segment.cuts[dim]
    for index, link in enumerate(segment.links):
        reader = segment.reader(index)
        if cut[index] in segment.whole[index] or (
                link.put_together and cut[reader] in space_of(segment.problems[reader], link.tensor).dimensions - set(
                    link.dims.values())):
            return True
    return False


def shared_loops(segment: Segment, dims: Sequence[str]) -> tuple[list[set[str]], set[str]]:
    """Loops over which dimensions of the last layer share words of intermediates.

    Returns, for each link, the loops along which neighbouring steps share words of its intermediate, and all loops
    along which windows overlap.
    """
    shared: list[set[str]] = [set() for _ in segment.links]
    overlapping = set()
    for dim in dims:
        halo = [False] * len(segment.problems)     # whether windows of a link behind the layer overlap along the loop
        for index, cut in reversed(list(enumerate(segment.cuts[dim][:-1]))):
            halo[index] = halo[segment.reader(index)] or (
                cut is not None and segment.slides[index][cut].overlaps)
            shared[index] |= {dim} if cut is None or halo[index] else set()
        overlapping |= {dim} if any(halo) else set()
    return shared, overlapping


def _halos(segment: Segment, dims: Sequence[str]) -> Iterator[tuple[frozenset[str], ...]]:
    """For each link the loops along which its words are retained, in all combinations to try.

    Recomputation is tried along no loop, along each single loop, and along all loops, where a link has a halo. Along
    other loops all words that two steps share are retained.
    """
    shared, overlapping = shared_loops(segment, dims)
    again = (set[str](), *({dim} for dim in dims), set(dims))
    yield from dict.fromkeys(tuple(frozenset(own - (recomputed & overlapping)) for own in shared)
                             for recomputed in again)


def candidates(compiled: CompiledSegment, price: NetworkPrice, limit: float) -> list[Candidate]:
    """The most promising candidates of a segment at some prices, lowest estimate first: up to `KEPT` with one home and
    a price below `limit`, with smaller blocks behind a causal mask, and up to `KEPT` with a divided intermediate. With
    compute units there are up to four and two times as many."""
    hardware, rooms = compiled.hardware, [compiled]
    if compiled.segment.charged:     # room for tiles twice
        rooms.append(replace(compiled, usable={home: words / 2 for home, words in compiled.usable.items()}))
        limit += price(operators_alone(between(compiled.segment.links), hardware.arch, hardware.tables, price.metric))
    found = list[Candidate]()
    for room in rooms:
        nests = [(nest, _grid(room, nest.dims)) for nest in tile_nests(room)]
        sized = [_finer(room, one, price) for one in best_candidates(room, nests, price, limit, KEPT)]
        for best in sorted(sized, key=lambda one: (round(price(one.estimate), 9), len(one.group.loops))):
            found += _around_diagonal(room, best, price)
    found += [candidate for divided in _divided(compiled, price) for candidate in with_operators(
        hardware, divided, price)]
    return distinct(sorted(found, key=lambda candidate: round(price(candidate.estimate), 9)))


def divisions(hardware: Hardware, segment: Segment, constraints: Sequence[Constraints]) -> list[Stay]:
    """All ways to divide the intermediate of two layers among the instances of a level.

    `constraints`: the design's, for each layer. Each fan-out outside of the level divides one dimension along which no
    windows slide and which no operator in between needs whole. Compute units on the intermediate must reach the level.
    """
    arch, problems = hardware.arch, segment.problems
    if len(problems) != 2 or segment.batched or len(homes(hardware)) != 1:
        return []
    (link,), found = segment.links, list[Stay]()
    if link.pooled or link.elsewhere or link.company or link.written:
        return []
    plain = [own for own in link.dims if segment.slides[0][own] == WindowSlide(1, 1) and own not in segment.whole[0]]
    for home, level in enumerate(arch.levels[:-1]):
        kept = not any(name in own.levels[home].bypass for own, name in zip(
            constraints, (problems[0].output.name, link.tensor), strict=True))
        reached = not link.operators or any(unit.level <= home for unit in arch.units)
        if level.instances == 1 or level.is_dummy or level.usable == 0 or not kept or not reached:
            continue
        ways = []
        for index in range(home + 1, len(arch.levels)):
            fan = arch.levels[index - 1].instances // arch.levels[index].instances
            if fan > 1:
                ways.append([(arch.levels[index].name, own, fan) for own in plain if all(
                    _spreads(each.levels[index].spatial, problem, dim, fan)
                    for each, problem, dim in zip(constraints, problems, (own, link.dims[own]), strict=True))])
        found += [Stay(level.name, shares=shares) for shares in product(*ways) if all(
            problems[0].bounds[own] % prod(number for _, dim, number in shares if dim == own) == 0 for own in plain)]
    return found


def _spreads(loops: LoopConstraint, problem: Problem, dim: str, number: int) -> bool:
    """Whether constraints allow spatial loops with this factor over one dimension and 1 over all others."""
    factors = {other: number if other == dim else 1 for other in problem.dimensions}
    return all(loops.minimum.get(other, 1) <= factor <= loops.maximum.get(other, factor)
               and loops.fixed.get(other, factor) == factor for other, factor in factors.items())


def _divided(compiled: CompiledSegment, price: NetworkPrice) -> list[Candidate]:
    """Groups of two layers whose intermediate instances of a level divide, with their best tile sizes."""
    segment, bounds, found = compiled.segment, compiled.bounds, list[Candidate]()
    constraints = [base.constraints for base in compiled.bases if base.constraints]
    times = 2 if segment.charged else 1     # room for two tiles if units work side by side
    for stay in divisions(compiled.hardware, segment, constraints):
        shares = instances_along(segment, stay)
        usable = compiled.hardware.arch.levels[compiled.hardware.level(stay.level)].usable
        for nest in tile_nests(compiled):
            axes = []
            for dim in nest.dims:
                sizes = [size for size in _sizes(bounds[dim] // shares.get(dim, 1), 1)
                         if usable is None or dim not in segment.links[0].back or times * size <= usable]
                axes.append([shares.get(dim, 1) * size for size in _evenly(sizes, SIZES.get(len(nest.dims), 1))])
            by_first: dict[int, list[tuple[int, ...]]] = {}     # estimates do not charge corrections of sums
            for tiles in product(*axes):
                extents = bounds | dict(zip(nest.dims, tiles, strict=True))
                own = [-(-extents[dim] // shares.get(dim, 1)) for dim in segment.links[0].back]
                # an instance holds its share, and a row and a column of operands for one summand of each sum
                if usable is None or times * (prod(own) + sum(own)) <= usable:
                    by_first.setdefault(tiles[0] if tiles else 0, []).append(tiles)
            for several in by_first.values():
                found += _in_sizes(compiled, replace(nest, divided=stay), price, several)
    return sorted(found, key=lambda candidate: price(candidate.estimate))[:KEPT]


def distinct(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first candidate of each distinct group, in the given order."""
    return [candidate for index, candidate in enumerate(ranked)
            if all(candidate.group != other.group for other in ranked[:index])]


def neighbours(compiled: CompiledSegment, candidate: Candidate, price: NetworkPrice) -> list[Candidate]:
    """Candidates with the same loops that differ in one tile size by a few steps; lowest estimate first.

    Some of the sizes do not divide the bound. Arguments as for `candidates`.
    """
    lanes = compiled.lanes | instances_along(compiled.segment, nest_of(compiled, candidate).divided)
    near = _resized(compiled, candidate, price,
                    lambda loop: sorted(_near(compiled.bounds[loop.dim], loop.tile, lanes.get(loop.dim, 1))))
    return sorted(near, key=lambda neighbour: price(neighbour.estimate))


def narrower(compiled: CompiledSegment, candidate: Candidate, price: NetworkPrice) -> list[Candidate]:
    """Candidates with the same loops and one tile halved, for groups whose tiles do not fit."""
    return _resized(compiled, candidate, price, lambda loop: [-(-loop.tile // 2)] if loop.tile > 1 else [])


def candidates_along(compiled: CompiledSegment, dims: tuple[str, ...], price: NetworkPrice,
                     tiles: Collection[tuple[int, ...]] = ()) -> list[Candidate]:
    """For every home, retention of halos and level of sums, the candidate with loops over `dims`, outermost first, in
    its best tile sizes. `tiles`: sizes of all loops to choose from; empty: the grid."""
    if any(cuts_whole(compiled.segment, dim) or compiled.bounds[dim] == 1 for dim in dims):
        return []
    sizes = _grid(compiled, dims, tiles)
    return [candidate for nest in nests_of(compiled, dims)
            for best in best_candidates(compiled, [(nest, sizes)], price)
            for candidate in with_operators(compiled.hardware, best, price)]


def _finer(compiled: CompiledSegment, candidate: Candidate, price: NetworkPrice) -> Candidate:
    """The candidate, or a better one with tile sizes near its own, between those of the grid."""
    axes = []
    for loop in candidate.group.loops:
        sizes = {_rounded(loop.tile * part / FINER, compiled.lanes.get(loop.dim, 1))
                 for part in range(FINER * 5 // 8, FINER * 3 // 2)}
        axes.append(sorted(size for size in {loop.tile, *sizes} if size < compiled.bounds[loop.dim]))
    finer = _in_sizes(compiled, nest_of(compiled, candidate), price, list(product(*axes)))
    return min((candidate, *finer), key=lambda sized: price(sized.estimate))


def _rounded(size: float, lanes: int) -> int:
    """The integer nearest to a size; above `lanes`, the nearest multiple of `lanes`."""
    return max(round(size / lanes), 1) * lanes if size > lanes else max(round(size), 1)


def _resized(compiled: CompiledSegment, candidate: Candidate, price: NetworkPrice,
             sizes: Callable[[TileLoop], Sequence[int]]) -> list[Candidate]:
    """Candidates with the same loops and one tile changed to each of its `sizes`, loop by loop, if they fit."""
    loops, nest = candidate.group.loops, nest_of(compiled, candidate)
    now = [loop.tile for loop in loops]
    return [resized for position, loop in enumerate(loops) for size in sizes(loop)
            for best in _in_sizes(compiled, nest, price, [(*now[:position], size, *now[position + 1:])])
            for resized in with_operators(compiled.hardware, best, price)]


def between(links: Iterable[FusedLink]) -> list[VectorOperator]:
    """The operators between layers with these links."""
    return [each.operator for link in links for each in link.operators]


def with_operators(hardware: Hardware, candidate: Candidate, price: NetworkPrice) -> list[Candidate]:
    """A candidate with the costs of the operators between its layers, less their costs outside of the group.

    There are two candidates: units and multiply-accumulators in turn or, if intermediates have room twice, side by
    side. Each operator runs on the unit that is best for the group at this price. Empty where no unit can do an
    operator from the home, or in one pass.
    """
    if not candidate.segment.charged:
        return [candidate]
    found, group, estimate = list[Candidate](), candidate.group, candidate.estimate
    masked, classes = replace(group, skips=hardware.arch.skips_masked), all_step_classes(group)
    if unmasked_steps(masked):
        group, before, classes = masked, _executed(classes), all_step_classes(masked)
        part = _executed(classes) / before
        estimate = OperatingPoint(part * estimate.energy_pj, part * estimate.cycles)
    try:
        choices = operator_choices(hardware, group, classes)
    except FadiffError:
        return []
    left_out = operators_alone(between(group.links), hardware.arch, hardware.tables, price.metric)
    for doubled in (True, False):
        home = hardware.arch.levels[hardware.level(group.links[0].stay.level)]
        own = replace(group, double_buffered=frozenset({home.name} if doubled else ()))
        if doubled and home.usable is not None and max(resident_words(own, layer_steps(own), home)) >= home.usable:
            continue
        own, point = _on_units(hardware, own, estimate, choices, price)
        found.append(replace(candidate, group=own, left_out=left_out, estimate=point.less(left_out)))
    return found


def _on_units(hardware: Hardware, group: FusedGroup, layers: OperatingPoint, choices: OperatorChoices,
              price: NetworkPrice) -> tuple[FusedGroup, OperatingPoint]:
    """A group with the units for its operators such that no change of one unit is better, and its energy and cycles;
    `layers`: energy and cycles of its layers."""
    def on(units: Sequence[str]) -> tuple[FusedGroup, OperatingPoint]:
        own = replace(group, units=tuple(units))
        costs = operator_costs(own, choices)
        cycles, _ = cycles_with_operators(hardware, own, layers.cycles / group.repeat, costs, {})
        return own, OperatingPoint(layers.energy_pj + group.repeat * sum(each.energy_pj for each in costs),
                                   group.repeat * cycles)
    parts = [part for operator in choices for part in operator]
    best, improved = on([on_best_unit(part, price.metric).unit for part in parts]), True
    while improved:
        improved = False
        for index, part in enumerate(parts):
            for name in [cost.unit for cost in part if cost.unit != best[0].units[index]]:
                other = on([*best[0].units[:index], name, *best[0].units[index + 1:]])
                if price(other[1]) < price(best[1]):
                    best, improved = other, True
    return best


def _around_diagonal(compiled: CompiledSegment, candidate: Candidate, price: NetworkPrice) -> list[Candidate]:
    """A candidate with its operators and, if blocks behind a causal mask are skipped, with tiles of queries and keys
    halved as long as estimates fall: smaller blocks follow the diagonal more closely."""
    found = with_operators(compiled.hardware, candidate, price)
    mask = unmasked_steps(found[0].group) if found else None
    if mask is None:
        return found
    (rows, keys, _), (*_, link), least, parts = mask, compiled.segment.links, inf, 2
    assert link.causal is not None
    nest, tiles = nest_of(compiled, candidate), [loop.tile for loop in candidate.group.loops]
    while True:
        tiles[rows] = -(-link.causal[1] // parts)
        tiles[keys] = _rounded(compiled.bounds[nest.dims[keys]] / parts, compiled.lanes.get(nest.dims[keys], 1))
        blocks = [smaller for other in _in_sizes(compiled, nest, price, [tuple(tiles)])
                  for smaller in with_operators(compiled.hardware, other, price)]
        now = min((price(smaller.estimate) for smaller in blocks), default=inf)
        if now >= least:
            return found
        found, least, parts = [*found, *blocks], now, 2 * parts


def _executed(classes: Sequence[Counter[StepClass]]) -> int:
    """Multiply-accumulates of all layers in one run of a group."""
    return sum(times * prod(step.shape) for own in classes for step, times in own.items())


def _in_sizes(compiled: CompiledSegment, nest: TileNest, price: NetworkPrice,
              sizes: Sequence[tuple[int, ...]]) -> list[Candidate]:
    """A nest with the best of some tile sizes, as a list of one candidate; empty where none fits."""
    shares = instances_along(compiled.segment, nest.divided)
    sizes = [own for own in sizes if not any(
        size % shares.get(dim, 1) for dim, size in zip(nest.dims, own, strict=True))]
    if not sizes or not sizes[0]:
        return []
    return best_candidates(compiled, [(nest, np.array(sizes, dtype=np.float64).T.copy())], price)


def _near(bound: int, tile: int, lanes: int) -> set[int]:
    """Tile sizes near `tile`: of even steps, a quarter more or less in whole lanes, and one lane count more or less.

    The number of even steps changes by one, falls by a quarter or grows by a third.
    """
    steps = -(-bound // tile)
    even = {-(-bound // count) for count in (steps * 3 // 4, steps - 1, steps + 1, steps * 4 // 3)
            if 1 <= count <= bound}
    filling = {_rounded(tile * part / 4, lanes) for part in (3, 5)}
    if tile % lanes == 0:
        filling |= {tile - lanes, tile + lanes}
    return {size for size in even | filling if 1 <= size < bound} - {tile}


def _grid(compiled: CompiledSegment, dims: tuple[str, ...], tiles: Collection[tuple[int, ...]] = ()) -> np.ndarray:
    """All combinations of tile sizes for up to three loops, or only the given ones, [loops, B]."""
    return _grid_over(tuple((compiled.bounds[dim], compiled.lanes.get(dim, 1)) for dim in dims), tuple(sorted(tiles)))


@lru_cache(maxsize=1 << 10)     # a network has some hundred, of at most 16 KB each
def _grid_over(extents: tuple[tuple[int, int], ...], tiles: tuple[tuple[int, ...], ...]) -> np.ndarray:
    """`_grid` for loops over dimensions of these bounds and lanes; segments with the same last layer share it."""
    if not extents:
        return np.empty((0, 1))
    sizes = tiles or product(*(_evenly(_sizes(*extent), SIZES.get(len(extents), 0)) for extent in extents))
    grid = np.array(list(sizes), dtype=np.float64).reshape(-1, len(extents)).T
    steps = np.prod([np.ceil(bound / size) for (bound, _), size in zip(extents, grid, strict=True)], axis=0)
    return np.ascontiguousarray(grid[:, steps <= MOST_STEPS])


def _evenly(sizes: list[int], most: int) -> list[int]:
    """At most `most` of some sorted sizes, evenly chosen."""
    if len(sizes) <= most:
        return sizes
    return sorted({sizes[round(k * (len(sizes) - 1) / (most - 1))] for k in range(most)})


def _sizes(bound: int, lanes: int) -> list[int]:
    """Tile sizes below a bound: divisors, sizes of a few even steps, and multiples of the lanes by numbers with many
    divisors. They need not divide the bound, as the last tile may be smaller than the others.
    """
    smooth = {lanes * factor << shift for factor in (1, 3, 5, 7) for shift in range(bound.bit_length())}
    even = {-(-bound // steps) for steps in range(2, 9)} if lanes == 1 else set()
    sizes = {*divisors(bound), *smooth, *even}
    return sorted(size for size in sizes if size < bound <= MOST_ALONG * size)


Nodes = tuple[str, ...]
Dims = tuple[str, ...]


def reshaped(plan: Sequence[tuple[Nodes, FusedGroup]], chains: Sequence[Nodes], segments: Sequence[Segment],
             compiled: Callable[[Segment], CompiledSegment], price: NetworkPrice,
             stopped: Callable[[], bool] = lambda: False) -> dict[Hashable, list[Candidate]]:
    """Candidates next to the groups of a plan, by the key of their segment.

    `plan`: layers and group of each part; `chains`: the layers of every chain; `segments`: all possible groups;
    `compiled`: prepares a segment for estimates; `stopped`: asked before each segment, true ends the search.
    """
    by_nodes = {segment.nodes: segment for segment in segments}
    proposed, tried = dict[Hashable, list[Candidate]](), set[tuple[Hashable, Dims]]()
    for segment, carried in _moved(plan, chains, by_nodes):
        if stopped():
            break
        # A layer has other dimensions where its runs are one problem than where it runs one by one.
        dims = tuple(dim for dim in carried if dim in segment.problems[-1].bounds)
        fewer = combinations(dims, 2) if len(dims) > 2 else ()      # a shorter group may need one loop less
        single = [] if segment.key in proposed else [order for order in orders(segment, 1) if order]
        own = proposed.setdefault(segment.key, [])
        for order in (dims, *fewer, *single):
            if (segment.key, order) not in tried:
                tried.add((segment.key, order))
                own += candidates_along(compiled(segment), order, price)
    return proposed


def _moved(plan: Sequence[tuple[Nodes, FusedGroup]], chains: Sequence[Nodes],
           by_nodes: Mapping[Nodes, Segment]) -> Iterator[tuple[Segment, Dims]]:
    """Segments with an end moved, or made of two neighbouring groups, and the dimensions of their loops."""
    position = {name: (chain, index) for chain in chains for index, name in enumerate(chain)}
    for nodes, group in plan:
        chain, start = position[nodes[0]]
        stop = start + len(nodes)
        dims = tuple(loop.dim for loop in group.loops)
        for first in range(max(start - FURTHER, 0), start + FURTHER + 1):
            if segment := by_nodes.get(chain[first:stop]):
                yield segment, dims
        for end in range(max(stop - FURTHER, start + 1), stop + FURTHER + 1):
            if segment := by_nodes.get(chain[start:end]):
                if end < stop:
                    cuts = [by_nodes[nodes].cuts[dim][len(segment.links)] for dim in dims]
                    yield segment, tuple(dim for dim in cuts if dim is not None)
                else:
                    yield segment, _carried(segment, dims, len(group.links))
    for (nodes, group), (after, other) in pairwise(sorted(plan, key=lambda part: position[part[0][0]])):
        if segment := by_nodes.get(nodes + after):
            yield segment, tuple(loop.dim for loop in other.loops)
            yield segment, _carried(segment, tuple(loop.dim for loop in group.loops), len(group.links))


def _carried(segment: Segment, dims: Dims, index: int) -> Dims:
    """Dimensions of layer `index` as those of the last layer; dimensions that links do not carry so far are dropped."""
    while index < len(segment.links):
        link = segment.links[index].dims
        dims, index = tuple(link[dim] for dim in dims if dim in link), segment.reader(index)
    return dims


def with_second_reads(hardware: Hardware, candidate: Candidate, costs: WordCosts) -> list[Candidate]:
    """A candidate with as many residual operands on the chip as its loops allow; empty where it has none or they do not
    fit. The given candidate has no second reads."""
    segment, group = candidate.segment, candidate.group
    if not segment.residuals or not group.links or any(link.stay.shares for link in group.links):
        return []
    reads = [other.read for other in segment.residuals]
    allowed, kept = reads, _keeping(group, reads, segment.read_inside)
    if structure_violations(hardware, kept):    # in most groups all are possible at once
        allowed = [read for read in reads if not structure_violations(hardware, _keeping(group, [read], frozenset()))]
        kept = _keeping(group, allowed, segment.read_inside if len(allowed) == len(reads) else frozenset())
        if not allowed or structure_violations(hardware, kept):
            return []
    home = hardware.level(group.links[0].stay.level)
    level = hardware.arch.levels[home]
    if level.usable is not None and max(resident_words(kept, layer_steps(kept), level)) >= level.usable:
        return []
    words = [other.words for other in segment.residuals if other.read in allowed]
    reads_alone = summed([costs.fetched(count) for count in words] or [NOTHING])
    inside = sum(count * costs.read[home] for count in words)
    # one residual operand for each tensor that is no longer written to the outermost level
    no_more = {index + 1 for index, (before, after) in enumerate(zip(group.links, kept.links, strict=True))
               if before.written and not after.written}
    unwritten = sum({other.read.first: other.words * costs.written
                     for other in segment.residuals if other.read.first in no_more}.values())
    estimate = OperatingPoint(candidate.estimate.energy_pj - reads_alone.energy_pj + inside - unwritten,
                              candidate.estimate.cycles - reads_alone.cycles)
    # with units, the cost of operators outside the group includes these reads
    return [Candidate(segment, kept, estimate, candidate.left_out if segment.charged else reads_alone)]


def _keeping(group: FusedGroup, reads: Sequence[SecondRead], read_inside: frozenset[int]) -> FusedGroup:
    """A group with second reads; if its own input is read again, the input stays in the home of the intermediates."""
    own: Mapping[str, Stay] = {read.tensor: Stay(group.links[0].stay.level) for read in reads if not read.first}
    first: FusedLayer = group.layers[0]
    return replace(group, layers=(replace(first, operands={**own, **first.operands}), *group.layers[1:]),
                   links=tuple(replace(link, written=link.written and index not in read_inside)
                               for index, link in enumerate(group.links)), second_reads=tuple(reads))
