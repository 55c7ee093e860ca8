"""Why a map space is empty: contradictions between constraints, the problem and the hardware, in words.

Each test looks for one reason. Then deletion filtering (`claims.cores`) drops constraints one by one as long as the
contradiction stays, so that a sentence names an irreducible set of them. The tests are sufficient, not complete: an
empty list does not prove that a legal mapping exists. The filter wants tests whose contradictions a further constraint
never resolves. This holds while the factors of every dimension can multiply to its bound; a dimension whose factors
cannot is a conflict by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from functools import partial

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.search.mapspace.build import (
    MapSpace,
    between_on_x,
    build_mapspace,
    divisors,
    reachable,
    spatial_axes,
)


def check_mapping(space: MapSpace, mapping: Mapping) -> list[str]:
    """Finds the constraints that a mapping breaks; whether the hardware can run it is another question.

    An order is checked at the innermost level too, where `timeloop-mapper` ignores it if no fan-out lies below (and
    rightly so, as it changes no count): a mapping found there may break it.

    Args:
        space: The map space, of which only the constraints count.
        mapping: The mapping.

    Returns:
        A sentence for each, with the place of the constraint.
    """
    return [sentence for i in range(len(space.levels)) for sentence in _level(space, mapping.levels[i], i)] + [
        *_parallelism(space, mapping)]


def _level(space: MapSpace, mapped: LevelMapping, index: int) -> Iterator[str]:
    limits, level = space.constraints.levels[index], space.levels[index]
    yield from _factors(limits.temporal, mapped.temporal, f"temporal {{}} at {level.name}")
    yield from _factors(limits.spatial, mapped.spatial, f"spatial {{}} at {level.name}")
    yield from _order(limits.temporal, mapped.order, mapped.temporal, f"temporal order of {level.name}")
    yield from _order(limits.spatial, mapped.spatial_order, mapped.spatial, f"spatial order of {level.name}")
    if limits.spatial.split is not None:
        yield from _axes(space, mapped, index)
    yield from _kept(limits, mapped, level.name)


def _factors(loops: LoopConstraint, factors: dict[str, int], subject: str) -> Iterator[str]:
    for word, limits, sign in (("fixed", loops.fixed, "="), ("minimum", loops.minimum, ">="),
                               ("maximum", loops.maximum, "<=")):
        for name, limit in limits.items():
            factor = factors[name]
            if not {"=": factor == limit, ">=": factor >= limit, "<=": factor <= limit}[sign]:
                broken = subject.format(f"{name}={factor}")
                yield f"{broken} breaks {name}{sign}{limit}{source(loops.sources, f'{word}.{name}')}"


def _order(loops: LoopConstraint, order: tuple[str, ...], factors: dict[str, int], subject: str) -> Iterator[str]:
    """Broken orders. Loops of factor 1 do not count, neither in the mapping nor in the constraint."""
    real, inner, outer = (tuple(name for name in names if factors[name] > 1)
                          for names in (order, loops.inner, loops.outer))
    origin = source(loops.sources, "order")
    if real[:len(inner)] != inner:
        yield f"{subject} is {listed(real)} (innermost first), but {listed(inner)} must be innermost{origin}"
    if real[len(real) - len(outer):] != outer:
        yield f"{subject} is {listed(real)} (innermost first), but {listed(outer)} must be outermost{origin}"


def _axes(space: MapSpace, mapped: LevelMapping, index: int) -> Iterator[str]:
    """Spatial loops on an axis to which the split does not lead, whatever the free part of the order is."""
    loops, level = space.constraints.levels[index].spatial, space.levels[index]
    allowed = spatial_axes(loops, level.fanout, space.problem.dimensions)
    tail = f", but split={loops.split} does not allow it{source(loops.sources, 'split')}"
    for axis in "XY":
        for name, factor in mapped.axis_factors(axis).items():
            if axis not in allowed[name]:
                yield f"spatial {name}={factor} at {level.name} lies on {axis}{tail}"
    free = [name for name in space.problem.dimensions if name not in (*loops.inner, *loops.outer)]
    room = between_on_x(loops.split or 0, len(loops.inner), len(free))
    for axis, most in (("X", room), ("Y", len(free) - room)):
        lying = [name for name in mapped.axis_factors(axis) if name in free and allowed[name] == "XY"]
        if len(lying) > most:
            yield f"spatial loops {listed(lying)} at {level.name} lie on {axis}{tail}"


def _kept(limits: LevelConstraints, mapped: LevelMapping, level: str) -> Iterator[str]:
    for name in sorted(limits.keep - mapped.keep):
        yield f"{name} bypasses {level}, which must keep it{source(limits.sources, f'keep.{name}')}"
    for name in sorted(limits.bypass & mapped.keep):
        yield f"{name} is kept at {level}, which it must bypass{source(limits.sources, f'bypass.{name}')}"


def _parallelism(space: MapSpace, mapping: Mapping) -> Iterator[str]:
    """Too little parallelism, by Timeloop's measure: the used share of all fan-outs, multiplied up over the levels."""
    used = math.prod(factor for level in mapping.levels for factor in level.spatial.values())
    least = space.constraints.min_parallelism
    if used / available(space) < least:
        yield (f"parallelism {used / available(space):g} ({used} of {available(space)}) is less than {least:g}"
               f"{source(space.constraints.levels[0].sources, 'min_parallelism')}")


