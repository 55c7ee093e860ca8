"""How large a map space is, counted as `timeloop-mapper` prints it at its start."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.mapspace.build import permitted
from fadiff_mapper.mapspace.factorize import factorization_count
from fadiff_mapper.mapspace.space import MapSpace


@dataclass(frozen=True)
class Size:
    """The four parts of a map space; every mapping is one choice from each.

    The parts hold illegal mappings (fan-outs and capacities are not looked at) and equal ones (orders of loops
    of factor 1). Python integers: exact at any size.

    Attributes:
        factorizations: Product over dimensions of the ordered factorizations of the bound over all levels' temporal
            loops and those spatial loops that have a fan-out, within the constraints.
        permutations: Product over temporal and spatial loops of all levels of (dimensions in free order)!.
        bypass: 2 ^ (data spaces that are neither forced to be kept nor to be bypassed, over all levels).
        splits: Product over fan-outs without a given split of (dimensions + 1).
    """

    factorizations: int
    permutations: int
    bypass: int
    splits: int

    @property
    def total(self) -> int:
        """Number of mappings."""
        return self.factorizations * self.permutations * self.bypass * self.splits


def size(space: MapSpace) -> Size:
    """Counts a map space as `timeloop-mapper` does, except that a dummy level counts as constrained."""
    levels = space.levels
    given_splits = [level.spatial.split for level in space.constraints.levels]
    return Size(
        factorizations=math.prod(_dimension_count(space, name) for name in space.problem.dimensions),
        permutations=math.prod(math.factorial(len(loops.between))
                               for level in levels for loops in (level.temporal, level.spatial)),
        bypass=2 ** sum(len(level.open) for level in levels),
        splits=math.prod(len(space.problem.dimensions) + 1 for level, split in zip(levels, given_splits, strict=True)
                         if level.fanout != (1, 1) and split is None),
    )


def _dimension_count(space: MapSpace, dimension: str) -> int:
    """Ordered factorizations of one dimension."""
    bound = space.problem.bounds[dimension]
    choices = []
    for level, hardware, limits in zip(space.levels, space.architecture.levels, space.constraints.levels, strict=True):
        choices.append(permitted(bound, limits.temporal, dimension, pinned=hardware.is_dummy))
        if level.fanout != (1, 1):
            choices.append(permitted(bound, limits.spatial, dimension))
    return factorization_count(bound, choices)
