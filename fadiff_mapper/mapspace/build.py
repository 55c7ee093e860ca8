"""Architecture + problem + constraints -> map space."""

from __future__ import annotations

from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.mapspace.space import LevelSpace, LoopSpace, MapSpace
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.spec.problem import Problem


def build_mapspace(architecture: Architecture, problem: Problem, constraints: Constraints) -> MapSpace:
    """Builds the map space: all that constraints and hardware leave open.

    Factors divide their dimension. A spatial factor is bounded by the fan-out of the axes it may lie on, and is 1
    where there is no fan-out. As in `timeloop-mapper`:

    - the outermost level keeps every data space that no constraint makes it bypass;
    - two orders cannot matter and are taken as they come: the order of the innermost level's temporal loops where no
      fan-out lies below it, and the order of spatial loops on a fan-out along one axis.

    Unlike there, a dummy level (a fan-out without storage) holds no temporal loop and keeps nothing unless a
    constraint says so.

    Args:
        architecture: The architecture.
        problem: The problem.
        constraints: Limits on mappings.

    Returns:
        The map space. An empty choice of factors is a contradiction, which `conflicts` explains.
    """
    levels = tuple(
        _level_space(architecture, problem, constraints.levels[i], i) for i in range(len(architecture.levels)))
    return MapSpace(architecture, problem, constraints, levels)


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


def _level_space(architecture: Architecture, problem: Problem, constraints: LevelConstraints, index: int) -> LevelSpace:
    level = architecture.levels[index]
    fanout = architecture.fanout(index)
    axes = spatial_axes(constraints.spatial, fanout, problem.dimensions)
    keep, bypass = _forced(problem, constraints, level.is_dummy, index == len(architecture.levels) - 1)
    return LevelSpace(
        name=level.name,
        temporal=_temporal(problem, constraints.temporal, pinned=level.is_dummy,
                           order_matters=index > 0 or fanout != (1, 1)),
        spatial=_spatial(problem, constraints.spatial, fanout, axes),
        fanout=fanout, axes=axes, keep=keep, bypass=bypass,
        open=frozenset(problem.dataspace_names()) - keep - bypass,
    )


def _temporal(problem: Problem, loops: LoopConstraint, pinned: bool, order_matters: bool) -> LoopSpace:
    choices = {name: permitted(bound, loops, name, pinned=pinned) for name, bound in problem.bounds.items()}
    inner, between, outer = _positions(loops, problem.dimensions, canonical=False)
    if not order_matters:
        inner, between = inner + between, ()
    return LoopSpace(choices, inner, between, outer)


def _spatial(
    problem: Problem, loops: LoopConstraint, fanout: tuple[int, int], axes: dict[str, str]
) -> LoopSpace:
    room = dict(zip("XY", fanout, strict=True))
    widest = {name: max((room[axis] for axis in axes[name]), default=1) for name in problem.dimensions}
    choices = {name: tuple(d for d in permitted(bound, loops, name) if d <= widest[name])
               for name, bound in problem.bounds.items()}
    return LoopSpace(choices, *_positions(loops, problem.dimensions, canonical=min(fanout) == 1))


def _forced(
    problem: Problem, constraints: LevelConstraints, dummy: bool, outermost: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """(data spaces that a level must keep, data spaces that it must bypass)."""
    unsaid = frozenset(problem.dataspace_names()) - constraints.keep - constraints.bypass
    if outermost:
        return constraints.keep | unsaid, constraints.bypass
    return constraints.keep, constraints.bypass | (unsaid if dummy else frozenset())
