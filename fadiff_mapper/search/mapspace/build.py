"""Architecture + problem + constraints -> map space, and the factors of several map spaces as arrays.

A mapping is a choice of one factor for every dimension at every *place*. The loops of one level are two places, 2 l
for its spatial loops and 2 l + 1 for its temporal ones, so that places run from the innermost loops outwards. In arrays
factors are *numbers* of divisors: the divisors of a bound are numbered from 0 in ascending order, so that 1 has the
number 0 and the bound the last one. Axes: W (map space), P (place), D (dimension), N (divisor; as many as the richest
bound has, unused ones hold 1 and are never allowed).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import permutations, product

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.problem import Problem

PORTION = 1 << 20
"""Numbers that are tried as divisors at a time: 8 MiB."""

MOST_DIVISORS = 1024
"""Most divisors of a bound, as there are tables over their pairs for every level; no number below 3.6 * 10^8 has
more."""

REMEMBERED = 4096
"""Cached sets of reachable divisors, choices of levels (3 kB each) and tables of dimensions: layers of a network, tiles
of its fused groups and designs of a sweep share most of them."""

NUMBER = np.int16
"""Type of the numbers of divisors, small because moves look up many: enough for bounds up to 10^15, which have at most
26,880 divisors."""

NONE = -1
"""The number of a quotient or product that does not divide the bound."""


@cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a number from 1 to 2^53, ascending. Raises FadiffError for more than `MOST_DIVISORS`."""
    last = math.isqrt(number)
    portions = (np.arange(first, min(first + PORTION, last + 1)) for first in range(1, last + 1, PORTION))
    small = [int(divisor) for portion in portions for divisor in portion[number % portion == 0]]
    if 2 * len(small) > MOST_DIVISORS:
        raise FadiffError(f"the bound {number} has {2 * len(small)} divisors, of which factors are chosen; accepted: "
                          f"at most {MOST_DIVISORS}")
    return tuple(small + [number // d for d in reversed(small) if d * d != number])


@lru_cache(maxsize=REMEMBERED)
def factorizations(bound: int, choices: tuple[tuple[int, ...], ...]) -> dict[int, int]:
    """For every reachable divisor of `bound`, the number of ways to pick one factor from each of `choices` as its
    product; read only."""
    ways = {1: 1}
    for factors in choices:
        longer: dict[int, int] = {}
        for reached, count in ways.items():
            for factor in factors:
                if bound % (reached * factor) == 0:
                    longer[reached * factor] = longer.get(reached * factor, 0) + count
        ways = longer
    return ways


def reachable(bound: int, choices: Iterable[Sequence[int]]) -> KeysView[int]:
    """The divisors that `factorizations` reaches, computed faster: all choices of every divisor count as one choice,
    choices of 1 as none."""
    every = divisors(bound)
    distinct = sorted(tuple(choice) for choice in choices if tuple(choice) != (1,))
    limited = tuple(choice for choice in distinct if len(choice) < len(every))
    return factorizations(bound, (*limited, every) if len(limited) < len(distinct) else limited).keys()


def factorization_count(bound: int, choices: Sequence[Sequence[int]]) -> int:
    """`factorizations(bound, choices)[bound]`, or 0 if the bound is not reached.

    The k choices that allow every divisor are counted at once: each prime power p^m of the product left to them can be
    split among them in binomial(m + k - 1, m) ways.
    """
    whole = divisors(bound)
    limited = tuple(tuple(choice) for choice in choices if len(choice) < len(whole))
    free, total = len(choices) - len(limited), 0
    for reached, ways in factorizations(bound, limited).items():
        left = bound // reached
        for prime in divisors(left)[1:] if free else ():  # ascending, so that only primes divide
            power = 0
            while left % prime == 0:
                left, power = left // prime, power + 1
            ways *= math.comb(power + free - 1, power)
        total += ways * (left == 1)
    return total


@dataclass(frozen=True)
class LoopSpace:
    """The temporal (or spatial) loops of one level.

    The order from the innermost loop outwards is `inner`, then `between` in any order, then `outer`; together they name
    every dimension. The position of loops of factor 1 is free. As keys, loops and levels are compared with their dicts
    and hashed without them.
    """

    # Allowed factors of each dimension, ascending, each a divisor of the bound; one entry is a fixed factor, none is a
    # contradiction
    choices: dict[str, tuple[int, ...]] = field(hash=False)
    inner: tuple[str, ...]    # The innermost dimensions in order, innermost first
    between: tuple[str, ...]  # The dimensions whose order is free
    outer: tuple[str, ...]    # The outermost dimensions in order, innermost first


@dataclass(frozen=True)
class LevelSpace:
    """The open choices of one storage level."""

    name: str                # Name of the level
    temporal: LoopSpace      # Its temporal loops
    spatial: LoopSpace       # Its spatial loops, on the fan-out below it
    fanout: tuple[int, int]  # Instances along (X, Y) of that fan-out
    # The axes that each dimension's spatial loop may lie on: "X", "Y", "XY", or "" if it must be 1
    axes: dict[str, str] = field(hash=False)
    keep: frozenset[str]     # Data spaces that must be kept
    bypass: frozenset[str]   # Data spaces that must not be kept
    open: frozenset[str]     # Data spaces that may be kept or bypassed. Each data space is in one of the three sets


@dataclass(frozen=True)
class MapSpace:
    """All mappings of a problem onto an architecture within the constraints."""

    architecture: Architecture
    problem: Problem
    constraints: Constraints
    levels: tuple[LevelSpace, ...]  # The choices left open at each storage level, innermost first

    @property
    def keep(self) -> np.ndarray:
        """Whether each level must keep each data space, [L, T]."""
        return np.array([[name in here.keep for name in self.problem.dataspace_names()] for here in self.levels])

    @property
    def open_keeps(self) -> tuple[tuple[int, int], ...]:
        """(level, index of the data space) of every keep-or-bypass decision that the constraints leave open."""
        return tuple((level, t) for level, here in enumerate(self.levels)
                     for t, name in enumerate(self.problem.dataspace_names()) if name in here.open)

    @property
    def every_keep(self) -> np.ndarray:
        """Every choice of the data spaces that the levels keep, [n, L, T]; the first keeps all that may be kept."""
        keeps = self.keep[None].repeat(2 ** len(self.open_keeps), axis=0)
        for choice, kept in zip(product((True, False), repeat=len(self.open_keeps)), keeps, strict=True):
            for pair, chosen in zip(self.open_keeps, choice, strict=True):
                kept[pair] = chosen
        return keeps

    @property
    def places(self) -> list[LoopSpace]:
        """The loops at each place, innermost first: a level's spatial loops, then its temporal ones."""
        return [loops for level in self.levels for loops in (level.spatial, level.temporal)]

    @property
    def available(self) -> int:
        """The product of all fan-outs."""
        return math.prod(x * y for x, y in (level.fanout for level in self.levels))


def build_mapspace(architecture: Architecture, problem: Problem, constraints: Constraints) -> MapSpace:
    """Builds the map space: all that constraints and hardware leave open.

    Factors divide their dimension. A spatial factor is bounded by the fan-out of the axes it may lie on, and is 1 where
    there is no fan-out. As in `timeloop-mapper`:

    - the outermost level keeps every data space that no constraint makes it bypass;
    - two orders cannot matter and are not permuted: the order of the innermost level's temporal loops where no
      fan-out lies below it, and the order of spatial loops on a fan-out along one axis.

    Unlike `timeloop-mapper`, a level that the v0.4 front end inserts for a fan-out (`StorageLevel.is_dummy`) holds no
    temporal loop and keeps nothing unless a constraint says so; the front end inserts such constraints with it. An
    empty choice of factors is a contradiction, which `conflicts` explains.
    """
    bounds, names, outermost = tuple(problem.bounds.items()), problem.dataspace_names(), len(architecture.levels) - 1
    levels = tuple(
        _level_space(level.name, architecture.fanout(i), level.is_dummy, i == 0, i == outermost, bounds, names, limits)
        for i, (level, limits) in enumerate(zip(architecture.levels, constraints.levels, strict=True)))
    return MapSpace(architecture, problem, constraints, levels)


@lru_cache(maxsize=REMEMBERED)
def _level_space(name: str, fanout: tuple[int, int], dummy: bool, innermost: bool, outermost: bool,
                 bounds: tuple[tuple[str, int], ...], dataspaces: tuple[str, ...],
                 constraints: LevelConstraints) -> LevelSpace:
    """The choices of one level, which many problems share; read only.

    `dummy`: a fan-out without storage; `bounds`: name and extent of each dimension.
    """
    dimensions = tuple(dimension for dimension, _ in bounds)
    axes = spatial_axes(constraints.spatial, fanout, dimensions)
    inner, between, outer = _positions(constraints.temporal, dimensions, canonical=False)
    if innermost and fanout == (1, 1):
        inner, between = inner + between, ()
    temporal = {name: permitted(bound, constraints.temporal, name, pinned=dummy) for name, bound in bounds}
    spatial, room = {}, dict(zip("XY", fanout, strict=True))
    for dimension, bound in bounds:
        factors, widest = permitted(bound, constraints.spatial, dimension), max(
            (room[axis] for axis in axes[dimension]), default=1)
        spatial[dimension] = factors[:bisect_right(factors, widest)]
    keep, bypass = constraints.keep, constraints.bypass
    unsaid = frozenset(dataspaces) - keep - bypass
    if outermost:
        keep |= unsaid
    elif dummy:
        bypass |= unsaid
    return LevelSpace(name, LoopSpace(temporal, inner, between, outer),
                      LoopSpace(spatial, *_positions(constraints.spatial, dimensions, canonical=min(fanout) == 1)),
                      fanout, axes, keep, bypass, frozenset(dataspaces) - keep - bypass)


def rounded_up(problem: Problem, constraints: Constraints) -> dict[str, int]:
    """Bounds of the smallest problem, at least as large as the given one, that the fixed factors of constraints divide.

    A mapping of this problem, cut off at the given bounds, has residual factors. `timeloop-mapper` understands fixed
    factors that do not divide a dimension in this way: free factors divide the rest, rounded up.
    """
    fixed = {name: math.prod(loops.fixed.get(name, 1) for level in constraints.levels
                             for loops in (level.temporal, level.spatial)) for name in problem.bounds}
    return {name: -(-bound // fixed[name]) * fixed[name] for name, bound in problem.bounds.items()}


def permitted(bound: int, loops: LoopConstraint, dimension: str, *, pinned: bool = False) -> tuple[int, ...]:
    """The divisors of a dimension's bound that a constraint allows, ascending; if `pinned`, 1 by default."""
    if not (dimension in loops.fixed or dimension in loops.minimum or dimension in loops.maximum):
        return (1,) if pinned else divisors(bound)
    least, most = loops.minimum.get(dimension, 1), loops.maximum.get(dimension, bound)
    return tuple(d for d in divisors(bound) if least <= d <= most and loops.fixed.get(dimension, d) == d)


def spatial_axes(loops: LoopConstraint, fanout: tuple[int, int], dimensions: tuple[str, ...]) -> dict[str, str]:
    """The axes, "X", "Y", "XY" or "" (factor 1), of each dimension's spatial loop on a fan-out.

    The first `split` entries of the full permutation lie on X, including loops of factor 1; without a permutation a
    fan-out along one axis has the order of the shape, `dimensions`. Axes of a single instance are left out.
    """
    wired = "".join(axis for axis, width in zip("XY", fanout, strict=True) if width > 1)
    if loops.split is None:
        return dict.fromkeys(dimensions, wired)
    inner, between, outer = _positions(loops, dimensions, canonical=len(wired) < 2)
    on_x = between_on_x(loops.split, len(inner), len(between))
    axes = {name: "X" if i < loops.split else "Y" for i, name in enumerate((*inner, *between, *outer))}
    if 0 < on_x < len(between):  # free order: on either side of the split
        axes |= dict.fromkeys(between, "XY")
    return {name: "".join(axis for axis in axes[name] if axis in wired) for name in dimensions}


def between_on_x(split: int, inner: int, between: int) -> int:
    """Number of freely ordered dimensions, of `between` behind `inner` fixed ones, that a split puts on X."""
    return min(max(split - inner, 0), between)


def _positions(loops: LoopConstraint, dimensions: tuple[str, ...],
               canonical: bool) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The permutation as (inner, between, outer); if `canonical`, with nothing between."""
    between = tuple(name for name in dimensions if name not in (*loops.inner, *loops.outer))
    if canonical and len(between) == len(dimensions):
        return between, (), ()
    return loops.inner, between, loops.outer


def cuts(space: MapSpace, level: int, free: int, loops: int) -> range:
    """The possible numbers of loops of several iterations on X, counted from the first loop of the order.

    Without a split all `loops` count, else only `free` ones, which the permutation does not name.
    """
    split, (wide, high) = space.constraints.levels[level].spatial.split, space.levels[level].fanout
    if split is None:
        counted, least, most = loops, 0, loops
    else:
        order = space.levels[level].spatial
        on_x = between_on_x(split, len(order.inner), len(order.between))
        counted, least, most = free, max(0, free - (len(order.between) - on_x)), min(free, on_x)
    if high == 1:
        least = counted
    if wide == 1:
        most = 0
    return range(least, most + 1)


def orders_at(space: MapSpace, p: int, real: Sequence[int]) -> Iterator[tuple[tuple[int, ...], frozenset[int]]]:
    """Every order of the loops of some dimensions at place `p`, X before Y; with the set of dimensions on Y."""
    names, level, temporal = space.problem.dimensions, space.levels[p // 2], p % 2
    loops, split = level.temporal if temporal else level.spatial, space.constraints.levels[p // 2].spatial.split
    inner, between, outer = ([d for d in map(names.index, part) if d in real]
                             for part in (loops.inner, loops.between, loops.outer))
    for order in permutations(between):
        whole = (*inner, *order, *outer)
        for cut in [len(whole)] if temporal else cuts(space, p // 2, len(between), len(real)):
            y_loops = frozenset(whole[cut:]) if temporal or split is None else frozenset(
                {d for d in (*inner, *outer) if level.axes[names[d]] == "Y"} | {*order[cut:]})
            yield tuple(sorted(whole, key=y_loops.__contains__)), y_loops


@dataclass(frozen=True)
class Size:
    """The four parts of a map space; every mapping is one choice from each.

    Illegal mappings count, too (fan-outs and capacities are ignored), and equal mappings count several times (orders of
    loops of factor 1). Python integers: exact at any size.
    """

    factorizations: int  # Product over dimensions of the ordered factorizations of the bound over all levels' temporal
                         # loops and those spatial loops that have a fan-out, within the constraints
    permutations: int    # Product over temporal and spatial loops of all levels of (dimensions in free order)!
    bypass: int          # 2 ^ (data spaces that are neither forced to be kept nor to be bypassed, over all levels)
    splits: int          # Product over fan-outs without a given split of (dimensions + 1)

    @property
    def total(self) -> int:
        """Number of mappings."""
        return self.factorizations * self.permutations * self.bypass * self.splits


def size(space: MapSpace) -> Size:
    """Counts a map space as `timeloop-mapper` does, except that a dummy level counts as constrained."""
    bounds, factors = space.problem.bounds, 1
    every = list(zip(space.levels, space.architecture.levels, space.constraints.levels, strict=True))
    for name, bound in bounds.items():
        temporal = [permitted(bound, limits.temporal, name, pinned=hardware.is_dummy) for _, hardware, limits in every]
        spatial = [permitted(bound, limits.spatial, name) for level, _, limits in every if level.fanout != (1, 1)]
        factors *= factorization_count(bound, temporal + spatial)
    return Size(
        factorizations=factors,
        permutations=math.prod(math.factorial(len(loops.between))
                               for level in space.levels for loops in (level.temporal, level.spatial)),
        bypass=2 ** sum(len(level.open) for level in space.levels),
        splits=math.prod(len(bounds) + 1 for level, _, limits in every
                         if level.fanout != (1, 1) and limits.spatial.split is None))


@dataclass(frozen=True)
class FactorTables:
    """The divisors that places may have, and arithmetic with their numbers."""

    divisor: np.ndarray      # The divisors of each bound, [W, D, N]
    quotient: np.ndarray     # Number of the i-th divisor over the j-th, NONE if that is no divisor, [W, D, N, N]
    product: np.ndarray      # Number of the i-th divisor times the j-th, NONE if that is no divisor, [W, D, N, N]
    allowed: np.ndarray      # Whether the constraints let a place have a divisor, [W, P, D, N]
    completable: np.ndarray  # Whether a place may take the j-th divisor if the i-th is left to it and to the places
                             # further out: those places can then take the rest,
                             # [W, P, D, N, N]
    bound: np.ndarray        # Number of the bound itself, [W, D]


def factor_tables(spaces: Sequence[MapSpace]) -> FactorTables:
    """Tabulates the factors of map spaces over the same levels and dimensions; bounds and constraints may differ."""
    width = max(len(divisors(bound)) for space in spaces for bound in space.problem.bounds.values())
    columns = [_dimension_tables(bound, tuple(loops.choices[name] for loops in space.places), width)
               for space in spaces for name, bound in space.problem.bounds.items()]
    divisor, quotient, product, allowed, completable, whole = (
        np.stack(column).reshape(len(spaces), -1, *column[0].shape) for column in zip(*columns, strict=True))
    return FactorTables(divisor, quotient, product, np.ascontiguousarray(allowed.swapaxes(1, 2)),
                        np.ascontiguousarray(completable.swapaxes(1, 2)), whole)


@lru_cache(maxsize=REMEMBERED)
def _dimension_tables(bound: int, choices: tuple[tuple[int, ...], ...], width: int) -> list[np.ndarray]:
    """The tables of one dimension, in the order of `FactorTables`, without the axes W and D; read only.

    `choices`: the factors of each place; `width`: N, the number of divisors of the richest bound.
    """
    own = np.array(divisors(bound))
    values, there = np.ones(width), np.arange(width) < len(own)
    values[there] = own
    results = np.stack([values[:, None] / values, values[:, None] * values])
    number = np.minimum(np.searchsorted(own, results), len(own) - 1)
    quotient, times = np.where((own[number] == results) & there[:, None] & there, number, NONE).astype(NUMBER)
    allowed = np.zeros((len(choices), width), dtype=np.bool_)
    for here, choice in zip(allowed, choices, strict=True):
        here[np.searchsorted(own, choice)] = True
    # From the outermost place inwards: `rest`: divisors that the places further out can take.
    completable, rest = np.empty((len(choices), *quotient.shape), dtype=np.bool_), there & (values == 1)
    for table, here in zip(completable[::-1], allowed[::-1], strict=True):
        table[:] = (quotient >= 0) & here & rest[quotient]
        rest = table.any(axis=1)
    return [values, quotient, times, allowed, completable, np.array(len(own) - 1)]


def factor_ranges(space: MapSpace) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest factors, [P, D] each, within constraints and fan-outs, that need not divide their bound."""
    ranges = []
    for limits, level in zip(space.constraints.levels, space.levels, strict=True):
        room = dict(zip("XY", level.fanout, strict=True))
        for loops, spatial in ((limits.spatial, True), (limits.temporal, False)):
            for name, bound in space.problem.bounds.items():
                if spatial:
                    most = max((room[axis] for axis in level.axes[name]), default=1)
                else:
                    most = 1 if level.temporal.choices[name] == (1,) else bound
                fixed = loops.fixed.get(name)
                ranges.append((fixed, fixed) if fixed is not None else (
                    loops.minimum.get(name, 1), min(loops.maximum.get(name, most), most, bound)))
    least, largest = np.array(ranges, dtype=np.float64).reshape(-1, len(space.problem.bounds), 2).transpose(2, 0, 1)
    return np.ascontiguousarray(least), np.ascontiguousarray(largest)
