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
from fadiff_mapper.nest import Nest, Projection

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
class Moves:
    """Everything that may be changed in one map space.

    shifts: (dimension index, from, to, factor, allowed at `from` after, allowed at `to` after)
    orders: per level the candidate temporal orders, where there is more than one
    """

    shifts: tuple[tuple[int, Loop, Loop, int, frozenset[int], frozenset[int]], ...]
    orders: dict[int, np.ndarray]
    keeps: tuple[tuple[int, int], ...]
    placed: tuple[int, ...]


def moves_of(space: MapSpace, projection: Projection) -> Moves:
    """The moves that the constraints leave."""
    shifts = []
    for d, name in enumerate(space.problem.dimensions):
        places = [(Loop(level, spatial), frozenset(loops.choices[name])) for level, here in enumerate(space.levels)
                  for spatial, loops in ((True, here.spatial), (False, here.temporal)) if len(loops.choices[name]) > 1]
        shifts += [(d, source, target, factor, before, after) for source, before in places for target, after in places
                   if source != target for factor in divisors(space.problem.bounds[name])[1:]]
    orders = {level: temporal_orders(space, projection, level) for level in range(len(space.levels))}
    return Moves(tuple(shifts), {level: found for level, found in orders.items() if len(found) > 1},
                 tuple(open_keeps(space)),
                 tuple(level for level, here in enumerate(space.levels) if min(here.fanout) > 1))


def _factors(nest: Nest, loop: Loop) -> np.ndarray:
    table: np.ndarray = (nest.spatial if loop.spatial else nest.temporal)[loop.level]
    return table


def shifted(nest: Nest, moves: Moves) -> tuple[Nest, np.ndarray]:
    """All nests that come from moving one factor, and the row each came from."""
    rows = []
    for d, source, target, factor, before, after in moves.shifts:
        have, get = _factors(nest, source)[d], _factors(nest, target)[d]
        possible = (have % factor == 0) & np.isin(have // factor, list(before)) & np.isin(get * factor, list(after))
        rows.append(np.flatnonzero(possible))
    row = np.concatenate(rows)
    temporal, spatial = nest.temporal[..., row].copy(), nest.spatial[..., row].copy()
    start = 0
    for found, (d, source, target, factor, _, _) in zip(rows, moves.shifts, strict=True):
        stop = start + len(found)
        for loop, scale in ((source, 1 / factor), (target, factor)):
            table = spatial if loop.spatial else temporal
            table[loop.level, d, start:stop] = np.rint(table[loop.level, d, start:stop] * scale)
        start = stop
    return replace(nest.take(row), temporal=temporal, spatial=spatial), row


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
    return join(parts), np.tile(np.arange(nest.batch), len(parts))


def join(parts: list[Nest]) -> Nest:
    """Batches side by side."""
    return Nest(*(np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in Nest.__dataclass_fields__))


def refine(space: MapSpace, projection: Projection, start: Nest, value: Value, rng: np.random.Generator,
           out_of_time: Callable[[], bool] = lambda: False, most_steps: int = 200) -> tuple[Nest, np.ndarray]:
    """Steepest descent of every row of `start` to a local optimum; returns the nests and their values."""
    moves = moves_of(space, projection)
    here, best = start, value(start)
    active = np.arange(start.batch)
    for _ in range(most_steps):
        if not len(active) or out_of_time():
            break
        part = here.take(active)
        near = [pair for pair in (shifted(part, moves), rearranged(part, space, moves, rng)) if len(pair[1])]
        if not near:
            break
        nests, row = join([pair[0] for pair in near]), np.concatenate([pair[1] for pair in near])
        values = value(nests)
        ranked = np.lexsort((values, row))
        first = ranked[np.unique(row[ranked], return_index=True)[1]]
        better = first[values[first] < best[active[row[first]]] - 1e-12]
        rows = active[row[better]]
        here = put(here, rows, nests.take(better))
        best[rows] = values[better]
        active = rows
    return here, best


def put(nest: Nest, rows: np.ndarray, new: Nest) -> Nest:
    """The nest with some rows replaced."""
    arrays = []
    for name in Nest.__dataclass_fields__:
        array = np.array(getattr(nest, name))
        array[..., rows] = getattr(new, name)
        arrays.append(array)
    return Nest(*arrays)
