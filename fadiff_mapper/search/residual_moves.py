"""Random neighbours of mappings whose factors may have residuals.

Any whole number may be a factor, so factors are not exchanged by divisors but set to new values. Another loop of the
dimension makes up for the change; what is left over is the outermost level's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.model.loop_nest import Nest, cut_off, nest_arrays
from fadiff_mapper.spec.constraints import LoopConstraint

FACTOR_SHARE = 0.7
"""Share of the moves that change factors; the others change an order, an axis, or what a level keeps. Not measured."""

MOST_RUNS = 24
"""Runs that a loop may be divided into by one move, beyond its present ones. A limit without effect on most bounds."""


@dataclass(frozen=True)
class FactorLimits:
    """Factors that constraints and fan-outs allow at every place; any whole number between them is allowed.

    Attributes:
        least: [2 L, D]. Least factor; place 2 l are the spatial loops of level l, 2 l + 1 its temporal ones.
        most: [2 L, D]. Largest factor.
        bounds: [D]. Points of every dimension.
    """

    least: np.ndarray
    most: np.ndarray
    bounds: np.ndarray


def factor_limits(space: MapSpace) -> FactorLimits:
    """The limits of a map space."""
    bounds, rows = space.problem.bounds, []
    for limits, level in zip(space.constraints.levels, space.levels, strict=True):
        room = dict(zip("XY", level.fanout, strict=True))
        width = {name: max((room[axis] for axis in level.axes[name]), default=1) for name in bounds}
        rows.append([_range(limits.spatial, name, width[name]) for name in bounds])
        rows.append([_range(limits.temporal, name, 1 if level.temporal.choices[name] == (1,) else bounds[name])
                     for name in bounds])
    table = np.array(rows, dtype=np.float64)
    return FactorLimits(table[..., 0], table[..., 1], np.array(list(bounds.values()), dtype=np.float64))


def _range(loops: LoopConstraint, name: str, most: int) -> tuple[int, int]:
    """(least, largest) factor of a dimension."""
    if name in loops.fixed:
        return loops.fixed[name], loops.fixed[name]
    return loops.minimum.get(name, 1), min(loops.maximum.get(name, most), most)


def within(nest: Nest, limits: FactorLimits) -> np.ndarray:
    """[B]. Whether every factor lies within the limits."""
    factors = _by_place(nest)
    inside = (factors >= limits.least[..., None]) & (factors <= limits.most[..., None])
    return np.asarray(inside.all(axis=(0, 1)))


def random_neighbours(nest: Nest, space: MapSpace, limits: FactorLimits, rng: np.random.Generator,
                      count: int) -> Nest:
    """Random neighbours of one mapping within the limits.

    Args:
        nest: A batch of one.
        space: The map space: open orders, axes and data spaces.
        limits: Its factors.
        rng: The source of all draws.
        count: Neighbours drawn; those that leave the limits or change nothing are left out.

    Returns:
        Up to `count` mappings, none of them twice.
    """
    drawn = {name: np.repeat(getattr(nest, name), count, axis=-1)
             for name in ("order", "keep", "on_y", "spatial_order")}
    factors = np.repeat(_by_place(nest), count, axis=-1)
    decisions = _decisions(space)
    for row in range(count):
        if not decisions or rng.random() < FACTOR_SHARE:
            _move_factor(factors[..., row], limits, rng)
        else:
            kind, level, choice = decisions[rng.integers(len(decisions))]
            _decide(drawn, kind, level, choice, row, rng)
    drawn["spatial"], drawn["temporal"] = np.ascontiguousarray(factors[0::2]), np.ascontiguousarray(factors[1::2])
    batch = cut_off(Nest(**drawn), limits.bounds)
    rows = np.flatnonzero(within(batch, limits))
    return batch.take(_distinct(batch, rows, nest))


def _by_place(nest: Nest) -> np.ndarray:
    """[2 L, D, B]. The factors of all places, innermost first."""
    return np.stack([nest.spatial, nest.temporal], axis=1).reshape(-1, *nest.temporal.shape[1:])


def _move_factor(factors: np.ndarray, limits: FactorLimits, rng: np.random.Generator) -> None:
    """Sets one factor [2 L, D] anew, and another one of the dimension so that both cover about as much as before."""
    places, dims = np.nonzero((limits.most > limits.least)[:-1])
    if not len(places):
        return
    pick = rng.integers(len(places))
    place, d = places[pick], dims[pick]
    column = factors[:, d]
    left = limits.bounds[d]
    for inner in column[:place]:
        left = np.ceil(left / inner)
    old = column[place]
    runs = rng.integers(1, int(min(left, np.ceil(left / old) + MOST_RUNS)) + 1)
    new = rng.choice((np.ceil(left / runs), old + 1, old - 1, limits.most[place, d]))
    column[place] = new = min(max(new, limits.least[place, d], 1), limits.most[place, d])
    movable = limits.most[:-1, d] > limits.least[:-1, d]
    others = [other for other in np.flatnonzero(movable) if other != place]
    if others and rng.random() < 0.75:
        other = others[rng.integers(len(others))]
        makes_up = np.ceil(old * column[other] / new) if rng.random() < 0.75 else np.floor(old * column[other] / new)
        column[other] = min(max(makes_up, limits.least[other, d], 1), limits.most[other, d])


def _decisions(space: MapSpace) -> list[tuple[str, int, tuple[int, ...]]]:
    """(kind, level, indices of what it may change) of all decisions beside the factors; orders count twice."""
    problem = space.problem
    index = {name: i for i, name in enumerate(problem.dimensions)}
    found: list[tuple[str, int, tuple[int, ...]]] = []
    for number, level in enumerate(space.levels):
        free = tuple(index[name] for name in level.temporal.between if problem.bounds[name] > 1)
        if len(free) > 1 and any(level.temporal.choices[name] != (1,) for name in level.temporal.between):
            found += [("order", number, free)] * 2
        both = tuple(index[name] for name, axes in level.axes.items() if axes == "XY" and problem.bounds[name] > 1)
        if both and space.constraints.levels[number].spatial.split is None:
            found.append(("axis", number, both))
        found += [("keep", number, (t,)) for t, name in enumerate(problem.dataspace_names()) if name in level.open]
    return found


def _decide(drawn: dict[str, np.ndarray], kind: str, level: int, choice: tuple[int, ...], row: int,
            rng: np.random.Generator) -> None:
    """Takes one decision anew in one column of the arrays of a nest."""
    if kind == "keep":
        drawn["keep"][level, choice[0], row] ^= True
    elif kind == "axis":
        drawn["on_y"][level, choice[rng.integers(len(choice))], row] ^= True
    else:
        order = drawn["order"][level, :, row]
        first, second = rng.choice(np.flatnonzero(np.isin(order, choice)), 2, replace=False)
        order[first], order[second] = order[second], order[first]


def _distinct(batch: Nest, rows: np.ndarray, here: Nest) -> np.ndarray:
    """The rows of a batch that differ from each other and from one mapping, in order."""
    def key(one: Nest, row: int) -> bytes:
        return b"".join(np.ascontiguousarray(array[..., row]).tobytes() for array in nest_arrays(one)[:6])

    seen, chosen = {key(here, 0)}, []
    for row in rows:
        own = key(batch, row)
        if own not in seen:
            seen.add(own)
            chosen.append(row)
    return np.array(chosen, dtype=np.int64)


def padded(bounds: dict[str, int], multiple: int, movable: frozenset[str], most: float) -> dict[str, int]:
    """Bounds rounded up to a multiple.

    Args:
        bounds: Points by dimension.
        multiple: Rounded up to.
        movable: Dimensions that may grow.
        most: Largest growth, relative to the bound.
    """
    grown = {name: -(-bound // multiple) * multiple for name, bound in bounds.items()}
    return {name: grown[name] if name in movable and grown[name] <= bound * (1 + most) else bound
            for name, bound in bounds.items()}
