"""Gating and skipping of accesses: the probability that the tensors that are looked at (leaders) are empty.

An access to a tile of the target (follower) is saved where the part of a leader that is needed during the tile's stay
in the next level inwards holds no nonzero. The loops between both levels decide about this part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.spec.sparse_optimizations import ConditionedAccess
from fadiff_mapper.model.sparse_tiles import NestLoop, StoredMapping

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


@dataclass(frozen=True)
class UsedInstances:
    """Instances of one unit in use for one data space.

    Attributes:
        x: Most instances along X.
        y: Most instances along Y.
        average: Instances in use on average.
    """

    x: int
    y: int
    average: float

    @property
    def most(self) -> int:
        """Most instances in use."""
        return self.x * self.y


@dataclass(frozen=True)
class InstanceUse:
    """Instances of all units.

    Attributes:
        levels: For each storage level those of every data space.
        arithmetic: Instances of the arithmetic.
        skipped: Share of the instances that spatial skipping saves, by the (storage level, data space) that skips some.
    """

    levels: tuple[tuple[UsedInstances, ...], ...]
    arithmetic: UsedInstances
    skipped: dict[tuple[int, int], float]


Spanned = tuple[tuple[int, int], ...]
"""Instances (X, Y) of every unit that the mapping spans."""


def instance_use(stored: StoredMapping, spanned: Spanned) -> InstanceUse:
    """Instances in use.

    Args:
        stored: The mapping with its tiles and occupancies.
        spanned: Instances that the mapping spans.

    Raises:
        InvalidMapping: A fan-out is too small for the instances that remain.
        FadiffError: Timeloop aborts, crashes, or reads beyond its tables.
    """
    if not stored.design.skips_instances:
        return InstanceUse(tuple(tuple(
            UsedInstances(x, y, x * y * (occupancy[level].used if level in occupancy else 1.0))
            for occupancy in stored.occupancies) for level, (x, y) in enumerate(spanned[1:])),
            UsedInstances(spanned[0][0], spanned[0][1], float(math.prod(spanned[0]))), {})
    spaces = [_Units(stored, t, spanned) for t in range(len(stored.columns))]
    for space in spaces:
        space.leave_out_empty_tiles()
    skips, names = set(), stored.design.layer.problem.dataspace_names()
    for level, options in enumerate(stored.design.sparse.levels):
        for (choice,) in options.spatial_skipping:
            target = names.index(choice.target)
            spaces[target].skip(level, [names.index(name) for name in choice.conditions])
            skips.add((level, target))
    for t, space in enumerate(spaces):
        space.hand_inwards([(unit, t) in skips for unit in range(len(spanned))])
    _check_fanouts(stored, spaces)
    used = [[UsedInstances(space.most[unit][0], space.most[unit][1], math.prod(spanned[unit]) * space.share[unit])
             for space in spaces] for unit in range(len(spanned))]
    return InstanceUse(tuple(map(tuple, used[1:])), UsedInstances(
        max(one.x for one in used[0]), max(one.y for one in used[0]), max(one.average for one in used[0])),
        {(level, t): 1 - spaces[t].share[level] for level, t in skips})


def _check_fanouts(stored: StoredMapping, spaces: list[_Units]) -> None:
    """Raises InvalidMapping for the innermost fan-out that is too small, with the sentences that Timeloop collects."""
    arch = stored.design.layer.arch
    sentences: list[str] = []
    blamed: dict[int, str] = {}
    for space in spaces:
        for unit in reversed(range(len(arch.levels))):
            for axis, name in enumerate("XY"):
                outer = space.most[unit + 1][axis]
                if not outer:
                    raise FadiffError("Timeloop crashes on this mapping: it divides by the instances of a level of "
                                      "which spatial skipping leaves none")
                needed, there = space.most[unit][axis] // outer, arch.fanout(unit)[axis]
                if needed > there:
                    sentences.append(f"Required fanout{name} {needed} does not meet hardware constraint {there}")
                    blamed[unit] = "\n".join(sentences)
    if blamed:
        unit = min(blamed)
        raise InvalidMapping(arch.levels[unit - 1].name if unit else arch.arithmetic.name, blamed[unit])


class _Units:
    """Instances of every unit for one data space while savings are worked in; whole numbers are cut off at each step.

    Attributes:
        most: Largest numbers (X, Y) by unit.
        share: Average share in use by unit.
    """

    def __init__(self, stored: StoredMapping, dataspace: int, spanned: Spanned):
        self.stored, self.dataspace = stored, dataspace
        self.reference = [list(instances) for instances in spanned]
        self.most = [list(instances) for instances in spanned]
        self.share = [1.0] * len(spanned)

    def leave_out_empty_tiles(self) -> None:
        """Instances that get no tile because the level outside knows that it would be empty."""
        reduced = [False] * len(self.most)
        for unit, loops in enumerate(self.stored.nest):
            if not self._sent_in_format(self.dataspace, unit):
                continue
            innermost = True
            for number, loop in enumerate(loops):
                if not self._splits(loop, self.dataspace):
                    continue
                points = self._points_inside(unit, number)
                if innermost:
                    self.share[unit] = 1.0 - self._empty(self.dataspace, points)
                    innermost = False
                self._shrink(unit, loop, self.dataspace, points)
            reduced[unit] = self.share[unit] != 1.0
        for unit in reversed(range(1, len(self.most))):
            ratio = self._ratio(unit)
            if ratio != [1.0, 1.0]:
                self.reference[unit] = list(self.most[unit])
                self._reduce_inside(unit, ratio, reduced)

    def skip(self, level: int, leaders: list[int]) -> None:
        """Instances of unit `level` that are skipped where leaders are empty.

        Timeloop numbers the loops on from one leader to the next, so that a later one is looked at over the whole
        tile of the level.
        """
        shares: dict[int, float] = {}
        loops, walked = self.stored.nest[level], 0
        for leader in leaders:
            if not self._sent_in_format(leader, level):
                continue
            for number, loop in enumerate(loops):
                if not self._splits(loop, leader):
                    continue
                if walked + number > len(loops):
                    raise FadiffError("Timeloop reads beyond its tables on this mapping: spatial skipping on several "
                                      "conditions, of which a later one moves in a spatial loop")
                points = self._stationary(level, walked + number, loop, leader)
                shares.setdefault(leader, 1 - self._empty(leader, points))
                self._shrink(level, loop, leader, points)
            walked += len(loops)
        self.share[level] = math.prod(shares[leader] for leader in sorted(shares))

    def hand_inwards(self, skipping: list[bool]) -> None:
        """Savings of outer units reach inner ones, in the average only up to the next unit that skips by itself."""
        for unit in reversed(range(1, len(self.most))):
            ratio = self._ratio(unit)
            if ratio != [1.0, 1.0]:
                self._reduce_inside(unit, ratio, skipping)

    def _ratio(self, unit: int) -> list[float]:
        """The share of the instances along each axis that is left."""
        if not all(self.reference[unit]):
            raise FadiffError("Timeloop divides by 0 on this mapping: no instance of a level gets a tile with nonzeros")
        return [self.most[unit][axis] / self.reference[unit][axis] for axis in range(2)]

    def _reduce_inside(self, unit: int, ratio: list[float], marks: list[bool]) -> None:
        for inner in reversed(range(unit)):
            self.most[inner] = [int(most * share) for most, share in zip(self.most[inner], ratio, strict=True)]
            if not any(marks[inner:unit]):
                self.share[inner] *= self.share[unit]

    def _splits(self, loop: NestLoop, dataspace: int) -> bool:
        """Whether a loop gives instances different tiles of a data space."""
        return bool(loop.axis) and not loop.trivial and loop.dim in self.stored.spaces[dataspace].dimensions

    def _sent_in_format(self, dataspace: int, unit: int) -> bool:
        """Whether the level that sends tiles of a data space to a unit stores them in a format."""
        source = self.stored.source(dataspace, unit)
        return source is not None and self.stored.columns[dataspace][source].representation is not None

    def _empty(self, dataspace: int, points: dict[str, int]) -> float:
        return self.stored.design.models[dataspace].empty(self.stored.spaces[dataspace].tile_extents(points))

    def _shrink(self, unit: int, loop: NestLoop, dataspace: int, points: dict[str, int]) -> None:
        """Leaves the most instances of a spatial loop that get a tile with a nonzero."""
        extents = self.stored.spaces[dataspace].tile_extents
        elements = self.stored.design.models[dataspace].most_elements(
            extents(points | {loop.dim: points[loop.dim] * loop.bound}), extents(points))
        axis = "XY".index(loop.axis)
        self.most[unit][axis] = int(self.most[unit][axis] * (elements / loop.bound))

    def _points_inside(self, level: int, number: int) -> dict[str, int]:
        """The points that all loops inside the one of this number at a level span."""
        nest = self.stored.nest
        if number:
            return nest[level][number - 1].points
        return nest[level - 1][-1].points if level else dict.fromkeys(nest[0][0].points, 1)

    def _stationary(self, level: int, number: int, loop: NestLoop, leader: int) -> dict[str, int]:
        """The points of an instance, over the temporal loops during which its target tile stays."""
        points, target = dict(self._points_inside(level, number)), self.stored.spaces[self.dataspace].dimensions
        has_child = any(inner < level for inner in self.stored.columns[self.dataspace])
        if not has_child or loop.dim not in target & self.stored.spaces[leader].dimensions:
            return points
        source = self.stored.source(self.dataspace, level)
        end = len(self.stored.nest) if source is None else source + 1
        for outer in (outer for loops in self.stored.nest[level:end] for outer in loops):
            if outer.axis or outer.trivial:
                continue
            if outer.dim in target:
                break
            points[outer.dim] *= outer.bound
        return points
