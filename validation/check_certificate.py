"""Checks the certificate of a proof by itself: `fadiff-validate certificate FILE.json INPUT...`.

A certificate claims that no legal mapping of a layer has a metric below a *limit*, the value of a given mapping over
1 + gap. It holds all *parts* of the map space with a bound below the limit: schemes (spatial factors, and what levels
keep), in them choices of the temporal loops of the outermost level, then of the next, down to mappings. This program
divides the map space in the same way, and accepts if the given mapping is legal and has its value, the parts below the
limit and their bounds, computed anew, are the certificate's, and no mapping of an undivided part is below the limit.

It takes from the package the reading of the input, the factors and orders that constraints leave open, and the exact
evaluation of mappings. `docs/theory/lower_bound.md` proves the rules, by the names that they have here. `check_part`
divides a part; `bounds_of` sums up the rules, of `decided`, `innermost`, `least` and `charge`.

Levels i = 0 (innermost) ... L - 1, dimensions d, data spaces t, by number. A *box* is a number of points for each d.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, floor, inf, isclose, prod
from typing import Any, NamedTuple

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.spec import Spec, metric_of
from fadiff_mapper.model.access_counts import Counts, Rounding
from fadiff_mapper.model.energy_latency import cost, outermost_accesses
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.model.tiles import tiles
from fadiff_mapper.search.mapspace.build import build_mapspace, divisors, orders_at

SAME = 1e-9
"""Numbers that differ by less than this share are equal: sums differ in their last bits."""

same = partial(isclose, rel_tol=SAME)

AT_LEAST = Rounding(np.rint, np.floor, lambda numbers: np.ceil(numbers * (1 - 1e-12)))
"""Accesses and cycles are whole; a number that is whole but for the last bits is not rounded up."""

Box = tuple[float, ...]
Layout = tuple[tuple[tuple[int, ...], frozenset[int]], ...]


class Rejected(FadiffError):
    """The certificate does not prove what it claims."""


def need(right: bool, what: str) -> None:
    if not right:
        raise Rejected(f"certificate: {what}")


def fewest(loops: Iterable[Sequence[float]]) -> float:
    """Tiles of all calls of some loops, each with its iterations and share of a tile: those that send less inside."""
    calls, outside = 1.0, 1.0
    for bound, share in sorted(loops, key=lambda loop: -loop[1]):
        calls, outside = calls + share * (bound - 1) * outside, outside * bound
    return calls


class Loop(NamedTuple):
    """A temporal loop outside."""

    d: int
    level: int
    bound: float           # iterations
    step: float            # points from one to the next
    several: bool = False  # may be split over levels: steps are multiples of `step`


class Words(NamedTuple):
    """Words of a data space over a crossing between two levels that keep it, per receiver."""

    t: int
    inner: int       # -1: the arithmetic
    outer: int
    received: float  # from neighbours too
    sent: float      # for each receiver with words of its own
    loose: bool      # mappings differ by more


class State(NamedTuple):
    """All loops further out than a level are fixed."""

    level: int
    tile: Box                                       # of the level
    outer: tuple[tuple[Box, tuple[int, ...]], ...]  # factors and order of each level further out, innermost first
    loops: tuple[Loop, ...]                         # all their loops of several iterations, innermost first
    words: tuple[Words, ...]                        # of the crossings whose words these loops decide


@dataclass(eq=False)
class Checker:
    """The layer, its map space and, one after the other, its schemes."""

    spec: Spec
    metric: str
    limit: float
    sums: Box | None = None  # of a price: energy and cycles that each cost 1
    counted: int = 0
    evaluated: int = 0

    def __post_init__(self) -> None:
        problem, sums, self.layer = self.spec.problem, self.sums, layer_of(self.spec)
        self.space = build_mapspace(self.layer.arch, problem, self.spec.constraints)
        self.metric_of: Any = partial(metric_of, self.metric) if sums is None else (
            lambda energy, cycles, accesses: energy / sums[0] + cycles / sums[1])
        self.names, self.bounds = problem.dimensions, tuple(float(bound) for bound in problem.bounds.values())
        self.levels, self.dims = len(self.space.levels), range(len(self.bounds))
        self.ranks = [[[(d, float(c)) for d, c in rank if self.bounds[d] > 1] for rank in ranks]
                      for ranks in self.layer.projection.ranks]
        self.written, self.tensors = list(self.layer.projection.read_write), range(len(problem.dataspaces))
        self.relevant = [frozenset(d for rank in ranks for d, _ in rank) for ranks in self.ranks]
        self.units: list[Any] = [self.layer.arch.arithmetic, *(own := self.layer.arch.levels)]  # below each level
        self.usable = [level.usable for level in own]
        self.shared = [frozenset(d for rank in ranks if len(rank) > 1 for d, _ in rank) for ranks in self.ranks]
        self.plain = [not shared and all(c == 1 for rank in ranks for _, c in rank)
                      for ranks, shared in zip(self.ranks, self.shared, strict=True)]
        need(not any(w and not p for w, p in zip(self.written, self.plain, strict=True))
             and all(sum(map(len, ranks)) == len(relevant) and all(c for rank in ranks for _, c in rank)
                     for ranks, relevant in zip(self.ranks, self.relevant, strict=True))
             and self.layer.machine.element_words is None,
             "an output with windows, a dimension in several ranks, a coefficient of 0, or bits; accepted: none")
        self.place = [[(*loops.inner, name).index(name) + (name, *loops.outer).index(name, name in loops.outer)
                       for name in self.names] for loops in (level.temporal for level in self.space.levels)]
        self.place.append([0] * len(self.names))  # of loops of several levels, level -1

    def schemes(self) -> Iterator[tuple[tuple[Box, ...], tuple[tuple[bool, ...], ...]]]:
        """Spatial factors and kept data spaces, each by level: every choice with a layout that the meshes hold."""
        keeps = [tuple(map(tuple, keep)) for keep in self.space.every_keep.tolist()
                 if all(map(any, zip(*keep, strict=True)))]  # every data space somewhere
        rows: list[tuple[Box, ...]] = [()]
        for level in reversed(range(self.levels)):
            choices = map(self.space.levels[level].spatial.choices.__getitem__, self.names)
            own = [factors for factors in itertools.product(*choices) if prod(factors) <= self.units[level].instances]
            rows = [(factors, *row) for row in rows for factors in own
                    if all(bound % (f * prod(outer[d] for outer in row)) == 0
                           for d, (f, bound) in enumerate(zip(factors, self.bounds, strict=True)))]
        least = self.space.constraints.min_parallelism * self.space.available
        for spatial in rows:
            in_time = all(bound in self.reachable(self.levels - 1, d, along) for d, (bound, along) in enumerate(
                zip(self.bounds, zip(*spatial, strict=True), strict=True)))
            if in_time and next(self.placed(spatial), None) and prod(map(prod, spatial)) >= least:
                yield from ((spatial, keep) for keep in keeps)

    def placed(self, spatial: Sequence[Box], x: float = 1, y: float = 1) -> Iterator[Layout]:
        """Every layout of the spatial loops of some levels that the meshes hold: order and loops on Y, by level."""
        if not spatial:
            yield ()
            return
        *inside, extent = spatial
        unit, real = self.units[len(inside)], [d for d in self.dims if extent[d] > 1]
        for order, on_y in orders_at(self.space, 2 * len(inside), real):
            wide, high = (along * prod(extent[d] for d in real if (d in on_y) == side)
                          for side, along in enumerate((x, y)))
            if wide <= unit.mesh_x and high <= unit.mesh_y and wide * high <= unit.instances:
                yield from ((*inner, (order, on_y)) for inner in self.placed(inside, wide, high))

    @cache  # noqa: B019
    def reachable(self, level: int, d: int, spatial: tuple[float, ...]) -> frozenset[float]:
        """Points that the temporal loops up to a level, and these spatial ones, can have in a dimension."""
        inside = self.reachable(level - 1, d, spatial) if level else frozenset({1.0})
        extent, choices = spatial[level], self.space.levels[level].temporal.choices[self.names[d]]
        return frozenset(p * f * extent for p in inside for f in choices if self.bounds[d] % (p * f * extent) == 0)

    def factors(self, state: State) -> Iterator[Box]:
        """Temporal factors of a state's level that leave the levels within something to do."""
        own, level = self.space.levels[state.level].temporal.choices, state.level
        left = [points / along for points, along in zip(state.tile, self.spatial[level], strict=True)]
        inside = [self.reachable(level - 1, d, self.along[d]) if level else {1.0} for d in self.dims]
        return itertools.product(*([float(f) for f in own[self.names[d]] if points % f == 0 and points / f in inside[d]]
                                   for d, points in enumerate(left)))

    def words(self, t: int, box: Sequence[float]) -> float:
        """Words of a box as Timeloop counts them: the product of the extents of its ranks."""
        return prod(1 + by for by in self.moved(t, [points - 1 for points in box]))

    def distinct(self, t: int, points: Sequence[float], contiguous: bool) -> float:
        """Rule "distinct words": what a set of points, a box where it is contiguous, touches at least."""
        result = 1.0
        for rank in self.ranks[t]:
            count, whole = 1.0, contiguous
            for d, c in sorted(((d, abs(c)) for d, c in rank), key=lambda term: term[1]):
                if not whole or c <= count:
                    count += (c if whole else 1) * (points[d] - 1)
                elif points[d] > 1:
                    count, whole = count * points[d], False
            result *= count
        return result

    def begin(self, spatial: tuple[Box, ...], keep: tuple[tuple[bool, ...], ...]) -> State:
        """The state of a scheme without any temporal loop."""
        self.spatial, self.keep, self.along = spatial, keep, list(zip(*spatial, strict=True))
        last = self.levels - 1
        self.open = next((i for i in range(last) if any(  # innermost with temporal loops
            max(self.reachable(i, d, self.along[d])) > prod(self.along[d][:i + 1]) for d in self.dims)), last)
        in_time = [bound / prod(along) for bound, along in zip(self.bounds, self.along, strict=True)]
        temporal = [[1.0 for _ in self.dims]] * last + [in_time]  # instances and cycles are those of any levels
        self.tile = tiles(self.nest(temporal, [()] * self.levels, next(self.placed(spatial))), self.layer.projection)
        self.used = self.tile.instances[:, 0].tolist()
        self.loose = self.layer.network_priced or any(  # receivers may want the same words of a window
            sum(level[d] > 1 for d, _ in rank) > 1 for level in spatial for ranks in self.ranks for rank in ranks)
        self.crossings, words = [], []  # (t, inner, outer) of consecutive levels that keep t
        for t in self.tensors:
            kept = [i for i in range(self.levels) if keep[i][t]]
            self.crossings += [(t, inner, outer) for inner, outer in itertools.pairwise(kept)]
            # rule "arithmetic": a word per cycle, unless neighbours hand it on
            linked = bool(self.layer.reuse.linked[0, t]) and prod(spatial[0]) > 1
            asked = (self.distinct(t, self.bounds, True) / self.used[kept[0]] / self.between(t, spatial[:kept[0] + 1])
                     if linked else prod(in_time))
            words.append(Words(t, -1, kept[0], asked, asked, linked))
        return State(last, self.bounds, (), (), tuple(words))

    @cache  # noqa: B019
    def between(self, t: int, spatial: tuple[Box, ...]) -> float:
        """Receivers with words of their own at the inner end of some levels of one instance at the outer, at least."""
        return prod(1 + sum(level[d] - 1 for d, _ in rank) for level in spatial for rank in self.ranks[t])

    def neighbours(self, t: int, inner: int) -> bool:
        """Whether receivers at `inner` may hand on words of a window to each other."""
        return any(self.layer.reuse.linked[inner + 1, t] and self.spatial[inner + 1][d] > 1 for d in self.shared[t])

    def moved(self, t: int, points: Any) -> Box:
        """How far so many points in each dimension move a tile in each rank, in words."""
        return tuple(sum(c * points[d] for d, c in rank) for rank in self.ranks[t])

    @cache  # noqa: B019
    def near(self, t: int, level: int, spatial: tuple[Box, ...], tile: Box) -> dict[Box, float]:
        """Moves from receivers below a level to a neighbour; the share of receivers, at most, that have one there."""
        extent, found = spatial[level], dict[Box, float]()
        groups = any(sum(extent[d] > 1 for d, _ in rank) > 1 for rank in self.ranks[t])  # with equal words, of any size
        for order, on_y in (layout[level] for layout in self.placed(spatial)) if self.neighbours(t, level - 1) else ():
            number, there = np.arange(prod(extent)), dict[Box, set[int]]()
            points = [0 * number for _ in self.dims]
            for d in order:  # receivers are numbered along X first
                points[d], number = number % extent[d] * tile[d], number // extent[d]
            offset = np.array([by + 0 * number for by in self.moved(t, points)]).T
            wide = int(max(prod(extent[d] for d in order if d not in on_y), self.layer.arch.fanout(level)[0]))
            for here, other in itertools.permutations(range(len(offset)), 2):
                if abs(here - other) == wide or (abs(here - other) == 1 and here // wide == other // wide):
                    there.setdefault(tuple((offset[other] - offset[here]).tolist()), set()).add(here)
            for move, receivers in there.items():
                if not any(by for by, rank in zip(move, self.ranks[t], strict=True) if len(rank) == 1):
                    found[move] = max(found.get(move, 0), 1.0 if groups else len(receivers) / len(offset))
        return found

    def moving(self, t: int, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """Some loops, the innermost first, from the first one that moves a tile."""
        return loops[next((i for i, loop in enumerate(loops) if loop.d in self.relevant[t]), len(loops)):]

    def decided(self, t: int, inner: int, tile: Box, loops: tuple[Loop, ...]) -> tuple[float, float, bool]:
        """Words received and sent over a crossing to a tile with all loops outside; whether they are only a bound.

        Rule "tiles": a tile is sent again for the innermost loop that moves it and all outside. Rule "windows": this
        loop finds its overlap in place; a loop further out moves the tile by its own step less one of each loop inside
        it, and may find less to send, or nothing. Rule "neighbours": receivers side by side may hand on words.
        """
        words, loops = self.words(t, tile), self.moving(t, loops)
        if self.plain[t] or not loops or loops[0].d not in self.shared[t]:
            words *= prod(loop.bound for loop in loops)
            return words, words, False
        first, near = loops[0], self.near(t, inner + 1, self.spatial, tile)
        along = {loop: self.moved(t, [loop.step * (d == loop.d) for d in self.dims]) for loop in loops}
        step, across = along[first], self.moved(t, [points - 1 for points in tile])
        fresh = 1 - prod(max(1 + wide - abs(by), 0) for wide, by in zip(across, step, strict=True)) / words
        calls = []  # of each loop outside: iterations, and the least share of a tile that a call brings, and sends
        for loop in loops[1:]:
            steps = []  # of this loop and all inside: how far one moves the tile; how many, at least and at most
            for other in loops:
                beside = other not in (first, loop) and other.level == loop.level
                further_in = self.place[loop.level][loop.d] - self.place[loop.level][other.d] if beside else 1
                if other.level <= loop.level and further_in >= 0:
                    steps.append(([by if other is loop else -by for by in along[other]],
                                  1.0 if further_in else 0.0, other.bound - 1 if other.several else 1.0))
            reached = partial(self.reached, steps)
            brought = 0.0 if reached((0.0,) * len(step)) else fresh if reached(step) else 1.0
            calls.append((loop.bound, brought, min([brought, *(
                (fresh if move == step else 1) * (1 - share) for move, share in near.items() if reached(move))])))
        run = divisors(int(first.bound))[1] if first.several else first.bound  # a split one: the smallest factor
        slides, kept = fresh * prod(loop.bound for loop in loops) * (1 - 1 / run), near.get(step, 0.0)
        received, sent = (words * (share + slides * left) for share, left in zip(map(
            fewest, ([one[:2] for one in calls], [one[::2] for one in calls])), (1, 1 - kept), strict=True))
        return received, sent, first.several or kept > 0 or any(one[1:] != (1, 1) for one in calls)

    def reached(self, steps: Sequence[tuple[Sequence[float], float, float]], move: Box) -> bool:
        """Whether steps within these ranges can add up to a move; may err towards yes."""
        for r, by in enumerate(move):
            rank = [(own * low, own * high, own) for one, low, high in steps if (own := one[r])]
            least, most = (sum(pick(low, high) for low, high, _ in rank) for pick in (min, max))
            free = [own for low, high, own in rank if low != high]
            if not least <= by <= most or (len(free) == 1 and (by - least) % free[0]):
                return False
        return True

    def innermost(self, words: Words, state: State, left: Box, first: int) -> Words:
        """The least words of a register below all open loops, which have `left` iterations of each dimension.

        Rule "innermost loop": where it goes over `first`, which moves the tile, all others repeat its calls.
        """
        t, inner, outer, received, sent, _ = words
        outside = any(level[d] > 1 for level in self.spatial[self.open + 1:] for d in self.shared[t])
        if outside and first in self.shared[t]:
            return words  # steps have several lengths
        tile, several = tuple(prod(self.along[d][:inner + 1]) for d in self.dims), state.level > self.open
        loops = [Loop(d, -1 if several else state.level, left[d], prod(self.along[d][:self.open + 1]),
                      several and len(divisors(int(left[d]))) > 2)
                 for d in sorted(self.dims, key=lambda d: d != first) if left[d] > 1]
        more, sent_more, loose = self.decided(t, inner, tile, (*loops, *state.loops))
        return Words(t, inner, outer, max(received, more), max(sent, sent_more), loose)

    def least(self, t: int, inner: int, outer: int, state: State) -> Words:
        """The least words of a receiver within the state's level, or that level.

        Rule "inner levels": the words of the level's tile cross again for every visit, and for every loop outside where
        the receiver cannot hold its share. Rule "unions": of windows the distinct words of all loops over them.
        """
        visits = prod(loop.bound for loop in self.moving(t, state.loops))
        levels = self.spatial[inner + 1:state.level + 1]
        receivers = prod(level[d] for level in levels for d in self.relevant[t])  # with words of their own, at most
        grown = list(state.tile)
        for loop in state.loops:
            if loop.d in self.shared[t]:
                grown[loop.d], visits = grown[loop.d] * loop.bound, visits / loop.bound
        touched, room = max(self.distinct(t, state.tile, True), self.distinct(t, grown, False)), self.usable[inner]
        if self.plain[t] and room is not None and touched / receivers > room:
            visits = prod(loop.bound for loop in state.loops)
        sent = touched * (1 if self.neighbours(t, inner) else visits) / self.between(t, levels)
        return Words(t, inner, outer, touched * visits / receivers, sent, not self.plain[t])

    def bounds_of(self, states: Sequence[State]) -> list[float]:
        """The bounds of states of a scheme: of each the least of all loops that can be the innermost open one."""
        own = list[Any]()   # reads, fills and updates of each state, for every loop that can be innermost
        for state in states:
            room, keep = self.usable[state.level], self.keep[state.level]
            if room is not None and sum(self.words(t, state.tile) for t in self.tensors if keep[t]) > room:
                own.append(np.zeros((3, self.levels, len(self.tensors), 0)))   # the tiles do not fit
                continue
            self.counted += 1
            left = tuple(points / prod(self.along[d][:state.level + 1]) for d, points in enumerate(state.tile))
            looping = [d for d in self.dims if left[d] > 1] if state.level >= self.open else []
            place = self.place[state.level]  # can be innermost as constraints say in one open level, all in several
            first = [d for d in looping if state.level > self.open or all(
                place[d] <= place[other] for other in looping)] or [-1]
            own.append(np.zeros((3, self.levels, len(self.tensors), len(first))))
            least = [self.least(*crossing, state) for crossing in self.crossings if crossing[1] < state.level]
            for words in (*state.words, *least):
                self.charge(words, own[-1])
            for number, d in enumerate(first):
                for words in least:
                    if words.inner < self.open and d in self.relevant[words.t]:
                        self.charge(self.innermost(words, state, left, d), own[-1][..., number])
        reads, fills, updates = np.concatenate([*own, np.zeros((3, self.levels, len(self.tensors), 0))], axis=-1)
        addresses = fills + np.where(np.array(self.written)[:, None], updates, reads)
        every = Counts(reads, fills, updates, np.zeros_like(reads), addresses)
        found = cost(every, self.tile, self.layer.machine, AT_LEAST)
        values = iter(self.metric_of(found.energy, found.cycles, outermost_accesses(every, self.tile)).tolist())
        return [min(itertools.islice(values, counts.shape[-1]), default=inf) for counts in own]

    def charge(self, words: Words, accesses: Any) -> None:
        """Rule "charges": adds accesses of both levels of a crossing, rounded as Timeloop may round them at least.

        Rule "first writes": words that are written before they are read cost no read outside, and no fill inside.
        """
        (t, inner, outer, received, sent, loose), (reads, fills, updates) = words, accesses
        first_inner, first_outer = (self.words(t, self.bounds) / self.between(t, self.spatial[level + 1:])
                                    if self.written[t] else 0 for level in (inner, outer))
        asked = ceil(sent * self.between(t, self.spatial[inner + 1:outer + 1]) - 0.5 - 1e-6)
        reads[outer, t], updates[outer, t] = max(asked - first_outer, 0), asked if self.written[t] else 0
        if inner >= 0:
            filled = min(received, sent) + max(received - sent, 0) / self.used[inner + 1]  # links: of all instances
            filled = ceil(filled - 1 - 1e-6) if loose else floor(filled + 1e-6)
            fills[inner, t] = max(filled - first_inner, 0)

    def permitted(self, level: int, looping: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Every order of the loops of several iterations of a level."""
        return (order for order, _ in orders_at(self.space, 2 * level + 1, sorted(looping)))

    def looping(self, level: int, factors: Sequence[float], order: list[int]) -> tuple[int, ...]:
        """The loops of several iterations of an order; Rejected where constraints do not permit it."""
        own = tuple(d for d in order if factors[d] > 1)
        need(sorted(order) == list(self.dims) and own in self.permitted(level, frozenset(own)), "an order")
        return own

    def signature(self, level: int, order: Sequence[int]) -> tuple[tuple[frozenset[int], int], ...]:
        """For each data space sent further in: loops inside the first one that moves it; and that loop, of a window.
        Mappings with equal factors and signatures have the same words, or are loose."""
        first = {t: next((i for i, d in enumerate(order) if d in self.relevant[t]), len(order))
                 for t in sorted({t for t, inner, _ in self.crossings if inner < level})}
        return tuple((frozenset(order[:i]), next((d for d in order[i:i + 1] if d in self.shared[t]), -1))
                     for t, i in first.items())

    @cache  # noqa: B019
    def classes(self, level: int, looping: frozenset[int], keep: tuple[tuple[bool, ...], ...]) -> Any:
        """An order for every signature that no other one covers."""
        found = {self.signature(level, order): order for order in self.permitted(level, looping)}
        return {one: order for one, order in found.items()
                if not any(other != order and self.covers(level, other, order) for other in found.values())}

    def covers(self, level: int, one: Sequence[int], other: Sequence[int]) -> bool:
        """Whether another order sends as many words at least: more loops inside never send more."""
        return all(idle <= more and mover == own for (more, own), (idle, mover) in zip(
            self.signature(level, one), self.signature(level, other), strict=True))

    def entered(self, state: State, factors: Box, order: tuple[int, ...]) -> State:
        """The state of the next level within."""
        level, spatial = state.level, self.spatial[state.level]
        tile = tuple(state.tile[d] / (factors[d] * spatial[d]) for d in self.dims)
        loops = (*(Loop(d, level, factors[d], tile[d] * spatial[d]) for d in order), *state.loops)
        words = (Words(t, inner, outer, *self.decided(t, inner, tile, loops))
                 for t, inner, outer in self.crossings if inner == level - 1)
        return State(level - 1, tile, ((factors, order), *state.outer), loops, (*state.words, *words))

    def check_schemes(self, content: Any) -> None:
        """Holds a certificate against all schemes, and the mapping that it gives against its value."""
        value, gap, given = content["value"], content["gap"], content["mapping"]
        need(content["version"] == 1 and content["bounds"] == dict(self.spec.problem.bounds), "another problem")
        need(gap >= 0 and value < inf and self.limit == value * (1 - SAME) / (1 + gap), "a wrong limit")

        def scheme_of(part: Any) -> Any:
            return tuple(tuple(map(tuple, part[name])) for name in ("spatial", "keep"))

        claimed, known = {scheme_of(part): part for part in content["schemes"]}, False
        need(len(claimed) == len(content["schemes"]), "a scheme twice")
        for scheme in self.schemes():
            state, part = self.begin(*scheme), claimed.pop(scheme, None)
            if scheme == scheme_of(given):
                known = any(same(found, value) for found in self.given_values(state, given["temporal"], given["order"]))
            self.check_part(state, self.bounds_of([state])[0], part)
        need(not claimed, "a scheme that is none")
        need(known, f"no legal mapping of the value {value} is given")

    def given_values(self, state: State, temporal: list[Any], orders: list[Any]) -> Iterator[float]:
        """Values of a mapping of the scheme, layout by layout, once it is found among the scheme's parts."""
        for level in reversed(range(self.levels)):
            factors, own = tuple(temporal[level]), self.looping(level, temporal[level], orders[level])
            need(factors in self.factors(state), "a mapping of no map space")
            state = self.entered(state, factors, own) if level else state
        return self.values(temporal, [orders], self.placed(self.spatial))

    def check_part(self, state: State, bound: float, part: Any) -> None:
        """Holds a part that is claimed, or None for one that is left out, against its bound; and its parts in turn."""
        if part is None:
            return need(bound >= self.limit * (1 - SAME), f"a part of bound {bound} is left out")
        need(same(bound, part["bound"]) and bound < self.limit * (1 + SAME), f"a part has the bound {bound}")
        if not state.level:
            return self.check_mappings(state, part)
        claimed = {(tuple(one["factors"]), self.signature(state.level, self.looping(
            state.level, one["factors"], one["order"]))): one for one in part["parts"]}
        need(len(claimed) == len(part["parts"]), "a part twice")
        chosen = [(factors, signature, order) for factors in self.factors(state) for signature, order in self.classes(
            state.level, frozenset(d for d in self.dims if factors[d] > 1), self.keep).items()]
        states = [self.entered(state, factors, order) for factors, _, order in chosen]
        for (factors, signature, _), inner, least in zip(chosen, states, self.bounds_of(states), strict=True):
            self.check_part(inner, least, claimed.pop((factors, signature), None))
        need(not claimed, "a part that is none")

    def check_mappings(self, state: State, part: Any) -> None:
        """Evaluates a part whose loops are fixed: one mapping; if loose, every order its own covers, and layout."""
        (factors,) = self.factors(state)
        innermost = next(self.permitted(0, [d for d in self.dims if factors[d] > 1]))
        temporal, order = zip((factors, innermost), *state.outer, strict=True)
        loose = self.loose or any(words.loose for words in state.words)
        orders = itertools.product(*([one for one in self.permitted(level, own) if self.covers(level, own, one)]
                                     for level, own in enumerate(order))) if loose else [order]
        values = list(self.values(temporal, orders, itertools.islice(self.placed(self.spatial), None if loose else 1)))
        best, self.evaluated = min(values), self.evaluated + len(values)
        need(best >= self.limit * (1 - SAME), f"a mapping has the value {best}")
        need(part["mappings"] == len(values), f"{len(values)} mappings in a part")
        need(best == inf if part["least"] is None else same(best, part["least"]), f"{best} is the least of a part")

    def values(self, temporal: Sequence[Any], orders: Iterable[Any], layouts: Iterable[Layout]) -> Iterator[float]:
        """The metric of mappings in every layout and order; infinite for illegal ones."""
        every = itertools.product(layouts, orders)
        while rows := list(itertools.islice(every, 4096)):
            scores = score(self.layer, joined([self.nest(temporal, order, layout) for layout, order in rows]))
            found = self.metric_of(scores.energy, scores.cycles, scores.last_level_accesses)
            yield from np.where(scores.legal, found, inf).tolist()

    def nest(self, temporal: Sequence[Any], orders: Sequence[Any], layout: Layout) -> Nest:
        """One mapping of the scheme."""
        in_time, in_space = ([[*order, *(d for d in self.dims if d not in order)] for order in own]
                             for own in (orders, [order for order, _ in layout]))
        on_y = [[d in along_y for d in self.dims] for _, along_y in layout]
        return Nest(*(np.array(rows)[..., None] for rows in (
            np.array(temporal, dtype=float), self.spatial, in_time, self.keep, on_y, in_space)))


def check(content: Any, spec: Spec) -> str:
    """What a certificate, as its JSON text says, proves for its input; Rejected, with the reason, where it does not."""
    try:
        (checker := Checker(spec, content["metric"], content["limit"])).check_schemes(content)
    except (ArithmeticError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Rejected(f"certificate: cannot be understood: {type(error).__name__}: {error}") from None
    return (f"{spec.problem.name}: proved: no mapping has less {checker.metric} than {checker.limit:.10g}, one has "
            f"{content['value']:.10g}; {checker.counted:,} parts bounded, {checker.evaluated:,} mappings evaluated")
