"""Checks the certificate of a proof by itself: `fadiff-validate certificate FILE.json INPUT...`.

A certificate claims that no legal mapping of a layer has a metric below a *limit*, the value of a given mapping over
1 + gap. It holds all *parts* of the map space with a bound below the limit: schemes (spatial factors, and what
levels keep), in them choices of the temporal loops of the outermost level, then of the next, down to mappings. This
program divides the map space in the same way, computes every bound anew, and accepts if the given mapping is legal and
has its value, the parts below the limit and their bounds are the certificate's, and no mapping of a part that cannot be
divided is below the limit.

It takes from the package the reading of the input, the factors and orders that constraints leave open, and the exact
evaluation of mappings. `docs/theory/lower_bound.md` states and proves the rules, by the names that they have here.

Levels i = 0 (innermost) ... L - 1, dimensions d, data spaces t, by number. A *box* is a number of points for each d.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import ceil, floor, inf, isclose, prod
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.spec import Spec, metric_of
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.model.prepared_layer import UNLIMITED
from fadiff_mapper.search.mapspace.build import build_mapspace, orders_at

SAME = 1e-9
"""Numbers that differ by less than this share are equal: sums differ in their last bits."""

same = partial(isclose, rel_tol=SAME)

Box = tuple[float, ...]
Layout = tuple[tuple[tuple[int, ...], tuple[bool, ...]], ...]


class Rejected(FadiffError):
    """The certificate does not prove what it claims."""


def need(right: bool, what: str) -> None:
    if not right:
        raise Rejected(f"certificate: {what}")


def smallest_factor(whole: float) -> float:
    return next((float(factor) for factor in range(2, int(whole ** 0.5) + 1) if whole % factor == 0), whole)


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
    tile: Box                 # of the level
    loops: tuple[Loop, ...]   # innermost first
    words: tuple[Words, ...]  # of the crossings whose words these loops decide


@dataclass(eq=False)
class Checker:
    """The layer, its map space and, one after the other, its schemes."""

    spec: Spec
    metric: str
    limit: float
    counted: int = 0
    evaluated: int = 0

    def __post_init__(self) -> None:
        self.layer = layer_of(self.spec)
        self.space = build_mapspace(self.layer.arch, self.spec.problem, self.spec.constraints)
        problem, machine = self.spec.problem, self.layer.machine
        self.names, self.bounds = problem.dimensions, tuple(float(bound) for bound in problem.bounds.values())
        self.levels, self.dims = len(self.space.levels), range(len(self.bounds))
        self.tensors = range(len(problem.dataspaces))
        self.ranks = [[[(self.names.index(term.dimension), float(term.coefficient)) for term in rank
                        if problem.bounds[term.dimension] > 1] for rank in space.ranks] for space in problem.dataspaces]
        self.written = list(self.layer.projection.read_write)
        self.relevant = [frozenset(d for rank in ranks for d, _ in rank) for ranks in self.ranks]
        self.usable = [level.usable for level in self.layer.arch.levels]
        self.units: list[Any] = [self.layer.arch.arithmetic, *self.layer.arch.levels]  # below each level
        self.shared = [frozenset(d for rank in ranks if len(rank) > 1 for d, _ in rank) for ranks in self.ranks]
        self.own = [relevant - shared for relevant, shared in zip(self.relevant, self.shared, strict=True)]
        self.plain = [not shared and all(c == 1 for rank in ranks for _, c in rank)
                      for ranks, shared in zip(self.ranks, self.shared, strict=True)]
        need(not any(w and not p for w, p in zip(self.written, self.plain, strict=True))
             and all(sum(map(len, ranks)) == len(relevant) and all(c for rank in ranks for _, c in rank)
                     for ranks, relevant in zip(self.ranks, self.relevant, strict=True))
             and self.layer.machine.element_words is None,
             "an output with windows, a dimension in several ranks, a coefficient of 0, or bits; accepted: none")
        self.price = {name: np.asarray(getattr(machine, name)).ravel().tolist() for name in (
            "read", "fill", "update", "block", "clusters", "leak", "addr_gen", "read_bandwidth", "write_bandwidth",
            "shared_bandwidth", "gated")}
        self.scale = np.asarray(machine.bandwidth_scale)[..., 0].tolist()
        self.place = [[(*loops.inner, name).index(name) + (name, *loops.outer).index(name, name in loops.outer)
                       for name in self.names] for loops in (level.temporal for level in self.space.levels)]
        self.place.append([0] * len(self.names))  # of loops of several levels, level -1

    def schemes(self) -> Iterator[tuple[tuple[Box, ...], tuple[tuple[bool, ...], ...]]]:
        """Spatial factors and kept data spaces, each by level: every choice with a layout that the meshes hold."""
        keeps = list(itertools.product(*(itertools.product(*(
            (True,) if name in level.keep else (True, False) if name in level.open else (False,)
            for name in self.spec.problem.dataspace_names())) for level in self.space.levels)))
        rows: list[tuple[Box, ...]] = [()]
        for level in reversed(range(self.levels)):
            choices = self.space.levels[level].spatial.choices
            own = [factors for factors in itertools.product(*(choices[name] for name in self.names))
                   if prod(factors) <= self.units[level].instances]
            rows = [(factors, *row) for row in rows for factors in own
                    if all(bound % (f * prod(outer[d] for outer in row)) == 0
                           for d, (f, bound) in enumerate(zip(factors, self.bounds, strict=True)))]
        least = self.space.constraints.min_parallelism * self.space.available
        for spatial in rows:
            if next(self.placed(spatial), None) and prod(map(prod, spatial)) >= least:
                yield from ((spatial, keep) for keep in keeps)

    def placed(self, spatial: tuple[Box, ...], level: int = -1, x: float = 1, y: float = 1) -> Iterator[Layout]:
        """Every layout of spatial loops that the meshes hold: order and loops on Y, level by level."""
        level = self.levels - 1 if level == -1 else level
        real = [d for d in self.dims if spatial[level][d] > 1]
        for order, on_y in orders_at(self.space, 2 * level, real):
            wide, high = (along * prod(spatial[level][d] for d in real if (d in on_y) == side)
                          for side, along in enumerate((x, y)))
            unit = self.units[level]
            if wide <= unit.mesh_x and high <= unit.mesh_y and wide * high <= unit.instances:
                own = (*order, *(d for d in self.dims if d not in real)), tuple(d in on_y for d in self.dims)
                yield from [(own,)] if not level else (
                    (*inner, own) for inner in self.placed(spatial, level - 1, wide, high))

    @cache  # noqa: B019
    def reachable(self, level: int, d: int, spatial: tuple[float, ...]) -> frozenset[float]:
        """Points that the temporal loops up to a level, and these spatial ones, can have in a dimension."""
        inside = self.reachable(level - 1, d, spatial) if level else frozenset({1.0})
        extent, choices = spatial[level], self.space.levels[level].temporal.choices[self.names[d]]
        return frozenset(p * f * extent for p in inside for f in choices if self.bounds[d] % (p * f * extent) == 0)

    def factors(self, state: State) -> Iterator[Box]:
        """Temporal factors of a state's level that leave the levels within something to do."""
        choices = []
        for d in self.dims:
            left = state.tile[d] / self.spatial[state.level][d]
            inside = self.reachable(state.level - 1, d, self.along[d]) if state.level else {1.0}
            choices.append([float(f) for f in self.space.levels[state.level].temporal.choices[self.names[d]]
                            if left % f == 0 and left / f in inside])
        return itertools.product(*choices)

    def words(self, t: int, box: Sequence[float]) -> float:
        """Words of a box as Timeloop counts them: the product of the extents of its ranks."""
        return prod(1 + sum(c * (box[d] - 1) for d, c in rank) for rank in self.ranks[t])

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

    def begin(self, spatial: tuple[Box, ...], keep: tuple[tuple[bool, ...], ...]) -> State | None:
        """The state without any temporal loop; None where a scheme has no mapping."""
        self.spatial, self.keep, self.along = spatial, keep, list(zip(*spatial, strict=True))
        reach = [[self.reachable(i, d, self.along[d]) for d in self.dims] for i in range(self.levels)]
        if any(self.bounds[d] not in reach[-1][d] for d in self.dims):
            return None
        self.open = next(i for i in range(self.levels) if i == self.levels - 1 or any(
            max(reach[i][d]) > prod(self.along[d][:i + 1]) for d in self.dims))  # innermost with temporal loops
        self.used = [prod(prod(level) for level in spatial[i + 1:]) for i in range(self.levels)]
        self.cycles = prod(self.bounds) / prod(map(prod, spatial))
        self.loose = self.layer.network_priced or any(  # receivers may want the same words of a window
            sum(level[d] > 1 for d, _ in rank) > 1 for level in spatial for ranks in self.ranks for rank in ranks)
        self.crossings = []  # (t, inner, outer) of consecutive levels that keep t; inner -1 is the arithmetic
        for t in self.tensors:
            kept = [i for i in range(self.levels) if keep[i][t]]
            if not kept:
                return None
            self.crossings += [(t, inner, outer) for inner, outer in itertools.pairwise((-1, *kept))]
        words = []
        for t, inner, outer in self.crossings:
            if inner < 0:  # rule "arithmetic": a word per cycle, unless neighbours hand it on
                linked = bool(self.layer.reuse.linked[0, t]) and prod(spatial[0]) > 1
                asked = (self.distinct(t, self.bounds, True) / self.used[outer] / self.between(t, inner, outer)
                         if linked else self.cycles)
                words.append(Words(t, inner, outer, asked, asked, linked))
        state = State(self.levels - 1, self.bounds, (), tuple(words))
        return state if self.fits(state) else None

    def between(self, t: int, inner: int, outer: int) -> float:
        """Receivers of one instance of `outer` at `inner` with words of their own, at least."""
        return prod(1 + sum(level[d] - 1 for d, _ in rank)
                    for level in self.spatial[inner + 1:outer + 1] for rank in self.ranks[t])

    def neighbours(self, t: int, inner: int) -> bool:
        """Whether receivers at `inner` may hand on words of a window to each other."""
        return any(self.layer.reuse.linked[inner + 1, t] and self.spatial[inner + 1][d] > 1 for d in self.shared[t])

    def fits(self, state: State) -> bool:
        """Whether a level holds the tiles that it keeps."""
        room = self.usable[state.level]
        return room is None or sum(self.words(t, state.tile) for t in self.tensors if self.keep[state.level][t]) <= room

    def moved(self, t: int, points: Any) -> Box:
        """How far so many points in each dimension move a tile in each rank, in words."""
        return tuple(sum(c * points[d] for d, c in rank) for rank in self.ranks[t])

    @cache  # noqa: B019
    def near(self, t: int, level: int, spatial: tuple[Box, ...], tile: Box) -> dict[Box, float]:
        """Moves from receivers below a level to a neighbour; the share of receivers, at most, that have one there."""
        extent, found = spatial[level], dict[Box, float]()
        others = [r for r, rank in enumerate(self.ranks[t]) if not self.own[t].isdisjoint(d for d, _ in rank)]
        groups = any(sum(extent[d] > 1 for d, _ in rank) > 1 for rank in self.ranks[t])  # with equal words, of any size
        for order, on_y in (layout[level] for layout in self.placed(spatial)) if self.neighbours(t, level - 1) else ():
            points, number, there = dict[int, Any](), np.arange(prod(extent)), dict[Box, set[int]]()
            for d in sorted(order, key=lambda d: on_y[d]):  # receivers are numbered along X first
                points[d], number = number % extent[d] * tile[d], number // extent[d]
            offset = np.array([by + 0 * number for by in self.moved(t, points)]).T
            wide = int(max(prod(extent[d] for d in order if not on_y[d]), self.layer.arch.fanout(level)[0]))
            for here, other in itertools.permutations(range(len(offset)), 2):
                if abs(here - other) == wide or (abs(here - other) == 1 and here // wide == other // wide):
                    there.setdefault(tuple((offset[other] - offset[here]).tolist()), set()).add(here)
            for move, receivers in there.items():
                if not any(move[r] for r in others):
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
        if self.plain[t] or not loops or loops[0].d in self.own[t]:
            words *= prod(loop.bound for loop in loops)
            return words, words, False
        first, near = loops[0], self.near(t, inner + 1, self.spatial, tile)
        along = {loop: self.moved(t, [loop.step * (d == loop.d) for d in self.dims]) for loop in loops}
        step, extents = along[first], [1 + sum(c * (tile[d] - 1) for d, c in rank) for rank in self.ranks[t]]
        fresh = 1 - prod(max(n - abs(by), 0) for n, by in zip(extents, step, strict=True)) / words
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
        run = smallest_factor(first.bound) if first.several else first.bound  # a split one at least the smallest factor
        slides, kept = fresh * prod(loop.bound for loop in loops) * (1 - 1 / run), near.get(step, 0.0)
        received, sent = (words * (share + slides * left) for share, left in zip(map(
            fewest, ([one[:2] for one in calls], [one[::2] for one in calls])), (1, 1 - kept), strict=True))
        return received, sent, first.several or kept > 0 or any(one[1:] != (1, 1) for one in calls)

    def reached(self, steps: Sequence[tuple[Sequence[float], float, float]], move: Box) -> bool:
        """Whether steps within these ranges can add up to a move; may err towards yes."""
        for r, by in enumerate(move):
            rank = [(one[r], low, high) for one, low, high in steps if one[r]]
            least, most = (sum(pick(one * low, one * high) for one, low, high in rank) for pick in (min, max))
            free = [one for one, low, high in rank if low != high]
            if not least <= by <= most or (len(free) == 1 and (by - least) % free[0]):
                return False
        return True

    def innermost(self, t: int, inner: int, state: State, left: Box, first: int) -> tuple[float, float, bool]:
        """The same for a register below all open loops, which have `left` iterations of each dimension.

        Rule "innermost loop": where it goes over `first`, which moves the tile, all others repeat its calls.
        """
        received, sent, loose = self.least(t, inner, state)
        outside = any(level[d] > 1 for level in self.spatial[self.open + 1:] for d in self.shared[t])
        if outside and first in self.shared[t]:
            return received, sent, loose  # steps have several lengths
        tile, several = tuple(prod(self.along[d][:inner + 1]) for d in self.dims), state.level > self.open
        loops = [Loop(d, -1 if several else state.level, left[d], prod(self.along[d][:self.open + 1]),
                      several and smallest_factor(left[d]) < left[d])
                 for d in sorted(self.dims, key=lambda d: d != first) if left[d] > 1]
        more, sent_more, loose = self.decided(t, inner, tile, (*loops, *state.loops))
        return max(received, more), max(sent, sent_more), loose

    def least(self, t: int, inner: int, state: State) -> tuple[float, float, bool]:
        """The same for a receiver within the state's level, or that level.

        Rule "inner levels": the words of the level's tile cross again for every visit, and for every loop outside where
        the receiver cannot hold its share. Rule "unions": of windows the distinct words of all loops over them.
        """
        visits = prod(loop.bound for loop in self.moving(t, state.loops))
        # receivers may want some of the same words: at most so many have words of their own, and `between` at least
        receivers = prod(self.along[d][i] for i in range(inner + 1, state.level + 1) for d in self.relevant[t])
        if self.plain[t]:
            words, room = self.words(t, state.tile) / receivers, self.usable[inner]
            words *= prod(loop.bound for loop in state.loops) if room is not None and words > room else visits
            return words, words, False
        grown = list(state.tile)
        for loop in state.loops:
            if loop.d in self.shared[t]:
                grown[loop.d], visits = grown[loop.d] * loop.bound, visits / loop.bound
        touched = max(self.distinct(t, state.tile, True), self.distinct(t, grown, False))
        sent = touched * (1 if self.neighbours(t, inner) else visits) / self.between(t, inner, state.level)
        return touched * visits / receivers, sent, True

    def bound(self, state: State) -> float:
        """The bound of all mappings with a state's loops: the least of all loops that can be innermost."""
        self.counted += 1
        left = tuple(points / prod(self.along[d][:state.level + 1]) for d, points in enumerate(state.tile))
        looping = [d for d in self.dims if left[d] > 1] if state.level >= self.open else []
        place = self.place[state.level]  # loops can be innermost as constraints say in one open level, all in several
        least = min((place[d] for d in looping), default=0)
        return min(self.value(state, left, d) for d in [
            d for d in looping if state.level > self.open or place[d] == least] or [-1])

    def value(self, state: State, left: Box, first: int) -> float:
        """The same where the innermost open loop goes over `first`; -1 where there is none.

        Rule "charges": the accesses of both levels of a crossing, rounded as Timeloop may round them.
        """
        words = [*state.words, *(
            Words(t, inner, outer, *(self.innermost(t, inner, state, left, first) if first in self.relevant[t]
                                     and inner < self.open else self.least(t, inner, state)))
            for t, inner, outer in self.crossings if 0 <= inner < state.level)]
        paid = []  # level, data space, words of an instance, action, whether their addresses are generated
        for t, inner, outer, received, sent, loose in words:
            # words over links: divided by the receivers of all instances
            filled = min(received, sent) + max(received - sent, 0) / self.used[inner + 1]
            filled = max(ceil(filled - 1 - 1e-6), 0) if loose else floor(filled + 1e-6)
            asked = ceil(sent * self.between(t, inner, outer) - 0.5 - 1e-6)
            first_inner, first_outer = (self.words(t, self.bounds) / self.between(t, level, self.levels - 1)
                                        if self.written[t] else 0 for level in (inner, outer))  # rule "first writes"
            paid.append((outer, t, max(asked - first_outer, 0), "read", not self.written[t]))
            if self.written[t]:
                paid.append((outer, t, asked, "update", True))
            if inner >= 0:
                paid.append((inner, t, max(filled - first_inner, 0), "fill", True))
        energy, accessed = prod(self.bounds) * float(self.layer.machine.compute_energy), 0.0
        asked_for = {"read": [0.0] * self.levels, "write": [0.0] * self.levels}
        for level, t, amount, action, addressed in paid:
            energy += min(self.used[level], self.price["clusters"][level]) * (
                ceil(amount / self.price["block"][level] - 1e-9) * self.price[action][level]
                + addressed * amount * self.price["addr_gen"][level])
            accessed += amount * self.used[level] if level == self.levels - 1 else 0
            asked_for["read" if action == "read" else "write"][level] += amount * self.scale[level][t]
        busy = self.cycles
        for i, (read, written) in enumerate(zip(*asked_for.values(), strict=True)):  # rule "bandwidths"
            for name, asked in (("read", read), ("write", written), ("shared", read + written)):
                if (rate := self.price[f"{name}_bandwidth"][i]) < UNLIMITED:
                    busy = max(busy, ceil(asked / rate * (1 - 1e-12)))
        gate, gated = self.layer.machine.gate, self.price["gated"]
        energy += sum(busy * leak * (self.used[gate[i]] * gated[i] if gated[i] > 1 else self.used[i])
                      for i, leak in enumerate(self.price["leak"]))
        return float(metric_of(self.metric, energy, busy + self.layer.machine.network_latency, accessed))

    # Orders: mappings with equal factors whose orders have the same signature have the same words, or are loose.

    def permitted(self, level: int, looping: frozenset[int]) -> Iterator[tuple[int, ...]]:
        """Every order of the loops of several iterations of a level."""
        loops = self.space.levels[level].temporal
        inner, between, outer = ([self.names.index(name) for name in part if self.names.index(name) in looping]
                                 for part in (loops.inner, loops.between, loops.outer))
        return ((*inner, *order, *outer) for order in itertools.permutations(between))

    def looping(self, level: int, factors: Box, order: list[int]) -> tuple[int, ...]:
        """The loops of several iterations of an order; Rejected where constraints do not permit it."""
        own = tuple(d for d in order if factors[d] > 1)
        need(sorted(order) == list(self.dims) and own in self.permitted(level, frozenset(own)), "an order")
        return own

    def signature(self, level: int, order: Sequence[int]) -> tuple[tuple[frozenset[int], int], ...]:
        """For each data space sent further in: loops inside the first one that moves it; and that loop, of a window."""
        first = {t: next((i for i, d in enumerate(order) if d in self.relevant[t]), len(order))
                 for t in sorted({t for t, inner, _ in self.crossings if 0 <= inner < level})}
        return tuple((frozenset(order[:i]), next((d for d in order[i:i + 1] if d in self.shared[t]), -1))
                     for t, i in first.items())

    @cache  # noqa: B019
    def classes(self, level: int, looping: frozenset[int], keep: tuple[tuple[bool, ...], ...]) -> Any:
        """An order for every signature that no other one exceeds: more loops inside never send more words."""
        found = {self.signature(level, order): order for order in self.permitted(level, looping)}
        return {one: order for one, order in found.items() if not any(other != one and all(
            idle <= more and mover == own for (idle, mover), (more, own) in zip(one, other, strict=True))
            for other in found)}

    def entered(self, state: State, factors: Box, order: Sequence[int]) -> State | None:
        """The state of the next level within; None where its tile does not fit."""
        level, spatial = state.level, self.spatial[state.level]
        tile = tuple(state.tile[d] / (factors[d] * spatial[d]) for d in self.dims)
        loops = (*(Loop(d, level, factors[d], tile[d] * spatial[d]) for d in order), *state.loops)
        words = (Words(t, inner, outer, *self.decided(t, inner, tile, loops))
                 for t, inner, outer in self.crossings if inner == level - 1)
        inner = State(level - 1, tile, loops, (*state.words, *words))
        return inner if self.fits(inner) else None

    def check_schemes(self, content: Any) -> None:
        """Holds a certificate against all schemes, and the mapping that it gives against its value."""
        value, gap, given = content["value"], content["gap"], content["mapping"]
        need(content["version"] == 1 and content["bounds"] == dict(self.spec.problem.bounds), "another problem")
        need(gap >= 0 and abs(self.limit - value * (1 - SAME) / (1 + gap)) <= SAME / 1000 * self.limit, "a wrong limit")
        spatial, temporal = (tuple(tuple(map(float, row)) for row in given[name]) for name in ("spatial", "temporal"))
        claimed = {(tuple(tuple(map(float, row)) for row in one["spatial"]), tuple(map(tuple, one["keep"]))): one
                   for one in content["schemes"]}
        need(len(claimed) == len(content["schemes"]), "a scheme twice")
        known = False
        for scheme in self.schemes():
            state, part = self.begin(*scheme), claimed.pop(scheme, None)
            if scheme == (spatial, tuple(map(tuple, given["keep"]))):
                known = any(same(found, value) for found in self.given_values(temporal, given["order"]))
            if self.opened(state, part):
                self.check_parts(state, (), part["parts"])
        need(not claimed, "a scheme that is none")
        need(known, f"no legal mapping of the value {value} is given")

    def opened(self, state: State | None, part: Any) -> TypeGuard[State]:
        """Whether a part of this state, None where it has no mapping, is claimed: rightly, or left out rightly."""
        bound = inf if state is None else self.bound(state)
        if part is None:
            need(bound >= self.limit * (1 - SAME), f"a part of bound {bound} is left out")
            return False
        need(same(bound, part["bound"]) and bound < self.limit * (1 + SAME), f"a part has the bound {bound}")
        return True

    def given_values(self, temporal: tuple[Box, ...], orders: list[list[int]]) -> Any:
        """Values of a mapping of the scheme, layout by layout, once it is found to lie in the map space."""
        for level, (factors, order) in enumerate(zip(temporal, orders, strict=True)):
            choices = self.space.levels[level].temporal.choices
            need(all(factors[d] in choices[name] for d, name in enumerate(self.names)), "a mapping of no map space")
            self.looping(level, factors, order)
        points = [prod(level[d] for level in (*self.spatial, *temporal)) for d in self.dims]
        need(points == list(self.bounds), "a mapping of other bounds")
        return self.values([self.nest(temporal, orders, layout) for layout in self.placed(self.spatial)]).tolist()

    def values(self, nests: list[Nest]) -> np.ndarray:
        """The metric of mappings; infinite for illegal ones."""
        scores = score(self.layer, joined(nests))
        found = metric_of(self.metric, scores.energy, scores.cycles, scores.last_level_accesses)
        return np.where(scores.legal, found, inf)

    def check_parts(self, state: State, outer: tuple[tuple[Box, tuple[int, ...]], ...], parts: Any) -> None:
        """Holds the parts of a state that are claimed against the bounds of all of its parts."""
        claimed: dict[Any, Any] = {}
        for part in parts:
            factors = tuple(map(float, part["factors"]))
            own = self.looping(state.level, factors, part["order"])
            key = factors, self.signature(state.level, own)
            need(key not in claimed, "a part twice")
            claimed[key] = own, part
        for factors in self.factors(state):
            looping = frozenset(d for d in self.dims if factors[d] > 1)
            for signature, order in self.classes(state.level, looping, self.keep).items():
                own, part = claimed.pop((factors, signature), (order, None))
                inner = self.entered(state, factors, own)
                if self.opened(inner, part):
                    if inner.level:
                        self.check_parts(inner, (*outer, (factors, own)), part["parts"])
                    else:
                        self.check_mappings(inner, (*outer, (factors, own)), part)
        need(not claimed, "a part that is none")

    def check_mappings(self, state: State, outer: tuple[tuple[Box, tuple[int, ...]], ...], part: Any) -> None:
        """Evaluates the mappings of a part whose loops are fixed: one; every order and layout where that is loose."""
        best, count, loose = inf, 0, self.loose or any(one.loose for one in state.words)
        for factors in self.factors(state):
            levels = [(factors, next(self.permitted(0, frozenset(d for d in self.dims if factors[d] > 1)))),
                      *reversed(outer)]
            temporal, orders = [own for own, _ in levels], [tuple(order for _, order in levels)]
            placed = list(itertools.islice(self.placed(self.spatial), None if loose else 1))
            if loose:
                orders = list(itertools.product(*(self.permitted(level, frozenset(order))
                                                  for level, (_, order) in enumerate(levels))))
            every = itertools.product(placed, orders)
            while rows := list(itertools.islice(every, 4096)):
                best = min(best, *self.values([self.nest(temporal, order, layout) for layout, order in rows]).tolist())
                count += len(rows)
        self.evaluated += count
        need(best >= self.limit * (1 - SAME), f"a mapping has the value {best}")
        need(part["mappings"] == count, f"{count} mappings in a part")
        need(best == inf if part["least"] is None else same(best, part["least"]), f"{best} is the least of a part")

    def nest(self, temporal: Sequence[Box], orders: Sequence[Sequence[int]], layout: Layout) -> Nest:
        """One mapping of the scheme."""
        full = [[*order, *(d for d in self.dims if d not in order)] for order in orders]
        return Nest(*(np.array(rows)[..., None] for rows in (
            temporal, self.spatial, full, self.keep, [on_y for _, on_y in layout], [order for order, _ in layout])))


def check(content: Any, spec: Spec) -> str:
    """What a certificate, as its JSON text says, proves for its input; Rejected, with the reason, where it does not."""
    try:
        checker = Checker(spec, content["metric"], content["limit"])
        checker.check_schemes(content)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Rejected(f"certificate: cannot be understood: {type(error).__name__}: {error}") from None
    return (f"{spec.problem.name}: proved: no mapping has less {checker.metric} than {checker.limit:.10g}, one has "
            f"{content['value']:.10g}; {checker.counted:,} parts bounded, {checker.evaluated:,} mappings evaluated")
