"""All constraints on mappings as parts that can be left out one by one, to find those that leave none legal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from fadiff_mapper.mapspace.build import build_mapspace
from fadiff_mapper.mapspace.check_mapping import source
from fadiff_mapper.mapspace.claims import Claim, claims
from fadiff_mapper.mapspace.space import MapSpace
from fadiff_mapper.spec.constraints import Constraints, LevelConstraints, LoopConstraint


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
