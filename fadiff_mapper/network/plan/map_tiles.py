"""Mappings for the tiles of fused groups: each tile is a problem of its own, in a map space that keeps the group legal.

A tensor that stays in its home level is not fetched by the tile: in the search it is bypassed outside its home, whole
inside it, and what stays of the other layers takes room away. In the mapping that comes out the outermost level keeps
every data space again, so that `timeloop-model` runs it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, prod

import numpy as np

from fadiff_mapper.fusion import FusedGroup, Hardware, layer_steps, step_classes
from fadiff_mapper.fusion.groups.tile_steps import StepClass, intermediates, live_intermediates, operand_words, space_of
from fadiff_mapper.mapspace import build_mapspace
from fadiff_mapper.model.exact.evaluate_spec import layer_of
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import unpack
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.network.tilings.estimate import sum_level
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome
from fadiff_mapper.search.search_many import MappingTask, search_all
from fadiff_mapper.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec


@dataclass(frozen=True)
class ResidentTile:
    """A data space that lies in a level while a tile runs.

    outside: whether levels outside may keep it too. whole: whether the mapping has all of it there at once; else it
    goes through it piece by piece. apart: whether it comes there with the tile, as what pools make does.
    """

    space: str
    level: int
    outside: bool = False
    whole: bool = True
    apart: bool = False


def with_mappings(hardware: Hardware, groups: Sequence[FusedGroup], specs: Sequence[Sequence[Spec]],
                  weights: Sequence[tuple[float, float]], options: SearchOptions,
                  stopped: Callable[[], bool] = lambda: False) -> list[FusedGroup | None]:
    """The groups with the best mapping found for every tile of every layer, or None where a tile has none.

    specs     of every layer of every group, for its constraints
    weights   for each group the exponents of energy and cycles that its tiles minimise
    All tiles of all groups are searched side by side.
    """
    wanted = [_tile_tasks(hardware, group, own, weight)
              for group, own, weight in zip(groups, specs, weights, strict=True)]
    tasks = [task for group in wanted for tile in group for task in tile.tasks]
    found = iter(search_all(tasks, options, stopped=stopped) if tasks else [])
    result = []
    for group, tiles in zip(groups, wanted, strict=True):
        mappings = {(tile.index, tile.shape): _best(tile, [next(found) for _ in tile.tasks]) for tile in tiles}
        result.append(None if None in mappings.values() else replace(group, layers=tuple(
            replace(layer, mappings={shape: mapping for (place, shape), mapping in mappings.items()
                                     if place == index and mapping})
            for index, layer in enumerate(group.layers))))
    return result


@dataclass(frozen=True)
class _Tile:
    """One shape of tile of one layer, and the searches that may find its mapping."""

    index: int
    shape: tuple[int, ...]
    spec: Spec
    tasks: tuple[MappingTask, ...]


def _best(tile: _Tile, found: Iterable[SearchOutcome]) -> Mapping | None:
    legal = [one for one in found if one.legal]
    if not legal:
        return None
    problem = resized(tile.spec.problem, tile.shape)
    mapping = unpack(min(legal, key=lambda one: one.value).nest, 0, problem)
    return with_reuse(_kept_outermost(mapping, problem), tile.spec.constraints)


def _kept_outermost(mapping: Mapping, problem: Problem) -> Mapping:
    outermost: LevelMapping = mapping.levels[-1]
    return Mapping((*mapping.levels[:-1], replace(outermost, keep=frozenset(problem.dataspace_names()))))


def resized(problem: Problem, shape: tuple[int, ...]) -> Problem:
    """A tile of a layer as a problem."""
    return replace(problem, bounds=dict(zip(problem.dimensions, shape, strict=True)))


def _tile_tasks(hardware: Hardware, group: FusedGroup, specs: Sequence[Spec],
                weights: tuple[float, float]) -> list[_Tile]:
    all_steps = layer_steps(group)
    tiles = []
    rooms_of = _rooms(hardware, group, specs[-1])
    for index, (layer, steps, spec) in enumerate(zip(group.layers, all_steps, specs, strict=True)):
        kinds, rooms = step_classes(group, layer, steps), rooms_of[index]
        goes_on = _goes_on(group, kinds)
        for shape in dict.fromkeys(kind.shape for kind in kinds):
            problem = resized(layer.problem, shape)
            prepared = layer_of(replace(spec, problem=problem))
            tasks = []
            for whole, finished in WAYS if index < len(group.links) else LAST_WAYS:
                held = held_spaces(hardware, group, index, spec, goes_on, whole)
                if index < len(group.links) and not _room_to_finish(hardware, spec, problem, held, finished, rooms):
                    continue
                there = {(one.level, one.space) for one in held if not one.apart}
                room = Room(np.array(rooms), np.array([[(place, name) not in there
                                                        for name in problem.dataspace_names()]
                                                       for place in range(len(rooms))]))
                space = build_mapspace(hardware.arch, problem, constrained(spec, problem, held, finished))
                tasks.append(MappingTask(prepared, space, room=room, weights=weights))
            tiles.append(_Tile(index, shape, spec, tuple(tasks)))
    return tiles


WAYS = ((True, "together"), (True, "inside"), (False, "inside"), (False, "in turn"))
"""Whether intermediates are whole in their level at once, and how the sums of one are finished: all of them are kept
until they are, each is finished inside its level, or one part after the other by the innermost loops outside."""

LAST_WAYS = WAYS[1:3]
"""For the last layer, which has no intermediate to finish."""


def _room_to_finish(hardware: Hardware, spec: Spec, problem: Problem, held: Sequence[ResidentTile], finished: str,
                    rooms: Sequence[float]) -> bool:
    """Whether an intermediate could be finished this way: all its sums fit at once, or all that one sum needs does."""
    home = next(one.level for one in held if one.space == problem.output.name)
    summed = set(problem.dimensions) - problem.output.dimensions
    if finished == "together":
        level = hardware.arch.levels[sum_level(spec)]
        return level.usable is None or problem.tensor_size(problem.output) <= level.usable * level.instances
    if finished == "inside":
        passing = [space for space in problem.dataspaces if space.name not in {one.space for one in held}]
        tile = {dim: extent if dim in summed else 1 for dim, extent in problem.bounds.items()}
        return sum(prod(space.tile_extents(tile)) for space in passing) <= rooms[home]
    return True


def held_spaces(hardware: Hardware, group: FusedGroup, index: int, spec: Spec, goes_on: bool,
                whole: bool) -> list[ResidentTile]:
    """The data spaces of a layer that lie in a level, the intermediates `whole` or not."""
    layer = group.layers[index]
    held = [ResidentTile(name, hardware.level(stay.level)) for name, stay in layer.operands.items()]
    if index:
        before = group.links[index - 1]
        held.append(ResidentTile(before.tensor, hardware.level(before.stay.level), whole=whole,
                                 apart=before.beside))
    output = layer.problem.output.name
    if index < len(group.links):
        after = group.links[index]
        held.append(ResidentTile(output, hardware.level(after.stay.level), after.written_whole, whole))
    elif goes_on:
        held.append(ResidentTile(output, sum_level(spec)))
    return held


def _rooms(hardware: Hardware, group: FusedGroup, last: Spec) -> list[list[float]]:
    """For each layer the words of every level that are left for its tile, beside all that is there while it runs:
    sums of the last layer that go on among it, if they are spread over all instances."""
    all_steps = layer_steps(group)
    rooms: list[list[float]] = [[] for _ in group.layers]
    layers = list(zip(group.layers, all_steps, strict=True))
    for level in hardware.arch.levels:
        operands = sum(operand_words(layer, name, group, steps) for layer, steps in layers
                       for name, stay in layer.operands.items() if stay.level == level.name)
        whole, outlasting = intermediates(group, all_steps, level.name)
        for index, left in enumerate(rooms):
            there = operands + sum(live_intermediates(whole, outlasting, index))
            left.append(inf if level.usable is None else max(level.usable - there, 0.0))
    kinds = step_classes(group, group.layers[-1], all_steps[-1])
    if _goes_on(group, kinds):
        place, problem = sum_level(last), group.layers[-1].problem
        sums = max(resized(problem, kind.shape).tensor_size(problem.output) for kind in kinds)
        for left in rooms[:-1]:
            left[place] = max(left[place] - ceil(sums / hardware.arch.levels[place].instances), 0.0)
    return rooms


def _goes_on(group: FusedGroup, kinds: Iterable[StepClass]) -> bool:
    """Whether sums of a layer stay from one step to another."""
    return not group.spilled and any(not (kind.first_sum and kind.last_sum) for kind in kinds)


def constrained(spec: Spec, problem: Problem, held: Sequence[ResidentTile], finished: str) -> Constraints:
    """The design's constraints with what the held data spaces ask for."""
    levels = [_without_split_bounds(level, problem) for level in spec.constraints.levels]
    output = problem.output
    for one in held:
        space = space_of(problem, one.space)
        fixed = set(space.dimensions)
        for place in range(one.level, len(levels)):
            if place == one.level:
                levels[place] = replace(levels[place], keep=levels[place].keep | {one.space},
                                        bypass=levels[place].bypass - {one.space})
            else:
                if not one.outside:
                    levels[place] = replace(levels[place], keep=levels[place].keep - {one.space},
                                            bypass=levels[place].bypass | {one.space})
                levels[place] = _fixed(levels[place], fixed if one.whole else set())
        if one.space == output.name and one.level + 1 < len(levels):
            summed = set(problem.dimensions) - fixed
            for place in range(one.level if _inside(spec, output.name, one.level) else one.level + 1, len(levels)):
                if finished == "in turn" and place > one.level:
                    levels[place] = _innermost(levels[place], summed)
                else:
                    levels[place] = _fixed(levels[place], summed if finished == "inside" else fixed)
    return replace(spec.constraints, levels=tuple(levels))