def available(space: MapSpace) -> int:
    """All fan-outs together, from the outermost level to the arithmetic."""
    return math.prod(x * y for x, y in (level.fanout for level in space.levels))


def source(sources: dict[str, str], key: str) -> str:
    """The place of a part of the constraints for a message, as ` (arch.yaml:31: ...)`; "" where it is unknown."""
    return f" ({sources[key]})" if key in sources else ""


# The few are an irreducible infeasible subset (of constraints; also: a minimal unsatisfiable subset), found by
# deletion filtering (Chinneck and Dravnieks, "Locating Minimal Infeasible Constraint Sets in Linear Programs", ORSA
# Journal on Computing 3(2), 1991).

SIGNS = {"fixed": "=", "minimum": ">=", "maximum": "<="}
"""Limit on a factor -> the operator that writes it."""


@dataclass(frozen=True)
class Claim:
    """One constraint on one level.

    Attributes:
        level: Number of the storage level.
        kind: "temporal" or "spatial" for a limit on a factor, "keep" or "bypass" for a data space.
        name: The dimension, or the data space.
        limit: "fixed", "minimum" or "maximum"; "" for a data space.
        value: The number of the limit.
        origin: ` (file:line: path)` where the constraint is written, or empty.
    """

    level: int
    kind: str
    name: str
    limit: str = ""
    value: int = 0
    origin: str = ""

    def allows(self, factor: int) -> bool:
        """Whether a factor meets the limit."""
        return {"fixed": factor == self.value, "minimum": factor >= self.value,
                "maximum": factor <= self.value}[self.limit]

    def describe(self, levels: Sequence[str]) -> str:
        """The claim in words with its origin; `levels` are the names of the storage levels."""
        if self.kind in ("keep", "bypass"):
            return f"{self.kind} {self.name} at {levels[self.level]}{self.origin}"
        return f"{self.kind} {self.name}{SIGNS[self.limit]}{self.value} at {levels[self.level]}{self.origin}"


def claims(constraints: Constraints) -> list[Claim]:
    """All limits on factors, and all data spaces to keep or to bypass, innermost level first."""
    result: list[Claim] = []
    for i, level in enumerate(constraints.levels):
        result += _limits(i, "spatial", level.spatial)
        result += _limits(i, "temporal", level.temporal)
        for kind, names in (("keep", level.keep), ("bypass", level.bypass)):
            result += [Claim(i, kind, name, origin=source(level.sources, f"{kind}.{name}")) for name in sorted(names)]
    return result


def _limits(level: int, kind: str, loops: LoopConstraint) -> Iterator[Claim]:
    for limit, values in (("fixed", loops.fixed), ("minimum", loops.minimum), ("maximum", loops.maximum)):
        for name, value in values.items():
            yield Claim(level, kind, name, limit, value, source(loops.sources, f"{limit}.{name}"))


