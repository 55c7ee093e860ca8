"""Schemes: all spatial factors of a mapping and the data spaces that levels keep, the first division of a map space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import contains, floordiv, mod

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.search.mapspace.build import MapSpace, orders_at, reachable

Layout = tuple[tuple[int, ...], tuple[bool, ...]]
"""Spatial loops of all levels, [L * D] each: dimensions from the innermost loop outwards, and by dimension whether its
loop lies on Y."""

Reach = frozenset[tuple[int, int]]
"""Units along X and Y that spatial loops may take."""


@dataclass(frozen=True)
class Scheme:
    """All spatial factors of a mapping and the data spaces that levels keep, level by level from the innermost."""

    spatial: tuple[int, ...]  # Spatial factors of each level, [L * D]
    keep: tuple[bool, ...]    # Whether each level keeps each data space, [L * T]


def schemes(space: MapSpace, over: Over = never) -> Iterator[Scheme]:
    """Every scheme of a map space of which the meshes have room and whose temporal loops can reach the bounds."""
    problem, keeps = space.problem, [tuple(kept.ravel().tolist()) for kept in space.every_keep]
    left_to_time = [reachable(bound, [level.temporal.choices[name] for level in space.levels])
                    for name, bound in problem.bounds.items()]
    least = space.constraints.min_parallelism * space.available
    begun: list[tuple[tuple[int, ...], Reach, tuple[int, ...]]] = [
        (tuple(problem.bounds.values()), frozenset({(1, 1)}), ())]
    for level in reversed(range(len(space.levels))):
        widths, further = _widths(space, level), []
        fitting: dict[Reach, list[tuple[tuple[int, ...], Reach]]] = {}  # factors that fit, and the units then in use
        for left, reach, spatial in in_time(begun, over):
            if reach not in fitting:
                fitting[reach] = [(factors, wider) for factors, extents in widths.items()
                                  if (wider := _fitting(space, level, reach, extents))]
            further += [(tuple(map(floordiv, left, factors)), wider, (*factors, *spatial))
                        for factors, wider in fitting[reach] if not any(map(mod, left, factors))]
        begun = further
    for left, _, spatial in in_time(begun, over):
        if all(map(contains, left_to_time, left)) and math.prod(spatial) >= least:
            for keep in keeps:
                yield Scheme(spatial, keep)


def layouts(space: MapSpace, scheme: Scheme) -> Iterator[Layout]:
    """Every layout of a scheme's spatial loops that the meshes have room for."""
    dims = range(len(space.problem.dimensions))

    def further_in(level: int, reach: tuple[int, int]) -> Iterator[tuple[Layout, ...]]:
        if level < 0:
            yield ()
            return
        factors = scheme.spatial[level * len(dims):(level + 1) * len(dims)]
        for order, on_y in orders_at(space, 2 * level, [d for d in dims if factors[d] > 1]):
            own = (*order, *(d for d in dims if factors[d] == 1)), tuple(d in on_y for d in dims)
            for wider in _fitting(space, level, frozenset({reach}), frozenset({_extents(factors, on_y)})):
                for inner in further_in(level - 1, wider):
                    yield (*inner, own)
    for levels in further_in(len(space.levels) - 1, (1, 1)):
        orders, on_y = zip(*levels, strict=True)
        yield tuple(itertools.chain(*orders)), tuple(itertools.chain(*on_y))


def _fitting(space: MapSpace, level: int, reach: Reach, extents: Reach) -> Reach:
    """Units along X and Y in use below a level, from those above it and the extents of its loops, where they fit."""
    unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
    wider = {(x * dx, y * dy) for x, y in reach for dx, dy in extents}
    return frozenset((x, y) for x, y in wider if x <= unit.mesh_x and y <= unit.mesh_y and x * y <= unit.instances)


def _widths(space: MapSpace, level: int) -> dict[tuple[int, ...], Reach]:
    """The spatial factors that a level can have, with the extents along X and Y that its layouts can give them."""
    unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
    choices: list[tuple[int, ...]] = [()]
    for name in space.problem.dimensions:
        choices = [(*some, factor) for some in choices for factor in space.levels[level].spatial.choices[name]
                   if math.prod(some) * factor <= unit.instances]
    found = {}
    sides: dict[tuple[int, ...], set[frozenset[int]]] = {}  # dimensions on Y, by the dimensions with a loop
    for factors in choices:
        loops = tuple(d for d, factor in enumerate(factors) if factor > 1)
        if loops not in sides:
            sides[loops] = {on_y for _, on_y in orders_at(space, 2 * level, loops)}
        extents = {_extents(factors, on_y) for on_y in sides[loops]}
        fitting = frozenset((x, y) for x, y in extents if x <= unit.mesh_x and y <= unit.mesh_y)
        if fitting:
            found[factors] = fitting
    return found


def _extents(factors: tuple[int, ...], on_y: frozenset[int]) -> tuple[int, int]:
    """Units along X and Y that spatial loops take, by the dimensions on Y."""
    x, y = (math.prod(factor for d, factor in enumerate(factors) if (d in on_y) == side) for side in (False, True))
    return x, y
