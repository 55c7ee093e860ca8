"""Architecture + problem + constraints -> map space."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache

from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.mapspace.space import LevelSpace, LoopSpace, MapSpace
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.spec.problem import Problem

REMEMBERED = 4096
"""Choices of levels that are kept, 3 kB each: the tiles of a fused group are searched with constraints that differ at
few levels. Of the 55,000 levels in the searches for a network of 200 layers 65 % were there already, 58 % of them with
half as many (23 November 2026)."""

Bounds = tuple[tuple[str, int], ...]
"""Name and extent of each dimension, in the order of the shape."""


def build_mapspace(architecture: Architecture, problem: Problem, constraints: Constraints) -> MapSpace:
    """Builds the map space: all that constraints and hardware leave open.

    Factors divide their dimension. A spatial factor is bounded by the fan-out of the axes it may lie on, and is 1
    where there is no fan-out. As in `timeloop-mapper`:

    - the outermost level keeps every data space that no constraint makes it bypass;
    - two orders cannot matter and are taken as they come: the order of the innermost level's temporal loops where no
      fan-out lies below it, and the order of spatial loops on a fan-out along one axis.

    Unlike there, a level that the v0.4 front end inserts for a fan-out (`StorageLevel.is_dummy`) holds no temporal loop
    and keeps nothing unless a constraint says so, as the constraints that the front end inserts with it say.

    Args:
        architecture: The architecture.
        problem: The problem.
        constraints: Limits on mappings.

    Returns:
        The map space. An empty choice of factors is a contradiction, which `conflicts` explains.
    """
    bounds, names, outermost = tuple(problem.bounds.items()), problem.dataspace_names(), len(architecture.levels) - 1
    levels = tuple(
        _level_space(level.name, architecture.fanout(i), level.is_dummy, i == 0, i == outermost, bounds, names, limits)
        for i, (level, limits) in enumerate(zip(architecture.levels, constraints.levels, strict=True)))
    return MapSpace(architecture, problem, constraints, levels)


def rounded_up(problem: Problem, constraints: Constraints) -> dict[str, int]:
    """The bounds of the least problem, from the given one on, that the fixed factors of the constraints divide.

    A mapping of it that is cut off at the given bounds has residual factors. So `timeloop-mapper` understands fixed
    factors that do not divide a dimension: free factors divide what they leave, rounded up.

    Args:
        problem: The problem.
        constraints: Limits on its mappings.

    Returns:
        Bound by dimension; the problem's own where there is nothing to round.
    """
    fixed = {name: math.prod(loops.fixed.get(name, 1) for level in constraints.levels
                             for loops in (level.temporal, level.spatial)) for name in problem.bounds}
    return {name: -(-bound // fixed[name]) * fixed[name] for name, bound in problem.bounds.items()}


def permitted(bound: int, loops: LoopConstraint, dimension: str, *, pinned: bool = False) -> tuple[int, ...]:
    """The factors of a dimension that a constraint allows.

    Args:
        bound: Extent of the dimension.
        loops: The constraint.
        dimension: Name of the dimension.
        pinned: Whether the factor is 1 unless the constraint limits the dimension.

    Returns:
        Divisors of the bound, ascending.
    """
    if not (dimension in loops.fixed or dimension in loops.minimum or dimension in loops.maximum):
        return (1,) if pinned else divisors(bound)
    least, most = loops.minimum.get(dimension, 1), loops.maximum.get(dimension, bound)
    return tuple(d for d in divisors(bound) if least <= d <= most and loops.fixed.get(dimension, d) == d)


def spatial_axes(loops: LoopConstraint, fanout: tuple[int, int], dimensions: tuple[str, ...]) -> dict[str, str]:
    """The axes of a fan-out that each dimension's spatial loop may lie on.

    The first `split` entries of the full permutation lie on X, those of factor 1 counted; without a permutation
    a fan-out along one axis has the order of the shape.

    Args:
        loops: The constraint on the spatial loops.
        fanout: Instances along (X, Y).
        dimensions: Dimensions in the order of the shape.

    Returns:
        By dimension "X", "Y", "XY", or "" where the factor must be 1. Axes of a single instance are left out.
    """
    wired = "".join(axis for axis, width in zip("XY", fanout, strict=True) if width > 1)
    if loops.split is None:
        return dict.fromkeys(dimensions, wired)
    inner, between, outer = _positions(loops, dimensions, canonical=len(wired) < 2)
    on_x = between_on_x(loops.split, len(inner), len(between))
    axes = {name: "X" if i < loops.split else "Y" for i, name in enumerate((*inner, *between, *outer))}
    if 0 < on_x < len(between):  # their order is free, and with it on which side of the split each lies
        axes |= dict.fromkeys(between, "XY")
    return {name: "".join(axis for axis in axes[name] if axis in wired) for name in dimensions}


def between_on_x(split: int, inner: int, between: int) -> int:
    """How many freely ordered dimensions a split puts on X.

    Args:
        split: Leading entries of the permutation that lie on X.
        inner: Dimensions in front of them whose order is fixed.
        between: Freely ordered dimensions.
    """
    return min(max(split - inner, 0), between)


def _positions(
    loops: LoopConstraint, dimensions: tuple[str, ...], canonical: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The permutation as (inner, between, outer), where `canonical` without anything left open."""
    named = {*loops.inner, *loops.outer}
    between = tuple(name for name in dimensions if name not in named)
    if canonical and not named:
        return between, (), ()
    return loops.inner, between, loops.outer