def cores(given: Sequence[Claim], contradict: Callable[[Sequence[Claim]], bool],
          over: Over = never) -> Iterator[list[Claim]]:
    """Irreducible infeasible subsets of claims that share no claim.

    Deletion filtering: claims are dropped one after the other, and a claim is put back where the contradiction
    vanishes without it. One pass is enough, as more claims never resolve a contradiction. The claims of a subset are
    then set aside, and the rest is searched again.

    Args:
        given: The claims, in the order in which they are tried; earlier ones are dropped first.
        contradict: Whether some claims contradict each other. Must stay true when claims are added.
        over: Tells whether time is over.

    Yields:
        Subsets that contradict, and no longer do when any one claim is dropped. An empty one contradicts without any
        claim and is the last.

    Raises:
        OutOfTime: Time was over.
    """
    left = list(given)
    while contradict(left):
        needed = list(left)
        for claim in in_time(left, over):
            rest = [other for other in needed if other is not claim]
            if contradict(rest):
                needed = rest
        yield needed
        if not needed:
            return
        left = [claim for claim in left if claim not in needed]


@dataclass(frozen=True)
class Demand:
    """One constraint that can be left out.

    Attributes:
        words: The constraint in words, with the place where it is written.
        drop: Takes a map space to the one without the constraint, which has all its mappings and maybe more.
    """

    words: str
    drop: Callable[[MapSpace], MapSpace]


def demands(space: MapSpace) -> list[Demand]:
    """All constraints on the mappings of a space, beside the hardware itself.

    Returns:
        Limits on factors, data spaces to keep and to bypass, orders of loops (a spatial one with its split, which
        counts along it), least utilizations of memories, and the least parallelism.
    """
    names = space.architecture.level_names()
    parts = [Demand(claim.describe(names), _without_claim(claim)) for claim in claims(space.constraints)]
    for index in range(len(names)):
        parts += [*_orders(space, index), *_utilization(space, index)]
    least = space.constraints.min_parallelism
    if least > 0:
        origin = source(space.constraints.levels[0].sources, "min_parallelism")
        parts.append(Demand(f"parallelism of {least:g}{origin}", lambda wide: _rebuilt(
            wide, replace(wide.constraints, min_parallelism=0.0))))
    return parts


def without(space: MapSpace, dropped: Iterable[Demand]) -> MapSpace:
    """The map space without some of its demands."""
    for demand in dropped:
        space = demand.drop(space)
    return space


def _rebuilt(space: MapSpace, constraints: Constraints) -> MapSpace:
    """The map space under other constraints."""
    return build_mapspace(space.architecture, space.problem, constraints)


def _at_level(index: int, change: Callable[[LevelConstraints], LevelConstraints]) -> Callable[[MapSpace], MapSpace]:
    """A change of the constraints of one level as a change of the map space."""
    def changed(space: MapSpace) -> MapSpace:
        levels = space.constraints.levels
        return _rebuilt(space, replace(space.constraints, levels=(
            *levels[:index], change(levels[index]), *levels[index + 1:])))
    return changed


def _without_claim(claim: Claim) -> Callable[[MapSpace], MapSpace]:
    """The change that takes one claim away."""
    def change(level: LevelConstraints) -> LevelConstraints:
        if claim.kind == "keep":
            return replace(level, keep=level.keep - {claim.name})
        if claim.kind == "bypass":
            return replace(level, bypass=level.bypass - {claim.name})
        loops = level.spatial if claim.kind == "spatial" else level.temporal
        fewer = _without_limit(loops, claim)
        return replace(level, spatial=fewer) if claim.kind == "spatial" else replace(level, temporal=fewer)
    return _at_level(claim.level, change)


def _without_limit(loops: LoopConstraint, claim: Claim) -> LoopConstraint:
    def rest(limit: str, values: dict[str, int]) -> dict[str, int]:
        return {name: value for name, value in values.items() if (limit, name) != (claim.limit, claim.name)}
    return replace(loops, fixed=rest("fixed", loops.fixed), minimum=rest("minimum", loops.minimum),
                   maximum=rest("maximum", loops.maximum))


