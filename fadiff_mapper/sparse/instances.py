"""Instances in use: on average, where empty tiles are sent nowhere, and at most, where instances are skipped.

Units are counted as in `usage.Usage`: 0 is the arithmetic, l + 1 is storage level l. Skipping at storage level
l saves instances of unit l, the next one inwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.sparse.complete_nest import NestLoop, Points, box_of
from fadiff_mapper.sparse.sparse_layer import SparseLayer


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
        skipped: Share of the instances that spatial skipping saves, by (storage level, data space); none where the
            input skips no instances.
        skips: The places (storage level, data space) at which the input skips instances.
    """

    levels: tuple[tuple[UsedInstances, ...], ...]
    arithmetic: UsedInstances
    skipped: dict[tuple[int, int], float]
    skips: frozenset[tuple[int, int]] = frozenset()


Dense = tuple[tuple[int, int], ...]
"""Instances (X, Y) of every unit that the mapping spans."""


def temporal_use(layer: SparseLayer, dense: Dense) -> InstanceUse:
    """Instances where none are skipped: all that the mapping spans, less those whose tiles are empty on average."""
    levels = tuple(tuple(
        UsedInstances(x, y, x * y * (occupancy[level].used if level in occupancy else 1.0))
        for occupancy in layer.occupancies) for level, (x, y) in enumerate(dense[1:]))
    x, y = dense[0]
    return InstanceUse(levels, UsedInstances(x, y, float(x * y)), {})


def instance_use(layer: SparseLayer, dense: Dense) -> InstanceUse:
    """Instances in use.

    Args:
        layer: The mapping with its tiles and occupancies.
        dense: Instances that the mapping spans.

    Raises:
        InvalidMapping: A fan-out is too small for the instances that remain.
        FadiffError: Timeloop aborts, crashes, or reads beyond its tables.
    """
    if not any(level.spatial_skipping for level in layer.sparse.levels):
        return temporal_use(layer, dense)
    spaces = [_Units(layer, t, dense) for t in range(len(layer.columns))]
    for space in spaces:
        space.leave_out_empty_tiles()
    skips = set()
    for level, options in enumerate(layer.sparse.levels):
        for (choice,) in options.spatial_skipping:
            target = layer.problem.dataspace_names().index(choice.target)
            leaders = [layer.problem.dataspace_names().index(name) for name in choice.conditions]
            spaces[target].skip(level, leaders)
            skips.add((level, target))
    for t, space in enumerate(spaces):
        space.hand_inwards(frozenset(level for level, other in skips if other == t))
    _check_fanouts(layer, spaces)
    skipped = {(unit, t): 1 - space.summary[unit].average for t, space in enumerate(spaces)
               for unit in range(len(dense) - 1)}
    levels = tuple(tuple(_scaled(space.summary[level + 1], dense[level + 1]) for space in spaces)
                   for level in range(len(dense) - 1))
    arithmetic = [_scaled(space.summary[0], dense[0]) for space in spaces]
    return InstanceUse(levels, UsedInstances(max(use.x for use in arithmetic), max(use.y for use in arithmetic),
                                             max(use.average for use in arithmetic)), skipped, frozenset(skips))


def _scaled(summary: UsedInstances, dense: tuple[int, int]) -> UsedInstances:
    """A summary, whose average is a share, with the average in instances."""
    return UsedInstances(summary.x, summary.y, dense[0] * dense[1] * summary.average)


def _check_fanouts(layer: SparseLayer, spaces: list[_Units]) -> None:
    """Raises InvalidMapping for the innermost fan-out that is too small, with the sentences that Timeloop collects."""
    sentences: list[str] = []
    blamed: dict[int, str] = {}
    for space in spaces:
        for unit in reversed(range(len(layer.arch.levels))):
            for axis, name in enumerate("XY"):
                outer = space.most[unit + 1][axis]
                if not outer:
                    raise FadiffError("Timeloop crashes on this mapping: it divides by the instances of a level of "
                                      "which spatial skipping leaves none")
                needed, there = space.most[unit][axis] // outer, layer.arch.fanout(unit)[axis]
                if needed > there:
                    sentences.append(f"Required fanout{name} {needed} does not meet hardware constraint {there}")
                    blamed[unit] = "\n".join(sentences)
    if blamed:
        unit = min(blamed)
        name = layer.arch.levels[unit - 1].name if unit else layer.arch.arithmetic.name
        raise InvalidMapping(name, blamed[unit])


