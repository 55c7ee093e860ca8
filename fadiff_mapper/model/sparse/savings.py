"""Gating and skipping of accesses: the probability that the tensors that are looked at (leaders) are empty.

An access to a tile of the target (follower) is saved where the part of a leader that is needed during the tile's stay
in the next level inwards holds no nonzero. The loops between both levels decide about this part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.inputs.spec.sparse_optimizations import ConditionedAccess
from fadiff_mapper.model.sparse.formats import NestLoop, StoredMapping

GATED, SKIPPED = "gated", "skipped"


@dataclass(frozen=True)
class Saving:
    """Accesses of a data space that a level saves.

    Attributes:
        kind: `GATED` or `SKIPPED`.
        probability: Share of the accesses.
    """

    kind: str
    probability: float


def read_savings(stored: StoredMapping) -> dict[tuple[int, int], Saving]:
    """The savings of all levels, gating before skipping, inner levels before outer ones.

    Of the alternatives of one choice the one counts that saves most energy, of equal ones the last, as in Timeloop.
    Where several choices save accesses of the same tile, the most probable one counts, of equal ones the first.

    Returns:
        Saving by (level, data space).

    Raises:
        InvalidMapping: A target is stored nowhere at the level or further out.
    """
    savings: dict[tuple[int, int], Saving] = {}
    for kind, choices in ((GATED, [level.gating for level in stored.design.sparse.levels]),
                          (SKIPPED, [level.skipping for level in stored.design.sparse.levels])):
        for level, groups in enumerate(choices):
            for group in groups:
                options = [_effect(choice, level, stored) for choice in group]
                source, target, probability, _ = max(reversed(options), key=lambda option: option[3])
                if (source, target) not in savings or savings[source, target].probability < probability:
                    savings[source, target] = Saving(kind, probability)
    return savings


def _effect(choice: ConditionedAccess, level: int, stored: StoredMapping) -> tuple[int, int, float, float]:
    """The effect of one option: the level whose accesses are saved, the target, the probability, and pJ per tile that
    Timeloop expects to be saved: data, and the metadata that goes inwards, in words of data."""
    names, design = stored.design.layer.problem.dataspace_names(), stored.design
    target = names.index(choice.target)
    source = stored.source(target, level)
    if source is None:
        name = design.layer.arch.levels[level].name
        raise InvalidMapping(name, f"skipping/gating for {choice.target}does not have a source storage for "
                                   f"datastreams{name}")
    window, effectual = _window(source, target, stored), 1.0
    for leader in map(names.index, choice.conditions):
        points = _leader_points(window, source, target, leader, stored)
        if points is not None:
            effectual *= 1 - design.models[leader].empty(stored.spaces[leader].tile_extents(points))
    hardware, child = design.layer.arch.levels[source], stored.columns[target][source].child
    # Timeloop divides whole numbers: metadata that is narrower than a word counts nothing.
    ratio = hardware.metadata.word_bits // hardware.word_bits
    occupancies = stored.occupancies[target]
    words = occupancies[source].nonzeros + occupancies[source if child is None else child].metadata_units * ratio
    worth = design.layer.energies[source].read / hardware.block_size * words * (1 - effectual)
    return source, target, 1 - effectual, worth


@dataclass(frozen=True)
class LeaderWindow:
    """The part of the iterations during which a tile of the target stays where it is.

    Attributes:
        loop: The target loop, whose iterations bring new words of the target.
        target: Points of the target's tile.
        leader: Points over which a leader is looked at.
        loops: The target loop, and the loops outside it that widen the part looked at.
        scalar: Whether it is a single iteration, as at the innermost level.
    """

    loop: NestLoop
    target: dict[str, int]
    leader: dict[str, int]
    loops: tuple[NestLoop, ...]
    scalar: bool


def _window(source: int, target: int, stored: StoredMapping) -> LeaderWindow:
    """Finds the target loop, and the part of the nest that is looked at.

    Spatial loops outside the target loop widen the part, as their instances work at the same time. For a spatial
    target loop the temporal loops up to the next one that moves the target widen it, too: the tile stays during them.
    """
    child, moved = stored.columns[target][source].child, stored.spaces[target].dimensions
    loop, outside, scalar = _target_loop(source, child, target, stored)
    points = dict.fromkeys(loop.points, 1) if scalar else loop.points
    looked_at, loops, stays = dict(points), [loop], bool(loop.axis)
    for outer in outside:
        if outer.trivial:
            continue
        moves = child is None or outer.dim in moved
        if outer.axis or (stays and not moves):
            looked_at[outer.dim] *= outer.bound
            loops.append(outer)
        stays = stays and (bool(outer.axis) or not moves)
    return LeaderWindow(loop, points, looked_at, tuple(loops), scalar)


def _target_loop(source: int, child: int | None, target: int,
                 stored: StoredMapping) -> tuple[NestLoop, list[NestLoop], bool]:
    """The loop, those outside it up to its level, and whether the part looked at is a single iteration.

    Between two memories the innermost loop that moves the target counts, else the outermost loop of all. Above the
    arithmetic, where nothing stays, the last spatial loop counts, or an earlier one that moves the target; without
    spatial loops each iteration counts by itself.
    """
    moved = stored.spaces[target].dimensions
    loops = [loop for level in range(0 if child is None else child + 1, source + 1) for loop in stored.nest[level]]
    if child is None:
        for number, loop in enumerate(stored.nest[0]):
            last_spatial = number + 1 == len(stored.nest[0]) or not stored.nest[0][number + 1].axis
            if last_spatial or (loop.dim in moved and not loop.trivial):
                return loop, loops[number + 1:], last_spatial and not loop.axis
    for number, loop in enumerate(loops):
        if not loop.trivial and loop.dim in moved:
            return loop, loops[number + 1:], False
    return loops[-1], [], False


def _leader_points(window: LeaderWindow, source: int, target: int, leader: int,
                   stored: StoredMapping) -> dict[str, int] | None:
    """The points over which one leader is looked at; None where the option is without effect for it.

    Loops that move target and leader alike (co-iterated ones) narrow the part to one of their iterations, or to as
    many as a block of the target's memory takes. A leader that moves in a loop outside a co-iterated spatial one
    would have to be read in another order, which saves nothing.
    """
    factors: dict[str, float] = {}
    together = 1.0
    for loop in () if window.scalar else window.loops:
        if window.loop.axis and factors and loop.dim in stored.spaces[leader].dimensions:
            return None
        if loop.dim in stored.spaces[target].dimensions & stored.spaces[leader].dimensions:
            factors[loop.dim] = factors.get(loop.dim, 1.0) * loop.bound
            together *= loop.bound
    points = dict(window.leader)
    words = math.prod(stored.spaces[target].tile_extents(window.target))
    scaling = float(math.ceil(stored.design.layer.arch.levels[source].block_size / (words / together)))
    for dim in (dim for dim in stored.design.layer.problem.dimensions if dim in factors):
        points[dim] = math.ceil(points[dim] / (factors[dim] / scaling))
        scaling = scaling / factors[dim]
    if scaling > 1:
        points[window.loop.dim] = int(points[window.loop.dim] * scaling)
    return points
