"""Constraints on the map space of a tile, so that its mapping keeps a fused group legal.

Problem. `fusion.group_legality` asks that resident tensors are whole in their level, and that sums of an
intermediate are finished before they arrive at their home. A search that learnt this from violations alone would
mostly draw illegal mappings.

Method. Both follow from Timeloop's own kinds of constraints (keep, bypass, fixed factors, loop order), added to those
of the design: outside the level where a tensor lies, no temporal loop moves it; and loops that add to an intermediate
stand inside its home, or directly outside as the innermost ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from fadiff_mapper.fusion.tile_steps import space_of
from fadiff_mapper.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec


class SumCompletion(Enum):
    """How the sums of an intermediate are finished before they are handed on.

    TOGETHER: all sums of the tile are kept until all are finished. INSIDE: each is finished inside the home level,
    which then brings in all operands of a sum at once. IN_TURN: one part after the other is finished, by the innermost
    loops outside the home.
    """

    TOGETHER = "together"
    INSIDE = "inside"
    IN_TURN = "in turn"


@dataclass(frozen=True)
class ResidentTile:
    """A data space that lies in a level while a tile runs.

    Attributes:
        space: Name of the data space.
        level: Index of the level.
        outside: Whether levels outside may keep it too.
        whole: Whether the mapping has all of it there at once; else it goes through it piece by piece.
        apart: Whether it comes there with the tile, as the output of overlapping pools does, and so takes room of
            its own.
    """

    space: str
    level: int
    outside: bool = False
    whole: bool = True
    apart: bool = False


def constrained(spec: Spec, problem: Problem, held: Sequence[ResidentTile], completion: SumCompletion) -> Constraints:
    """Adds to a design's constraints those of the data spaces that are held.

    Args:
        spec: The layer on its design.
        problem: The tile.
        held: Data spaces that lie in a level while it runs.
        completion: How sums of an intermediate among them are finished.
    """
    return cut_to_tile(with_residents(spec.constraints, problem, held, completion), problem)


def with_residents(constraints: Constraints, problem: Problem, held: Sequence[ResidentTile],
                   completion: SumCompletion) -> Constraints:
    """The constraints that all tiles of a layer have in common: the design's, and those of what is held.

    Args:
        constraints: The design's.
        problem: The layer or a tile of it; its bounds play no role.
        held: Data spaces that lie in a level while a tile runs.
        completion: How sums of an intermediate among them are finished.
    """
    levels: Sequence[LevelConstraints] = constraints.levels
    for resident in held:
        levels = _lying(levels, resident, space_of(problem, resident.space).dimensions)
        if resident.space == problem.output.name and resident.level + 1 < len(levels):
            levels = _finished(levels, constraints, problem, resident.level, completion)
    return replace(constraints, levels=tuple(levels))


def cut_to_tile(constraints: Constraints, problem: Problem) -> Constraints:
    """Cuts fixed factors and minima that the whole layer has and a tile cannot to the extent of the tile.

    Args:
        constraints: Those of the layer.
        problem: The tile.

    Returns:
        The same object where nothing is cut.
    """
    levels = tuple(_cut_level(level, problem.bounds) for level in constraints.levels)
    unchanged = all(cut is level for cut, level in zip(levels, constraints.levels, strict=True))
    return constraints if unchanged else replace(constraints, levels=levels)


def _lying(levels: Sequence[LevelConstraints], resident: ResidentTile,
           moving: frozenset[str]) -> list[LevelConstraints]:
    """Kept in its level, in none outside unless allowed, and moved by no loop of these if whole."""
    result = list(levels)
    home, name = resident.level, {resident.space}
    result[home] = replace(result[home], keep=result[home].keep | name, bypass=result[home].bypass - name)
    for index in range(home + 1, len(result)):
        if not resident.outside:
            result[index] = replace(result[index], keep=result[index].keep - name, bypass=result[index].bypass | name)
        result[index] = _fixed(result[index], set(moving) if resident.whole else set())
    return result


def _finished(levels: Sequence[LevelConstraints], design: Constraints, problem: Problem, home: int,
              completion: SumCompletion) -> list[LevelConstraints]:
    """Sums of an intermediate are finished before they lie in its home level."""
    result = list(levels)
    moving = set(problem.output.dimensions)
    summed = set(problem.dimensions) - moving
    for index in range(home if _inside(design, problem.output.name, home) else home + 1, len(result)):
        if completion is SumCompletion.IN_TURN and index > home:
            result[index] = _innermost(result[index], summed)
        else:
            result[index] = _fixed(result[index], summed if completion is SumCompletion.INSIDE else moving)
    return result


def _inside(design: Constraints, output: str, level: int) -> bool:
    """Whether a level inside this one keeps the output, so that sums can be finished there."""
    return any(output not in constraints.bypass for constraints in design.levels[:level])


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


def _cut_level(level: LevelConstraints, bounds: Mapping[str, int]) -> LevelConstraints:
    """`cut_to_tile` of one level."""
    temporal, spatial = _cut_loops(level.temporal, bounds), _cut_loops(level.spatial, bounds)
    unchanged = temporal is level.temporal and spatial is level.spatial
    return level if unchanged else replace(level, temporal=temporal, spatial=spatial)


def _cut_loops(loops: LoopConstraint, bounds: Mapping[str, int]) -> LoopConstraint:
    """`cut_to_tile` of the temporal or spatial loops of one level."""
    if (all(bounds[dim] % value == 0 for dim, value in loops.fixed.items())
            and all(value <= bounds[dim] for dim, value in loops.minimum.items())):
        return loops
    return replace(loops, fixed={dim: value if bounds[dim] % value == 0 else bounds[dim]
                                 for dim, value in loops.fixed.items()},
                   minimum={dim: min(value, bounds[dim]) for dim, value in loops.minimum.items()})
