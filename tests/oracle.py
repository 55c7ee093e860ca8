"""Two brute-force executors of tiny loop nests: plain Python, sets of points, nothing shared with the package.

`machine` runs every iteration and counts what a machine would move: words that were not there before. `timeloop` does
what Timeloop's model does instead: it looks at iterations 0 and 1 of every loop only, and lets 1 stand for the rest.
Both are slow and both are short; the evaluation under test is neither.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem

Point = tuple[int, ...]
Points = frozenset[Point]
Index = dict[str, int]


@dataclass(frozen=True)
class Loop:
    """One loop of bound > 1; an iteration moves its dimension by `step` points."""

    dim: str
    bound: int
    step: int


def points(space: DataSpace, start: Index, extent: Index) -> Points:
    """The points of a data space in the box spanned by `extent` points per dimension from `start`, holes included."""
    corner = [sum(term.coefficient * start.get(term.dimension, 0) for term in rank) for rank in space.ranks]
    return frozenset(product(*(range(low, low + size) for low, size in
                               zip(corner, space.tile_extents(extent), strict=True))))


def temporal_loops(level: LevelMapping, inside: Index) -> list[Loop]:
    """The temporal loops of a level, innermost first; `inside` is what the loops below them span."""
    loops = [Loop(name, level.temporal[name], inside[name]) for name in level.order]
    return [loop for loop in loops if loop.bound > 1]


def spatial_loops(level: LevelMapping, inside: Index) -> tuple[list[Loop], list[Loop]]:
    """The spatial loops on X and on Y, innermost first."""
    loops = [Loop(name, level.spatial[name], inside[name]) for name in level.spatial_order]
    return ([loop for loop in loops[:level.split] if loop.bound > 1],
            [loop for loop in loops[level.split:] if loop.bound > 1])


def spans(mapping: Mapping, problem: Problem) -> list[tuple[Index, Index, Index]]:
    """Per level the points per dimension below it, below it and across its fan-out, and of its whole tile."""
    found, inner = [], dict.fromkeys(problem.dimensions, 1)
    for level in mapping.levels:
        across = {name: inner[name] * level.spatial[name] for name in inner}
        whole = {name: across[name] * level.temporal[name] for name in inner}
        found.append((inner, across, whole))
        inner = whole
    return found


def iterations(loops: Sequence[Loop], first_two: bool = False) -> Iterator[tuple[Index, int]]:
    """(start of every dimension, how many iterations it stands for) for all loops together, the last one slowest."""
    for at in product(*(range(min(loop.bound, 2) if first_two else loop.bound) for loop in reversed(loops))):
        start: Index = defaultdict(int)
        weight = 1
        for loop, i in zip(reversed(loops), at, strict=True):
            start[loop.dim] += i * loop.step
            weight *= loop.bound - 1 if first_two and i else 1
        yield start, weight


# Every iteration, by sets.

@dataclass
class Accesses:
    """Words per instance over the whole run."""

    reads: int = 0
    fills: int = 0
    updates: int = 0


def machine(problem: Problem, mapping: Mapping) -> dict[tuple[int, str], Accesses]:
    """(level, data space) -> accesses of the first instance, where the level keeps the data space.

    A level passes words on to the next one inwards that keeps the data space, all instances of it at once; those
    that want the same new words share one transfer. An output is read back unless touched for the first time.
    Nothing is taken from neighbours.
    """
    found: dict[tuple[int, str], Accesses] = {}
    for space in problem.dataspaces:
        child = -1
        for level, here in enumerate(mapping.levels):
            if space.name in here.keep:
                found[level, space.name] = Accesses()
                _transfers(problem, mapping, space, child, level, found)
                child = level
    return found


def _transfers(problem: Problem, mapping: Mapping, space: DataSpace, child: int, parent: int,
               found: dict[tuple[int, str], Accesses]) -> None:
    """Counts what moves between a level and its child (-1: the arithmetic, which holds nothing over)."""
    span = spans(mapping, problem)
    extent = span[child][2] if child >= 0 else dict.fromkeys(problem.dimensions, 1)
    between = [loop for at in range(child + 1, parent + 1)
               for axis in spatial_loops(mapping.levels[at], span[at][0]) for loop in axis]
    outside = [loop for at in range(child + 1, len(span)) for loop in temporal_loops(mapping.levels[at], span[at][1])]
    receivers = [offset for offset, _ in iterations(between)]
    held: list[Points] = [frozenset()] * len(receivers)
    sent, arrived, seen, visited = 0, 0, set[Point](), set[Point]()
    for start, _ in iterations(outside):
        new = []
        for r, offset in enumerate(receivers):
            tile = points(space, {name: start[name] + offset[name] for name in problem.dimensions}, extent)
            new.append(tile - held[r])
            held[r] = tile if child >= 0 else frozenset()
        sent += sum(map(len, set(new)))
        arrived += len(new[0])
        seen.update(*new)
        visited |= new[0]
    here = found[parent, space.name]
    if space.read_write:
        here.updates, here.reads = sent, sent - len(seen)
    else:
        here.reads = sent
    if child >= 0:
        found[child, space.name].fills = arrived - len(visited) if space.read_write else arrived


# Timeloop's way.

@dataclass
class Tally:
    """Words that cross one boundary: (multicast, scatter) -> words, the same times hops, and words over links."""

    words: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    hop_words: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    links: float = 0.0
    fan: int = 1

    @property
    def content(self) -> float:
        return sum(self.words[kind] for kind in sorted(self.words))

    @property
    def delivered(self) -> float:
        """Words that one receiver gets; summed in this order, because the last bit decides a rounding."""
        return sum(self.words[kind] * kind[0] / self.fan for kind in sorted(self.words))


def deltas(space: DataSpace, extent: Index, outside: Sequence[Loop], hold: bool) -> Iterator[tuple[Points, int]]:
    """(new points, how often) of one receiver's tile, call by call. `hold`: what stays need not be sent again."""
    before: Points = frozenset()
    corner: Point | None = None
    stride: Point | None = None
    for start, weight in iterations(outside, first_two=True):
        tile = points(space, start, extent)
        at = min(tile)
        if corner is None or not hold:
            new = tile
        else:
            move = tuple(a - b for a, b in zip(at, corner, strict=True))
            changed = stride is not None and any(move) and move != stride
            new = tile if changed else tile - before
            if any(move):
                stride = None if changed else move
        before, corner = tile, at
        yield new, weight


