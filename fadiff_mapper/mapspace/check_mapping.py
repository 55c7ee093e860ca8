"""Checks of a mapping against the constraints of its map space."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fadiff_mapper.base.errors import listed
from fadiff_mapper.mapspace.build import between_on_x, spatial_axes
from fadiff_mapper.mapspace.space import MapSpace
from fadiff_mapper.spec.constraints import LevelConstraints, LoopConstraint
from fadiff_mapper.spec.mapping import LevelMapping, Mapping


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
