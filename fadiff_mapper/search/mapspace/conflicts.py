"""Why a map space is empty: contradictions between constraints, the problem and the hardware, in words.

Each test looks for one reason. Then deletion filtering (`cores`) drops constraints one by one as long as the
contradiction remains, so that a sentence names an irreducible set of them. The tests are sufficient, not complete: an
empty list does not prove that a legal mapping exists. The filter needs contradictions that no further constraint
resolves. This holds while the factors of every dimension can multiply to its bound; a dimension whose factors cannot is
a separate conflict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from itertools import chain

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.search.mapspace.build import (
    MapSpace,
    between_on_x,
    build_mapspace,
    divisors,
    reachable,
    spatial_axes,
)

SIGNS = {"fixed": "=", "minimum": ">=", "maximum": "<="}
"""Limit on a factor -> the operator that writes it."""


def meets(factor: int, limit: str, value: int) -> bool:
    """Whether a factor meets a limit of `SIGNS`."""
    return {"fixed": factor == value, "minimum": factor >= value, "maximum": factor <= value}[limit]


def check_mapping(space: MapSpace, mapping: Mapping) -> list[str]:
    """The constraints of a map space that a mapping breaks, a sentence each; hardware limits are not checked.

    An order is checked at the innermost level, too. `timeloop-mapper` ignores it there if no fan-out lies below the
    level (rightly, as it changes no count), so its mappings may break it.
    """
    broken = []
    for level, limits, mapped in zip(space.levels, space.constraints.levels, mapping.levels, strict=True):
        kinds = (("temporal", limits.temporal, mapped.temporal, mapped.order),
                 ("spatial", limits.spatial, mapped.spatial, mapped.spatial_order))
        for kind, loops, factors, _ in kinds:
            broken += [f"{kind} {name}={factors[name]} at {level.name} breaks {name}{SIGNS[limit]}{value}"
                       f"{source(loops.sources, f'{limit}.{name}')}"
                       for limit in SIGNS for name, value in getattr(loops, limit).items()
                       if not meets(factors[name], limit, value)]
        for kind, loops, factors, order in kinds:  # loops of factor 1 do not count, here and in the constraint
            real, inner, outer = (tuple(name for name in names if factors[name] > 1)
                                  for names in (order, loops.inner, loops.outer))
            broken += [f"{kind} order of {level.name} is {listed(real)} (innermost first), but {listed(wanted)} must "
                       f"be {where}{source(loops.sources, 'order')}"
                       for wanted, found, where in ((inner, real[:len(inner)], "innermost"),
                                                    (outer, real[len(real) - len(outer):], "outermost"))
                       if found != wanted]
        loops = limits.spatial
        if loops.split is not None:
            # Loops on an axis excluded by the split, for every order of the free part.
            allowed = spatial_axes(loops, level.fanout, space.problem.dimensions)
            tail = f", but split={loops.split} does not allow it{source(loops.sources, 'split')}"
            broken += [f"spatial {name}={factor} at {level.name} lies on {axis}{tail}" for axis in "XY"
                       for name, factor in mapped.axis_factors(axis).items() if axis not in allowed[name]]
            free = [name for name in space.problem.dimensions if name not in (*loops.inner, *loops.outer)]
            room = between_on_x(loops.split, len(loops.inner), len(free))
            for axis, most in (("X", room), ("Y", len(free) - room)):
                lying = [name for name in mapped.axis_factors(axis) if name in free and allowed[name] == "XY"]
                if len(lying) > most:
                    broken.append(f"spatial loops {listed(lying)} at {level.name} lie on {axis}{tail}")
        broken += [f"{name} bypasses {level.name}, which must keep it{source(limits.sources, f'keep.{name}')}"
                   for name in sorted(limits.keep - mapped.keep)]
        broken += [f"{name} is kept at {level.name}, which it must bypass{source(limits.sources, f'bypass.{name}')}"
                   for name in sorted(limits.bypass & mapped.keep)]
    # Parallelism by Timeloop's measure: the used share of all fan-outs, multiplied over the levels.
    used, every = math.prod(factor for level in mapping.levels for factor in level.spatial.values()), space.available
    least = space.constraints.min_parallelism
    if used / every < least:
        broken.append(f"parallelism {used / every:g} ({used} of {every}) is less than {least:g}"
                      f"{source(space.constraints.levels[0].sources, 'min_parallelism')}")
    return broken


def source(sources: dict[str, str], key: str) -> str:
    """The place of a part of the constraints for a message, as ` (arch.yaml:31: ...)`; "" if unknown."""
    return f" ({sources[key]})" if key in sources else ""


@dataclass(frozen=True)
class Demand:
    """One constraint that can be left out."""

    words: str       # The constraint in words, with the place where it is written
    kind: str        # "temporal" or "spatial" for the factors or the order of a level's loops, "keep" or "bypass" for a
                     # data space, "utilization" or "parallelism"
    level: int = 0   # Number of the storage level
    name: str = ""   # The dimension, or the data space
    limit: str = ""  # "fixed", "minimum", "maximum" or "order" of loops; else ""
    value: int = 0   # The number of a limit on a factor


def demands(space: MapSpace) -> list[Demand]:
    """All constraints on the mappings of a space, besides the hardware.

    These are limits on factors, data spaces to keep and to bypass, orders of loops (a spatial order with its split,
    which counts positions in it), least utilizations of memories, and the least parallelism.
    """
    claims, others = [], []
    for i, (level, limits) in enumerate(zip(space.levels, space.constraints.levels, strict=True)):
        for kind, loops in (("spatial", limits.spatial), ("temporal", limits.temporal)):
            claims += [Demand(f"{kind} {name}{sign}{value} at {level.name}{source(loops.sources, f'{limit}.{name}')}",
                              kind, i, name, limit, value)
                       for limit, sign in SIGNS.items() for name, value in getattr(loops, limit).items()]
        claims += [Demand(f"{kind} {name} at {level.name}{source(limits.sources, f'{kind}.{name}')}", kind, i, name)
                   for kind, names in (("keep", limits.keep), ("bypass", limits.bypass)) for name in sorted(names)]
        for kind, loops in (("temporal", limits.temporal), ("spatial", limits.spatial)):
            if loops.inner or loops.outer or loops.split is not None:
                split = "" if loops.split is None else f", with split={loops.split}{source(loops.sources, 'split')},"
                others.append(Demand(f"the order of {kind} loops{split} at {level.name}"
                                     f"{source(loops.sources, 'order')}", kind, i, limit="order"))
        least = space.architecture.levels[i].min_utilization
        if least > 0:
            others.append(Demand(f"minimum utilization {least:g} of {level.name}", "utilization", i))
    least = space.constraints.min_parallelism
    if least > 0:
        origin = source(space.constraints.levels[0].sources, "min_parallelism")
        others.append(Demand(f"parallelism of {least:g}{origin}", "parallelism"))
    return claims + others


def without(space: MapSpace, dropped: Iterable[Demand]) -> MapSpace:
    """The map space without some of its demands: a superset of its mappings."""
    constraints, memories = space.constraints, list(space.architecture.levels)
    levels, least = list(constraints.levels), constraints.min_parallelism
    for demand in dropped:
        here, changed = levels[demand.level], {}
        if demand.kind == "parallelism":
            least = 0.0
        elif demand.kind == "utilization":  # an attribute of the architecture, not a constraint
            memories[demand.level] = replace(memories[demand.level], min_utilization=0.0)
        elif demand.kind in ("keep", "bypass"):
            changed = {demand.kind: getattr(here, demand.kind) - {demand.name}}
        else:
            loops = getattr(here, demand.kind)
            changed = {demand.kind: replace(loops, inner=(), outer=(), split=None) if demand.limit == "order" else (
                replace(loops, **{demand.limit: {name: value for name, value in getattr(loops, demand.limit).items()
                                                 if name != demand.name}}))}
        levels[demand.level] = replace(here, **changed)
    return build_mapspace(replace(space.architecture, levels=tuple(memories)), space.problem,
                          replace(constraints, levels=tuple(levels), min_parallelism=least))


def cores(given: Sequence[Demand], contradict: Callable[[Sequence[Demand]], bool],
          over: Over = never) -> Iterator[list[Demand]]:
    """Irreducible infeasible subsets of demands that share no demand.

    Deletion filtering (Chinneck and Dravnieks, "Locating Minimal Infeasible Constraint Sets in Linear Programs", ORSA
    Journal on Computing 3(2), 1991): demands are dropped one after the other, and put back if the contradiction
    vanishes without them. One pass is enough, as more demands never resolve a contradiction. The demands of a subset
    are then set aside, and the rest is searched again.

    Yields subsets that contradict, but no longer do if any one demand is dropped. An empty subset contradicts without
    any demand, and is the last. Demands early in `given` are dropped first. `contradict` must stay true when demands
    are added. Raises OutOfTime.
    """
    left = list(given)
    while contradict(left):
        needed = list(left)
        for demand in in_time(left, over):
            rest = [other for other in needed if other is not demand]
            if contradict(rest):
                needed = rest
        yield needed
        if not needed:
            return
        left = [demand for demand in left if demand not in needed]


def conflicts(space: MapSpace, over: Over = never) -> list[str]:
    """Finds reasons why no mapping can meet the constraints on this hardware, a sentence each.

    The reasons are factors of a dimension that cannot multiply to its bound, spatial factors beyond a fan-out, a forced
    tile beyond a capacity, a data space that is bypassed everywhere, and a least parallelism out of reach. Sentences of
    one kind share no constraint, so that each has to be resolved. An empty list does not prove that there is a legal
    mapping. Raises OutOfTime.
    """
    claims = [demand for demand in demands(space) if demand.limit in SIGNS or demand.kind in ("keep", "bypass")]
    levels = range(len(space.levels))
    bypassed = [(name, [claim for claim in claims if (claim.kind, claim.name) == ("bypass", name)])
                for name in space.problem.dataspace_names() if all(name in level.bypass for level in space.levels)]
    return [*chain.from_iterable(_factor_conflicts(space, claims, name, over)
                                 for name in in_time(space.problem.bounds, over)),
            *chain.from_iterable(_fanout_conflicts(space, claims, level, over) for level in in_time(levels, over)),
            *chain.from_iterable(_capacity_conflicts(space, claims, level, over) for level in in_time(levels, over)),
            *(f"{name} is kept nowhere: {_named(culprits)}" for name, culprits in bypassed),
            *_parallelism_conflicts(space, claims, over)]


def _choices(space: MapSpace, in_force: Sequence[Demand], level: int, kind: str, dimension: str) -> tuple[int, ...]:
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
    return tuple(d for d in divisors(bound)
                 if d <= room and all(meets(d, claim.limit, claim.value) for claim in limits))


def _reach(space: MapSpace, in_force: Sequence[Demand], dimension: str, levels: Iterable[int],
           but: tuple[int, str] | None = None) -> Collection[int]:
    """The products, divisors of the bound, that loops at some levels can have, without the loops `but`."""
    return reachable(space.problem.bounds[dimension], [
        _choices(space, in_force, level, kind, dimension) for level in levels for kind in ("spatial", "temporal")
        if (level, kind) != but])


def _completable(space: MapSpace, in_force: Sequence[Demand], level: int, dimension: str) -> tuple[int, ...]:
    """The spatial factors of a level that a dimension's other loops can complete to its bound; (1,) if none.

    If there are none, the factors of the dimension contradict each other, which is a separate conflict.
    """
    own = _choices(space, in_force, level, "spatial", dimension)
    if own == (1,):
        return own
    rest = _reach(space, in_force, dimension, range(len(space.levels)), but=(level, "spatial"))
    return tuple(factor for factor in own if space.problem.bounds[dimension] // factor in rest) or (1,)


def _factor_conflicts(space: MapSpace, claims: Sequence[Demand], dimension: str, over: Over) -> Iterator[str]:
    """Factors of one dimension that cannot multiply to its bound."""
    bound = space.problem.bounds[dimension]

    def unreachable(some: Sequence[Demand]) -> bool:
        return bound not in _reach(space, some, dimension, range(len(space.levels)))

    limits = [claim for claim in claims if claim.limit and claim.name == dimension]
    for culprits in cores(limits, unreachable, over):
        named, product = _named(culprits), math.prod(claim.value for claim in culprits)
        split = f"{dimension}={bound} cannot be split: "
        verb = f"multiply to {product}, which" if len(culprits) > 1 else "alone"
        if len(culprits) == 1 and culprits[0].kind == "spatial" and culprits[0].value in divisors(bound):
            yield f"{named} does not fit on {_fanout_text(space, culprits[0].level)}"
        elif any(claim.limit != "fixed" for claim in culprits):
            yield f"{split}no factors of it meet {named}"
        elif bound % product:
            yield f"{split}{named} {verb} does not divide it"
        else:
            yield f"{split}{named} {verb} leaves {bound // product} that no level can take"


def _fillings(space: MapSpace, level: int, factors: AnyMapping[str, Sequence[int]]) -> set[tuple[int, int]]:
    """Every (x, y) of a level's fan-out that one spatial factor per dimension can fill, on any axes allowed."""
    (wide, high), axes = space.levels[level].fanout, space.levels[level].axes
    filled = {(1, 1)}
    for name, choices in factors.items():
        steps = {(f if axis == "X" else 1, f if axis == "Y" else 1) for f in choices for axis in (axes[name] or "X")}
        filled = {(x * dx, y * dy) for x, y in filled for dx, dy in steps if x * dx <= wide and y * dy <= high}
    return filled


