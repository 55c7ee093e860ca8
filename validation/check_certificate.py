"""Checks the certificate of a proof by itself: `fadiff-validate certificate FILE.json INPUT...`.

A certificate claims that no legal mapping of a layer has a metric below a *limit*, the value of a given mapping over
1 + gap. It holds all *parts* of the map space whose bound is below the limit: schemes (all spatial factors, and the data
spaces that levels keep), below them choices of the temporal loops of the outermost level, then of the next, down to
mappings. This program goes through the same division, computes the bound of every part, and accepts if

1. the mapping is legal and has the value that is claimed;
2. the parts below the limit are those of the certificate, with the same bounds, no fewer and no more;
3. mappings of parts that cannot be divided further have no value below the limit.

It takes from the package the reading of the input, the map space (the factors and orders that constraints leave open) and
the exact evaluation of mappings. Bounds are those of `docs/theory/lower_bound.md`, each rule with its name there.

Levels l = 0 (innermost) ... L - 1, dimensions d, data spaces t, by number. A *box* is a number of points for each d.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.model.prepared_layer import UNLIMITED
from fadiff_mapper.search.mapspace import available, build_mapspace
from fadiff_mapper.search.mapspace.orders import orders_at

SAME = 1e-9
"""Numbers that differ by less than this share are equal: sums differ in their last bits."""

BATCH = 4096
"""Mappings evaluated at a time."""

Box = tuple[float, ...]


class Rejected(FadiffError):
    """The certificate does not prove what it claims."""


def need(right: bool, what: str) -> None:
    """Raises Rejected unless something holds."""
    if not right:
        raise Rejected(f"certificate: {what}")


def same(a: float, b: float) -> bool:
    """Whether two numbers are equal but for the order of sums."""
    return abs(a - b) <= SAME * max(abs(a), abs(b))


@dataclass(frozen=True)
class Loop:
    """A temporal loop outside: dimension, iterations, and points from one iteration to the next."""

    d: int
    bound: float
    step: float


@dataclass(frozen=True)
class State:
    """All loops further out than level `level` are fixed; sums are over the crossings whose words these decide.

    `tile` is the box of the level; `visits` for each t the iterations of the innermost loop that moves its tile and of all
    outside; `outside` those of all loops; `reads` and `writes` are words per instance of each level.
    """

    level: int
    tile: Box
    visits: tuple[float, ...]
    outside: float
    loops: tuple[Loop, ...]  # innermost first
    energy: float
    accessed: float
    reads: tuple[float, ...]
    writes: tuple[float, ...]
    loose: bool


@dataclass(eq=False)
class Checker:
    """The layer, its map space and, one after the other, its schemes."""

    spec: Spec
    metric: str
    limit: float
    counted: int = 0
    evaluated: int = 0
    scatter: dict[tuple[int, int], float] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.layer = layer_of(self.spec)
        self.space = build_mapspace(self.layer.arch, self.spec.problem, self.spec.constraints)
        problem, machine = self.spec.problem, self.layer.machine
        self.names, self.bounds = problem.dimensions, tuple(float(bound) for bound in problem.bounds.values())
        self.levels, self.dims, self.tensors = len(self.space.levels), range(len(self.bounds)), range(len(problem.dataspaces))
        self.ranks = [[[(self.names.index(term.dimension), float(term.coefficient)) for term in rank]
                       for rank in space.ranks] for space in problem.dataspaces]
        self.written = list(self.layer.projection.read_write)
        self.relevant = [frozenset(d for rank in ranks for d, _ in rank) for ranks in self.ranks]
        self.usable = [level.usable for level in self.layer.arch.levels]
        looping = [[[d for d, _ in rank if self.bounds[d] > 1] for rank in ranks] for ranks in self.ranks]
        self.shared = [frozenset(d for rank in ranks if len(rank) > 1 for d in rank) for ranks in looping]
        self.own = [frozenset(d for rank in ranks for d in rank) - shared
                    for ranks, shared in zip(looping, self.shared, strict=True)]
        self.several = [frozenset(d for d in self.dims if sum(d in rank for rank in ranks) > 1) for ranks in looping]
        self.plain = [not shared and not several and all(c == 1 for rank in ranks for d, c in rank if self.bounds[d] > 1)
                      for ranks, shared, several in zip(self.ranks, self.shared, self.several, strict=True)]
        need(not any(w and not p for w, p in zip(self.written, self.plain, strict=True)), "an output with windows")
        self.price = {name: np.asarray(getattr(machine, name)).ravel().tolist() for name in (
            "read", "fill", "update", "block", "clusters", "leak", "addr_gen", "read_bandwidth", "write_bandwidth",
            "shared_bandwidth", "gated")}
        self.scale = np.asarray(machine.bandwidth_scale)[..., 0].tolist()

    # The map space: what constraints and meshes leave open.

    def schemes(self) -> Iterator[tuple[tuple[Box, ...], tuple[tuple[bool, ...], ...]]]:
        """Spatial factors and kept data spaces, each by level: every choice with a layout that the meshes hold."""
        names = self.spec.problem.dataspace_names()
        keeps = list(itertools.product(*(itertools.product(*(
            (True,) if name in level.keep else (True, False) if name in level.open else (False,) for name in names))
            for level in self.space.levels)))
        least = self.space.constraints.min_parallelism * available(self.space)

        def inwards(level: int, left: Box, reach: set[tuple[float, float]],
                    chosen: tuple[Box, ...]) -> Iterator[tuple[Box, ...]]:
            if level < 0:
                if all(left[d] in self.reachable(self.levels - 1, d, None) for d in self.dims) \
                        and prod(map(prod, chosen)) >= least:
                    yield chosen
                return
            for factors in self.wide(level):
                if all(left[d] % factors[d] == 0 for d in self.dims):
                    wider = {(x * dx, y * dy) for x, y in reach for dx, dy in self.extents(level, factors)}
                    wider = {(x, y) for x, y in wider if self.holds(level, x, y)}
                    if wider:
                        yield from inwards(level - 1, tuple(left[d] // factors[d] for d in self.dims), wider,
                                           (factors, *chosen))
        for spatial in inwards(self.levels - 1, self.bounds, {(1, 1)}, ()):
            yield from ((spatial, keep) for keep in keeps)

    def holds(self, level: int, x: float, y: float) -> bool:
        """Whether the units below a level's fan-out are so many along each axis."""
        unit = self.layer.arch.levels[level - 1] if level else self.layer.arch.arithmetic
        return bool(x <= unit.mesh_x and y <= unit.mesh_y and x * y <= unit.instances)

    @cache  # noqa: B019  a checker lives as long as its check
    def wide(self, level: int) -> list[Box]:
        """Spatial factors of a level that its unit holds in some layout."""
        unit = self.layer.arch.levels[level - 1] if level else self.layer.arch.arithmetic
        rows: list[Box] = [()]
        for name in self.names:
            rows = [(*row, float(f)) for row in rows for f in self.space.levels[level].spatial.choices[name]
                    if prod(row) * f <= unit.instances]
        return [row for row in rows if any(self.holds(level, x, y) for x, y in self.extents(level, row))]

    def layouts(self, level: int, factors: Box) -> Iterator[tuple[tuple[int, ...], tuple[bool, ...], float, float]]:
        """Order, loops on Y, and extent along X and Y of every layout of a level's spatial loops."""
        real = [d for d in self.dims if factors[d] > 1]
        for order, on_y in orders_at(self.space, 2 * level, real):
            yield ((*order, *(d for d in self.dims if d not in real)), tuple(d in on_y for d in self.dims),
                   prod(factors[d] for d in real if d not in on_y), prod(factors[d] for d in real if d in on_y))

    @cache  # noqa: B019
    def extents(self, level: int, factors: Box) -> frozenset[tuple[float, float]]:
        """Extents along X and Y that the layouts of a level's loops have."""
        return frozenset((x, y) for _, _, x, y in self.layouts(level, factors))

    @cache  # noqa: B019
    def reachable(self, level: int, d: int, spatial: tuple[float, ...] | None) -> frozenset[float]:
        """Points that the temporal loops up to a level, and these spatial ones, can have in a dimension."""
        inside = self.reachable(level - 1, d, spatial) if level else frozenset({1.0})
        extent = spatial[level] if spatial else 1
        return frozenset(p * f * extent for p in inside for f in self.space.levels[level].temporal.choices[self.names[d]]
                         if self.bounds[d] % (p * f * extent) == 0)

    def factors(self, state: State) -> Iterator[Box]:
        """Temporal factors of a state's level that leave the levels within something to do."""
        choices = []
        for d in self.dims:
            left, along = state.tile[d] / self.spatial[state.level][d], tuple(level[d] for level in self.spatial)
            inside = self.reachable(state.level - 1, d, along) if state.level else {1.0}
            choices.append([float(f) for f in self.space.levels[state.level].temporal.choices[self.names[d]]
                            if left % f == 0 and left / f in inside])
        return itertools.product(*choices)

    # Words.

    def words(self, t: int, box: Sequence[float]) -> float:
        """Words of a box as Timeloop counts them: the product of the extents of its ranks."""
        return prod(1 + sum(c * (box[d] - 1) for d, c in rank) for rank in self.ranks[t])

    def distinct(self, t: int, points: Sequence[float], contiguous: bool) -> float:
        """Rule "distinct words": what a set of points touches at least; a dimension counts in its first rank only."""
        result, used = 1.0, set[int]()
        for rank in self.ranks[t]:
            count, whole = 1.0, contiguous
            for d, c in sorted(((d, abs(c)) for d, c in rank if d not in used), key=lambda term: term[1]):
                if whole and c <= count:
                    count += c * (points[d] - 1)
                elif whole and points[d] > 1:
                    count, whole = count * points[d], False
                else:
                    count += points[d] - 1
            used |= {d for d, _ in rank}
            result *= count
        return result

    # One scheme.

    def begin(self, spatial: tuple[Box, ...], keep: tuple[tuple[bool, ...], ...]) -> State | None:
        """The state without any temporal loop; None where a scheme has no mapping."""
        self.spatial, self.keep, self.loose = spatial, keep, self.layer.network_priced
        if any(self.bounds[d] not in self.reachable(self.levels - 1, d, tuple(level[d] for level in spatial))
               for d in self.dims):
            return None
        self.used = [prod(prod(level) for level in spatial[l + 1:]) for l in range(self.levels)]
        self.cycles = prod(self.bounds) / prod(map(prod, spatial))
        for l, t in itertools.product(range(self.levels), self.tensors):
            apart, seen = 1.0, set[int]()
            for rank in self.ranks[t]:
                loops = [d for d, _ in rank if spatial[l][d] > 1]
                self.loose |= len(loops) > 1 or any(d in seen for d in loops)
                apart *= 1 + sum(spatial[l][d] - 1 for d in loops if d not in seen)
                seen |= set(loops)
            self.scatter[l, t] = apart
        self.crossings = []  # (t, inner, outer) of consecutive levels that keep t; inner -1 is the arithmetic
        for t in self.tensors:
            kept = [l for l in range(self.levels) if keep[l][t]]
            if not kept:
                return None
            self.crossings += [(t, inner, outer) for inner, outer in itertools.pairwise((-1, *kept))]
        zeros = (0.0,) * self.levels
        state = State(self.levels - 1, self.bounds, (1.0,) * len(self.tensors), 1.0, (),
                      prod(self.bounds) * float(self.layer.machine.compute_energy), 0.0, zeros, zeros, self.loose)
        for t, inner, outer in self.crossings:
            if inner < 0:  # rule "arithmetic": a word per cycle, unless neighbours hand it on
                linked = bool(self.layer.reuse.linked[0, t]) and prod(spatial[0]) > 1
                asked = self.cycles
                if linked:
                    self.loose = True
                    asked = self.distinct(t, self.bounds, True) / self.used[outer] / self.between(t, inner, outer)
                state = self.charged(state, t, inner, outer, asked, asked, linked)
        state = State(**vars(state) | {"loose": self.loose})
        return state if self.fits(state) else None

    def between(self, t: int, inner: int, outer: int) -> float:
        """Receivers of one instance of `outer` at `inner` with words of their own."""
        return prod(self.scatter[l, t] for l in range(inner + 1, outer + 1))

    def neighbours(self, t: int, inner: int) -> bool:
        """Whether receivers at `inner` may hand on words of a window to each other."""
        return bool(self.layer.reuse.linked[inner + 1, t]) and any(self.spatial[inner + 1][d] > 1 for d in self.shared[t])

    def fits(self, state: State) -> bool:
        """Whether a level holds the tiles that it keeps."""
        room = self.usable[state.level]
        return room is None or sum(self.words(t, state.tile) for t in self.tensors if self.keep[state.level][t]) <= room

    def charged(self, state: State, t: int, inner: int, outer: int, received: float, sent: float, loose: bool) -> State:
        """Rule "charges": the accesses of both levels for words per receiver, rounded as Timeloop may round them."""
        energy, accessed, reads, writes = state.energy, state.accessed, list(state.reads), list(state.writes)
        whole = self.words(t, self.bounds)

        def pay(level: int, amount: float, action: str, addressed: bool) -> float:
            nonlocal energy, accessed
            clusters = min(self.used[level], self.price["clusters"][level])
            energy += clusters * (math.ceil(amount / self.price["block"][level] - 1e-9) * self.price[action][level]
                                  + addressed * amount * self.price["addr_gen"][level])
            accessed += amount * self.used[level] if level == self.levels - 1 else 0
            return amount * self.scale[level][t]
        asked = math.ceil(sent * self.between(t, inner, outer) - 0.5 - 1e-6)
        first = whole / self.between(t, outer, self.levels - 1) if self.written[t] else 0  # rule "first writes"
        reads[outer] += pay(outer, max(asked - first, 0), "read", not self.written[t])
        if self.written[t]:
            writes[outer] += pay(outer, asked, "update", True)
        if inner >= 0:
            filled = max(math.ceil(received - 1 - 1e-6), 0) if loose else math.floor(received + 1e-6)
            if self.written[t]:
                filled = max(filled - whole / self.between(t, inner, self.levels - 1), 0)
            writes[inner] += pay(inner, filled, "fill", True)
        return State(**vars(state) | {"energy": energy, "accessed": accessed, "reads": tuple(reads),
                                      "writes": tuple(writes), "loose": state.loose or loose})

    def decided(self, t: int, inner: int, state: State) -> tuple[float, float, bool]:
        """Words received and sent over a crossing whose receiver is the state's level, and whether they are a bound only.

        Rule "tiles": words of the tile times visits. Rule "windows": the innermost loop that moves a window finds its
        overlap in place; a further loop of the same rank may find the tile so near that it sends less, or nothing. Rule
        "neighbours": receivers side by side may hand on words.
        """
        words, visits = self.words(t, state.tile), state.visits[t]
        if self.plain[t]:
            return words * visits, words * visits, False
        at = next((i for i, loop in enumerate(state.loops) if loop.d in self.relevant[t]), None)
        if at is None:
            return words, words, False
        first = state.loops[at]
        if first.d in self.own[t]:
            return words * visits, words * visits, False
        if first.d in self.several[t]:
            return self.least(t, inner, state)
        rank = dict(next(rank for rank in self.ranks[t] if first.d in dict(rank)))
        span, step = 1 + sum(c * (state.tile[d] - 1) for d, c in rank.items()), first.step * rank[first.d]
        overlap = words / span * max(span - step, 0)
        near = self.neighbours(t, inner)
        last = sum(c * state.tile[d] * (self.spatial[inner + 1][d] - 1) for d, c in rank.items()) if near else 0
        beside = prod(self.spatial[inner + 1][d] for d in rank) if near else 1
        links, further = near and step <= last, [loop for loop in state.loops[at + 1:] if loop.d in rank]
        steps = [loop.step * rank[loop.d] for loop in further]
        fewer, least = 1.0, words
        for g, loop in enumerate(further):
            sent = words if len(steps) <= 8 else 0.0
            for inside in itertools.product((0, 1), repeat=len(steps) if len(steps) <= 8 else 0):
                if inside and not inside[g]:
                    move = steps[g] - step - sum(s for s, i in zip(steps, inside, strict=True) if i)
                    sent = 0.0 if move == 0 else min(sent, words - overlap) if move == step else sent
                    links |= near and abs(move) <= last
            if sent < words:
                fewer, least = fewer * loop.bound, min(least, sent)
        runs = visits / first.bound
        received = words * visits - overlap * (visits - runs) - (words - least) * runs * (1 - 1 / fewer)
        if not links:
            return received, received, fewer > 1
        others = prod(loop.bound for loop in state.loops[at + 1:] if loop.d in self.own[t])
        sent = words * others + (words - overlap) / beside * (visits - runs)
        return received, min(received, max(sent, self.least(t, inner, state)[1])), True

    def least(self, t: int, inner: int, state: State) -> tuple[float, float, bool]:
        """The same for a receiver within the state's level, or that level.

        Rule "inner levels": the words of the level's tile cross again for every visit, and for every loop outside where the
        receiver cannot hold its share. Rule "unions": of windows at least the distinct words of all loops over them.
        """
        inside, visits = self.between(t, inner, state.level), state.visits[t]
        if self.plain[t]:
            words, room = self.words(t, state.tile) / inside, self.usable[inner]
            words *= state.outside if room is not None and words > room else visits
            return words, words, False
        grown, apart, own = list(state.tile), 1.0, False
        for loop in state.loops:
            own |= loop.d in self.own[t]
            if loop.d in self.shared[t]:
                grown[loop.d] *= loop.bound
                visits /= loop.bound
            elif own:
                apart *= loop.bound
        touched = max(self.distinct(t, state.tile, True), self.distinct(t, grown, False)) / inside
        if not self.neighbours(t, inner):
            return touched * visits, touched * visits, True
        sent = touched
        if state.level == inner:
            wide = [points * extent for points, extent in zip(grown, self.spatial[inner + 1], strict=True)]
            sent = self.distinct(t, wide, False) / self.scatter[inner + 1, t]
        return touched * visits, min(touched * visits, sent * apart), True

    def bound(self, state: State) -> float:
        """The bound of all mappings with a state's loops."""
        self.counted += 1
        whole = state
        for t, inner, outer in self.crossings:
            if 0 <= inner < state.level:
                whole = self.charged(whole, t, inner, outer, *self.least(t, inner, state))
        busy = self.cycles
        for l in range(self.levels):  # rule "bandwidths"
            for name, asked in (("read_bandwidth", whole.reads[l]), ("write_bandwidth", whole.writes[l]),
                                ("shared_bandwidth", whole.reads[l] + whole.writes[l])):
                if self.price[name][l] < UNLIMITED:
                    busy = max(busy, math.ceil(asked / self.price[name][l] * (1 - 1e-12)))
        gate, gated = self.layer.machine.gate, self.price["gated"]
        energy = whole.energy + sum(busy * self.price["leak"][l] * (self.used[gate[l]] * gated[l] if gated[l] > 1
                                                                   else self.used[l]) for l in range(self.levels))
        cycles = busy + self.layer.machine.network_latency
        return float({"edp": energy * cycles, "energy": energy, "delay": cycles,
                      "last_level_accesses": whole.accessed}[self.metric])

    # Orders: mappings with equal factors whose orders have the same signature have the same words, or are loose.

    def permitted(self, level: int, looping: frozenset[int]) -> Iterator[tuple[int, ...]]:
        """Every order of the loops of several iterations of a level."""
        loops = self.space.levels[level].temporal
        inner, between, outer = ([self.names.index(name) for name in part if self.names.index(name) in looping]
                                 for part in (loops.inner, loops.between, loops.outer))
        return ((*inner, *order, *outer) for order in itertools.permutations(between))

    def signature(self, level: int, order: Sequence[int]) -> tuple[tuple[frozenset[int], ...], tuple[int, ...]]:
        """For each data space sent further in: loops inside the first one that moves it; and that loop, of a window."""
        idle, movers = [], []
        for t in sorted({t for t, inner, _ in self.crossings if 0 <= inner < level}):
            first = next((i for i, d in enumerate(order) if d in self.relevant[t]), len(order))
            idle.append(frozenset(order[:first]))
            movers.append(order[first] if first < len(order) and order[first] in self.shared[t] else -1)
        return tuple(idle), tuple(movers)

    def classes(self, level: int, looping: frozenset[int]) -> dict[Any, tuple[int, ...]]:
        """An order for every signature that no other one exceeds: more loops inside never send more words."""
        key = (level, looping)
        if key not in self.known:
            found = {self.signature(level, order): order for order in self.permitted(level, looping)}
            self.known[key] = {one: order for one, order in found.items() if not any(
                other != one and other[1] == one[1] and all(a <= b for a, b in zip(one[0], other[0], strict=True))
                for other in found)}
        return self.known[key]

    def entered(self, state: State, factors: Box, order: Sequence[int]) -> State | None:
        """The state of the next level within; None where its tile does not fit."""
        level, spatial = state.level, self.spatial[state.level]
        tile = tuple(state.tile[d] / (factors[d] * spatial[d]) for d in self.dims)
        outside, visits = state.outside * prod(factors), list(state.visits)
        for t in self.tensors:
            first = next((i for i, d in enumerate(order) if d in self.relevant[t]), None)
            if first is not None:
                visits[t] = outside / prod(factors[d] for d in order[:first])
        loops = (*(Loop(d, factors[d], tile[d] * spatial[d]) for d in order), *state.loops)
        inner = State(**vars(state) | {"level": level - 1, "tile": tile, "visits": tuple(visits), "outside": outside,
                                       "loops": loops})
        if not self.fits(inner):
            return None
        for t, receiver, outer in self.crossings:
            if receiver == level - 1:
                inner = self.charged(inner, t, receiver, outer, *self.decided(t, receiver, inner))
        return inner

    # The certificate.

    def check_parts(self, state: State, outer: tuple[tuple[Box, tuple[int, ...]], ...], parts: Any) -> None:
        """Holds the parts of a state against the bounds of all of its parts."""
        claimed: dict[Any, Any] = {}
        for part in parts:
            factors, order = tuple(float(f) for f in part["factors"]), [d for d in part["order"] if part["factors"][d] > 1]
            need(sorted(part["order"]) == list(self.dims), "an order that is none")
            key = factors, self.signature(state.level, order)
            need(key not in claimed and tuple(order) in self.permitted(state.level, frozenset(order)), "a part twice")
            claimed[key] = part
        for factors in self.factors(state):
            looping = frozenset(d for d in self.dims if factors[d] > 1)
            for signature, order in self.classes(state.level, looping).items():
                inner = self.entered(state, factors, order)
                if inner is None:
                    break
                bound, part = self.bound(inner), claimed.pop((factors, signature), None)
                if part is None:
                    need(bound >= self.limit * (1 - SAME), f"a part of bound {bound} is left out")
                    continue
                need(same(bound, part["bound"]) and bound < self.limit * (1 + SAME), f"a part has the bound {bound}")
                own = tuple(d for d in part["order"] if factors[d] > 1)
                inner = self.entered(state, factors, own)
                if inner is None:
                    raise Rejected("certificate: a part that does not fit")
                if inner.level:
                    self.check_parts(inner, (*outer, (factors, own)), part["parts"])
                else:
                    self.check_mappings(inner, (*outer, (factors, own)), part)
        need(not claimed, "a part that is none")

    def check_mappings(self, state: State, outer: tuple[tuple[Box, tuple[int, ...]], ...], part: Any) -> None:
        """Evaluates the mappings of a part whose loops are fixed: one, or every order and layout where windows are loose."""
        best, count = inf, 0
        for factors in self.factors(state):
            levels = [(factors, ()), *reversed(outer)]
            loops = [frozenset(d for d in self.dims if own[d] > 1) for own, _ in levels]
            orders: Any = itertools.product(*(self.permitted(l, real) for l, real in enumerate(loops))) if state.loose else [
                tuple(order if l else next(self.permitted(0, loops[0])) for l, (_, order) in enumerate(levels))]
            placed = self.placed() if state.loose else itertools.islice(self.placed(), 1)
            every = itertools.product(placed, list(orders))
            while rows := list(itertools.islice(every, BATCH)):
                scores = score(self.layer, joined([self.nest([own for own, _ in levels], order, layout)
                                                   for layout, order in rows]))
                values = np.where(scores.legal, {"edp": scores.energy * scores.cycles, "energy": scores.energy,
                    "delay": scores.cycles, "last_level_accesses": scores.last_level_accesses}[self.metric], inf)
                best, count = min(best, float(values.min())), count + len(rows)
        self.evaluated += count
        need(best >= self.limit * (1 - SAME), f"a mapping has the value {best}")
        need(part["mappings"] == count, f"{count} mappings in a part")
        need(best == inf if part["least"] is None else same(best, part["least"]), f"{best} is the least of a part")

    def placed(self) -> Iterator[tuple[tuple[tuple[int, ...], tuple[bool, ...]], ...]]:
        """Every layout of the scheme that the meshes hold, level by level."""
        def inwards(level: int, x: float, y: float) -> Iterator[tuple[tuple[tuple[int, ...], tuple[bool, ...]], ...]]:
            if level < 0:
                yield ()
                return
            for order, on_y, dx, dy in self.layouts(level, self.spatial[level]):
                if self.holds(level, x * dx, y * dy):
                    yield from ((*inner, (order, on_y)) for inner in inwards(level - 1, x * dx, y * dy))
        return inwards(self.levels - 1, 1, 1)

    def nest(self, temporal: Sequence[Box], orders: Sequence[Sequence[int]],
             layout: Sequence[tuple[tuple[int, ...], tuple[bool, ...]]]) -> Nest:
        """One mapping of the scheme."""
        full = [[*order, *(d for d in self.dims if d not in order)] for order in orders]
        return Nest(*(np.array(rows)[..., None] for rows in (
            temporal, self.spatial, full, self.keep, [on_y for _, on_y in layout], [order for order, _ in layout])))