class _Units:
    """Instances of every unit for one data space while savings are worked in; whole numbers are cut off at each step.

    Attributes:
        most: Largest numbers (X, Y) by unit.
        share: Average share in use by unit.
        summary: The result: `most`, and the share as the average.
    """

    def __init__(self, layer: SparseLayer, dataspace: int, dense: Dense):
        self.layer = layer
        self.dataspace = dataspace
        self.reference = [list(instances) for instances in dense]
        self.most = [list(instances) for instances in dense]
        self.share = [1.0] * len(dense)
        self.reduced = [False] * len(dense)
        self.summary: list[UsedInstances] = []

    def leave_out_empty_tiles(self) -> None:
        """Instances that get no tile because the level outside knows that it would be empty."""
        column = self.layer.columns[self.dataspace]
        for unit, loops in enumerate(self.layer.nest):
            source = next((level for level in range(unit, len(self.layer.nest)) if level in column), None)
            if source is None or not column[source].has_metadata:
                continue
            innermost = True
            for number, loop in enumerate(loops):
                if not loop.spatial or loop.trivial or loop.dim not in self.layer.dims[self.dataspace]:
                    continue
                points = _points_inside(self.layer, unit, number)
                if innermost:
                    self.share[unit] = 1.0 - self._empty(self.dataspace, points)
                    innermost = False
                self._shrink(unit, loop, self._elements(self.dataspace, points, loop))
            self.reduced[unit] = self.share[unit] != 1.0
        for unit in reversed(range(1, len(self.most))):
            ratio = self._ratio(unit)
            if ratio != [1.0, 1.0]:
                self.reference[unit] = list(self.most[unit])
                self._reduce_inside(unit, ratio, self.reduced, self.share[unit])

    def skip(self, level: int, leaders: list[int]) -> None:
        """Instances of unit `level` that are skipped where leaders are empty.

        Timeloop numbers the loops on from one leader to the next, so that a later one is looked at over the whole
        tile of the level.
        """
        shares: dict[int, float] = {}
        walked = 0
        for leader in leaders:
            if not self._has_metadata(leader, level):
                shares[leader] = 1.0
                continue
            for number, loop in enumerate(self.layer.nest[level]):
                if not loop.spatial or loop.trivial or loop.dim not in self.layer.dims[leader]:
                    continue
                if walked + number > len(self.layer.nest[level]):
                    raise FadiffError("Timeloop reads beyond its tables on this mapping: spatial skipping on several "
                                      "conditions, of which a later one moves in a spatial loop")
                points = self._stationary(level, walked + number, loop, leader)
                shares.setdefault(leader, 1 - self._empty(leader, points))
                self._shrink(level, loop, self._elements(leader, points, loop))
            walked += len(self.layer.nest[level])
        self.share[level] = math.prod(shares[leader] for leader in sorted(shares))

    def hand_inwards(self, skipping: frozenset[int]) -> None:
        """Savings of outer units reach inner ones, in the average only up to the next unit that skips by itself."""
        result = []
        for unit in reversed(range(len(self.most))):
            x, y = self.most[unit]
            result.append(UsedInstances(x, y, self.share[unit]))
            ratio = self._ratio(unit) if unit else [1.0, 1.0]
            if ratio != [1.0, 1.0]:
                marks = [inner in skipping for inner in range(len(self.most))]
                self._reduce_inside(unit, ratio, marks, self.share[unit])
        self.summary = result[::-1]

    def _ratio(self, unit: int) -> list[float]:
        """The share of the instances along each axis that is left."""
        if not all(self.reference[unit]):
            raise FadiffError("Timeloop divides by 0 on this mapping: no instance of a level gets a tile with nonzeros")
        return [self.most[unit][axis] / self.reference[unit][axis] for axis in range(2)]

    def _reduce_inside(self, unit: int, ratio: list[float], marks: list[bool], share: float) -> None:
        for inner in reversed(range(unit)):
            for axis in range(2):
                self.most[inner][axis] = int(self.most[inner][axis] * ratio[axis])
            if not any(marks[inner:unit]):
                self.share[inner] *= share

    def _shrink(self, unit: int, loop: NestLoop, elements: int) -> None:
        axis = "XY".index(loop.axis)
        self.most[unit][axis] = int(self.most[unit][axis] * (elements / loop.bound))

    def _empty(self, dataspace: int, points: Points) -> float:
        return self.layer.models[dataspace].empty(box_of(self.layer.ranks[dataspace], points))

    def _elements(self, dataspace: int, points: Points, loop: NestLoop) -> int:
        """The most instances of a spatial loop that get a tile with a nonzero."""
        fiber = tuple(extent * (loop.bound if dim == loop.dim else 1) for dim, extent in enumerate(points))
        ranks = self.layer.ranks[dataspace]
        return self.layer.models[dataspace].most_elements(box_of(ranks, fiber), box_of(ranks, points))

    def _has_metadata(self, leader: int, level: int) -> bool:
        column = self.layer.columns[leader]
        source = next((other for other in range(level, len(self.layer.nest)) if other in column), None)
        return source is not None and column[source].has_metadata

    def _stationary(self, level: int, number: int, loop: NestLoop, leader: int) -> Points:
        """The points of an instance, over the temporal loops during which its target tile stays."""
        points = list(_points_inside(self.layer, level, number))
        target = self.layer.columns[self.dataspace]
        child = any(inner in target for inner in range(level))
        moved = self.layer.dims[self.dataspace]
        if not child or loop.dim not in moved & self.layer.dims[leader]:
            return tuple(points)
        source = next((other for other in range(level, len(self.layer.nest)) if other in target),
                      len(self.layer.nest) - 1)
        for outer in (outer for other in range(level, source + 1) for outer in self.layer.nest[other]):
            if outer.spatial or outer.trivial:
                continue
            if outer.dim in moved:
                break
            points[outer.dim] *= outer.bound
        return tuple(points)


def _points_inside(layer: SparseLayer, level: int, number: int) -> Points:
    """The points that all loops inside one span."""
    if number:
        return layer.nest[level][number - 1].points
    return layer.nest[level - 1][-1].points if level else (1,) * len(layer.nest[0][0].points)
