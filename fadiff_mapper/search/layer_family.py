"""Families of layers that are searched side by side, the decisions of a mapping besides its factors, first mappings.

Layers that differ only in the bounds of their dimensions are evaluated in one batch: equally many columns of each
member, one member after the other. Axes: W (members), L, D, T, B as in `loop_nest.py`.

The decisions without a gradient are loop orders, the placement of spatial loops, and the data spaces that a level
keeps. Orders are drawn from the few that can matter. A level's order decides which data spaces are stationary during
its innermost loops. For every ranking of the data spaces there is one candidate: loops irrelevant to the first data
space are innermost, among these first the loops irrelevant to the second, and so on. Among equal loops each dimension
that slides a window is tried innermost, because with any other innermost loop the window brings old words again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, Projection, Ranks
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.mapspace.build import FactorTables, MapSpace, factor_tables

if TYPE_CHECKING:
    from fadiff_mapper.model.sparse_design import SparseDesign

MOST_ORDERS = 5040
"""Most candidate orders of one level: all rankings of seven data spaces; of more rankings a random sample."""

LAYOUTS = 256
"""Random placements of one level's spatial loops on a two-dimensional fan-out, before equal ones are merged."""

REMEMBERED = 4096
"""Cached candidate orders and layouts of levels with equal constraints: layers of a network and tiles of its groups
share nearly all of them."""

KEPT = 0.7
"""Probability that a random mapping keeps a data space if it may."""

TRIED = 8
"""Draws of orders, layouts and kept data spaces for a first mapping; the first keeps every data space that may be kept,
the second none inside the outermost level."""


class DiscreteDecisions(NamedTuple):
    """The decisions that have no gradient, one column per mapping; arrays as in `Nest`."""

    order: np.ndarray          # [L, D, B]. Dimension indices of the temporal loops, innermost first
    keep: np.ndarray           # [L, T, B]. Whether the level keeps the data space
    on_y: np.ndarray           # [L, D, B]. Whether the spatial factor of a dimension lies on the Y axis
    spatial_order: np.ndarray  # [L, D, B]. Dimension indices of the spatial loops, innermost first


@dataclass(frozen=True)
class SpatialLayouts:
    """Candidate placements of one level's spatial loops; for a family of W members both arrays are [W, n, D]."""

    order: np.ndarray  # [n, D]. Dimension indices from the innermost loop
    on_y: np.ndarray   # [n, D]. Whether each dimension lies on the Y axis, by dimension


@dataclass(frozen=True)
class LayerFamily:
    """W map spaces over one design and one shape of problem, with the candidates of their decisions."""

    layer: PreparedLayer                 # The prepared layer of any member
    spaces: tuple[MapSpace, ...]         # [W]. Map spaces of the members
    factors: FactorTables                # Divisors and constraints of all members as tables
    orders: tuple[np.ndarray, ...]       # For each level candidate orders of its temporal loops, [W, n, D]
    layouts: tuple[SpatialLayouts, ...]  # For each level candidate placements of its spatial loops, [W, n, D] each
    keeps: tuple[tuple[int, int], ...]   # (level, index of the data space) of the open keep-or-bypass decisions


def family_of(layer: PreparedLayer, spaces: Sequence[MapSpace]) -> LayerFamily:
    """The family of some map spaces, all with the same `batch_key`; `layer` is any member's."""
    tables = factor_tables(spaces)
    looping = np.any(tables.allowed[:, 1::2, :, 1:], axis=-1).tolist()  # whether a loop can be there, [W][L][D]
    orders, placed = [], []
    for index in range(len(spaces[0].levels)):
        orders.append(_side_by_side([
            temporal_orders(space.problem.dimensions, loops.inner, loops.between, loops.outer, tuple(own[index]),
                            layer.projection.ranks)
            for space, own in zip(spaces, looping, strict=True) for loops in [space.levels[index].temporal]]))
        candidates = []
        for space in spaces:
            level = space.levels[index]
            candidates.append(_layouts(space.problem.dimensions, level.spatial.inner, level.spatial.between,
                                       level.spatial.outer, level.fanout,
                                       space.constraints.levels[index].spatial.split, index))
        placed.append(SpatialLayouts(_side_by_side([layout.order for layout in candidates]),
                                     _side_by_side([layout.on_y for layout in candidates])))
    return LayerFamily(layer, tuple(spaces), tables, tuple(orders), tuple(placed), spaces[0].open_keeps)


def _side_by_side(candidates: Sequence[np.ndarray]) -> np.ndarray:
    """The members' candidates [n_w, D] as [W, n, D]; members with fewer candidates repeat rows."""
    most = max(map(len, candidates))
    return np.array([own if len(own) == most else own[np.arange(most) % len(own)] for own in candidates])


def batch_key(space: MapSpace, projection: Projection) -> tuple[object, ...]:
    """A key that two map spaces of one architecture share if they can be searched as one family.

    Bounds of dimensions and limits on factors are not part of it: each member has its own tables.
    """
    constraints = space.constraints
    levels = tuple((here.keep, here.bypass, here.open, level.temporal.no_reuse, level.spatial.no_reuse,
                    level.spatial.no_link_transfer, level.temporal.rmw_first_update, level.no_coalesce)
                   for here, level in zip(space.levels, constraints.levels, strict=True))
    spaces = tuple((tensor.name, tensor.bits) for tensor in space.problem.dataspaces)
    return (space.problem.dimensions, spaces, projection.ranks, projection.read_write, levels,
            constraints.min_parallelism)