def check(content: dict[str, Any], spec: Spec) -> str:
    """Checks a certificate against its input.

    Args:
        content: The certificate, as its JSON text says.
        spec: The input of the proof.

    Returns:
        What is proved, in a sentence.

    Raises:
        Rejected: The certificate does not prove what it claims, with the reason.
    """
    try:
        return _checked(content, spec)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Rejected(f"certificate: cannot be understood: {type(error).__name__}: {error}") from None


def _checked(content: dict[str, Any], spec: Spec) -> str:
    value, gap, limit, metric = (content[name] for name in ("value", "gap", "limit", "metric"))
    need(content["version"] == 1 and gap >= 0, "version or gap")
    need(abs(limit - value * (1 - SAME) / (1 + gap)) <= SAME / 1000 * limit, "a limit that the value does not have")
    need(content["bounds"] == dict(spec.problem.bounds), "the bounds of another problem")
    checker, mapping = Checker(spec, metric, limit), content["mapping"]
    spatial, temporal = (tuple(tuple(float(f) for f in row) for row in mapping[name]) for name in ("spatial", "temporal"))
    claimed = {}
    for scheme in content["schemes"]:
        key = tuple(tuple(map(float, row)) for row in scheme["spatial"]), tuple(map(tuple, scheme["keep"]))
        need(key not in claimed, "a scheme twice")
        claimed[key] = scheme
    known = False
    for key in checker.schemes():
        checker.known = {}
        state, scheme = checker.begin(*key), claimed.pop(key, None)
        if key == (spatial, tuple(map(tuple, mapping["keep"]))):
            need(all(sorted(order) == list(checker.dims) for order in mapping["order"]), "an order that is none")
            for level, (factors, order) in enumerate(zip(temporal, mapping["order"], strict=True)):
                real = [d for d in order if factors[d] > 1]
                need(tuple(real) in checker.permitted(level, frozenset(real)) and all(
                    f in checker.space.levels[level].temporal.choices[name]
                    for f, name in zip(factors, checker.names, strict=True)), "a mapping outside of the map space")
            need(all(prod(level[d] for level in (*spatial, *temporal)) == checker.bounds[d] for d in checker.dims),
                 "a mapping of other bounds")
            scores = score(checker.layer, joined([checker.nest(temporal, mapping["order"], layout)
                                                  for layout in checker.placed()]))
            values = {"edp": scores.energy * scores.cycles, "energy": scores.energy, "delay": scores.cycles,
                      "last_level_accesses": scores.last_level_accesses}[metric]
            known = any(legal and same(found, value) for legal, found in zip(scores.legal, values, strict=True))
        bound = inf if state is None else checker.bound(state)
        if scheme is None:
            need(bound >= limit * (1 - SAME), f"a scheme of bound {bound} is left out")
            continue
        need(state is not None and same(bound, scheme["bound"]) and bound < limit, f"a scheme has the bound {bound}")
        if state is not None:
            checker.check_parts(state, (), scheme["parts"])
    need(not claimed, "a scheme that is none")
    need(known, f"no legal mapping of the value {value} is given")
    return (f"{spec.problem.name}: no mapping has less than {limit:.10g} ({metric}); the given one has {value:.10g}; "
            f"{checker.counted:,} parts bounded, {checker.evaluated:,} mappings evaluated")


def check_file(file: Path, spec: Spec) -> str:
    """The same for a file. Raises Rejected, and FadiffError where the file cannot be read."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FadiffError(f"{file}: {error}; accepted: a certificate in JSON") from None
    need(isinstance(content, dict), "no object")
    return check(content, spec)