def _inside(spec: Spec, output: str, level: int) -> bool:
    """Whether a level inside this one keeps the output, so that sums can be finished there."""
    return any(output not in constraints.bypass for constraints in spec.constraints.levels[:level])


def _fixed(level: LevelConstraints, dims: set[str]) -> LevelConstraints:
    """Temporal loops over some dimensions are 1."""
    loops: LoopConstraint = level.temporal
    return replace(level, temporal=replace(
        loops, fixed=loops.fixed | dict.fromkeys(dims, 1),
        minimum={dim: least for dim, least in loops.minimum.items() if dim not in dims}))


def _innermost(level: LevelConstraints, dims: set[str]) -> LevelConstraints:
    """Loops over some dimensions stand inside the others; loops are 1 where the design's own order is another."""
    loops = level.temporal
    between = sorted(dims - {*loops.inner, *loops.outer})
    misplaced = {dim for dim in loops.inner if dim not in dims} | {dim for dim in loops.outer if dim in dims}
    return _fixed(replace(level, temporal=replace(loops, inner=(*loops.inner, *between))), misplaced)


def _without_split_bounds(level: LevelConstraints, problem: Problem) -> LevelConstraints:
    """Fixed factors and minima that the whole layer has and a tile cannot: they are cut to its extent."""
    def cut(loops: LoopConstraint) -> LoopConstraint:
        return replace(loops, fixed={dim: value if problem.bounds[dim] % value == 0 else problem.bounds[dim]
                                     for dim, value in loops.fixed.items()},
                       minimum={dim: min(value, problem.bounds[dim]) for dim, value in loops.minimum.items()})

    return replace(level, temporal=cut(level.temporal), spatial=cut(level.spatial))