@lru_cache(maxsize=REMEMBERED)
def temporal_orders(dimensions: tuple[str, ...], inner: tuple[str, ...], between: tuple[str, ...],
                    outer: tuple[str, ...], looping: tuple[bool, ...], ranks: tuple[Ranks, ...]) -> np.ndarray:
    """Candidate orders of one level's temporal loops within its `LoopSpace`, distinct, innermost first: [n, D]; read
    only.

    `looping` [D]: whether the dimension can have a loop at this level; otherwise its position does not matter.
    `ranks`: `Projection.ranks`.
    """
    innermost, free, outermost = ([dimensions.index(name) for name in part] for part in (inner, between, outer))
    movable, fixed = [d for d in free if looping[d]], [d for d in free if not looping[d]]
    shared = {d for own in ranks for rank in own if len(rank) > 1 for d, _ in rank}
    leading = [None, *(d for d in movable if d in shared)]
    moved = dict.fromkeys(tuple(any(d == term for rank in own for term, _ in rank) for d in movable) for own in ranks)
    telling = [row for row in moved if len(set(row)) > 1]
    # Rankings of data spaces, each with a dimension to be tried innermost: all, or some at random.
    if math.factorial(len(telling)) * len(leading) <= MOST_ORDERS:
        rankings = list(product(permutations(telling), leading))
    else:
        rng = np.random.default_rng(0)
        rankings = [(tuple(telling[row] for row in rng.permutation(len(telling))), leading[rng.integers(len(leading))])
                    for _ in range(MOST_ORDERS)]
    orders: dict[tuple[int, ...], None] = {}
    for ranking, first in rankings:
        told = dict(zip(movable, zip(*ranking, strict=True), strict=False))
        ordered = sorted(movable, key=lambda d: (told.get(d, ()), d != first))
        orders[(*innermost, *fixed, *ordered, *outermost)] = None
    return np.array(list(orders))


@lru_cache(maxsize=REMEMBERED)
def _layouts(dimensions: tuple[str, ...], inner: tuple[str, ...], between: tuple[str, ...], outer: tuple[str, ...],
             fanout: tuple[int, int], split: int | None, seed: int) -> SpatialLayouts:
    """Allowed placements of one level's spatial loops, deterministic; read only.

    A single one if the fan-out has one axis, else the distinct ones of `LAYOUTS` random placements.
    """
    rng = np.random.default_rng(seed)
    innermost, free, outermost = ([dimensions.index(name) for name in part] for part in (inner, between, outer))
    count = LAYOUTS if min(fanout) > 1 else 1
    order, on_y = np.empty((count, len(dimensions)), dtype=np.int64), np.ones((count, len(dimensions)), dtype=bool)
    for row, high in zip(order, on_y, strict=True):
        row[:] = [*innermost, *rng.permutation(free), *outermost]
        on_x = split
        if on_x is None:
            on_x = len(row) if fanout[1] == 1 else 0 if fanout[0] == 1 else int(rng.integers(0, len(row) + 1))
        high[row[:on_x]] = False
    distinct = np.sort(np.unique(np.concatenate([order, on_y], axis=1), axis=0, return_index=True)[1])
    return SpatialLayouts(order[distinct], on_y[distinct])


def random_decisions(family: LayerFamily, batch: int, rng: np.random.Generator | None = None) -> DiscreteDecisions:
    """One random set of decisions per column of a batch of B, a multiple of the members.

    The first column of each member keeps every data space that may be kept, the second keeps none inside the outermost
    level that may be bypassed, the others keep at random. Without a generator the draws are those of the seed 0.
    """
    rng = rng or np.random.default_rng(0)
    member, column = np.divmod(np.arange(batch), batch // len(family.spaces))
    keep = family.spaces[0].keep[..., None].repeat(batch, axis=-1)
    order, spatial_order = np.empty((2, len(keep), family.orders[0].shape[-1], batch), dtype=np.int64)
    on_y = np.empty(order.shape, dtype=np.bool_)
    for level, (orders, layouts) in enumerate(zip(family.orders, family.layouts, strict=True)):
        order[level] = orders[member, rng.integers(0, orders.shape[1], batch)].T
        layout = rng.integers(0, layouts.order.shape[1], batch)
        on_y[level], spatial_order[level] = layouts.on_y[member, layout].T, layouts.order[member, layout].T
    for level, t in family.keeps:
        keep[level, t] = rng.random(batch) < KEPT
        keep[level, t, column == 0], keep[level, t, column == 1] = True, level == len(keep) - 1
    return DiscreteDecisions(order, keep, on_y, spatial_order)


def first_of(family: LayerFamily, member: int, sparse: SparseDesign | None = None) -> Nest | None:
    """A legal mapping of a member, built without search, with factors in the outermost loops as far as possible; None
    if none is found.

    Its tiles are as small as constraints allow, so that capacities probably hold: from the innermost place outwards
    each place takes the smallest divisor that the places further out can complete to the bound. The nest has one row.
    Constraints on parallelism exclude such a mapping.
    """
    tables = family.factors
    left, every, numbers = tables.bound[member], np.arange(tables.bound.shape[1]), list[np.ndarray]()
    if family.spaces[member].constraints.min_parallelism or not (
            tables.completable[member, 0, every, left].any(axis=-1).all()):
        return None
    for place in tables.completable[member]:
        numbers.append(place[every, left].argmax(axis=-1))
        left = tables.quotient[member, every, left, numbers[-1]]
    batch = TRIED * len(family.spaces)
    factors = tables.divisor[member, every, np.stack(numbers)][..., None].repeat(batch, axis=-1)
    nest = Nest(factors[1::2], factors[0::2], *random_decisions(family, batch)).take(
        slice(TRIED * member, TRIED * (member + 1)))
    legal = np.flatnonzero((sparse.score(nest) if sparse else score(family.layer, nest)).legal)
    return nest.take(legal[:1]) if len(legal) else None
