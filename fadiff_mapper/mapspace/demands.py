"""Everything that a user asks of mappings, as parts that can be left out one by one."""

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
    """One constraint in words, with its place; `drop` gives the map space without it (never a smaller one)."""

    words: str
    drop: Callable[[MapSpace], MapSpace]


def demands(space: MapSpace) -> list[Demand]:
    """All that constrains the mappings of a space and is not the hardware itself.

    Limits on factors, what is kept and bypassed, orders of loops (a spatial one with its split, which counts along
    it), the least parallelism, and least utilizations of memories.
    """
    names = space.architecture.level_names()
    found = [Demand(claim.describe(names), _without_claim(claim)) for claim in claims(space.constraints)]
    for index in range(len(names)):
        found += [*_orders(space, index), *_utilization(space, index)]
    least = space.constraints.min_parallelism
    if least > 0:
        place = source(space.constraints.levels[0].sources, "min_parallelism")
        found.append(Demand(f"parallelism of {least:g}{place}", lambda wide: _rebuilt(
            wide, replace(wide.constraints, min_parallelism=0.0))))
    return found


def without(space: MapSpace, dropped: Iterable[Demand]) -> MapSpace:
    """The map space once some demands are dropped."""
    for demand in dropped:
        space = demand.drop(space)
    return space


def _rebuilt(space: MapSpace, constraints: Constraints) -> MapSpace:
    return build_mapspace(space.architecture, space.problem, constraints)


def _at_level(index: int, change: Callable[[LevelConstraints], LevelConstraints]) -> Callable[[MapSpace], MapSpace]:
    def changed(space: MapSpace) -> MapSpace:
        levels = space.constraints.levels
        return _rebuilt(space, replace(space.constraints, levels=(
            *levels[:index], change(levels[index]), *levels[index + 1:])))
    return changed


def _without_claim(claim: Claim) -> Callable[[MapSpace], MapSpace]:
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
    def rest(what: str, limits: dict[str, int]) -> dict[str, int]:
        return {name: value for name, value in limits.items() if (what, name) != (claim.what, claim.name)}
    return replace(loops, fixed=rest("fixed", loops.fixed), minimum=rest("minimum", loops.minimum),
                   maximum=rest("maximum", loops.maximum))


def _orders(space: MapSpace, index: int) -> Iterator[Demand]:
    level, name = space.constraints.levels[index], space.levels[index].name
    if level.temporal.inner or level.temporal.outer:
        yield Demand(f"the order of temporal loops at {name}{source(level.temporal.sources, 'order')}", _at_level(
            index, lambda said: replace(said, temporal=replace(said.temporal, inner=(), outer=()))))
    loops = level.spatial
    if loops.inner or loops.outer or loops.split is not None:
        split = "" if loops.split is None else f", with split={loops.split}{source(loops.sources, 'split')},"
        yield Demand(f"the order of spatial loops{split} at {name}{source(loops.sources, 'order')}", _at_level(
            index, lambda said: replace(said, spatial=replace(said.spatial, inner=(), outer=(), split=None))))


def _utilization(space: MapSpace, index: int) -> Iterator[Demand]:
    level = space.architecture.levels[index]
    if level.min_utilization > 0:
        def drop(wide: MapSpace) -> MapSpace:
            levels = wide.architecture.levels
            free = (*levels[:index], replace(levels[index], min_utilization=0.0), *levels[index + 1:])
            return build_mapspace(replace(wide.architecture, levels=free), wide.problem, wide.constraints)
        yield Demand(f"minimum utilization {level.min_utilization:g} of {level.name}", drop)