def groups(wants: dict[int, Points], multicast: bool) -> list[tuple[Points, list[int]]]:
    """(words, the receivers that want them), for whatever somebody wants; each receiver alone without multicast."""
    if not multicast:
        return [(new, [element]) for element, new in wants.items() if new]
    found: dict[Points, list[int]] = defaultdict(list)
    for element, new in wants.items():
        if new:
            found[new].append(element)
    return list(found.items())


def hops(members: Sequence[int], width: int, height: int) -> float:
    """From the middle of the left edge: along X to the farthest member, in each column to its ends."""
    columns: dict[int, list[int]] = defaultdict(list)
    for element in members:
        columns[element % width].append(element // width)
    middle = (height - 1) / 2
    return max(columns) + sum(max(0, middle - min(rows)) + max(0, max(rows) - middle) for rows in columns.values())


def neighbours(element: int, width: int, height: int) -> Iterator[int]:
    h, v = element % width, element // width
    yield from (element + step for step, there in
                ((-1, h > 0), (1, h < width - 1), (-width, v > 0), (width, v < height - 1)) if there)


def cross(arch: Architecture, problem: Problem, mapping: Mapping, space: DataSpace, level: int) -> Tally:
    """The tally of the boundary below a level, as if every level kept the data space."""
    span = spans(mapping, problem)
    below = span[level][0]
    outside = [loop for at in range(level, len(span)) for loop in temporal_loops(mapping.levels[at], span[at][1])]
    on_x, on_y = spatial_loops(mapping.levels[level], below)
    offsets = [tuple(sum(term.coefficient * offset[term.dimension] for term in rank) for rank in space.ranks)
               for offset, _ in iterations([*on_x, *on_y])]
    width, height = (max(wired, math.prod(loop.bound for loop in loops))
                     for wired, loops in zip(arch.fanout(level), (on_x, on_y), strict=True))
    tally = Tally(fan=len(offsets))
    last: dict[int, Points] = {}
    hold = level > 0 and space.name not in mapping.levels[level - 1].no_temporal_reuse
    multicast = space.name not in mapping.levels[level].no_multicast
    linking = space.name not in mapping.levels[level].no_link_transfer
    for new, weight in deltas(space, below, outside, hold):
        wants = {e: frozenset(tuple(a + b for a, b in zip(point, offset, strict=True)) for point in new)
                 for e, offset in enumerate(offsets)}
        linked = {e for e, want in wants.items() if want and linking and
                  any(last.get(other) == want for other in neighbours(e, width, height))}
        alone = groups(wants, multicast)
        helped = groups({e: want for e, want in wants.items() if e not in linked}, multicast)
        if sum(len(want) for want, _ in helped) < sum(len(want) for want, _ in alone):
            alone = helped
            tally.links += len(linked) * len(new) * weight
        sizes = [len(members) for _, members in alone]
        for want, members in alone:
            kind = len(members), sizes.count(len(members))
            tally.words[kind] += len(want) * weight
            tally.hop_words[kind] += len(want) * weight * (hops(members, width, height) if on_x or on_y else 0)
        last = wants
    return tally


@dataclass(frozen=True)
class Counted:
    """Timeloop's statistics of one data space at one level, and of the network below it."""

    tile: int
    partition: int
    reads: int
    fills: int
    updates: int
    ingresses: dict[tuple[int, int], float]
    hop_words: float
    links: float


def timeloop(arch: Architecture, problem: Problem, mapping: Mapping) -> dict[tuple[int, str], Counted]:
    """(level, data space) -> counts, for every level up to the outermost one that keeps the data space."""
    return {(level, space.name): counted for space in problem.dataspaces
            for level, counted in enumerate(_counts(arch, problem, mapping, space))}


def used_instances(mapping: Mapping, level: int) -> int:
    return math.prod(factor for outer in mapping.levels[level + 1:] for factor in outer.spatial.values())


def _counts(arch: Architecture, problem: Problem, mapping: Mapping, space: DataSpace) -> Iterator[Counted]:
    span = spans(mapping, problem)
    kept = [space.name in level.keep for level in mapping.levels]
    coalescing = [level for level, here in enumerate(mapping.levels) if space.name in here.keep - here.no_coalesce]
    kept = [here and level <= max(coalescing, default=-1) for level, here in enumerate(kept)]  # others are forgotten
    last = max((level for level, here in enumerate(kept) if here), default=-1)
    raw = [cross(arch, problem, mapping, space, level) for level in range(len(span))]
    share = [outer.delivered for outer in raw[1:]] + [0.0]
    tile = [math.prod(space.tile_extents(whole)) for _, _, whole in span]
    partition = _partitions(space, tile, [across for _, across, _ in span])
    passing = [space.name in level.no_coalesce for level in mapping.levels]
    tally = _bypassed(raw, [here and not passed for here, passed in zip(kept, passing, strict=True)])
    for level in range(last + 1):
        here = tally[level]
        peer = tally[level + 1].links / used_instances(mapping, level) if level < last else 0.0
        arrives = (share[level] if level < last else 0.0) + peer
        first = partition[level] if space.read_write and space.name not in mapping.levels[level].rmw_first_update else 0
        reads = fills = updates = 0
        if kept[level]:
            reads = _round(here.content + peer - (0 if passing[level] else first))
            updates = _round(here.content) if space.read_write else 0
            fills = _round(arrives - (first if level < last else 0)) if space.read_write else int(arrives)
            fills = reads if space.read_write and passing[level] else fills
        words = dict(here.words)
        if space.read_write and not arch.levels[level].interconnect.reduction_supported:
            # Partial sums travel back as well.
            words = {kind: 2 * n - (partition[level] if kept[level] else 0) for kind, n in words.items()}
        yield Counted(tile[level] if kept[level] else 0, partition[level], reads, fills, updates, words,
                      sum(hops for kind, hops in here.hop_words.items() if words[kind] > 0), here.links)


def _round(words: float) -> int:
    return math.floor(words + 0.5)


def _partitions(space: DataSpace, tile: Sequence[int], across: Sequence[Index]) -> list[int]:
    """Words that one instance of each level is responsible for."""
    found = [tile[-1]]
    for level in reversed(range(len(tile) - 1)):
        found.insert(0, found[0] * tile[level] // math.prod(space.tile_extents(across[level + 1])))
    return found


def _bypassed(raw: Sequence[Tally], kept: Sequence[bool]) -> list[Tally]:
    """The tallies once each level that does not keep the data space has handed its traffic outwards."""
    tally = [Tally(dict(one.words), one.hop_words, one.links, one.fan) for one in raw]
    for level, outer in enumerate(tally[1:]):
        if not kept[level]:
            factor = tally[level].content * outer.fan / sum(n * kind[0] for kind, n in outer.words.items())
            outer.words = {kind: n * factor for kind, n in outer.words.items()}
            outer.links = 0.0
    return tally


def cycles(arch: Architecture, problem: Problem, mapping: Mapping) -> int:
    """Cycles of the slowest level."""
    counts = timeloop(arch, problem, mapping)
    busy = math.prod(factor for level in mapping.levels for factor in level.temporal.values())
    slowest = busy
    for index, level in enumerate(arch.levels):
        here = [(counts[index, name], level.bandwidth_scale.get(name, 1.0)) for name in problem.dataspace_names()
                if name in mapping.levels[index].keep]
        read = sum(one.reads / busy * scale for one, scale in here)
        write = sum((one.fills + one.updates) / busy * scale for one, scale in here)
        asked = ((read, level.read_bandwidth), (write, level.write_bandwidth), (read + write, level.shared_bandwidth))
        slowdown = min([1.0, *(limit / words for words, limit in asked if limit is not None and words > limit)])
        slowest = max(slowest, math.ceil(busy / slowdown))
    return slowest
