"""Instances in use: on average, where empty tiles are sent nowhere, and at most, where instances are skipped.

Units are counted as in `usage.Usage`: 0 is the arithmetic, l + 1 is storage level l. Skipping at storage level
l saves instances of unit l, the next one inwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.model.sparse.formats import NestLoop, StoredMapping


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
