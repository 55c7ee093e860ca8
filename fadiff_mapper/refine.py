"""Local search on the exact model: it starts from given mappings and never returns anything worse.

A step tries, for all mappings at once, every neighbour: a factor moved from one loop of a dimension to another, another
loop order at a level, a data space kept or bypassed, spatial loops laid differently. Each mapping goes to its best
neighbour until none is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.choices import open_keeps, random_spatial, temporal_orders
from fadiff_mapper.mapspace import MapSpace, divisors
from fadiff_mapper.nest import Nest, Projection, joined

Value = Callable[[Nest], np.ndarray]
"""Nests -> one number each, to be minimised."""

PLACEMENTS = 6
"""Random layouts of a two-dimensional fan-out that one step tries."""


@dataclass(frozen=True)
class Loop:
    """One place for a factor: temporal or spatial loops of a level."""

    level: int
    spatial: bool


@dataclass(frozen=True)
class Shift:
    """Moving a factor of one dimension from one loop to another.

    divisors [N]; loses [N, N]: may `source`, having divisor i, give away divisor j; gains [N, N]: may `target`,
    having divisor i, take divisor j.
    """

    dim: int
    source: Loop
    target: Loop
    divisors: np.ndarray
    loses: np.ndarray
    gains: np.ndarray


@dataclass(frozen=True)
class Moves:
    """Everything that may be changed in one map space; `orders` are the candidates of a level, where it has several."""

    shifts: tuple[Shift, ...]
    orders: dict[int, np.ndarray]
    keeps: tuple[tuple[int, int], ...]
    placed: tuple[int, ...]


def moves_of(space: MapSpace, projection: Projection) -> Moves:
    """The moves that the constraints leave."""
    shifts = [shift for d in range(len(space.problem.dimensions)) for shift in _shifts(space, d)]
    orders = {level: temporal_orders(space, projection, level) for level in range(len(space.levels))}
    return Moves(tuple(shifts), {level: found for level, found in orders.items() if len(found) > 1},
                 tuple(open_keeps(space)),
                 tuple(level for level, here in enumerate(space.levels) if min(here.fanout) > 1))


def _shifts(space: MapSpace, dim: int) -> list[Shift]:
    name = space.problem.dimensions[dim]
    values = np.array(divisors(space.problem.bounds[name]), dtype=np.float64)
    places = [(Loop(level, spatial), np.isin(values, loops.choices[name])) for level, here in enumerate(space.levels)
              for spatial, loops in ((True, here.spatial), (False, here.temporal)) if len(loops.choices[name]) > 1]
    less, more = values[:, None] / values, values[:, None] * values
    part = values > 1

    def allowed(result: np.ndarray, choice: np.ndarray) -> np.ndarray:
        permitted: np.ndarray = np.isin(result, values[choice]) & part
        return permitted
    return [Shift(dim, source, target, values, allowed(less, before), allowed(more, after))
            for source, before in places for target, after in places if source != target]


def _factors(nest: Nest, loop: Loop) -> np.ndarray:
    table: np.ndarray = (nest.spatial if loop.spatial else nest.temporal)[loop.level]
    return table


def shifted(nest: Nest, moves: Moves) -> tuple[Nest, np.ndarray]:
    """All nests that come from moving one factor, and the row each came from."""
    found = []
    for shift in moves.shifts:
        have, get = (np.searchsorted(shift.divisors, _factors(nest, loop)[shift.dim])
                     for loop in (shift.source, shift.target))
        found.append(np.nonzero(shift.loses[have] & shift.gains[get]))
    row = np.concatenate([np.zeros(0, dtype=np.int64), *(rows for rows, _ in found)])
    near = nest.take(row)
    temporal, spatial = near.temporal.copy(), near.spatial.copy()
    start = 0
    for (rows, picks), shift in zip(found, moves.shifts, strict=True):
        part = slice(start, start + len(rows))
        for loop, scale in ((shift.source, 1 / shift.divisors[picks]), (shift.target, shift.divisors[picks])):
            table = spatial if loop.spatial else temporal
            table[loop.level, shift.dim, part] = np.rint(table[loop.level, shift.dim, part] * scale)
        start = part.stop
    return replace(near, temporal=temporal, spatial=spatial), row


def rearranged(nest: Nest, space: MapSpace, moves: Moves, rng: np.random.Generator) -> tuple[Nest, np.ndarray]:
    """All nests that come from one decision other than a factor, and the row each came from."""
    parts: list[Nest] = []
    for level, candidates in moves.orders.items():
        for candidate in candidates:
            order = nest.order.copy()
            order[level] = candidate[:, None]
            parts.append(replace(nest, order=order))
    for level, tensor in moves.keeps:
        keep = nest.keep.copy()
        keep[level, tensor] ^= True
        parts.append(replace(nest, keep=keep))
    for level in moves.placed:
        for _ in range(PLACEMENTS):
            spatial_order, on_y = nest.spatial_order.copy(), nest.on_y.copy()
            placed = random_spatial(space, level, rng)
            spatial_order[level], on_y[level] = placed[0][:, None], placed[1][:, None]
            parts.append(replace(nest, spatial_order=spatial_order, on_y=on_y))
    if not parts:
        return nest.take(np.zeros(0, dtype=np.int64)), np.zeros(0, dtype=np.int64)
    return joined(parts), np.tile(np.arange(nest.batch), len(parts))


def refine(space: MapSpace, moves: Moves, start: Nest, value: Value, rng: np.random.Generator,
           out_of_time: Callable[[], bool] = lambda: False, most_steps: int = 200) -> tuple[Nest, np.ndarray]:
    """Steepest descent of every row of `start` to a local optimum; returns the nests and their values."""
    here, best = start, value(start)
    active = np.arange(start.batch)
    for _ in range(most_steps):
        if not len(active) or out_of_time():
            break
        part = here.take(active)
        near = [pair for pair in (shifted(part, moves), rearranged(part, space, moves, rng)) if len(pair[1])]
        if not near:
            break
        nests, row = joined([pair[0] for pair in near]), np.concatenate([pair[1] for pair in near])
        values = value(nests)
        ranked = np.lexsort((values, row))
        first = ranked[np.unique(row[ranked], return_index=True)[1]]
        better = first[values[first] < best[active[row[first]]] - 1e-12]
        rows = active[row[better]]
        here = put(here, rows, nests.take(better))
        best[rows] = values[better]
        active = rows
    return here, best


def kicked(moves: Moves, nest: Nest, times: int, rng: np.random.Generator) -> Nest:
    """Every row after some random factor moves, legal or not: a new start near a good mapping."""
    for _ in range(times):
        near, row = shifted(nest, moves)
        if not len(row):
            return nest
        ranked = np.lexsort((rng.random(len(row)), row))
        rows, first = np.unique(row[ranked], return_index=True)
        nest = put(nest, rows, near.take(ranked[first]))
    return nest


def put(nest: Nest, rows: np.ndarray, new: Nest) -> Nest:
    """The nest with some rows replaced."""
    arrays = []
    for name in Nest.__dataclass_fields__:
        array = np.array(getattr(nest, name))
        array[..., rows] = getattr(new, name)
        arrays.append(array)
    return Nest(*arrays)
