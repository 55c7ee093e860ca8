"""Ways to run a segment as a fused group: shared tile loops, halo retained or recomputed, what stays on the chip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import inf, prod

from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Link, Stay, TileLoop, layer_steps, step_classes
from fadiff_mapper.fusion.steps import (
    LayerSteps,
    StepClass,
    axis_window,
    intermediate_words,
    moved_rank,
    operand_words,
    space_of,
)
from fadiff_mapper.joint.estimate import LayerBase, estimated
from fadiff_mapper.joint.prices import Point, summed
from fadiff_mapper.joint.segments import Segment
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.spec.problem import DataSpace, Problem

TILES_ALONE, TILES_IN_PAIRS = 8, 3
"""Tile sizes that are tried of a loop that stands alone, and of each of two."""

MOST_STEPS = 256
"""Steps of a group: smaller tiles reload every weight too often."""

MOST_WAYS = 512
"""Combinations of operands that stay; where there are more, they stay along all loops or not at all."""


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet, and its estimate, all repeats together."""

    segment: Segment
    group: FusedGroup
    estimate: Point


@dataclass(frozen=True)
class _Choice:
    """One way to treat an operand from outside: kept or not, the words that stay, and what it costs."""

    stay: Stay | None
    words: float
    reads: float


def homes(hardware: Hardware) -> list[str]:
    """The levels in which tensors can stay, outermost first."""
    return [level.name for level in reversed(hardware.arch.levels[:-1])
            if level.instances == 1 and not level.is_dummy and level.usable != 0]