def _orders(space: MapSpace, index: int) -> Iterator[Demand]:
    """The orders of a level's temporal and of its spatial loops, where they are constrained."""
    level, name = space.constraints.levels[index], space.levels[index].name
    if level.temporal.inner or level.temporal.outer:
        yield Demand(f"the order of temporal loops at {name}{source(level.temporal.sources, 'order')}", _at_level(
            index, lambda limits: replace(limits, temporal=replace(limits.temporal, inner=(), outer=()))))
    loops = level.spatial
    if loops.inner or loops.outer or loops.split is not None:
        split = "" if loops.split is None else f", with split={loops.split}{source(loops.sources, 'split')},"
        yield Demand(f"the order of spatial loops{split} at {name}{source(loops.sources, 'order')}", _at_level(
            index, lambda limits: replace(limits, spatial=replace(limits.spatial, inner=(), outer=(), split=None))))


def _utilization(space: MapSpace, index: int) -> Iterator[Demand]:
    """The least utilization of a level, where it has one; an attribute of the architecture, not a constraint."""
    level = space.architecture.levels[index]
    if level.min_utilization > 0:
        def drop(wide: MapSpace) -> MapSpace:
            levels = wide.architecture.levels
            free = (*levels[:index], replace(levels[index], min_utilization=0.0), *levels[index + 1:])
            return build_mapspace(replace(wide.architecture, levels=free), wide.problem, wide.constraints)
        yield Demand(f"minimum utilization {level.min_utilization:g} of {level.name}", drop)


def conflicts(space: MapSpace, over: Over = never) -> list[str]:
    """Finds reasons why no mapping can meet the constraints on this hardware.

    The reasons are factors of a dimension that cannot multiply to its bound, spatial factors beyond a fan-out, a
    forced tile beyond a capacity, a data space that is bypassed everywhere, and a least parallelism out of reach.

    Args:
        space: The map space.
        over: Tells whether time is over.

    Returns:
        A sentence each. One sentence shares no constraint with an earlier one of its sort, so that each has to be
        resolved. None where no contradiction is found, which does not prove that there is a legal mapping.

    Raises:
        OutOfTime: Time was over before all tests were made.
    """
    in_force = claims(space.constraints)
    return [*_factor_conflicts(space, in_force, over), *_fanout_conflicts(space, in_force, over),
            *_capacity_conflicts(space, in_force, over), *_bypass_conflicts(space, in_force),
            *_parallelism_conflicts(space, in_force, over)]


def _choices(space: MapSpace, in_force: Sequence[Claim], level: int, kind: str, dimension: str) -> tuple[int, ...]:
    """The factors of a dimension that hardware and claims allow in a level's temporal or spatial loops, ascending.

    A dummy level has no temporal loop unless a claim says so.
    """
    bound, here = space.problem.bounds[dimension], space.levels[level]
    limits = [claim for claim in in_force if (claim.level, claim.kind, claim.name) == (level, kind, dimension)]
    room = bound
    if kind == "spatial":
        room = max((width for axis, width in zip("XY", here.fanout, strict=True) if axis in here.axes[dimension]),
                   default=1)
    elif space.architecture.levels[level].is_dummy and here.temporal.choices[dimension] == (1,) and not limits:
        room = 1
    return tuple(d for d in divisors(bound) if d <= room and all(limit.allows(d) for limit in limits))


def _reach(space: MapSpace, in_force: Sequence[Claim], dimension: str, levels: range) -> frozenset[int]:
    """The products that all loops of a dimension at some levels can have (divisors of its bound)."""
    places = [_choices(space, in_force, level, kind, dimension) for level in levels for kind in ("spatial", "temporal")]
    return reachable(space.problem.bounds[dimension], places)