def _fanout_conflicts(space: MapSpace, claims: Sequence[Demand], level: int, over: Over) -> Iterator[str]:
    """Least spatial factors that do not fit together on a level's fan-out, on any axes."""
    def overfull(some: Sequence[Demand]) -> bool:
        return not _fillings(space, level, {name: _completable(space, some, level, name)[:1]
                                            for name in space.problem.dimensions})

    for culprits in cores(claims, overfull, over):
        yield f"{_named(culprits)} do not fit together on {_fanout_text(space, level)}"


def _fanout_text(space: MapSpace, level: int) -> str:
    x, y = space.levels[level].fanout
    loops = space.constraints.levels[level].spatial
    split = "" if loops.split is None else f" with split={loops.split}{source(loops.sources, 'split')}"
    return f"the fan-out of {x} x {y}{split}"


def _least_words(space: MapSpace, in_force: Sequence[Demand],
                 level: int) -> tuple[int, list[str], dict[str, int]] | None:
    """Words that the forced data spaces need in a level's smallest tile, their names, and the tile.

    Forced are the data spaces that constraints keep in the level, all in the outermost level, and data spaces bypassed
    at every other level. The tile has the least extent of each dimension; None if a dimension cannot be split at all.
    """
    indices, outermost, tile = range(len(space.levels)), len(space.levels) - 1, {}
    for dimension, bound in space.problem.bounds.items():
        outer = _reach(space, in_force, dimension, range(level + 1, len(indices)))
        possible = [size for size in _reach(space, in_force, dimension, range(level + 1)) if bound // size in outer]
        if not possible:
            return None
        tile[dimension] = min(possible)
    told = {(claim.level, claim.kind, claim.name) for claim in in_force}

    def bypassed(index: int, name: str) -> bool:
        dummy = space.architecture.levels[index].is_dummy and name in space.levels[index].bypass
        return dummy or (index, "bypass", name) in told

    spaces = [ds for ds in space.problem.dataspaces if (level, "keep", ds.name) in told or (
        not bypassed(level, ds.name) and ((level == outermost and ds.name in space.levels[level].keep)
                                          or all(bypassed(index, ds.name) for index in indices if index != level)))]
    bits = space.architecture.levels[level].word_bits
    words = sum(ds.room(math.prod(ds.tile_extents(tile)), bits, partial=True) for ds in spaces)
    return words, [ds.name for ds in spaces], tile


def _capacity_conflicts(space: MapSpace, claims: Sequence[Demand], level: int, over: Over) -> Iterator[str]:
    """Forced tiles beyond a level's capacity."""
    usable = space.architecture.levels[level].usable

    def too_large(some: Sequence[Demand]) -> bool:
        return usable is not None and (least := _least_words(space, some, level)) is not None and least[0] > usable

    for culprits in cores(claims, too_large, over):
        words, names, tile = _least_words(space, culprits, level) or (0, [], {})
        extents = " ".join(f"{name}={size}" for name, size in tile.items() if size > 1) or "of one point"
        reasons = f", forced by {_named(culprits)}" if culprits else ""
        yield (f"{space.levels[level].name} has room for {usable} words, but {joined(names)} "
               f"{'needs' if len(names) == 1 else 'need'} at least {words} (tile {extents}){reasons}")


def _parallelism_conflicts(space: MapSpace, claims: Sequence[Demand], over: Over) -> Iterator[str]:
    """A least parallelism above the largest used share of the fan-outs, each filled as well as possible."""
    def most(some: Sequence[Demand]) -> float:
        share = 1.0
        for i, level in enumerate(space.levels):
            choices = {name: _completable(space, some, i, name) for name in space.problem.dimensions}
            share *= max((x * y for x, y in _fillings(space, i, choices)), default=1) / math.prod(level.fanout)
        return share

    least = space.constraints.min_parallelism
    for culprits in cores(claims, lambda some: most(some) < least, over) if least > 0 else ():
        origin = source(space.constraints.levels[0].sources, "min_parallelism")
        reasons = f" under {_named(culprits)}" if culprits else " for these fan-outs and dimensions"
        yield f"parallelism of {least:g}{origin} is out of reach: at most {most(culprits):g} can be used{reasons}"


def _named(culprits: Sequence[Demand]) -> str:
    return joined([claim.words for claim in culprits])


def joined(names: Sequence[str]) -> str:
    """The names as `a, b and c`."""
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])
