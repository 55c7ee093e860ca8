"""The parallelism that any mapping can reach: the best that fan-outs, divisors and constraints allow spatial loops.

A *state* sums up the spatial loops of a mapping: the MACs in use, and for each data space the MACs that share one word
of one access (multicast; for outputs, spatial reduction). More of either never raises a mapping's bound, so the bound
needs only the states that no other state dominates.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from fadiff_mapper.search.mapspace.build import MapSpace

MOST_STATES = 3000
"""Most states; beyond it a single state with the most of each quantity takes their place: a looser bound. A limit on
time, set by hand."""

MOST_FITTING = 10 * MOST_STATES
"""Most states before they are compared with each other."""


@dataclass(frozen=True)
class Parallelism:
    """S states of the spatial loops."""

    macs: np.ndarray     # MACs in use, [S]
    sharing: np.ndarray  # Most MACs served by one access at the innermost level that keeps the data space, [S, T]


@dataclass(frozen=True)
class Spread:
    """The reach of a map space's spatial loops, level by level, innermost first."""

    widest: tuple[dict[str, int], ...]  # For each level the largest spatial factor of each dimension, by its name
    # For each level and data space the dimensions along which any two receivers of spatial loops want different words
    # of it
    apart: tuple[tuple[frozenset[str], ...], ...]
    below: tuple[int, ...]  # For each level the most receivers of one instance
    instances: np.ndarray   # The most instances in use of each level, [L]


def spread_of(space: MapSpace) -> Spread:
    """The reach of a map space's spatial loops.

    Receivers along a dimension want different words of a data space if the dimension moves a rank by itself, or if it
    is the only dimension of a rank that the level may spread. If a level spreads two dimensions of one rank, receivers
    can want the same words (P 1 with R 0 is P 0 with R 1), so neither dimension counts.
    """
    widest = tuple({name: max(factors, default=1) for name, factors in level.spatial.choices.items()}
                   for level in space.levels)
    apart = tuple(tuple(frozenset(
        spread[0] for rank in dataspace.ranks
        if len(spread := [term.dimension for term in rank if len(rank) == 1 or each[term.dimension] > 1]) == 1)
        for dataspace in space.problem.dataspaces) for each in widest)
    # the largest expansions of the levels further out, limited by the level's mesh along each axis
    instances, x, y = np.empty(len(widest)), 1, 1
    for level in reversed(range(len(widest))):
        unit, axes = space.architecture.levels[level], space.levels[level].axes
        instances[level] = min(x, unit.mesh_x) * min(y, unit.mesh_y)
        x, y = (extent * math.prod(most for name, most in widest[level].items() if axis in axes[name])
                for extent, axis in ((x, "X"), (y, "Y")))
    return Spread(widest, apart, tuple(math.prod(each.values()) for each in widest), instances)


@dataclass(frozen=True)
class SpatialLoop:
    """The options of a spatial loop of a level over a dimension."""

    factors: tuple[int, ...]  # ascending
    axes: str  # axes on which the loop may lie
    mesh: tuple[int, int]  # mesh of the next unit inwards along X and Y, the largest expansion on each axis
    shared: tuple[bool, ...]  # per data space: receivers want the same words, and no level further in keeps it


def parallelism(space: MapSpace, spread: Spread, innermost: Sequence[int]) -> Parallelism:
    """The undominated states of a map space.

    Spatial loops are added from the outermost level inwards. As in Timeloop's check, the expansion on each axis fits
    the mesh of the next unit inwards, however the levels share it. The factors of one dimension at several levels need
    not divide its bound together, which can only add states. An unfinished state is (units along X, units along Y,
    receivers of one access for each data space).

    `innermost`: the innermost level that keeps each data space, [T]; -1 for a data space that is left out.
    """
    loops = []
    for level in reversed(range(len(space.levels))):
        unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
        own = space.levels[level]
        for name, widest in spread.widest[level].items():
            if widest > 1 and own.axes[name]:
                shared = (level <= kept and name not in apart
                          for kept, apart in zip(innermost, spread.apart[level], strict=False))
                loops.append(SpatialLoop(tuple(sorted(own.spatial.choices[name])), own.axes[name],
                                         (unit.mesh_x, unit.mesh_y), tuple(shared)))
    return _states(tuple(loops), len(innermost))


@lru_cache(maxsize=1024)    # layers that differ only in bounds beyond the array share an entry
def _states(loops: tuple[SpatialLoop, ...], tensors: int) -> Parallelism:
    """The undominated states of some spatial loops, outermost first."""
    states: set[tuple[int, ...]] = {(1, 1, *[1] * tensors)}
    for number, loop in enumerate(loops, 1):
        fitting = set[tuple[int, ...]]()
        for x, y, *rest in states:
            for axis in loop.axes:
                room = loop.mesh[0] // x if axis == "X" else loop.mesh[1] // y
                fitting |= {(x * f if axis == "X" else x, y * f if axis == "Y" else y,
                             *(m * f if s else m for m, s in zip(rest, loop.shared, strict=True)))
                            for f in loop.factors[:bisect_right(loop.factors, room)]}
            if len(fitting) > MOST_FITTING:
                return _most_of_each(loops, tensors)
        later = {axis for loop in loops[number:] for axis in loop.axes}
        states = _undominated(fitting or states, ["X" in later, "Y" in later])
        if len(states) > MOST_STATES:
            return _most_of_each(loops, tensors)
    table = np.array(sorted(states), dtype=np.float64)
    return Parallelism(table[:, 0] * table[:, 1], table[:, 2:])


def _most_of_each(loops: Sequence[SpatialLoop], tensors: int) -> Parallelism:
    """A single state with the most MACs in use and, for each data space, the most MACs that one access serves."""
    def most(counted: Iterable[SpatialLoop]) -> float:
        units = [1, 1]
        for loop in counted:
            units = [min(own * loop.factors[-1], mesh) if axis in loop.axes else own
                     for own, mesh, axis in zip(units, loop.mesh, "XY", strict=True)]
        return float(math.prod(units))
    return Parallelism(np.array([most(loops)]), np.array([[
        most(loop for loop in loops if loop.shared[t]) for t in range(tensors)]]))


def most_units(space: MapSpace, spread: Spread, dims: frozenset[str]) -> float:
    """The most MACs in use by spatial loops over the given dimensions only."""
    own = replace(spread, widest=tuple({name: most for name, most in each.items() if name in dims}
                                       for each in spread.widest))
    return float(parallelism(space, own, ()).macs.max())


def most_instances(spread: Spread, level: int, dims: frozenset[str]) -> float:
    """The most instances of a level in use by spatial loops over the given dimensions only."""
    along = math.prod(most for each in spread.widest[level + 1:] for name, most in each.items() if name in dims)
    return float(min(along, spread.instances[level]))


def _undominated(states: set[tuple[int, ...]], open_axes: Sequence[bool]) -> set[tuple[int, ...]]:
    """The states that no other state exceeds in both units and sharing.

    On an axis where loops are still to come, units take room: only states with equal units there are compared.
    """
    alike: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for state in states:
        key = tuple(units for units, still in zip(state, open_axes, strict=False) if still)
        alike.setdefault(key, []).append(state)
    kept = set[tuple[int, ...]]()
    for group in alike.values():
        front, count = np.empty((len(group), len(group[0])), dtype=np.int64), 0
        for state in sorted(group, reverse=True):   # after all states that exceed it
            if count == 0 or not (front[:count] >= state).all(axis=1).any():
                front[count] = state
                count += 1
                kept.add(state)
    return kept