@lru_cache(maxsize=REMEMBERED)
def _level_space(name: str, fanout: tuple[int, int], dummy: bool, innermost: bool, outermost: bool, bounds: Bounds,
                 dataspaces: tuple[str, ...], constraints: LevelConstraints) -> LevelSpace:
    """The choices of one level, which many problems share; not to be written to.

    Args:
        name: Name of the level.
        fanout: Instances along (X, Y) of the fan-out below it.
        dummy: Whether it is a fan-out without storage.
        innermost: Whether no other level lies inside it.
        outermost: Whether no other level lies outside it.
        bounds: Of the problem.
        dataspaces: Names of the problem's data spaces.
        constraints: Limits on the level.
    """
    dimensions = tuple(dimension for dimension, _ in bounds)
    axes = spatial_axes(constraints.spatial, fanout, dimensions)
    keep, bypass = _forced(frozenset(dataspaces), constraints, dummy, outermost)
    return LevelSpace(
        name=name,
        temporal=_temporal(bounds, dimensions, constraints.temporal, pinned=dummy,
                           order_matters=not innermost or fanout != (1, 1)),
        spatial=_spatial(bounds, dimensions, constraints.spatial, fanout, axes),
        fanout=fanout, axes=axes, keep=keep, bypass=bypass, open=frozenset(dataspaces) - keep - bypass,
    )


def _temporal(bounds: Bounds, dimensions: tuple[str, ...], loops: LoopConstraint, pinned: bool,
              order_matters: bool) -> LoopSpace:
    choices = {name: permitted(bound, loops, name, pinned=pinned) for name, bound in bounds}
    inner, between, outer = _positions(loops, dimensions, canonical=False)
    if not order_matters:
        inner, between = inner + between, ()
    return LoopSpace(choices, inner, between, outer)


def _spatial(bounds: Bounds, dimensions: tuple[str, ...], loops: LoopConstraint, fanout: tuple[int, int],
             axes: dict[str, str]) -> LoopSpace:
    room = dict(zip("XY", fanout, strict=True))
    choices = {}
    for name, bound in bounds:
        factors, widest = permitted(bound, loops, name), max((room[axis] for axis in axes[name]), default=1)
        choices[name] = factors[:bisect_right(factors, widest)]
    return LoopSpace(choices, *_positions(loops, dimensions, canonical=min(fanout) == 1))


def _forced(dataspaces: frozenset[str], constraints: LevelConstraints, dummy: bool,
            outermost: bool) -> tuple[frozenset[str], frozenset[str]]:
    """(data spaces that a level must keep, data spaces that it must bypass)."""
    unsaid = dataspaces - constraints.keep - constraints.bypass
    if outermost:
        return constraints.keep | unsaid, constraints.bypass
    return constraints.keep, constraints.bypass | (unsaid if dummy else frozenset())
