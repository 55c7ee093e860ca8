"""The parallelism that any mapping can reach: the best that fan-outs, divisors and constraints allow spatial loops.

A *state* sums up the spatial loops of a mapping: how many MACs work, and to how many of them one word of each data
space goes in one access (multicast; for outputs, spatial reduction). More of either never makes a mapping's bound
higher, so the bound needs only the states that no other state dominates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.search.mapspace.build import MapSpace

MOST_STATES = 3000
"""Beyond this many states each quantity is bounded by itself (`in_one_state`), which makes the bound looser. A limit on
time, set by hand."""

PAIRED = 256
"""States that are compared with each other all at once. A plain limit on memory."""


@dataclass(frozen=True)
class Parallelism:
    """S states of the spatial loops."""

    macs: np.ndarray     # MACs in use, [S]
    sharing: np.ndarray  # MACs that one access at the innermost level which keeps the data space serves at most, [S, T]


@dataclass(frozen=True)
class Spread:
    """The reach of a map space's spatial loops, level by level, innermost first."""

    widest: tuple[dict[str, int], ...]  # For each level the largest spatial factor of each dimension, by its name
    # For each level and data space the dimensions along whose spatial loops any two receivers want different words of
    # it
    apart: tuple[tuple[frozenset[str], ...], ...]
    below: tuple[int, ...]  # For each level the receivers of one instance at most
    instances: np.ndarray   # Instances of each level that can be in use, [L]


def spread_of(space: MapSpace) -> Spread:
    """The reach of a map space's spatial loops.

    Receivers along a dimension want different words of a data space if it moves a rank by itself, or is the only one
    of a rank's dimensions that the level may spread. Where a level spreads two dimensions of one rank, receivers can
    want the same words (P 1 with R 0 is P 0 with R 1), so neither counts.
    """
    widest = tuple({name: max(factors, default=1) for name, factors in level.spatial.choices.items()}
                   for level in space.levels)
    apart = tuple(tuple(frozenset(
        spread[0] for rank in dataspace.ranks
        if len(spread := [term.dimension for term in rank if len(rank) == 1 or each[term.dimension] > 1]) == 1)
        for dataspace in space.problem.dataspaces) for each in widest)
    # the expansions of the levels further out, never more than the level's mesh has along each axis
    instances, x, y = np.empty(len(widest)), 1, 1
    for level in reversed(range(len(widest))):
        unit, axes = space.architecture.levels[level], space.levels[level].axes
        instances[level] = min(x, unit.mesh_x) * min(y, unit.mesh_y)
        x, y = (extent * math.prod(most for name, most in widest[level].items() if axis in axes[name])
                for extent, axis in ((x, "X"), (y, "Y")))
    return Spread(widest, apart, tuple(math.prod(each.values()) for each in widest), instances)


def parallelism(space: MapSpace, spread: Spread, innermost: Sequence[int], over: Over = never) -> Parallelism:
    """The undominated states of a map space.

    Spatial loops are added from the outermost level inwards. As in Timeloop's check the expansion on each axis fits
    the mesh of the next unit inwards, however the levels share it. The rule that the factors of one dimension at
    several levels divide its bound together is left out, which can only add states. A state in the making is (units
    along X, units along Y, receivers of one access for each data space).

    `innermost`: the innermost level that keeps each data space, [T]; -1 for one that is left out. Raises OutOfTime.
    """
    tensors = len(innermost)
    states: set[tuple[int, ...]] = {(1, 1, *[1] * tensors)}
    for level in reversed(range(len(space.levels))):
        unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
        apart = spread.apart[level]
        for name, widest in spread.widest[level].items():
            if widest == 1 or not space.levels[level].axes[name]:
                continue
            shared = [level <= innermost[t] and name not in apart[t] for t in range(tensors)]
            factors, axes = space.levels[level].spatial.choices[name], space.levels[level].axes[name]
            steps = [(f if axis == "X" else 1, f if axis == "Y" else 1, f) for f in factors for axis in axes]
            fitting = {(x * dx, y * dy, *(m * f if s else m for m, s in zip(rest, shared, strict=True)))
                       for x, y, *rest in in_time(states, over) for dx, dy, f in steps
                       if x * dx <= unit.mesh_x and y * dy <= unit.mesh_y}
            states = _undominated(fitting or states, over)
            if len(states) > MOST_STATES:
                return in_one_state(space, spread, innermost)
    table = np.array(sorted(states), dtype=np.float64)
    return Parallelism(table[:, 0] * table[:, 1], table[:, 2:])


def in_one_state(space: MapSpace, spread: Spread, innermost: Sequence[int]) -> Parallelism:
    """One state in place of all: each quantity at its most, the product of the largest factors within the largest mesh.

    Arguments as for `parallelism`.
    """
    units: tuple[Arithmetic | StorageLevel, ...] = (space.architecture.arithmetic, *space.architecture.levels)
    macs = min(math.prod(spread.below), max(unit.mesh_x * unit.mesh_y for unit in units))
    sharing = [min(macs, math.prod(most for level in range(inner + 1) for name, most in spread.widest[level].items()
                                   if name not in spread.apart[level][t])) for t, inner in enumerate(innermost)]
    return Parallelism(np.array([macs], dtype=np.float64), np.array([sharing], dtype=np.float64))


def most_units(space: MapSpace, spread: Spread, dims: frozenset[str]) -> float:
    """The most MACs in use by spatial loops over some dimensions alone."""
    own = replace(spread, widest=tuple({name: most for name, most in each.items() if name in dims}
                                       for each in spread.widest))
    return float(parallelism(space, own, ()).macs.max())


def most_instances(spread: Spread, level: int, dims: frozenset[str]) -> float:
    """The most instances of a level in use by spatial loops over some dimensions alone."""
    return float(math.prod(most for each in spread.widest[level + 1:] for name, most in each.items() if name in dims))


def _undominated(states: set[tuple[int, ...]], over: Over) -> set[tuple[int, ...]]:
    """The states without those that another state of the same units along X and Y exceeds in sharing."""
    by_extent: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for state in states:
        by_extent.setdefault((state[0], state[1]), []).append(state)
    kept = set()
    for group in in_time(by_extent.values(), over):
        if len(group) == 1:
            kept |= set(group)
            continue
        best = np.array(group)
        if len(best) <= PAIRED:  # states differ, so that one which reaches another everywhere exceeds it somewhere
            worse = (best[:, None] >= best).all(axis=2).sum(axis=0) > 1
        else:
            worse = np.array([(best >= state).all(axis=1).sum() > 1 for state in in_time(best, over)])
        kept |= {state for state, drop in zip(group, worse, strict=True) if not drop}
    return kept
