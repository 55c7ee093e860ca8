"""Schemes: all spatial factors of a mapping and the data spaces that levels keep, the first division of a map space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
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
    """All spatial factors of a mapping, and the data spaces that levels keep."""

    spatial: tuple[tuple[int, ...], ...]  # Spatial factors of each level, [L][D]
    keep: tuple[tuple[bool, ...], ...]    # Whether each level keeps each data space, [L][T]

    def flat(self) -> tuple[list[float], list[bool]]:
        """The factors and what is kept, level after level, as the core takes them."""
        return [float(factor) for level in self.spatial for factor in level], [k for level in self.keep for k in level]


def schemes(space: MapSpace, over: Over = never) -> Iterator[Scheme]:
    """Every scheme of a map space of which the meshes have room and whose temporal loops can reach the bounds."""
    problem, keeps = space.problem, []
    for choice in itertools.product((True, False), repeat=len(space.open_keeps)):
        kept = space.keep.tolist()
        for (level, t), chosen in zip(space.open_keeps, choice, strict=True):
            kept[level][t] = chosen
        keeps.append(tuple(map(tuple, kept)))
    left_to_time = [reachable(bound, [level.temporal.choices[name] for level in space.levels])
                    for name, bound in problem.bounds.items()]
    least = space.constraints.min_parallelism * space.available
    widths = [_widths(space, level) for level in range(len(space.levels))]

    @cache
    def options(level: int, reach: Reach) -> list[tuple[tuple[int, ...], Reach]]:
        """Spatial factors of a level that fit below units in use above it, and the units then in use."""
        return [(factors, wider) for factors, extents in widths[level].items()
                if (wider := _fitting(space, level, reach, extents))]

    begun: list[tuple[tuple[int, ...], Reach, tuple[tuple[int, ...], ...]]] = [
        (tuple(problem.bounds.values()), frozenset({(1, 1)}), ())]
    for level in reversed(range(len(space.levels))):
        begun = [(tuple(map(floordiv, left, factors)), wider, (factors, *spatial))
                 for left, reach, spatial in in_time(begun, over)
                 for factors, wider in options(level, reach) if not any(map(mod, left, factors))]
    for left, _, spatial in in_time(begun, over):
        if all(map(contains, left_to_time, left)) and math.prod(map(math.prod, spatial)) >= least:
            for keep in keeps:
                yield Scheme(spatial, keep)


def layouts(space: MapSpace, scheme: Scheme) -> Iterator[Layout]:
    """Every layout of a scheme's spatial loops that the meshes have room for."""
    def further_in(level: int, reach: tuple[int, int]) -> Iterator[tuple[Layout, ...]]:
        if level < 0:
            yield ()
            return
        factors, dims = scheme.spatial[level], range(len(scheme.spatial[level]))
        for order, on_y in orders_at(space, 2 * level, [d for d in dims if factors[d] > 1]):
            own = (*order, *(d for d in dims if factors[d] == 1)), tuple(d in on_y for d in dims)
            for wider in _fitting(space, level, frozenset({reach}), frozenset({_extents(factors, on_y)})):
                for inner in further_in(level - 1, wider):
                    yield (*inner, own)
    for levels in further_in(len(space.levels) - 1, (1, 1)):
        orders, on_y = zip(*levels, strict=True)
        yield tuple(itertools.chain(*orders)), tuple(itertools.chain(*on_y))


def _fitting(space: MapSpace, level: int, reach: Reach,
             extents: Reach) -> Reach:
    """Units along X and Y in use below a level, from those above it and the extents of its loops, where they fit."""
    unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
    wider = {(x * dx, y * dy) for x, y in reach for dx, dy in extents}
    return frozenset((x, y) for x, y in wider if x <= unit.mesh_x and y <= unit.mesh_y and x * y <= unit.instances)


def _widths(space: MapSpace, level: int) -> dict[tuple[int, ...], Reach]:
    """The spatial factors that a level can have, with the extents along X and Y that its layouts can give them."""
    unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic

    @cache
    def sides(loops: tuple[int, ...]) -> set[frozenset[int]]:
        return {on_y for _, on_y in orders_at(space, 2 * level, loops)}

    choices: list[tuple[int, ...]] = [()]
    for name in space.problem.dimensions:
        choices = [(*some, factor) for some in choices for factor in space.levels[level].spatial.choices[name]
                   if math.prod(some) * factor <= unit.instances]
    found = {}
    for factors in choices:
        loops = tuple(d for d, factor in enumerate(factors) if factor > 1)
        extents = {_extents(factors, on_y) for on_y in sides(loops)}
        fitting = frozenset((x, y) for x, y in extents if x <= unit.mesh_x and y <= unit.mesh_y)
        if fitting:
            found[factors] = fitting
    return found


def _extents(factors: tuple[int, ...], on_y: frozenset[int]) -> tuple[int, int]:
    """Units along X and Y that spatial loops take, by the dimensions on Y."""
    x, y = (math.prod(factor for d, factor in enumerate(factors) if (d in on_y) == side) for side in (False, True))
    return x, y