def _completable(space: MapSpace, in_force: Sequence[Claim], level: int, dimension: str) -> tuple[int, ...]:
    """The spatial factors of a level that a dimension's other loops can complete to its bound; (1,) if none.

    Without any the factors of the dimension contradict each other, which is a conflict of its own.
    """
    bound, own = space.problem.bounds[dimension], _choices(space, in_force, level, "spatial", dimension)
    if own == (1,):
        return own
    others = [_choices(space, in_force, i, kind, dimension) for i in range(len(space.levels))
              for kind in ("spatial", "temporal") if (i, kind) != (level, "spatial")]
    rest = reachable(bound, others)
    return tuple(factor for factor in own if bound // factor in rest) or (1,)


# Factors of one dimension.

def _unreachable(space: MapSpace, dimension: str, in_force: Sequence[Claim]) -> bool:
    """Whether no choice of factors multiplies to the bound of a dimension."""
    return space.problem.bounds[dimension] not in _reach(space, in_force, dimension, range(len(space.levels)))


def _factor_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    for dimension, bound in in_time(space.problem.bounds.items(), over):
        limits = [claim for claim in in_force if claim.kind in ("temporal", "spatial") and claim.name == dimension]
        for culprits in cores(limits, partial(_unreachable, space, dimension), over):
            yield _factor_sentence(space, dimension, bound, culprits)


def _factor_sentence(space: MapSpace, dimension: str, bound: int, culprits: Sequence[Claim]) -> str:
    named = _named(space, culprits)
    product = math.prod(claim.value for claim in culprits)
    if len(culprits) == 1 and culprits[0].kind == "spatial" and culprits[0].value in divisors(bound):
        return f"{named} does not fit on {_fanout_text(space, culprits[0].level)}"
    if any(claim.limit != "fixed" for claim in culprits):
        return f"{dimension}={bound} cannot be split: no factors of it meet {named}"
    verb = f"multiply to {product}, which" if len(culprits) > 1 else "alone"
    if bound % product:
        return f"{dimension}={bound} cannot be split: {named} {verb} does not divide it"
    return f"{dimension}={bound} cannot be split: {named} {verb} leaves {bound // product} that no level can take"


# Spatial factors of one level.

def _fillings(space: MapSpace, level: int, factors: AnyMapping[str, Sequence[int]]) -> set[tuple[int, int]]:
    """Every (x, y) of a level's fan-out that one spatial factor per dimension can fill, on any axes allowed."""
    (wide, high), axes = space.levels[level].fanout, space.levels[level].axes
    filled = {(1, 1)}
    for name, choices in factors.items():
        steps = {(f if axis == "X" else 1, f if axis == "Y" else 1) for f in choices for axis in (axes[name] or "X")}
        filled = {(x * dx, y * dy) for x, y in filled for dx, dy in steps if x * dx <= wide and y * dy <= high}
    return filled


def _overfull(space: MapSpace, level: int, in_force: Sequence[Claim]) -> bool:
    """Whether even the least spatial factors do not fit together on the fan-out, whatever axes they lie on."""
    return not _fillings(space, level, {name: _completable(space, in_force, level, name)[:1]
                                        for name in space.problem.dimensions})


def _fanout_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    for i in in_time(range(len(space.levels)), over):
        for culprits in cores(in_force, partial(_overfull, space, i), over):
            yield f"{_named(space, culprits)} do not fit together on {_fanout_text(space, i)}"


def _fanout_text(space: MapSpace, level: int) -> str:
    x, y = space.levels[level].fanout
    loops = space.constraints.levels[level].spatial
    split = "" if loops.split is None else f" with split={loops.split}{source(loops.sources, 'split')}"
    return f"the fan-out of {x} x {y}{split}"


# Tiles that are forced to be large.

def least_tile(space: MapSpace, in_force: Sequence[Claim], level: int) -> dict[str, int] | None:
    """The smallest tile of a level that the claims leave.

    Args:
        space: The map space.
        in_force: The claims that count.
        level: Number of the storage level.

    Returns:
        Points by dimension, each the least possible by itself; None where a dimension cannot be split at all.
    """
    tile: dict[str, int] = {}
    for dimension, bound in space.problem.bounds.items():
        outer = _reach(space, in_force, dimension, range(level + 1, len(space.levels)))
        inner = _reach(space, in_force, dimension, range(level + 1))
        possible = [size for size in inner if bound // size in outer]
        if not possible:
            return None
        tile[dimension] = min(possible)
    return tile


def _must_keep(space: MapSpace, in_force: Sequence[Claim], level: int) -> set[str]:
    """The data spaces that a level has to keep: told to, as the outermost level, or bypassed at every other one."""
    def bypassed(index: int, name: str) -> bool:
        dummy = space.architecture.levels[index].is_dummy and name in space.levels[index].bypass
        return dummy or any((claim.level, claim.kind, claim.name) == (index, "bypass", name) for claim in in_force)

    indices, outermost = range(len(space.levels)), len(space.levels) - 1
    told = {claim.name for claim in in_force if (claim.level, claim.kind) == (level, "keep")}
    return told | {name for name in space.problem.dataspace_names() if not bypassed(level, name) and (
        (level == outermost and name in space.levels[level].keep)
        or all(bypassed(index, name) for index in indices if index != level))}


def _least_words(space: MapSpace, level: int, in_force: Sequence[Claim]) -> tuple[int, list[str]]:
    """Words that the data spaces kept by force need in the smallest tile, and their names."""
    tile, names = least_tile(space, in_force, level), _must_keep(space, in_force, level)
    spaces = [ds for ds in space.problem.dataspaces if ds.name in names]
    return sum(math.prod(ds.tile_extents(tile)) for ds in spaces) if tile else 0, [ds.name for ds in spaces]


def _too_large(space: MapSpace, level: int, in_force: Sequence[Claim]) -> bool:
    """Whether even the smallest tile is beyond the capacity of a level."""
    usable = space.architecture.levels[level].usable
    return usable is not None and _least_words(space, level, in_force)[0] > usable


def _capacity_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    for i in in_time(range(len(space.levels)), over):
        for culprits in cores(in_force, partial(_too_large, space, i), over):
            yield _capacity_sentence(space, i, culprits)


def _capacity_sentence(space: MapSpace, level: int, culprits: Sequence[Claim]) -> str:
    words, names = _least_words(space, level, culprits)
    tile = least_tile(space, culprits, level) or {}
    extents = " ".join(f"{name}={size}" for name, size in tile.items() if size > 1) or "of one point"
    reasons = f", forced by {_named(space, culprits)}" if culprits else ""
    return (f"{space.levels[level].name} has room for {space.architecture.levels[level].usable} words, but "
            f"{joined(names)} {'needs' if len(names) == 1 else 'need'} at least {words} (tile {extents}){reasons}")


# Data spaces and parallelism.

def _bypass_conflicts(space: MapSpace, in_force: Sequence[Claim]) -> Iterator[str]:
    for name in space.problem.dataspace_names():
        if all(name in level.bypass for level in space.levels):
            yield (f"{name} is kept nowhere: "
                   + _named(space, [claim for claim in in_force if (claim.kind, claim.name) == ("bypass", name)]))


def _most_parallel(space: MapSpace, in_force: Sequence[Claim]) -> float:
    """An upper bound on the share of the fan-outs that a mapping uses: each is filled as well as it can be."""
    share = 1.0
    for i, level in enumerate(space.levels):
        choices = {name: _completable(space, in_force, i, name) for name in space.problem.dimensions}
        share *= max((x * y for x, y in _fillings(space, i, choices)), default=1) / math.prod(level.fanout)
    return share


def _parallelism_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    least = space.constraints.min_parallelism

    def too_few(some: Sequence[Claim]) -> bool:
        return _most_parallel(space, some) < least

    for culprits in cores(in_force, too_few, over) if least > 0 else ():
        origin = source(space.constraints.levels[0].sources, "min_parallelism")
        reasons = f" under {_named(space, culprits)}" if culprits else " for these fan-outs and dimensions"
        yield (f"parallelism of {least:g}{origin} is out of reach: at most {_most_parallel(space, culprits):g}"
               f" can be used{reasons}")


def _named(space: MapSpace, culprits: Sequence[Claim]) -> str:
    names = space.architecture.level_names()
    return joined([claim.describe(names) for claim in culprits])


def joined(names: Sequence[str]) -> str:
    """The names as `a, b and c`."""
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])
