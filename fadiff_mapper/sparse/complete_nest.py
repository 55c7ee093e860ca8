"""The loop nest of one mapping with all its loops, those of bound 1 included, level by level.

Timeloop's sparse analysis looks at loops one by one: which one is met first, which one is spatial. Each level has its
spatial loops (where the hardware has a fan-out below it), then its temporal loops, each in the order of the mapping,
innermost first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from fadiff_mapper.sparse.banded_matrix import Box
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem

Points = tuple[int, ...]
"""Points of a box of iterations along each dimension of the problem."""
Ranks = tuple[tuple[tuple[int, int], ...], ...]
"""Ranks of a data space, each a sum of terms (dimension index, coefficient)."""


@dataclass(frozen=True)
class NestLoop:
    """One loop.

    Attributes:
        dim: Index of its dimension.
        bound: Its factor.
        axis: "X" or "Y" of a spatial loop, "" of a temporal one.
        points: Points of the box that this loop and all inside it span.
    """

    dim: int
    bound: int
    axis: str
    points: Points

    @property
    def spatial(self) -> bool:
        """Whether the loop runs over instances."""
        return bool(self.axis)

    @property
    def trivial(self) -> bool:
        """Whether the loop runs once."""
        return self.bound == 1


CompleteNest = tuple[tuple[NestLoop, ...], ...]
"""The loops of every storage level, innermost level and innermost loop first."""


def complete_nest(mapping: Mapping, arch: Architecture, problem: Problem) -> CompleteNest:
    """All loops of a mapping.

    Args:
        mapping: The mapping.
        arch: The architecture; a level without a fan-out below it has no spatial loops.
        problem: Gives the indices of dimensions.
    """
    index = {name: i for i, name in enumerate(problem.dimensions)}
    points = [1] * len(index)
    nest = []
    for number, level in enumerate(mapping.levels):
        loops = []
        x, y = arch.fanout(number)
        for name, bound, axis in _loops(level, with_spatial=x * y > 1):
            points[index[name]] *= bound
            loops.append(NestLoop(index[name], bound, axis, tuple(points)))
        nest.append(tuple(loops))
    return tuple(nest)


def _loops(level: LevelMapping, *, with_spatial: bool) -> Iterator[tuple[str, int, str]]:
    if with_spatial:
        for position, name in enumerate(level.spatial_order):
            yield name, level.spatial[name], "X" if position < level.split else "Y"
    for name in level.order:
        yield name, level.temporal[name], ""


@lru_cache(maxsize=1 << 16)  # a search meets the same boxes again and again
def box_of(ranks: Ranks, points: Points) -> Box:
    """The extents of a data space's tile, holes included, as in `spec.problem.extent_along`."""
    return tuple(1 + sum(coefficient * (points[dim] - 1) for dim, coefficient in rank) for rank in ranks)


def unit_box(ranks: Ranks) -> Box:
    """The box of a single word."""
    return (1,) * len(ranks)