def candidates(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase]) -> Iterator[Candidate]:
    """All ways to run a segment that could fit, each with the best that can stay on the chip beside it."""
    for loops in loop_nests(segment):
        if prod(-(-segment.problems[-1].bounds[loop.dim] // loop.tile) for loop in loops) <= MOST_STEPS:
            yield from ways_to_run(hardware, segment, loops, bases)


def ways_to_run(hardware: Hardware, segment: Segment, loops: tuple[TileLoop, ...],
                bases: Sequence[LayerBase]) -> Iterator[Candidate]:
    """The ways to run a segment in given loops that could fit: in every home, halo retained or recomputed."""
    for home in homes(hardware):
        for links in _halos(segment, loops, home):
            bare = FusedGroup(tuple(FusedLayer(problem, {}) for problem in segment.problems), links, loops,
                              segment.repeat)
            found = _with_operands(hardware, segment, bare, bases, home)
            if found is not None:
                yield found


def neighbours(hardware: Hardware, candidate: Candidate, bases: Sequence[LayerBase]) -> Iterator[Candidate]:
    """The same loops with a few steps more or less, sizes that divide nothing among them."""
    segment, group = candidate.segment, candidate.group
    for place, loop in enumerate(group.loops):
        bound = segment.problems[-1].bounds[loop.dim]
        steps = -(-bound // loop.tile)
        sizes = {-(-bound // count) for count in (steps * 3 // 4, steps - 1, steps + 1) if 1 < count <= bound}
        for size in sorted(sizes - {loop.tile}):
            loops = (*group.loops[:place], TileLoop(loop.dim, size), *group.loops[place + 1:])
            found = _with_operands(hardware, segment, replace(group, loops=loops), bases, group.links[0].stay.level)
            if found is not None:
                yield found


def loop_nests(segment: Segment) -> Iterator[tuple[TileLoop, ...]]:
    """No loop, one, or two in either order; a loop that sums stands inside."""
    last = segment.problems[-1]
    linked = set(segment.links[-1].dims.values())
    dims = [dim for dim, bound in last.bounds.items() if bound > 1 and not cuts_whole(segment, dim)
            and (dim in last.output.dimensions or dim in linked)]
    yield ()
    for dim in dims:
        yield from ((TileLoop(dim, tile),) for tile in _tiles(last.bounds[dim], TILES_ALONE))
    for one, two in permutations(dims, 2):
        if one in last.output.dimensions:
            yield from ((TileLoop(one, a), TileLoop(two, b)) for a, b in product(
                _tiles(last.bounds[one], TILES_IN_PAIRS), _tiles(last.bounds[two], TILES_IN_PAIRS)))


def cuts_whole(segment: Segment, dim: str | None) -> bool:
    """Whether a loop over a dimension of the last layer would cut what somebody in the segment needs whole."""
    for link, whole in zip(reversed(segment.links), reversed(segment.whole), strict=True):
        dim = next((own for own, theirs in link.dims.items() if theirs == dim), None)
        if dim in whole:
            return True
    return False


def _tiles(bound: int, most: int) -> list[int]:
    """Some divisors of a bound below it, evenly spread over the small and the large ones."""
    sizes = [size for size in divisors(bound) if size < bound <= MOST_STEPS * size]
    if len(sizes) <= most:
        return sizes
    return sorted({sizes[round(k * (len(sizes) - 1) / (most - 1))] for k in range(most)})


def _halos(segment: Segment, loops: tuple[TileLoop, ...], home: str) -> Iterator[tuple[Link, ...]]:
    """The links with their halo retained along all loops; recomputed along those that cut it; along the outer one."""
    names = [loop.dim for loop in loops]
    seen = set()
    for recomputed in (frozenset[str](), frozenset(names), frozenset(names[:1])):
        links = []
        for place, link in enumerate(segment.links):
            again = frozenset(dim for dim in recomputed if _has_halo(segment, place, dim))
            links.append(replace(link, stay=Stay(home, frozenset(names) - again)))
        key = tuple(link.stay.across for link in links)
        if key not in seen:
            seen.add(key)
            yield tuple(links)


def _has_halo(segment: Segment, place: int, dim: str) -> bool:
    """Whether neighbouring tiles along a dimension of the last layer share words of the intermediate of a link."""
    cut: str | None = dim
    for link, after in zip(reversed(segment.links[place:]), reversed(segment.problems[place + 1:]), strict=True):
        space = space_of(after, link.tensor)
        if cut is None or cut not in space.dimensions:
            return False
        if len(moved_rank(space, cut)[1]) > 1 and len(axis_window(moved_rank(space, cut)[1], after, cut, range(1))) > 1:
            return True
        cut = next((own for own, theirs in link.dims.items() if theirs == cut), None)
    return False


def _with_operands(hardware: Hardware, segment: Segment, bare: FusedGroup, bases: Sequence[LayerBase],
                   home: str) -> Candidate | None:
    """The best that can stay beside the intermediates, or None where these alone do not fit."""
    level = hardware.arch.levels[hardware.level(home) or 0]
    all_steps = layer_steps(bare)
    room = inf if level.usable is None else float(level.usable)
    room -= sum(intermediate_words(layer, link, bare, steps)
                for layer, link, steps in zip(bare.layers, bare.links, all_steps, strict=False))
    if room < 0:
        return None
    kinds = [step_classes(bare, layer, steps) for layer, steps in zip(bare.layers, all_steps, strict=True)]
    ways = {(index, name): choices for index, steps in enumerate(all_steps)
            for name, choices in _ways(segment, bare, index, steps, kinds[index], home).items()}
    if _sums(bare, kinds[-1]) > bases[-1].sums_room:
        return None
    largest = [tuple(map(max, zip(*(kind.shape for kind in own), strict=True))) for own in kinds]
    if prod(map(len, ways.values())) > MOST_WAYS:
        ways = {place: [choices[0], choices[-1]] if len(choices) > 1 else choices for place, choices in ways.items()}
    picks = sorted(product(*ways.values()), key=lambda combination: (sum(choice.reads for choice in combination),
                                                                    sum(choice.words for choice in combination)))
    best = next((combination for combination in picks
                 if _words_held(bare, largest, dict(zip(ways, combination, strict=True)), bases) <= room), None)
    if best is None:
        return None
    picked = dict(zip(ways, best, strict=True))
    layers = tuple(replace(layer, operands={name: choice.stay for (place, name), choice in picked.items()
                                            if place == index and choice.stay})
                   for index, layer in enumerate(bare.layers))
    group = replace(bare, layers=layers)
    total = summed([_layer_estimate(group, index, kinds[index], base, home,
                                    sum(choice.reads for (place, _), choice in picked.items() if place == index))
                    for index, base in enumerate(bases)])
    return Candidate(segment, group, Point(segment.repeat * total.energy_pj, segment.repeat * total.cycles))


def _sums(group: FusedGroup, kinds: Counter[StepClass]) -> float:
    """Words of the last layer's outputs to which later steps go on adding."""
    problem = group.layers[-1].problem
    return max((prod(problem.output.tile_extents(dict(zip(problem.dimensions, kind.shape, strict=True))))
                for kind in kinds if not (kind.first_sum and kind.last_sum)), default=0.0)


def _words_held(group: FusedGroup, largest: Sequence[tuple[int, ...]],
                picked: dict[tuple[int, str], _Choice], bases: Sequence[LayerBase]) -> float:
    """What the operands take at least: those that stay, and of the others the smallest tile.

    Loops outside the home move no operand that stays, so along its dimensions the other tiles are whole too. An
    intermediate is finished inside: its tile is whole along what it sums over, or, where all sums fit, along the rest.
    """
    passing = 0.0
    for index, (layer, shape) in enumerate(zip(group.layers, largest, strict=True)):
        mine = {name: choice for (place, name), choice in picked.items() if place == index}
        problem, output = layer.problem, layer.problem.output
        tile = dict(zip(problem.dimensions, shape, strict=True))
        whole = {dim for space in problem.dataspaces if space.name in mine and mine[space.name].stay
                 for dim in space.dimensions}
        finishing = [set[str]()]
        if index < len(group.links):
            finishing = [set(problem.dimensions) - output.dimensions]
            if prod(output.tile_extents(tile)) <= bases[index].sums_room:
                finishing.append(set(output.dimensions))
        passing = max(passing, min(
            sum(prod(space.tile_extents({dim: extent if dim in whole | inside else 1 for dim, extent in tile.items()}))
                for space in problem.dataspaces if space.name in mine and not mine[space.name].stay)
            for inside in finishing))
    return passing + sum(choice.words for choice in picked.values())


def _ways(segment: Segment, group: FusedGroup, index: int, steps: LayerSteps, kinds: Counter[StepClass],
          home: str) -> dict[str, list[_Choice]]:
    """Each operand from outside: fetched in every step, kept along the inner loop, or kept along all loops."""
    layer = group.layers[index]
    linked = segment.links[index - 1].tensor if index else None
    outside = [space for space in layer.problem.dataspaces if not space.read_write and space.name != linked]
    found = {space.name: [_Choice(None, 0.0, _words(layer.problem, space, kinds))] for space in outside}
    names = [loop.dim for loop in group.loops]
    for across in dict.fromkeys((frozenset(names[1:]), frozenset(names))):
        open_ones = [space.name for space in outside
                     if found[space.name][-1].reads > layer.problem.tensor_size(space)]
        kept = replace(layer, operands=dict.fromkeys(open_ones, Stay(home, across)))
        fresh = step_classes(group, kept, steps) if open_ones else Counter()
        for place, name in enumerate(open_ones):
            reads = float(sum(count * kind.fresh[place] for kind, count in fresh.items()))
            if reads < found[name][-1].reads:
                found[name].append(_Choice(kept.operands[name], float(operand_words(kept, name, group, steps)), reads))
    return found


def _words(problem: Problem, space: DataSpace, kinds: Counter[StepClass]) -> float:
    """Words of a data space's tiles over all steps."""
    return float(sum(count * prod(space.tile_extents(dict(zip(problem.dimensions, kind.shape, strict=True))))
                     for kind, count in kinds.items()))


def _layer_estimate(group: FusedGroup, index: int, kinds: Counter[StepClass], base: LayerBase, home: str,
                    reads: float) -> Point:
    problem = group.layers[index].problem
    done = sum(count * prod(kind.shape) for kind, count in kinds.items())
    last = index == len(group.links)
    made = float(problem.tensor_size(problem.output))
    again = 0.0  # every step reads the whole tile of every operand from its home at least once
    for space in problem.dataspaces:
        if not space.read_write:
            again += max(0.0, _words(problem, space, kinds) - base.home_reads.get(home, {}).get(space.name, 0.0))
    return estimated(base, done / problem.computes, reads, made if last or group.links[index].written else 0.0,
                     (again + (0.0 if last else made)) * base.prices.level_read.get(home, 0.0))
